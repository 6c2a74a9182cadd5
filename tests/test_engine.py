"""One check from end to end: what passes, what fails and how, what is timed, and what is left behind."""

from __future__ import annotations

import functools
import gc
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pytest_jitcheck import check, compat
from pytest_jitcheck.compat import is_tracer
from pytest_jitcheck.engine import CheckResult, Seams, environment, run_check
from pytest_jitcheck.report import Argument, CheckReport, Counts, Diagnosis, Mismatch, Timings
from pytest_jitcheck.spec import CheckSpec, SpecError

X = np.linspace(0.5, 2, 4, dtype=np.float32)


@dataclass(kw_only=True)
class Ticking:
    """A clock that goes on by one each time that it is read."""

    now: float = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def result(fn: Callable[..., Any], *args: Any, seams: Seams | None = None, **options: Any) -> CheckResult:
    spec = CheckSpec.from_keywords({"timing": "off", **options})
    return run_check(fn, spec, args, {}, seams)


def report(fn: Callable[..., Any], *args: Any, **options: Any) -> CheckReport:
    return check(fn, **{"timing": "off", **options})(*args)


def failure(fn: Callable[..., Any], *args: Any, **options: Any) -> Diagnosis:
    found = report(fn, *args, **options)
    assert found.outcome == "failed"
    assert found.failure is not None
    return found.failure


def rules(found: CheckReport) -> list[str]:
    return [note.rule for note in found.notes]


def sine(x: Any) -> Any:
    return jnp.sin(x)


def branch(x: Any) -> Any:
    return x if x[0] > 0 else -x


# --- what passes -------------------------------------------------------------------------------------------------------


def test_a_sound_function_passes() -> None:
    found = report(sine, X)
    assert (found.outcome, found.passed, found.stage, found.failure, found.mismatches) == (
        "passed",
        True,
        None,
        None,
        (),
    )
    assert (found.name, found.arguments) == ("sine", (Argument(name="x", aval="float32[4]"),))


def test_the_output_is_that_of_the_plain_function() -> None:
    found = result(lambda x: (x, "plain" if not is_tracer(x) else "traced")[0], X)
    assert isinstance(found.output, np.ndarray)
    assert found.error is None


