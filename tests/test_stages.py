"""Trace, lower, compile, run: each once, each timed by the clock that was handed in, each error with its stage."""

from __future__ import annotations

import functools
import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from pytest_jitcheck import compat
from pytest_jitcheck.arguments import Call
from pytest_jitcheck.report import Cost, Timings
from pytest_jitcheck.spec import CheckSpec, Timing
from pytest_jitcheck.stages import EFFORTS, Samples, StageError, Staging, fresh, steady, warm_up


@dataclass(kw_only=True)
class Time:
    """A clock that goes on when it is told to, and by `tick` each time that it is read."""

    tick: float = 0.0
    now: float = 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


def staging(fn: Callable[..., Any], *args: Any, clock: Callable[[], float] | None = None, **options: Any) -> Staging:
    call, spec = Call.bind(fn, CheckSpec.from_keywords(options), args, {})
    return Staging(call=call, spec=spec, clock=clock or Time())


def staged(fn: Callable[..., Any], *args: Any, clock: Callable[[], float] | None = None, **options: Any) -> Staging:
    one = staging(fn, *args, clock=clock, **options)
    for stage in (one.trace, one.lower, one.compile, one.first_run):
        stage()
    return one


def stop(fn: Callable[..., Any], *args: Any, **options: Any) -> StageError:
    with pytest.raises(StageError) as caught:
        staged(fn, *args, **options)
    return caught.value


def sine(x: Any) -> Any:
    return jax.lax.sin(x)


X = np.linspace(0, 1, 8, dtype=np.float32)


# --- one of each -------------------------------------------------------------------------------------------------------

SEEN: list[str] = []
"""What JAX reported, by a listener that has nothing to do with ours."""


@functools.cache
def listen() -> None:
    def on_duration(event: str, duration_secs: float, **_: str | int) -> None:
        SEEN.append(event)

    jax.monitoring.register_event_duration_secs_listener(on_duration)


@pytest.fixture
def events() -> Iterator[list[str]]:
    listen()
    SEEN.clear()
    yield SEEN
    SEEN.clear()


@pytest.mark.parametrize("event", [compat.TRACE_EVENT, compat.LOWER_EVENT, compat.COMPILE_EVENT])
def test_a_call_is_traced_lowered_and_compiled_once(events: list[str], event: str) -> None:
    staged(sine, X)
    assert events.count(event) == 1


def test_a_second_staging_of_the_same_function_does_all_of_it_again(events: list[str]) -> None:
    one, other = staged(sine, X), staged(sine, X)
    assert (one.traces, other.traces, events.count(compat.COMPILE_EVENT)) == (1, 1, 2)


def test_steady_runs_compile_nothing(events: list[str]) -> None:
    one = staged(sine, X)
    events.clear()
    steady(one.runner, "quick", 3, Time())
    assert events == []


def test_what_is_counted_is_what_jax_reported(events: list[str]) -> None:
    counts = staged(lambda x: jax.lax.sin(x) + 1, X).counts()
    assert (counts.traces, counts.equations, counts.compiled_programs) == (1, 2, 1)
    assert events.count(compat.COMPILE_EVENT) == 1


def test_what_was_not_reached_is_not_counted() -> None:
    counts = staging(sine, X).counts()
    assert (counts.traces, counts.equations, counts.compiled_programs) == (0, None, None)


def test_the_output_is_that_of_the_executable() -> None:
    one = staged(lambda x, n: {"y": x * n}, X, 3, static_argnums=1)
    assert isinstance(one.output["y"], jax.Array)
    np.testing.assert_array_equal(one.output["y"], X * 3)


def test_the_executable_runs_on_other_values() -> None:
    one = staged(sine, X)
    call, _ = Call.bind(sine, CheckSpec(), (2 * X,), {})
    np.testing.assert_allclose(one.runner(call)(), np.sin(2 * X), rtol=1e-6)


def test_the_cost_is_what_the_compiler_says() -> None:
    cost = staged(lambda x: x @ x, np.ones((8, 8), np.float32)).cost()
    assert cost.argument_bytes in (None, 256)
    assert cost.output_bytes in (None, 256)
    assert cost.flops is None or cost.flops >= 8 * 8 * 8


def test_what_was_not_compiled_has_no_cost() -> None:
    assert staging(sine, X).cost() == Cost()


# --- time --------------------------------------------------------------------------------------------------------------


def test_each_stage_is_timed_by_the_clock_that_was_handed_in() -> None:
    timings = staged(sine, X, clock=Time(tick=1.0)).timings()
    assert timings == Timings(trace_s=1.0, lower_s=1.0, compile_s=1.0, first_run_s=1.0)


