"""From a failed check to the exception that fails the test."""

from __future__ import annotations

from pytest_jitcheck.diagnose.source import Ownership, plain_traceback, users_traceback
from pytest_jitcheck.engine import CheckResult
from pytest_jitcheck.failure import failure_text
from pytest_jitcheck.report import CheckReport, Diagnosis, Fix, JitCheckError

__all__ = ["exception_of", "nothing_checked"]


def exception_of(result: CheckResult) -> Exception:
    """What to raise for a failed check.

    An eager failure is the user's own exception, as it was. What stopped the compiled side keeps its type, so that
    ``xfail(raises=...)`` works, with the explanation in front of its words. All else is a `JitCheckError`.
    """
    report, error = result.report, result.error
    if report.failure is not None and report.failure.kind == "eager_error" and error is not None:
        return error.with_traceback(plain_traceback(error) or error.__traceback__)
    text = failure_text(report)
    if error is None or report.stage == "eager":
        failed = JitCheckError(text, report)
        failed.__cause__ = error
        return failed
    return _explained(error, text)


def _explained(error: Exception, text: str) -> Exception:
    # Only the user's own frames: JAX's and ours would bury the line that matters.
    error.__traceback__ = users_traceback(error, Ownership())
    error.__cause__, error.__context__, error.__suppress_context__ = None, None, True
    before = error.args
    error.args = (text, *before[1:])
    if str(error) != text:  # a class with a __str__ of its own
        error.args = before
        error.add_note(text)
    return error


def nothing_checked(name: str, *, uses_fixture: bool) -> tuple[CheckReport, JitCheckError]:
    """The report and the exception of a marked test that ended without a check."""
    advice = (
        "Call the fixture on the function and then on its arguments: `out = jitcheck(f)(x)`. `jitcheck(f)` alone checks "
        "nothing."
        if uses_fixture
        else "A method of a unittest.TestCase is run by unittest, which takes no arguments and no result: use a plain "
        "class, or pytest_jitcheck.check(f)(x) and assert that its report passed."
    )
    failure = Diagnosis(
        kind="vacuous",
        rule="ran-no-check",
        message=f"{name} is marked with jitcheck and ended without checking anything.",
        fix=Fix(text=advice),
    )
    report = CheckReport(name=name, outcome="failed", stage="compare", failure=failure)
    return report, JitCheckError(failure_text(report), report)
