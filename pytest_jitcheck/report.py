"""What one check found, in values that are safe to write as JSON and to send between processes."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union

__all__ = [
    "Argument",
    "CheckReport",
    "Cost",
    "Counts",
    "Device",
    "Diagnosis",
    "Fix",
    "JitCheckError",
    "Location",
    "Mismatch",
    "Note",
    "Outcome",
    "Stage",
    "Timings",
]

Outcome = Literal["passed", "failed", "skipped"]
"""pytest's words."""
Stage = Literal["eager", "trace", "lower", "compile", "run", "compare"]
"""JAX's stages, with the eager run before and the comparison after them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A device of a JAX backend."""

    platform: str
    """JAX's name of the backend, such as ``cpu``."""
    id: int
    """Number of the device in its backend."""
    kind: str
    """The vendor's name of the device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One argument of the checked call: traced with an aval, or static with a value."""

    name: str
    """Parameter name, or ``args[2]`` where the signature gives none."""
    aval: str | None = None
    """What was traced, such as ``float32[10]``; of a pytree, its structure with that of each leaf."""
    value: str | None = None
    """What the argument held, if it was static."""
    static: bool = False
    """Whether the argument was a compile-time constant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """A place in the user's source."""

    path: str
    """File name, as Python knows it."""
    line: int
    """First line, counted from 1."""
    column: int | None = None
    """First column, counted from 0 in characters."""
    end_line: int | None = None
    """Last line."""
    end_column: int | None = None
    """Column after the last one."""
    source: str = ""
    """The line itself, without its line break."""
    function: str | None = None
    """Qualified name of the function that the line is in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """What to change."""

    text: str
    """The advice, in the user's own names."""
    verified: bool = False
    """Whether it was tried and the function then traced."""
    static_argnames: tuple[str, ...] = ()
    """Arguments to declare static, if that is the fix."""
    alternative: str | None = None
    """Another way, which was not tried and which the author alone can choose."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Why a check failed: the cause, the user's line, the arguments to blame and what to write instead."""

    kind: str
    """One of the kinds of failure, such as ``trace_error`` or ``value_mismatch``."""
    rule: str
    """Stable id of the explanation, such as ``python-branch``."""
    message: str
    """What happened, for somebody who has never seen a tracer."""
    exception: str | None = None
    """Qualified class of the exception, such as ``jax.errors.TracerBoolConversionError``."""
    exception_message: str | None = None
    """The exception's own words."""
    location: Location | None = None
    """The user's line that failed."""
    origin: Location | None = None
    """The user's line where the value became a tracer, if that is another one."""
    arguments: tuple[str, ...] = ()
    """The arguments to blame; empty where staging alone is."""
    fix: Fix | None = None
    """What to change, if anything is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """One leaf, or the structure, in which the eager and the compiled result differ."""

    path: str
    """Where in the result, as JAX prints key paths; empty for the result itself."""
    kind: Literal["structure", "shape", "dtype", "weak_type", "value"]
    """What differs."""
    eager: str
    """What the eager run gave: for values, that of the worst element."""
    compiled: str
    """What the compiled run gave in the same place."""
    mismatched: int = 0
    """Number of elements outside the tolerance."""
    size: int = 0
    """Number of elements of the leaf."""
    max_abs: float | None = None
    """Largest absolute difference; ``None`` where it is not finite."""
    max_rel: float | None = None
    """Largest difference relative to the eager value; ``None`` where it is not finite."""
    max_ulp: int | None = None
    """Largest difference in units in the last place of the leaf's dtype; ``None`` where that has no meaning."""
    index: tuple[int, ...] | None = None
    """Index of the worst element."""
    rtol: float | None = None
    """Relative tolerance that was applied."""
    atol: float | None = None
    """Absolute tolerance that was applied."""
    passing_rtol: float | None = None
    """Smallest relative tolerance that passes beside the same `atol`; ``None`` where none does."""
    passing_atol: float | None = None
    """Smallest absolute tolerance that passes alone; ``None`` where none does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something worth knowing that fails nothing."""

    rule: str
    """Stable id."""
    text: str
    """The note."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timings:
    """Seconds spent in each stage of one check; ``None`` where a stage was not reached or not timed."""

    eager_first_s: float | None = None
    """First eager run, in which JAX compiles each operation by itself."""
    eager_s: float | None = None
    """Steady eager run, median of the rounds."""
    trace_s: float | None = None
    """Python to jaxpr."""
    lower_s: float | None = None
    """Jaxpr to StableHLO."""
    compile_s: float | None = None
    """StableHLO to executable."""
    first_run_s: float | None = None
    """First run of the executable."""
    run_s: float | None = None
    """Steady run of the executable, median of the rounds."""
    rounds: int = 0
    """Number of timed rounds of the compiled run."""
    run_iqr_s: float | None = None
    """Interquartile range of the compiled rounds."""
    cached: bool = False
    """Whether the executable came from JAX's persistent compilation cache."""

    @property
    def speedup(self) -> float | None:
        """How many times faster the compiled run is than the eager one."""
        if self.eager_s is None or not self.run_s:
            return None
        return self.eager_s / self.run_s

    @property
    def break_even_calls(self) -> float | None:
        """Number of calls that repay trace, lower and compile; infinite when compiled is no faster."""
        if None in (self.eager_s, self.run_s, self.trace_s, self.lower_s, self.compile_s):
            return None
        saved_s = self.eager_s - self.run_s  # type: ignore[operator]  # narrowed above
        spent_s = self.trace_s + self.lower_s + self.compile_s  # type: ignore[operator]
        return math.ceil(spent_s / saved_s) if saved_s > 0 else math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Figures that are the same on every run."""

    traces: int = 0
    """How often the function's Python code was traced for the compiled run."""
    equations: int | None = None
    """Equations of the traced program, those of nested ones included."""
    compiled_programs: int | None = None
    """Programs that were compiled for the compiled run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What the compiler says of the executable; ``None`` where the backend gives no figure."""

    flops: float | None = None
    """Floating-point operations of one run."""
    bytes_accessed: float | None = None
    """Bytes read and written in one run."""
    argument_bytes: int | None = None
    """Bytes of the arguments."""
    output_bytes: int | None = None
    """Bytes of the results."""
    temp_bytes: int | None = None
    """Bytes of temporary buffers."""
    generated_code_bytes: int | None = None
    """Bytes of machine code; zero on CPU, which gives no figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """Everything that is known about one check."""

    name: str
    """Qualified name of the checked function."""
    outcome: Outcome
    """Whether the check passed."""
    nodeid: str = ""
    """pytest's id of the test, or nothing outside pytest."""
    index: int = 0
    """Number of the check in its test, from 0."""
    device: Device | None = None
    """Where it ran; ``None`` for a check that never ran."""
    x64: bool = False
    """Whether 64-bit types were on."""
    stage: Stage | None = None
    """Where it failed, or ``None``."""
    arguments: tuple[Argument, ...] = ()
    """The arguments of the call."""
    failure: Diagnosis | None = None
    """Why it failed."""
    mismatches: tuple[Mismatch, ...] = ()
    """Every leaf that differs."""
    notes: tuple[Note, ...] = ()
    """What else is worth knowing."""
    timings: Timings = field(default_factory=Timings)
    """How long each stage took."""
    counts: Counts = field(default_factory=Counts)
    """What does not vary between runs."""
    cost: Cost = field(default_factory=Cost)
    """What the compiler says."""

    @property
    def passed(self) -> bool:
        """Whether the check passed."""
        return self.outcome == "passed"

    def to_json(self) -> dict[str, Any]:
        """The report as nested dicts, lists, strings, numbers and ``None``; numbers that are not finite become ``None``."""
        encoded: dict[str, Any] = _encode(self)
        return encoded

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CheckReport:
        """The report that `to_json` wrote; fields that this version does not know are passed over.

        Raises:
            ValueError: if a field is missing or holds another type, with its name.
        """
        report: CheckReport = _decode(cls, document, "check")
        return report