def test_arguments_may_come_by_keyword() -> None:
    found = check(lambda x, n: x * n if n > 1 else x, static_argnames="n", timing="off")(X, n=3)
    assert (found.outcome, found.arguments[1]) == ("passed", Argument(name="n", value="3", static=True))


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x: {"a": [x, None], "b": (x.sum(), 1.0)}, (X,)),
        (jax.random.split, (jax.random.key(0),)),
        (lambda key: jax.random.normal(key, (3,)), (jax.random.PRNGKey(0),)),
        (lambda x: x / 0, (jnp.asarray(X),)),
        (lambda x: jnp.log(-x), (X,)),
        (lambda x: x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16), (jnp.asarray(X),)),
        (lambda x: (x + 1, x[:0], jnp.zeros((0, 3))), (X,)),
        (lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x), (X,)),
        (lambda x, y: x + y, (1, 2.5)),
        (lambda d: {"sum": d["a"] + d["b"]}, ({"b": X, "a": 1},)),
    ],
)
def test_functions_of_all_kinds_pass(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    assert report(fn, *args).failure is None


def test_a_jitted_function_is_compared_with_its_plain_self() -> None:
    found = result(jax.jit(lambda x, n: x * n, static_argnums=1), X, 3)
    assert (found.report.outcome, isinstance(found.output, np.ndarray)) == ("passed", True)


def test_a_method_is_checked_with_its_object() -> None:
    class Scale:
        def __init__(self) -> None:
            self.factor = jnp.float32(2)

        def apply(self, x: Any) -> Any:
            return self.factor * x

    assert report(Scale().apply, X).outcome == "passed"


def test_a_jitted_method_is_compared_with_its_plain_self() -> None:
    class Scale:
        @functools.partial(jax.jit, static_argnums=0)
        def applied(self, x: Any) -> Any:
            return 2 * x

    found = report(Scale().applied, X)
    assert (found.outcome, "jitted-reference" in rules(found)) == ("passed", True)


# --- what fails --------------------------------------------------------------------------------------------------------


def under_jit(traced: Callable[[Any], Any], plain: Callable[[Any], Any] = lambda x: x) -> Callable[[Any], Any]:
    """A function that does one thing under jit and another in plain Python."""

    def fn(x: Any) -> Any:
        return traced(x) if is_tracer(x) else plain(x)

    return fn


def raising(x: Any) -> Any:
    raise ZeroDivisionError


def write(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        x += 1
        return x
    return x + 1


KEPT: list[Any] = []


@pytest.mark.parametrize(
    ("fn", "options", "kind", "stage"),
    [
        (under_jit(lambda x: x + 1), {}, "value_mismatch", "compare"),
        (under_jit(lambda x: x.astype(jnp.float16)), {}, "dtype_mismatch", "compare"),
        (under_jit(lambda x: x[:2]), {}, "shape_mismatch", "compare"),
        (under_jit(lambda x: (x,)), {}, "structure_mismatch", "compare"),
        (
            under_jit(lambda x: jnp.float32(1) + 0 * x[0], lambda x: 1.0),
            {"check_weak_type": True},
            "weak_type_mismatch",
            "compare",
        ),
        (branch, {}, "trace_error", "trace"),
        (under_jit(lambda x: jax.pure_callback(raising, x, x)), {}, "runtime_error", "run"),
        (lambda x: None, {}, "vacuous", "compare"),
        (lambda x: jnp.ones(3), {}, "vacuous", "compare"),
        (write, {}, "side_effect", "eager"),
        (sine, {"raises": ValueError}, "did_not_raise", "run"),
        (raising, {}, "eager_error", "eager"),
        (under_jit(lambda x: x, raising), {}, "value_mismatch", "eager"),
    ],
)
def test_each_failure_has_its_kind_and_stage(
    fn: Callable[..., Any], options: dict[str, Any], kind: str, stage: str
) -> None:
    found = report(fn, X.copy(), **options)
    assert found.failure is not None
    assert (found.outcome, found.failure.kind, found.stage) == ("failed", kind, stage)


@dataclass
class Stages:
    """A transform that fails in a stage of its choice."""

    stage: str
    jaxpr: Any = None

    def jit(self, fn: Callable[..., Any]) -> Stages:
        self.jaxpr = jax.make_jaxpr(fn)(X)
        return self

    def trace(self, *args: Any) -> Stages:
        return self

    def lower(self) -> Stages:
        return self._at("lower")

    def compile(self) -> Stages:
        return self._at("compile")

    def _at(self, stage: str) -> Stages:
        if stage == self.stage:
            raise NotImplementedError(stage)
        return self


@pytest.mark.parametrize("stage", ["lower", "compile"])
def test_an_error_of_the_compiler_has_its_kind(stage: str) -> None:
    found = report(sine, X, jit=Stages(stage).jit)
    assert found.failure is not None
    assert (found.failure.kind, found.stage) == (f"{stage}_error", stage)


def test_an_argument_that_jit_can_t_take_has_its_kind() -> None:
    assert failure(lambda x, mode: x, X, "fast").kind == "static_argument"


def test_a_bad_choice_of_statics_fails_the_check() -> None:
    found = result(sine, X, static_argnames="n")
    assert (found.report.outcome, found.report.stage, type(found.error)) == ("failed", "trace", SpecError)


def test_a_function_that_gives_something_else_each_time_is_nondeterministic() -> None:
    numbers = iter(range(100))
    assert failure(lambda x: x + next(numbers), X).kind == "nondeterministic"


def test_every_leaf_that_differs_is_in_the_report() -> None:
    found = report(under_jit(lambda x: {"a": x + 1, "b": x, "c": -x}, lambda x: dict.fromkeys("abc", x)), X)
    assert [(one.path, one.kind) for one in found.mismatches] == [("['a']", "value"), ("['c']", "value")]


def test_tolerances_come_from_the_caller() -> None:
    near = under_jit(lambda x: x * (1 + 1e-3))
    assert failure(near, X).kind == "value_mismatch"
    assert report(near, X, rtol=1e-2).failure is None
    assert report(near, X, atol=1e-2).failure is None


def test_the_tolerance_follows_the_lowest_precision_that_went_in() -> None:
    near = under_jit(lambda x: x * (1 + 1e-3), lambda x: x * 1.0)
    wide = lambda x: near(x).astype(jnp.float32)  # noqa: E731  # one function after the other
    assert report(wide, jnp.asarray(X, jnp.bfloat16), trust="off").failure is None
    assert report(wide, jnp.asarray(X), trust="off").failure is not None


def test_nan_is_unlike_itself_on_request() -> None:
    assert report(lambda x: jnp.log(-x), X, equal_nan=False, trust="off").failure is not None


def test_dtypes_are_left_alone_on_request() -> None:
    assert report(lambda x: x * 2, np.ones(3), check_dtype=False).failure is None
    assert failure(lambda x: x * 2, np.ones(3)).kind == "dtype_mismatch"


# --- declared failures -------------------------------------------------------------------------------------------------


def test_a_declared_failure_passes_and_is_noted() -> None:
    found = report(branch, X, raises=jax.errors.TracerBoolConversionError)
    assert (found.outcome, found.failure, rules(found)) == ("passed", None, ["declared-failure"])
    assert found.notes[0].text == "jit fails with TracerBoolConversionError, as raises= declares."


def test_one_of_several_declared_failures_is_enough() -> None:
    assert report(branch, X, raises=(KeyError, jax.errors.ConcretizationTypeError)).passed


def test_another_exception_than_the_declared_one_fails() -> None:
    assert failure(branch, X, raises=KeyError).kind == "trace_error"


def test_a_declared_failure_does_not_excuse_the_plain_function() -> None:
    assert failure(raising, X, raises=ZeroDivisionError).kind == "eager_error"


# --- checks that checked nothing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", [lambda x: None, lambda x: (), lambda x: jnp.ones(3), lambda x: x.shape[0]])
def test_an_empty_or_constant_result_passes_where_it_is_meant(fn: Callable[..., Any]) -> None:
    assert failure(fn, X).kind == "vacuous"
    assert report(fn, X, constant=True).failure is None


def test_a_result_that_only_in_part_is_constant_passes() -> None:
    assert report(lambda x: (x + 1, jnp.ones(3), 2.0), X).failure is None


def test_a_call_without_traced_arguments_is_noted() -> None:
    assert rules(report(lambda: jnp.ones(3))) == ["no-traced-argument"]
    assert "no-traced-argument" in rules(report(lambda n: jnp.ones(n + 1), 3, static_argnums=0))


# --- eager failures ----------------------------------------------------------------------------------------------------


def test_the_plain_function_s_own_error_is_handed_on() -> None:
    found = result(raising, X)
    assert isinstance(found.error, ZeroDivisionError)


def test_an_error_of_the_plain_function_comes_before_that_of_jit() -> None:
    def both(x: Any) -> Any:
        if not is_tracer(x):
            raise KeyError("plain")
        raise ValueError("traced")

    found = result(both, X)
    assert (found.report.stage, type(found.error)) == ("eager", KeyError)


def test_jax_s_own_error_is_handed_on() -> None:
    assert isinstance(result(branch, X).error, jax.errors.TracerBoolConversionError)


# --- what a function writes into ---------------------------------------------------------------------------------------


def test_a_function_that_writes_into_its_argument_is_named_with_it() -> None:
    found = failure(lambda y, x: (y, write(x)), X, X.copy())
    assert (found.rule, found.arguments) == ("writes-into-argument", ("x",))


def test_the_caller_s_array_is_left_alone() -> None:
    x = X.copy()
    report(write, x)
    np.testing.assert_array_equal(x, X)


def test_donated_buffers_of_the_caller_are_left_alone() -> None:
    x = jnp.asarray(X)
    assert report(lambda x: x + 1, x, donate_argnums=0, timing="quick").failure is None
    assert not x.is_deleted()


def test_a_donation_that_is_of_no_use_is_noted() -> None:
    assert rules(report(lambda x: x[:2], jnp.asarray(X), donate_argnums=0)) == ["unused-donation"]


# --- what goes through, and what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, lambda: pytest.skip.Exception("later")])
def test_what_ends_a_test_or_a_run_goes_through(stop: Callable[[], BaseException]) -> None:
    def ends(x: Any) -> Any:
        raise stop()

    with pytest.raises((KeyboardInterrupt, SystemExit, pytest.skip.Exception)):
        report(ends, X)


def test_unknown_keywords_are_refused_before_anything_runs() -> None:
    with pytest.raises(SpecError, match="unknown keyword 'toll'"):
        check(sine, toll=1)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x: object(), (X,)),
        (lambda x: {x: 1}, (1.0,)),
        (lambda x: x, ("text",)),
        (lambda x: x.missing, (X,)),
        (lambda: 1, (X,)),
        (lambda x: jnp.ones(int(x.sum())), (X,)),
        (lambda d: d["a"], ({"a": X, "b": object()},)),
    ],
)
def test_a_failed_check_is_a_report_and_no_exception(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    assert report(fn, *args).outcome == "failed"


# --- reports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", [sine, branch, raising, under_jit(lambda x: x + jnp.inf), lambda x: None])
def test_a_report_goes_through_json(fn: Callable[..., Any]) -> None:
    found = check(fn)(X)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert CheckReport.from_json(json.loads(text)).to_json() == found.to_json()


def test_the_report_says_where_it_ran_and_what_was_counted() -> None:
    found = report(lambda x: jax.lax.sin(x) + 1, X)
    assert found.device is not None
    assert (found.device.platform, found.x64) == ("cpu", False)
    assert found.counts == Counts(traces=1, equations=2, compiled_programs=1)


def test_wide_types_are_said_to_be_on() -> None:
    with compat.x64(enabled=True):
        found = report(lambda x: x * 2, np.ones(3))
    assert (found.x64, found.outcome, found.arguments[0].aval) == (True, "passed", "float64[3]")


def test_the_environment_names_versions_and_devices() -> None:
    found = environment()
    assert (found["jax"], found["numpy"], found["x64"]) == (jax.__version__, np.__version__, False)
    assert found["devices"][0]["platform"] == "cpu"
    assert json.loads(json.dumps(found)) == found


# --- time --------------------------------------------------------------------------------------------------------------

STAGES_S: dict[str, Any] = {"eager_first_s": 1.0, "trace_s": 1.0, "lower_s": 1.0, "compile_s": 1.0, "first_run_s": 1.0}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timing": "off"}, Timings(**STAGES_S)),
        ({"timing": "quick"}, Timings(**STAGES_S, eager_s=1.0, run_s=1.0, run_iqr_s=0.0, rounds=1)),
        ({"timing": "full"}, Timings(**STAGES_S, eager_s=1.0, run_s=1.0, run_iqr_s=0.0, rounds=1)),
        ({"timing": "quick", "rounds": 3}, Timings(**STAGES_S, eager_s=1.0, run_s=1.0, run_iqr_s=0.0, rounds=3)),
    ],
)
def test_times_come_from_the_clock_that_was_handed_in(options: dict[str, Any], expected: Timings) -> None:
    assert result(sine, X, seams=Seams(clock=Ticking()), **options).report.timings == expected