def test_a_stage_that_was_not_reached_has_no_time() -> None:
    one = staging(sine, X, clock=Time(tick=1.0))
    one.trace()
    assert one.timings() == Timings(trace_s=1.0)


def test_the_user_s_own_python_is_part_of_tracing() -> None:
    clock = Time()

    def slow(x: Any) -> Any:
        clock.passes(5.0)
        return x + 1

    timings = staged(slow, X, clock=clock).timings()
    assert (timings.trace_s, timings.lower_s, timings.compile_s, timings.first_run_s) == (5.0, 0.0, 0.0, 0.0)


@dataclass
class Pending:
    """A result that the device computes while it is waited for."""

    clock: Time

    def block_until_ready(self) -> Pending:
        self.clock.passes(7.0)
        return self


@dataclass
class Stages:
    """A transform whose stages do what they are told to."""

    on_trace: Callable[[], object] = lambda: None
    on_lower: Callable[[], object] = lambda: None
    on_compile: Callable[[], object] = lambda: None
    on_run: Callable[[], object] = lambda: None
    jaxpr: Any = field(default_factory=lambda: jax.make_jaxpr(lambda x: x)(1.0))

    def jit(self, fn: Callable[..., Any]) -> Stages:
        return self

    def trace(self, *args: Any) -> Stages:
        self.on_trace()
        return self

    def lower(self) -> Stages:
        self.on_lower()
        return self

    def compile(self) -> Stages:
        self.on_compile()
        return self

    def __call__(self, *args: Any) -> object:
        return self.on_run()


def test_the_first_run_is_over_when_its_result_is_ready() -> None:
    clock = Time()
    stages = Stages(on_run=lambda: [Pending(clock)])
    assert staged(sine, X, jit=stages.jit, clock=clock).timings().first_run_s == 7.0


def test_each_stage_takes_its_own_time() -> None:
    clock = Time()
    stages = Stages(
        on_trace=lambda: clock.passes(1.0),
        on_lower=lambda: clock.passes(2.0),
        on_compile=lambda: clock.passes(4.0),
        on_run=lambda: clock.passes(8.0),
    )
    timings = staged(sine, X, jit=stages.jit, clock=clock).timings()
    assert timings == Timings(trace_s=1.0, lower_s=2.0, compile_s=4.0, first_run_s=8.0)


def test_the_first_jit_of_a_process_is_paid_for_once() -> None:
    warm_up()
    assert warm_up.cache_info().currsize == 1


# --- other transforms --------------------------------------------------------------------------------------------------


def test_a_partial_of_jit_is_staged() -> None:
    one = staged(lambda x, n: x * n, X, 3, jit=functools.partial(jax.jit, static_argnames="n"))
    assert (one.traced is not None, one.traces) == (True, 1)
    np.testing.assert_array_equal(one.output, X * 3)


