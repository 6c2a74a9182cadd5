"""What a pass means, and what a failure is held against: the second run, the second trace, other values, float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytest_jitcheck
from pytest_jitcheck import CheckReport

X = jnp.linspace(0.1, 1.0, 8)
CALLS: list[int] = []
TABLES = {"weights": jnp.arange(8.0)}


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def check(fn: Callable[..., Any], *args: Any, **options: Any) -> CheckReport:
    return pytest_jitcheck.check(fn, timing="off", **options)(*args)


def rules(report: CheckReport) -> list[str]:
    return [note.rule for note in report.notes]


def count(x: jax.Array) -> jax.Array:
    CALLS.append(1)
    return x * len(CALLS)


def doubled_and_counted(x: jax.Array) -> jax.Array:
    CALLS.append(1)
    return x * 2


# --- the reference -----------------------------------------------------------------------------------------------------


@jax.jit
def jitted_step(x: jax.Array) -> jax.Array:
    return x - 0.1 * jnp.sin(x)


@jax.jit
def jitted_loop(x: jax.Array) -> Any:
    return jax.lax.fori_loop(0, 1000, lambda _, value: value * 0.999, x)


@jax.jit
def traced_otherwise(x: jax.Array) -> Any:
    return x * (1.0 + isinstance(x, jax.core.Tracer))


def test_a_jitted_function_is_not_its_own_reference() -> None:
    assert check(traced_otherwise, X).failure is not None


def test_a_function_that_only_calls_a_jitted_one_runs_without_that_jit() -> None:
    assert rules(check(lambda x: jitted_step(x), X)) == ["jitted-reference"]  # noqa: PLW0108  # the call is the point


def test_what_only_the_inner_jit_sees_is_caught_so() -> None:
    assert check(lambda x: traced_otherwise(x), X).failure is not None  # noqa: PLW0108  # as above


def test_a_long_loop_is_not_run_in_python_for_the_reference() -> None:
    report = check(lambda x: jitted_loop(x), X)  # noqa: PLW0108  # as above
    assert "hardly compared" in report.notes[0].text


# --- two runs, two traces ----------------------------------------------------------------------------------------------


def test_trust_off_compares_and_does_no_more() -> None:
    assert check(lambda x: x + len(CALLS), X, trust="off").passed
    assert check(doubled_and_counted, X, trust="off").notes == ()


def test_state_that_changes_the_result_is_named() -> None:
    failure = check(count, X).failure
    assert failure is not None
    assert failure.kind == "nondeterministic"
    assert "`CALLS` changed" in failure.message


def test_a_difference_from_itself_shows_no_tolerance_that_would_pass() -> None:
    assert check(count, X).mismatches == ()


def test_a_change_without_a_result_is_a_note() -> None:
    report = check(doubled_and_counted, X)
    assert (report.passed, rules(report)) == (True, ["side-effect"])


def test_a_kept_tracer_is_named_with_its_place_and_line() -> None:
    kept: list[Any] = []

    def keep(x: jax.Array) -> jax.Array:
        kept.append(jnp.sin(x))
        return x * 2

    failure = check(keep, X).failure
    assert failure is not None
    assert failure.kind == "tracer_leak"
    assert "It is kept in `kept`." in failure.message


def test_a_cache_that_is_filled_with_a_tracer_is_named() -> None:
    @functools.cache
    def table(size: int) -> jax.Array:
        return jnp.arange(size) * 1.0

    failure = check(lambda x: x * table(8), X).failure
    assert failure is not None
    assert "It is kept in `table`." in failure.message


# --- other values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["standard", "full"])
def test_values_outside_of_what_the_function_takes_are_no_alarm(trust: str) -> None:
    def scale(x: Any) -> Any:
        if isinstance(x, np.ndarray) and x.max() < 1:
            raise ValueError("the largest must be 1")
        return x * np.float32(2)

    assert check(scale, np.array([0.5, 1.0], np.float32), trust=trust).passed


def test_static_arguments_keep_their_values() -> None:
    assert check(lambda x, q: jnp.quantile(x, q), X, 0.9, static_argnums=1).passed  # noqa: PLW0108  # it takes no static


def test_numbers_that_another_transform_may_hold_static_keep_their_values() -> None:
    equinox = pytest.importorskip("equinox")
    assert check(lambda x, scale: x * scale, X, 2.0, jit=equinox.filter_jit).passed


def test_full_passes_sound_functions_too() -> None:
    assert check(lambda x: jax.nn.softmax(x), X, trust="full").passed  # noqa: PLW0108  # a jitted one has no trace here


# --- tracer errors that were caught --------------------------------------------------------------------------------------


def broad(x: jax.Array) -> jax.Array:
    try:
        return x if x[0] > 0 else -x
    except Exception:  # noqa: BLE001  # what is looked for
        return x


def narrow(x: jax.Array) -> jax.Array:
    try:
        return x * float(x[0])
    except TypeError:
        return x * x[0]


def knowing(x: jax.Array) -> jax.Array:
    try:
        return x * int(x[0] > 0)
    except jax.errors.ConcretizationTypeError:
        return x


def outer(x: jax.Array) -> jax.Array:
    try:
        return knowing(x)
    except ValueError:
        return -x


def test_a_broad_except_that_took_a_tracer_error_fails() -> None:
    failure = check(broad, X).failure
    assert failure is not None
    assert failure.rule == "swallowed-tracer-error"
    assert failure.location is not None
    assert failure.location.source.strip() == "return x if x[0] > 0 else -x"


def test_a_narrow_one_that_changed_nothing_is_a_note() -> None:
    assert rules(check(narrow, X)) == ["swallowed-tracer-error"]


@pytest.mark.parametrize("fn", [knowing, outer])
def test_one_that_names_the_error_is_meant(fn: Callable[..., Any]) -> None:
    assert rules(check(fn, X)) == []


# --- what the program depends on -----------------------------------------------------------------------------------------


def test_an_argument_that_nothing_uses_is_a_note() -> None:
    assert rules(check(lambda x, unused: x * 2, X, X)) == ["unused-argument"]


def test_an_array_in_a_dict_that_is_built_in_is_a_note() -> None:
    assert rules(check(lambda x: x * TABLES["weights"], X)) == ["stale-constant"]


def test_a_large_constant_is_a_note_with_its_line() -> None:
    large = jnp.zeros((1 << 18) + 1)
    note = check(lambda x: x.sum() + large, X).notes[0]
    assert note.rule == "large-constant"
    assert " MiB in line " in note.text


def test_callbacks_are_notes() -> None:
    def printing(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda value: None, x)
        return x * 2

    assert "callback" in rules(check(printing, X))


def test_a_static_float_that_need_not_be_is_a_note() -> None:
    assert rules(check(lambda x, rate: x * rate, X, 0.1, static_argnums=1)) == ["retrace-risk"]


# --- whose fault -------------------------------------------------------------------------------------------------------


def cancel(x: jax.Array) -> jax.Array:
    return (x * x + 1e-7) - x * x


def test_a_difference_that_is_no_worse_than_eagers_own_error_passes_with_a_note() -> None:
    x = jnp.linspace(1.0, 2.0, 1000, dtype=jnp.float32)
    report = check(cancel, x, rtol=1e-7, atol=0)
    assert report.passed
    assert rules(report) in ([], ["no-worse-than-eager"])


def test_strict_allclose_fails_what_the_reference_would_acquit() -> None:
    x = jnp.linspace(1.0, 2.0, 1000, dtype=jnp.float32)
    acquitted = "no-worse-than-eager" in rules(check(cancel, x, rtol=0, atol=0))
    assert check(cancel, x, rtol=0, atol=0, strict_allclose=True).passed is not acquitted


def test_a_python_number_that_computes_otherwise_is_named() -> None:
    failure = check(lambda t, period: t % period, 0.3, 0.1).failure
    assert failure is not None
    assert failure.rule == "python-scalar"


def test_a_numpy_array_that_takes_another_way_is_named() -> None:
    def deviation(x: Any) -> Any:
        return np.std(x, ddof=1) if isinstance(x, np.ndarray) else jnp.std(x)

    failure = check(deviation, np.array([1.0, 2.0, 4.0], np.float32)).failure
    assert failure is not None
    assert (failure.rule, failure.arguments) == ("numpy-input", ("x",))


def test_the_order_of_a_dict_is_named() -> None:
    failure = check(lambda d: jnp.stack(list(d.values())), {"b": X, "a": 2 * X}).failure
    assert failure is not None
    assert failure.rule == "dict-order"


def test_nan_is_not_acquitted_where_it_equals_nothing() -> None:
    assert not check(lambda x: jnp.log(-x), np.ones(4, np.float32), equal_nan=False).passed


# --- settings ----------------------------------------------------------------------------------------------------------


def test_a_setting_that_the_function_changes_is_set_back_and_named() -> None:
    def change(x: jax.Array) -> jax.Array:
        jax.config.update("jax_default_matmul_precision", "highest")  # type: ignore[no-untyped-call]
        return x * 2

    before = jax.config.jax_default_matmul_precision
    assert rules(check(change, X)) == ["changed-setting"]
    assert jax.config.jax_default_matmul_precision == before
