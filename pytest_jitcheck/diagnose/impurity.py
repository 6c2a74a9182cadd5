"""Explanations of functions that are not the same twice: random draws, clocks, state, and tracers that were kept."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

import jax

from pytest_jitcheck.arguments import Bound, Call
from pytest_jitcheck.diagnose.evidence import Evidence
from pytest_jitcheck.diagnose.source import Ownership, function_line
from pytest_jitcheck.diagnose.verdicts import exception_name, location_of
from pytest_jitcheck.report import Diagnosis, Fix, Location
from pytest_jitcheck.surroundings import Change

__all__ = ["broken_equality", "kept_tracer", "nondeterministic", "second_trace_failed", "stale_values", "traces_differ"]

_PURE = (
    "Give it all that it depends on as arguments: a jax.random key in place of numpy.random and random, the time as a number, "
    "state as an argument that is returned changed. Sort what comes out of a set or a directory."
)


def nondeterministic(call: Call, error: Exception | None = None, changes: Sequence[Change] = ()) -> Diagnosis:
    """Two plain runs on the same values differ.

    Args:
        call: the call.
        error: what the second run raised, if it raised.
        changes: what the function changed around itself meanwhile.
    """
    what = "gave different results" if error is None else f"differed: the second raised {_described(error)}"
    cause = changes[0].name if changes else ""
    seen = f" Meanwhile `{cause}` changed, which the function can reach." if cause else ""
    state = f"Pass `{cause}` as an argument, and return it changed." if cause else _PURE
    return Diagnosis(
        kind="nondeterministic",
        rule="nondeterministic",
        message=(
            f"Two runs of {call.name} in plain Python, on the same values, {what}.{seen} Under jit such a value is drawn or "
            "read once, while the function is traced, and every later call gets the same one."
        ),
        location=function_line(call.fn),
        fix=Fix(text=state),
    )


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def traces_differ(call: Call, changes: Sequence[Change]) -> Diagnosis:
    """Two traces of the same call give different programs."""
    seen = "".join(f" Between the two, `{change.name}` {change.text}." for change in changes)
    return Diagnosis(
        kind="nondeterministic",
        rule="traces-differ",
        message=(
            f"Two traces of {call.name}, with the same arguments, gave different programs: it depends on something else "
            f"than its arguments.{seen} A jitted function keeps what it found at its first call."
        ),
        location=function_line(call.fn),
        fix=Fix(text=_PURE),
    )


def second_trace_failed(error: Exception, call: Call, changes: Sequence[Change]) -> Diagnosis:
    """A trace that works once fails when it is done again, with JAX's check for leaked tracers on."""
    is_leak = isinstance(error, jax.errors.UnexpectedTracerError) or str(error).startswith("Leaked")
    return kept_tracer(error, call, changes) if is_leak else nondeterministic(call, error)


def kept_tracer(error: Exception, call: Call, changes: Sequence[Change]) -> Diagnosis:
    """A traced value outlives its trace."""
    kept = [change.name for change in changes if change.holds_tracer] or [change.name for change in changes]
    made = _made_at(str(error), Ownership.of(call.fn))
    where = f" It is kept in `{kept[0]}`." if kept else ""
    origin = "" if made is None else f" It was made in line {made.line}, `{made.source.strip()}`."
    site = Evidence(error=error, stage="trace", call=call).site
    return Diagnosis(
        kind="tracer_leak",
        rule="leaked-tracer",
        message=(
            f"{call.name} keeps a traced value after the trace has ended.{where}{origin} Such a value stands for no number, and "
            "whatever uses it later fails with UnexpectedTracerError."
        ),
        exception=exception_name(error),
        # JAX lists the objects that refer to it, by their addresses: of use only where nothing better is known.
        exception_message=None if kept or made is not None else str(error),
        location=made or (site.location if site is not None else location_of(error, call) or function_line(call.fn)),
        fix=Fix(
            text=(
                "Return the value instead of storing it, and store it outside, from the result. Fill caches with numpy values, "
                "or under jax.ensure_compile_time_eval()."
            )
        ),
    )


def _made_at(message: str, ownership: Ownership) -> Location | None:
    """The user's line that JAX names as the one that made the tracer."""
    for path, line, function in re.findall(r"(/[^\s:]+\.py):(\d+)(?::\d+)? \((\S+)\)", message):
        if ownership.is_users(path):
            source = linecache.getline(path, int(line)).rstrip("\n")
            return Location(path=path, line=int(line), source=source, function=function)
    return None


def stale_values(call: Call) -> Diagnosis:
    """The compiled function gives other results than a fresh one when its arguments change."""
    return Diagnosis(
        kind="stale_constant",
        rule="stale-value",
        message=(
            f"The compiled {call.name} agrees with plain Python on the values that it was traced with, and not on others; "
            "compiled anew for those, it agrees. It keeps a value from its first call: something that it reads from outside "
            "of its arguments, or takes from an argument on the host, is built into the program."
        ),
        location=function_line(call.fn),
        fix=Fix(text=f"{_PURE} Compute with jnp on the arguments themselves, not on copies on the host."),
    )


def broken_equality(argument: Bound, what: str, call: Call) -> Diagnosis:
    """A static argument that jit can't find again."""
    kind = type(argument.value).__name__
    return Diagnosis(
        kind="retrace",
        rule="broken-equality",
        message=(
            f"`{argument.name}` is static, and jit finds the compiled program of a static value by its hash and by ==; but of this "
            f"{kind}, {what}. Every call would compile again, or fail."
        ),
        location=function_line(call.fn),
        arguments=(argument.name,),
        fix=Fix(
            text=f"Give {kind} an __eq__ and a __hash__ that agree: a frozen dataclass or a NamedTuple of plain values has both."
        ),
    )