def test_a_failed_comparison_is_timed_too() -> None:
    found = result(under_jit(lambda x: x + 1), X, timing="quick", seams=Seams(clock=Ticking())).report
    assert (found.outcome, found.timings.run_s) == ("failed", 1.0)


def test_what_was_not_reached_has_no_time() -> None:
    found = result(branch, X, timing="quick", seams=Seams(clock=Ticking())).report
    assert found.timings == Timings(eager_first_s=1.0)


def test_a_function_that_fails_at_a_later_call_is_not_timed_and_noted() -> None:
    calls: list[int] = []

    def tires(x: Any) -> Any:
        calls.append(1)
        if len(calls) > 2:
            raise TimeoutError("tired")
        return x + 1

    found = report(tires, X, timing="quick", trust="off")
    assert (found.outcome, found.timings.run_s) == ("passed", None)
    assert found.notes[0].text == "Not timed: called again with the same arguments, it raised TimeoutError: tired"


# --- seams -------------------------------------------------------------------------------------------------------------

OTHER = Mismatch(path="!", kind="structure", eager="a", compiled="b")


def test_a_comparison_of_the_caller_s_own_decides() -> None:
    found = result(sine, X, seams=Seams(compare=lambda eager, compiled, spec: (OTHER,))).report
    assert (found.outcome, found.mismatches) == ("failed", (OTHER,))
    found = result(under_jit(lambda x: x + 1), X, trust="off", seams=Seams(compare=lambda *_: ())).report
    assert found.outcome == "passed"


