"""What makes a pass mean something: a second call, a second trace, and what the traced program depends on and does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pytest_jitcheck import compat, diagnose
from pytest_jitcheck.arguments import Bound, Call
from pytest_jitcheck.compare import Tolerance, compare, same_bits
from pytest_jitcheck.leaves import is_floating, is_number, ready
from pytest_jitcheck.report import Diagnosis, Note
from pytest_jitcheck.spec import Trust
from pytest_jitcheck.stages import StageError, Staging
from pytest_jitcheck.surroundings import Surroundings

__all__ = ["Subject", "failure_of", "notes_on"]

_LARGE_CONSTANT_BYTES = 1 << 20
_LONGEST_COMPARED_PROGRAM = 2_000
"""Equations up to which two programs are compared as text, which takes about 10 µs an equation."""
_FACTORS: dict[Trust, tuple[float, ...]] = {"standard": (1 - 2**-6,), "full": (1 - 2**-6, 0.75, 0.5)}
"""What float leaves are multiplied by for the further calls: keeps signs, order, zeros, and what must not exceed one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A check whose one comparison passed."""

    call: Call
    staging: Staging
    eager: Any
    tolerance: Tolerance
    before: Surroundings
    """What was around the function before it was first traced."""
    eager_run: Callable[[Call], Any]
    """Runs a call in plain Python, in the way in which the reference was made."""


def failure_of(subject: Subject, level: Trust) -> Diagnosis | None:
    """What makes the passed comparison worthless, or ``None``."""
    if level == "off":
        return None
    tests = [test for test, levels in _TESTS if level in levels]
    return next((found for test in tests if (found := test(subject, level)) is not None), None)


def notes_on(subject: Subject, level: Trust) -> list[Note]:
    """What is worth knowing about a function that passed."""
    if level == "off" or subject.staging.traced is None:
        return []
    return [note for write in _NOTES for note in write(subject)]


# --- tests -------------------------------------------------------------------------------------------------------------


def _is_deterministic(subject: Subject, level: Trust) -> Diagnosis | None:
    try:
        again = ready(subject.eager_run(subject.call.copied()))
    except Exception as error:  # noqa: BLE001  # it worked a moment ago
        return diagnose.nondeterministic(subject.call, error)
    if same_bits(subject.eager, again):
        return None
    return diagnose.nondeterministic(subject.call, changes=subject.before.changes(subject.call.fn))


def _traces_again(subject: Subject, level: Trust) -> Diagnosis | None:
    """Trace anew, with JAX's own check for leaked tracers on, and compare the programs."""
    first = subject.staging
    if first.traced is None:
        return None
    second = Staging(call=subject.call.copied(), spec=first.spec, clock=first.clock, keeps_errors=False)
    around = Surroundings.of(subject.call.fn)
    try:
        with jax.checking_leaks():
            second.trace()
    except StageError as failed:
        return diagnose.second_trace_failed(failed.error, subject.call, around.changes(subject.call.fn))
    limit = _LONGEST_COMPARED_PROGRAM if level == "standard" else None
    if _is_same_program(first, second, limit):
        return None
    return diagnose.traces_differ(subject.call, subject.before.changes(subject.call.fn))


def _is_same_program(one: Staging, other: Staging, limit: int | None) -> bool:
    constants, others = compat.constants(one.traced), compat.constants(other.traced)
    if len(constants) != len(others):
        return False
    if any(not _is_same_constant(held, twin) for held, twin in zip(constants, others, strict=True)):
        return False
    is_long = limit is not None and (one.equations or 0) > limit
    return is_long or compat.program_text(one.traced) == compat.program_text(other.traced)