class JitCheckError(AssertionError):
    """A check in which the eager and the compiled run disagree, or in which nothing was compared."""

    def __init__(self, text: str, report: CheckReport) -> None:
        super().__init__(text)
        self.report = report
        """What the check found."""


JitCheckError.__module__ = "pytest_jitcheck"  # the name by which it can be imported


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = (option for option in typing.get_args(hint) if option is not type(None))
        return _decode(hint, value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        item = typing.get_args(hint)[0]
        return tuple(_decode(item, one, f"{where}[{number}]") for number, one in enumerate(value))
    if origin is Literal:
        words = typing.get_args(hint)
        if value in words:
            return value
        raise ValueError(f"{where} is {value!r}, which is none of {', '.join(words)}")
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        hints = _type_hints(typing.cast("type", hint))
        known = [f for f in dataclasses.fields(hint) if f.name in value]
        missing = [f.name for f in dataclasses.fields(hint) if f.name not in value and _is_required(f)]
        if missing:
            raise ValueError(f"{where} lacks {', '.join(missing)}")
        return hint(**{f.name: _decode(hints[f.name], value[f.name], f"{where}.{f.name}") for f in known})  # type: ignore[operator]
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{where} is too large") from None
    if hint in (str, int, bool) and type(value) is hint:
        return value
    raise ValueError(f"{where} is {value!r}, which is no {getattr(hint, '__name__', hint)}")


@functools.cache
def _type_hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _is_required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
