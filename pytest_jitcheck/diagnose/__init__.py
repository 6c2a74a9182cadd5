"""Why a check failed: the user's line, the arguments to blame, and a fix that was tried."""

from __future__ import annotations

from pytest_jitcheck.diagnose.evidence import Blame, Evidence
from pytest_jitcheck.diagnose.explain import after_tracing, bad_statics, explain, within_a_transform
from pytest_jitcheck.diagnose.impurity import (
    broken_equality,
    nondeterministic,
    second_trace_failed,
    stale_values,
    traces_differ,
)
from pytest_jitcheck.diagnose.source import Ownership, users_traceback
from pytest_jitcheck.diagnose.swallowed import Swallowed, swallowed
from pytest_jitcheck.diagnose.trial import error_when_traced
from pytest_jitcheck.diagnose.verdicts import (
    did_not_raise,
    eager_error,
    mismatch,
    nothing_returned,
    unused_arguments,
    writes,
)

__all__ = [
    "Blame",
    "Evidence",
    "Ownership",
    "Swallowed",
    "after_tracing",
    "bad_statics",
    "broken_equality",
    "did_not_raise",
    "eager_error",
    "error_when_traced",
    "explain",
    "mismatch",
    "nondeterministic",
    "nothing_returned",
    "second_trace_failed",
    "stale_values",
    "swallowed",
    "traces_differ",
    "unused_arguments",
    "users_traceback",
    "within_a_transform",
    "writes",
]
