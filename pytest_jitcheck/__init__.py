"""Checks that a function means the same under `jax.jit` as in plain Python, and what compiling it costs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_jitcheck.engine import check
    from pytest_jitcheck.items import JitCheck
    from pytest_jitcheck.mark import jitcheck
    from pytest_jitcheck.report import (
        Argument,
        CheckReport,
        Cost,
        Counts,
        Device,
        Diagnosis,
        Fix,
        JitCheckError,
        Location,
        Mismatch,
        Note,
        Timings,
    )
    from pytest_jitcheck.spec import SpecError

__all__ = [
    "Argument",
    "CheckReport",
    "Cost",
    "Counts",
    "Device",
    "Diagnosis",
    "Fix",
    "JitCheck",
    "JitCheckError",
    "Location",
    "Mismatch",
    "Note",
    "SpecError",
    "Timings",
    "check",
    "jitcheck",
]

# On first use, since `check` needs jax, and the decorator needs pytest: whoever wants neither imports neither.
_MODULES = {"check": "engine", "jitcheck": "mark", "JitCheck": "items", "SpecError": "spec"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'report')}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