def test_a_comparison_of_the_caller_s_own_gets_both_results_and_the_spec() -> None:
    seen: list[Any] = []

    def judge(eager: Any, compiled: Any, spec: CheckSpec) -> None:
        seen.append((type(eager), isinstance(compiled, jax.Array), spec.rtol))

    assert result(lambda x: x * 2, X, rtol=0.5, seams=Seams(compare=judge)).report.passed
    assert seen == [(np.ndarray, True, 0.5)]


def test_an_explanation_of_the_caller_s_own_decides() -> None:
    seams = Seams(
        diagnose=lambda error, diagnosis: Diagnosis(kind="trace_error", rule="ours", message=type(error).__name__)
    )
    found = result(branch, X, seams=seams).report
    assert found.failure == Diagnosis(kind="trace_error", rule="ours", message="TracerBoolConversionError")


# --- what is left behind -----------------------------------------------------------------------------------------------


def surroundings() -> tuple[Any, ...]:
    return (
        jax.config.jax_traceback_filtering,
        compat.configuration(),
        list(warnings.filters),
        gc.isenabled(),
        jax.errors.TracerBoolConversionError.__init__,
    )


@pytest.mark.parametrize("fn", [sine, branch, raising, write, lambda x: None, under_jit(lambda x: x + 1)])
def test_nothing_global_is_changed(fn: Callable[..., Any]) -> None:
    before = surroundings()
    report(fn, X.copy(), timing="quick")
    assert surroundings() == before


def test_nothing_global_is_changed_by_what_ends_a_run() -> None:
    def ends(x: Any) -> Any:
        raise KeyboardInterrupt

    before = surroundings()
    with pytest.raises(KeyboardInterrupt):
        report(ends, X)
    assert surroundings() == before


def test_a_setting_that_the_function_changes_is_set_back_and_noted() -> None:
    def sets(x: Any) -> Any:
        jax.config.update("jax_default_matmul_precision", "float32")  # type: ignore[no-untyped-call]
        return x @ x

    before = surroundings()
    assert "changed-setting" in rules(report(sets, X))
    assert surroundings() == before