def _is_same_constant(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return same_bits(one, other) if hasattr(one, "dtype") else True


def _agrees_on_other_values(subject: Subject, level: Trust) -> Diagnosis | None:
    """Call both again with smaller floats; a difference that a fresh compile does not show is a stale value."""
    is_scalable = any(is_floating(leaf) for leaf in jax.tree_util.tree_leaves(subject.call.dynamic()))
    factors = _FACTORS[level] if is_scalable else (1.0,)
    return next((found for factor in factors if (found := _agrees_scaled(subject, factor)) is not None), None)


def _agrees_scaled(subject: Subject, factor: float) -> Diagnosis | None:
    # Another transform than jax.jit may hold Python numbers static, as equinox.filter_jit does.
    keeps_numbers = subject.staging.spec.jit is not None
    other = subject.call.changed(
        lambda key: lambda leaf: leaf if keeps_numbers and is_number(leaf) else _scaled(leaf, factor)
    )
    try:
        eager = ready(subject.eager_run(other.copied()))
        compiled = ready(subject.staging.runner(other.copied())())
    except Exception:  # noqa: BLE001  # other values may lie outside of what the function takes: then they say nothing
        return None
    if not compare(eager, compiled, subject.tolerance, check_dtype=False):
        return None
    anew = _compiled_anew(subject, other)
    if anew is None or compare(eager, anew.output, subject.tolerance, check_dtype=False):
        return None
    return diagnose.stale_values(subject.call)


def _compiled_anew(subject: Subject, call: Call) -> Staging | None:
    anew = Staging(call=call.copied(), spec=subject.staging.spec, clock=subject.staging.clock)
    try:
        for stage in (anew.trace, anew.lower, anew.compile, anew.first_run):
            stage()
    except StageError:
        return None
    return anew


def _scaled(leaf: Any, factor: float) -> Any:
    if not is_floating(leaf) or factor == 1:
        return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
    if isinstance(leaf, jax.Array):
        # Through NumPy, which compiles nothing.
        return jax.device_put((np.asarray(leaf) * np.asarray(factor, leaf.dtype)).astype(leaf.dtype), leaf.sharding)
    return type(leaf)(leaf * factor) if isinstance(leaf, (float, np.floating)) else (leaf * factor).astype(leaf.dtype)


def _compiles_the_same(subject: Subject, level: Trust) -> Diagnosis | None:
    """Compile a second time, from a fresh trace, and compare the two results to the last bit."""
    anew = _compiled_anew(subject, subject.call)
    if anew is None or same_bits(anew.output, subject.staging.output):
        return None
    return diagnose.traces_differ(subject.call, ())


def _statics_compare(subject: Subject, level: Trust) -> Diagnosis | None:
    """A static argument whose equal copy is another one to jit compiles again at every call."""
    for argument in subject.call.bound():
        if argument.static and (what := _broken_equality(argument.value)) is not None:
            return diagnose.broken_equality(argument, what, subject.call)
    return None


def _compares_by_identity(value: Any) -> bool:
    kind: Any = type(value)
    return kind.__eq__ is object.__eq__


def _broken_equality(value: Any) -> str | None:
    try:
        twin = copy.copy(value)
    except Exception:  # noqa: BLE001  # what can't be copied can't be passed as an equal copy either
        return None
    if twin is value or _compares_by_identity(value):
        return None
    try:
        is_equal = value == twin
        if not isinstance(is_equal, (bool, np.bool_)):
            return f"its == gives {type(is_equal).__name__}, not True or False"
        if not is_equal:
            return None
        return None if hash(value) == hash(twin) else "an equal copy of it has another hash"
    except Exception as error:  # noqa: BLE001  # a user's __eq__ may raise anything, and jit will meet it
        return f"comparing it with an equal copy raised {type(error).__name__}"


_TESTS: tuple[tuple[Callable[[Subject, Trust], Diagnosis | None], tuple[Trust, ...]], ...] = (
    (_is_deterministic, ("standard", "full")),
    (_statics_compare, ("standard", "full")),
    (_traces_again, ("standard", "full")),
    (_agrees_on_other_values, ("standard", "full")),
    (_compiles_the_same, ("full",)),
)
"""Each test with the levels that include it."""


# --- notes -------------------------------------------------------------------------------------------------------------


def _unused_arguments(subject: Subject) -> Iterator[Note]:
    used = iter(compat.used_inputs(subject.staging.traced))
    bound = [argument for argument in subject.call.bound() if not argument.static]
    by_position = [argument for argument in bound if isinstance(argument.key, int)]
    by_name = sorted((argument for argument in bound if isinstance(argument.key, str)), key=lambda one: one.name)
    for argument in [*by_position, *by_name]:
        flags = [next(used, True) for _ in jax.tree_util.tree_leaves(argument.value)]
        if flags and not any(flags):
            yield Note(rule="unused-argument", text=f"Nothing in the result depends on the argument {argument.name}.")


def _effects(subject: Subject) -> Iterator[Note]:
    for change in subject.before.changes(subject.call.fn):
        yield Note(
            rule="side-effect",
            text=f"While it is traced, the function changes `{change.name}`, which {change.text}: "
            "a side effect that jit has once, at the first call.",
        )


def _callbacks(subject: Subject) -> Iterator[Note]:
    for callback in compat.callbacks(subject.staging.traced):
        where = "" if callback.place is None else f" (line {callback.place[1]})"
        if callback.is_used:
            yield Note(
                rule="callback", text=f"The compiled program calls back into Python: {callback.primitive}{where}."
            )
        else:
            yield Note(
                rule="side-effect",
                text=f"The result of a {callback.primitive}{where} goes nowhere, so that the compiled program leaves the call "
                "and its side effect out: use jax.debug.callback or io_callback for effects.",
            )


def _constants(subject: Subject) -> Iterator[Note]:
    for constant in compat.constants(subject.staging.traced):
        place = compat.constant_place(subject.staging.traced, constant)
        where = "" if place is None else f" in line {place[1]}"
        size = int(getattr(constant, "nbytes", 0))
        if (holder := subject.before.place_of(constant)) is not None:
            yield Note(
                rule="stale-constant",
                text=f"An array in `{holder}`{where} is built into the compiled program, which does not see when `{holder}` is "
                "changed later (a stale constant): pass it as an argument.",
            )
        elif size >= _LARGE_CONSTANT_BYTES:
            yield Note(
                rule="large-constant",
                text=f"An array of {size / 2**20:.3g} MiB{where} is captured as a constant of the compiled program: "
                "pass it as an argument.",
            )


def _retraces(subject: Subject) -> Iterator[Note]:
    for argument in subject.call.bound():
        if argument.static and (text := _retrace_risk(argument, subject.call)) is not None:
            yield Note(rule="retrace-risk", text=text)


def _retrace_risk(argument: Bound, call: Call) -> str | None:
    name, value = argument.name, argument.value
    if isinstance(value, float):
        statics = {one.key: one.value for one in call.bound() if one.static and one.key != argument.key}
        if diagnose.error_when_traced(call, statics) is None:
            return (
                f"`{name}` is a float and static: each new value is a retrace and compiles again. The function traces with "
                f"`{name}` left out of the static arguments (tried)."
            )
    kind = type(value)
    if _compares_by_identity(value) and not callable(value) and hasattr(value, "__dict__"):
        return (
            f"`{name}` is static and its class {kind.__name__} has no __eq__: an equal object made for another call is a "
            "retrace and compiles again. Make it a frozen dataclass or a NamedTuple."
        )
    return None


_NOTES: tuple[Callable[[Subject], Iterator[Note]], ...] = (
    _unused_arguments,
    _effects,
    _callbacks,
    _constants,
    _retraces,
)