def bare_jit(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A transform that only gives a function."""
    jitted = jax.jit(fn)

    def call(*args: Any) -> Any:
        return jitted(*args)

    return call


def test_a_transform_without_stages_runs_in_one_and_jax_says_how_long_each_took() -> None:
    one = staged(sine, X, jit=bare_jit, clock=Time(tick=1000.0))
    timings = one.timings()
    stages_s = (timings.trace_s, timings.lower_s, timings.compile_s, timings.first_run_s)
    assert all(seconds is not None and seconds > 0 for seconds in stages_s)
    assert sum(filter(None, stages_s)) == pytest.approx(1000.0)
    assert (one.traced, one.lowered, one.counts().compiled_programs, one.counts().equations) == (None, None, 1, None)


def test_times_that_jax_reported_never_make_a_stage_negative() -> None:
    assert staged(sine, X, jit=bare_jit, clock=Time()).timings().first_run_s == 0.0


def test_equinox_lowers_and_compiles_in_stages() -> None:
    eqx = pytest.importorskip("equinox")
    one = staged(lambda x, f: f(x), X, jnp.tanh, jit=eqx.filter_jit, clock=Time(tick=1000.0))
    timings = one.timings()
    assert (one.traced, timings.compile_s, timings.first_run_s) == (None, 1000.0, 1000.0)
    assert (timings.trace_s or 0) + (timings.lower_s or 0) == pytest.approx(1000.0)
    np.testing.assert_allclose(one.output, np.tanh(X), rtol=1e-5)


def test_nnx_is_staged_as_far_as_this_flax_goes() -> None:
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(8, 2, rngs=nnx.Rngs(0))
    one = staged(lambda model, x, n: model(x) * n, model, X, 2, jit=nnx.jit, static_argnums=2)
    timings = one.timings()
    assert None not in (timings.trace_s, timings.lower_s, timings.compile_s, timings.first_run_s)
    assert (one.traces, one.traced, one.output.shape) == (1, None, (2,))


def test_what_a_transform_changes_in_a_module_shows_in_the_next_run() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Counter(nnx.Module):  # type: ignore[misc, name-defined]  # flax may be missing
        def __init__(self) -> None:
            self.count = nnx.Variable(jnp.zeros(()))

        def __call__(self, x: Any) -> Any:
            nnx.update(self, jax.tree_util.tree_map(lambda leaf: leaf + 1, nnx.state(self)))
            return x + jax.tree_util.tree_leaves(nnx.state(self))[0]

    one = staged(lambda counter, x: counter(x), Counter(), 1.0, jit=nnx.jit)
    assert (float(one.output), float(one.runner()())) == (2.0, 3.0)


# --- donations and warnings --------------------------------------------------------------------------------------------


def test_a_donated_buffer_is_used_up_in_a_copy() -> None:
    x = jnp.asarray(X)
    one = staged(lambda x: x + 1, x, donate_argnums=0)
    np.testing.assert_array_equal(one.runner()(), X + 1)
    assert (one.donates, x.is_deleted(), one.notes) == (True, False, [])


def test_nothing_is_copied_where_nothing_is_donated() -> None:
    x = jnp.asarray(X)
    seen = []
    stages = Stages()
    one = staged(sine, x, jit=stages.jit)
    one.compiled = lambda *args: seen.append(args[0])
    one.runner()()
    assert seen[0] is x


def bare_donating_jit(fn: Callable[..., Any]) -> Callable[..., Any]:
    jitted = jax.jit(fn, donate_argnums=0)

    def call(*args: Any) -> Any:
        return jitted(*args)

    return call


@pytest.mark.parametrize("jit", [functools.partial(jax.jit, donate_argnums=0), bare_donating_jit])
def test_a_donation_that_is_of_no_use_is_a_note_where_warnings_are_errors(jit: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = staged(lambda x: x[:2], jnp.asarray(X), jit=jit)
    assert [note.rule for note in one.notes] == ["unused-donation"]
    assert one.notes[0].text.startswith("Some donated buffers were not usable: ")


def test_a_donation_to_equinox_that_is_of_no_use_is_a_note() -> None:
    eqx = pytest.importorskip("equinox")
    one = staged(lambda x: x[:2], jnp.asarray(X), jit=functools.partial(eqx.filter_jit, donate="all"))
    assert [note.rule for note in one.notes] == ["unused-donation"]


def test_other_warnings_are_seen_where_they_are_shown() -> None:
    stages = Stages(on_lower=lambda: warnings.warn("mind the gap", UserWarning, stacklevel=1))
    with pytest.warns(UserWarning, match="mind the gap"):
        staged(sine, X, jit=stages.jit)


def test_other_warnings_are_errors_of_their_stage_where_warnings_are_errors() -> None:
    stages = Stages(on_lower=lambda: warnings.warn("mind the gap", UserWarning, stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped = stop(sine, X, jit=stages.jit)
    assert (stopped.stage, type(stopped.error), str(stopped.error)) == ("lower", UserWarning, "mind the gap")


def test_the_filters_of_warnings_are_as_before() -> None:
    before = list(warnings.filters)
    staged(lambda x: x[:2], jnp.asarray(X), donate_argnums=0)
    assert warnings.filters == before


# --- errors ------------------------------------------------------------------------------------------------------------


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("stage", "stages"),
    [
        ("trace", Stages(on_trace=fail)),
        ("lower", Stages(on_lower=fail)),
        ("compile", Stages(on_compile=fail)),
        ("run", Stages(on_run=fail)),
    ],
)
def test_an_error_comes_with_its_stage(stage: str, stages: Stages) -> None:
    stopped = stop(sine, X, jit=stages.jit)
    assert (stopped.stage, type(stopped.error)) == (stage, ZeroDivisionError)


def test_a_stage_that_failed_has_no_time() -> None:
    one = staging(sine, X, jit=Stages(on_lower=fail).jit, clock=Time(tick=1.0))
    one.trace()
    with pytest.raises(StageError):
        one.lower()
    assert one.timings() == Timings(trace_s=1.0)


def test_what_tracing_raises_is_jax_s_own_error() -> None:
    assert isinstance(stop(lambda x: x if x[0] else -x, X).error, jax.errors.TracerBoolConversionError)


def test_what_ends_a_run_goes_through() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        staged(interrupted, X)


# --- fresh functions ---------------------------------------------------------------------------------------------------


def test_a_fresh_function_has_the_signature_and_name_of_the_old_one() -> None:
    def f(x: Any, /, *, n: int = 3) -> Any:
        return x * n

    assert (inspect.signature(fresh(f)), fresh(f).__name__) == (inspect.signature(f), "f")


@pytest.mark.parametrize(
    ("fn", "name"), [(functools.partial(sine), "partial"), (Time(), "Time"), (max, "max"), (jnp.sin, "sin")]
)
def test_a_fresh_function_has_a_name_whatever_it_calls(fn: Callable[..., Any], name: str) -> None:
    assert fresh(fn).__name__ == name


def test_a_fresh_function_says_when_it_is_called() -> None:
    called: list[int] = []
    assert fresh(lambda x: x + 1, lambda: called.append(1))(2) == 3
    assert called == [1]


# --- steady times ------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Subject:
    """A function that takes a known time by a clock of its own, and counts."""

    seconds: float
    clock: Time = field(default_factory=Time)
    calls: int = 0
    was_collecting: list[bool] = field(default_factory=list)

    def __call__(self) -> None:
        self.calls += 1
        self.was_collecting.append(gc.isenabled())
        self.clock.passes(self.seconds)

    def sampled(self, timing: Timing = "quick", rounds: int | None = None) -> tuple[float, ...]:
        return steady(lambda: self, timing, rounds, self.clock).seconds


QUICK, FULL = EFFORTS["quick"], EFFORTS["full"]


def test_a_call_as_long_as_a_round_is_not_repeated_and_the_first_counts() -> None:
    subject = Subject(seconds=2.0**-10)
    assert subject.sampled() == (2.0**-10,) * QUICK.rounds
    assert subject.calls == QUICK.rounds


def test_a_short_call_is_repeated_to_fill_a_round_and_the_first_does_not_count() -> None:
    subject = Subject(seconds=2.0**-20)
    assert subject.sampled() == (2.0**-20,) * QUICK.rounds
    assert subject.calls == 1 + QUICK.rounds * round(QUICK.round_s / 2.0**-20)


def test_a_call_that_takes_no_time_is_repeated_ten_thousand_times() -> None:
    subject = Subject(seconds=0.0)
    subject.sampled(rounds=1)
    assert subject.calls == 10_001


def test_a_call_beyond_the_budget_is_timed_once() -> None:
    assert Subject(seconds=2 * QUICK.budget_s).sampled() == (2 * QUICK.budget_s,)


def test_rounds_end_when_the_budget_is_used_up() -> None:
    assert len(Subject(seconds=FULL.budget_s / 8).sampled("full")) == 9


def test_rounds_that_were_asked_for_are_made_whatever_they_take() -> None:
    subject = Subject(seconds=64.0)
    assert subject.sampled(rounds=3) == (64.0, 64.0, 64.0)
    assert subject.calls == 4


def test_a_call_that_can_be_made_once_is_made_anew_for_each_round() -> None:
    clock, made = Time(), []

    def make() -> Callable[[], None]:
        clock.passes(100.0)
        made.append(1)
        return lambda: clock.passes(2.0**-20)

    assert steady(make, "quick", 3, clock).seconds == (2.0**-20,) * 3
    assert len(made) == 5


def test_a_run_is_over_when_its_result_is_ready() -> None:
    clock = Time()
    assert steady(lambda: functools.partial(Pending, clock), "quick", 1, clock).seconds == (7.0,)


def test_nothing_is_collected_while_it_is_timed() -> None:
    subject = Subject(seconds=1.0)
    subject.sampled(rounds=2)
    assert (subject.was_collecting, gc.isenabled()) == ([False] * 3, True)


def test_collection_is_on_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        steady(lambda: fail, "quick", 1, Time())
    assert gc.isenabled()


def test_collection_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        Subject(seconds=1.0).sampled(rounds=1)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("seconds", "median_s", "iqr_s"),
    [((3.0,), 3.0, 0.0), ((1.0, 2.0), 1.5, 0.5), ((5.0, 1.0, 3.0, 2.0, 4.0), 3.0, 2.0)],
)
def test_rounds_are_summed_up_by_median_and_interquartile_range(
    seconds: tuple[float, ...], median_s: float, iqr_s: float
) -> None:
    samples = Samples(seconds=seconds)
    assert (samples.median_s, samples.iqr_s) == (median_s, iqr_s)
