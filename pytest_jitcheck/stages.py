"""The way from Python to results: trace, lower, compile and run, each by itself and timed with an injected clock."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import statistics
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from pytest_jitcheck import compat
from pytest_jitcheck.arguments import Call
from pytest_jitcheck.leaves import ready
from pytest_jitcheck.report import Cost, Counts, Note, Stage, Timings
from pytest_jitcheck.spec import CheckSpec, Timing

__all__ = ["Clock", "Samples", "StageError", "Staging", "fresh", "steady", "warm_up"]

Clock = Callable[[], float]
"""Seconds from an arbitrary start, as `time.perf_counter` gives them."""


class StageError(Exception):
    """An exception of the user's or of JAX's, with the stage in which it was raised."""

    def __init__(self, stage: Stage, error: Exception) -> None:
        super().__init__(stage, error)
        self.stage: Stage = stage
        self.error = error


_UNUSED_DONATION = "Some donated buffers were not usable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How much time goes into steady run times."""

    rounds: int
    round_s: float
    """What a round is stretched to by repeating the call, to rise above the clock's resolution."""
    budget_s: float
    """After this time no further round is begun."""


EFFORTS: dict[Timing, Effort] = {
    "quick": Effort(rounds=5, round_s=100e-6, budget_s=0.02),
    "full": Effort(rounds=30, round_s=5e-3, budget_s=1.0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """Seconds per call of each timed round."""

    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """Median of the rounds."""
        return statistics.median(self.seconds)

    @property
    def iqr_s(self) -> float:
        """Interquartile range of the rounds; zero for a single one."""
        if len(self.seconds) < 2:
            return 0.0
        lower, _, upper = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return upper - lower


@functools.cache
def warm_up() -> None:
    """Pay what the first jit of a process costs, once, so that no check is charged with it."""
    ready(jax.jit(lambda x: x + 1)(0.0))


def fresh(fn: Callable[..., Any], on_trace: Callable[[], None] = lambda: None) -> Callable[..., Any]:
    """A new function that does what `fn` does and has its signature.

    JAX remembers by function object: a second check of the same function would find its trace and executable and
    measure nothing. And jitting a NumPy function or a builtin twice ends the interpreter.
    """

    def checked(*args: Any, **kwargs: Any) -> Any:
        on_trace()
        return fn(*args, **kwargs)

    functools.update_wrapper(checked, fn, updated=())
    # A partial or an object with __call__ has no name of its own, and JAX asks for one.
    checked.__name__ = getattr(fn, "__name__", type(fn).__name__)
    return checked


@dataclass(kw_only=True, slots=True)
class Staging:
    """One call on its way to a compiled result. Each stage runs once; what it gives and costs stays here."""

    call: Call
    """The call, with copies of its arguments that nothing else uses."""
    spec: CheckSpec
    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)
    traces: int = 0
    events: compat.Events = field(default_factory=compat.Events)
    traced: Any = None
    """JAX's `Traced`; ``None`` for a transform that doesn't give one, such as `equinox.filter_jit` or `nnx.jit`."""
    lowered: Any = None
    compiled: Any = None
    output: Any = None
    """What the first run of the executable returned."""
    notes: list[Note] = field(default_factory=list)
    keeps_errors: bool = True
    """Whether caught errors are kept until the trace ends; with them their tracers live on, which looks like a leak."""
    tracer_errors: list[compat.CaughtError] = field(default_factory=list)
    """Where JAX refused a traced value while tracing, and somebody caught that."""
    _to_lower: Any = None
    _equations: int | None = None

    def trace(self) -> None:
        """Python to jaxpr; with a transform that can't trace alone, as far as it goes in one step.

        Raises:
            StageError: what the user's function or JAX raised.
        """
        with (
            self._stage("trace"),
            compat.recorded_events() as self.events,
            self._caught_errors() as self.tracer_errors,
            compat.unfiltered_tracebacks(),
        ):
            jitted = self._jitted()
            if hasattr(jitted, "trace"):
                self._to_lower = jitted.trace(*self.call.args, **self.call.kwargs)
                self.traced = self._to_lower if compat.is_plain_traced(self._to_lower) else None
            elif hasattr(jitted, "lower"):
                with self._donations_noted():
                    self.lowered = jitted.lower(*self.call.args, **self.call.kwargs)
            else:
                self.compiled = jitted
        if self._to_lower is None and self.lowered is not None:
            self._split_by_events("trace", "lower", compat.LOWER_EVENT)

    def lower(self) -> None:
        """Jaxpr to StableHLO.

        Raises:
            StageError: what JAX raised.
        """
        if self._to_lower is not None:
            with self._stage("lower"), self._donations_noted():
                self.lowered = self._to_lower.lower()

    def compile(self) -> None:
        """StableHLO to executable.

        Raises:
            StageError: what the compiler raised.
        """
        if self.lowered is not None:
            with self._stage("compile"), compat.recorded_events() as self.events:
                self.compiled = self.lowered.compile()

    def first_run(self) -> None:
        """The executable's output, once it is ready.

        Raises:
            StageError: what the executable raised; for a transform that neither traces nor lowers, what anything did.
        """
        call = self.runner()
        if self.lowered is not None:
            with self._stage("run", "first_run"):
                self.output = ready(call())
            return
        with (
            self._stage("run", "first_run"),
            compat.recorded_events() as self.events,
            compat.unfiltered_tracebacks(),
            self._donations_noted(),
        ):
            self.output = ready(call())
        for stage, event in (
            ("trace", compat.TRACE_EVENT),
            ("lower", compat.LOWER_EVENT),
            ("compile", compat.COMPILE_EVENT),
        ):
            self._split_by_events("first_run", stage, event)

    def runner(self, call: Call | None = None) -> Callable[[], Any]:
        """A function that runs the executable once, on buffers of its own where some are donated.

        Args:
            call: other values of the same shapes and statics; by default those that were traced.
        """
        call = call or self.call
        call = call.copied(donated=True) if self.donates else call
        args, kwargs = (call.args, call.kwargs) if self.lowered is None else call.dynamic()
        return lambda: self.compiled(*args, **kwargs)

    @property
    def donates(self) -> bool:
        """Whether a run uses its buffers up."""
        return bool(self.call.donated.argnums or self.call.donated.argnames)

    def timings(self) -> Timings:
        """Seconds of each stage that was reached, without steady times."""
        return Timings(
            trace_s=self.seconds.get("trace"),
            lower_s=self.seconds.get("lower"),
            compile_s=self.seconds.get("compile"),
            first_run_s=self.seconds.get("first_run"),
            cached=self.events.number(compat.CACHE_HIT_EVENT) > 0,
        )

    def counts(self) -> Counts:
        """What was counted on the way."""
        return Counts(
            traces=self.traces,
            equations=self.equations,
            compiled_programs=self.events.number(compat.COMPILE_EVENT) if self.compiled is not None else None,
        )

    @property
    def equations(self) -> int | None:
        """Number of equations of the traced program, if the transform gives one."""
        if self._to_lower is not None and self._equations is None:
            self._equations = compat.count_equations(self._to_lower)
        return self._equations

    def cost(self) -> Cost:
        """What the compiler says of the executable."""
        return compat.cost_of(self.compiled)

    def _caught_errors(self) -> contextlib.AbstractContextManager[list[compat.CaughtError]]:
        return compat.recorded_tracer_errors() if self.keeps_errors else contextlib.nullcontext([])

    def _jitted(self) -> Any:
        transform = jax.jit if self.spec.jit is None else self.spec.jit
        said = self.spec.said()
        names = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
        return transform(fresh(self.call.fn, self._count_trace), **{name: said[name] for name in names if name in said})

    def _count_trace(self) -> None:
        self.traces += 1

    @contextlib.contextmanager
    def _donations_noted(self) -> Iterator[None]:
        """Turn JAX's word on unused donations into a note; other warnings go their way, also where they are errors."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", message=_UNUSED_DONATION)
            yield
        for warning in caught:
            text = str(warning.message)
            if re.match(_UNUSED_DONATION, text):
                self.notes.append(Note(rule="unused-donation", text=text.splitlines()[0]))
            else:
                # It has passed the filters already, which may show a thing only once.
                warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)

    def _split_by_events(self, whole: str, part: str, event: str) -> None:
        # A transform that does two stages in one step: JAX's own event says how long the second one took.
        self.seconds[part] = self.events.last(event)
        self.seconds[whole] = max(0.0, self.seconds[whole] - self.seconds[part])

    @contextlib.contextmanager
    def _stage(self, stage: Stage, name: str | None = None) -> Iterator[None]:
        started = self.clock()
        try:
            yield
        except Exception as error:
            raise StageError(stage, error) from error
        self.seconds[name or stage] = self.clock() - started


def steady(make_call: Callable[[], Callable[[], Any]], timing: Timing, rounds: int | None, clock: Clock) -> Samples:
    """Seconds per call once everything is warm.

    Args:
        make_call: gives the function to time; called anew for each round, outside the clock.
        timing: how much effort to spend; not ``off``.
        rounds: number of rounds, or ``None`` for what `timing` asks for.
        clock: gives seconds.
    """
    effort = EFFORTS[timing]
    call = make_call()
    enabled = gc.isenabled()
    gc.disable()
    try:
        begun = clock()
        first_s = _timed(call, 1, clock)
        # A call that uses its buffers up can't be repeated within a round.
        repeats = 1 if make_call() is not call else max(1, min(10_000, round(effort.round_s / max(first_s, 1e-9))))
        seconds: list[float] = [first_s] if repeats == 1 and rounds is None else []
        while len(seconds) < (rounds or effort.rounds):
            if seconds and rounds is None and clock() - begun > effort.budget_s:
                break
            seconds.append(_timed(make_call(), repeats, clock))
    finally:
        if enabled:
            gc.enable()
    return Samples(seconds=tuple(seconds))


def _timed(call: Callable[[], Any], repeats: int, clock: Clock) -> float:
    started = clock()
    for _ in range(repeats):
        ready(call())
    return (clock() - started) / repeats
