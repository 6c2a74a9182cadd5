"""What we know of JAX's insides, on the JAX that is installed: the tests that a new version has to pass first."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from pytest_jitcheck import compat
from pytest_jitcheck.report import Cost

X = np.ones(3, np.float32)


def traced(fn: Callable[..., Any], *args: Any) -> Any:
    return jax.jit(fn).trace(*args)


def while_tracing(ask: Callable[..., Any], *args: Any) -> Any:
    """What `ask` returns of the tracers that it is called with."""
    answers: list[Any] = []

    def asked(*tracers: Any) -> int:
        answers.append(ask(*tracers))
        return 0

    jax.jit(asked).trace(*args)
    return answers[0]


def noted(found: list[Any], answer: Any, result: Any) -> Any:
    found.append(answer)
    return result


def line_of(fn: Callable[..., Any], offset: int) -> tuple[str, int]:
    return __file__, inspect.getsourcelines(fn)[1] + offset


# --- jitted functions --------------------------------------------------------------------------------------------------


def step(state: Any, n: int, *, mode: str = "a") -> Any:
    return state


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ((), (), (), ())),
        ({"static_argnums": 1}, ((1,), ("n",), (), ())),
        ({"static_argnames": ("n", "mode")}, ((1,), ("n", "mode"), (), ())),
        ({"donate_argnums": 0}, ((), (), (0,), ("state",))),
        ({"donate_argnames": "state", "static_argnums": 1}, ((1,), ("n",), (0,), ("state",))),
        ({"static_argnums": 0, "donate_argnums": 1}, ((0,), ("state",), (1,), ("n",))),
    ],
)
def test_a_jitted_function_gives_its_parts_back(options: dict[str, Any], expected: tuple[Any, ...]) -> None:
    parts = compat.jitted_parts(jax.jit(step, **options))
    assert parts is not None
    chosen = (parts.static_argnums, parts.static_argnames, parts.donate_argnums, parts.donate_argnames)
    assert (parts.function, parts.transform, chosen) == (step, None, expected)


def test_donations_keep_their_numbers_among_several_statics() -> None:
    parts = compat.jitted_parts(jax.jit(lambda a, b, c, d, e: c, static_argnums=(0, 3), donate_argnums=(1, 4)))
    assert parts is not None
    assert parts.donate_argnums == (1, 4)


@pytest.mark.parametrize("fn", [step, max, jnp.sin, functools.partial(step), 3, jax.vmap(step), jax.grad(step)])
def test_what_jit_did_not_make_has_no_parts(fn: object) -> None:
    is_jitted = fn is jnp.sin  # JAX jits its own functions
    assert (compat.jitted_parts(fn) is not None) == is_jitted


def test_what_equinox_made_gives_its_function_and_transform() -> None:
    eqx = pytest.importorskip("equinox")
    parts = compat.jitted_parts(eqx.filter_jit(step, donate="all"))
    assert parts == compat.JittedParts(function=step, transform=eqx.filter_jit)


def test_what_nnx_made_gives_its_function_transform_and_statics() -> None:
    nnx = pytest.importorskip("flax.nnx")
    parts = compat.jitted_parts(nnx.jit(step, static_argnums=1))
    assert parts is not None
    assert (parts.function, parts.transform, parts.static_argnums) == (step, nnx.jit, (1,))


# --- tracers -----------------------------------------------------------------------------------------------------------


def test_a_tracer_is_known_from_a_value() -> None:
    assert while_tracing(compat.is_tracer, X)
    assert not any(map(compat.is_tracer, (X, jnp.ones(2), 1.0, None)))


def test_the_tracers_of_one_function_belong_to_one_trace() -> None:
    assert while_tracing(lambda x, y: compat.trace_of(x) is compat.trace_of(y + 1), X, X)
    assert compat.trace_of(X) is None


def test_the_inputs_of_a_trace_have_shapes_and_types() -> None:
    avals = while_tracing(lambda x, y: compat.input_avals(y["n"]), X, {"n": 3})
    assert [(aval.shape, str(aval.dtype)) for aval in avals] == [((3,), "float32"), ((), "int32")]


def test_a_tracer_of_vmap_wraps_that_of_jit() -> None:
    def inside(x: Any) -> Any:
        found: list[Any] = []
        jax.vmap(lambda one: noted(found, compat.outer_tracers(one), one))(x)
        return [outer is x for outer in found[0]]

    assert while_tracing(inside, X) == [True]
    assert while_tracing(compat.outer_tracers, X) == ()


def test_a_tracer_of_grad_wraps_that_of_jit() -> None:
    def inside(x: Any) -> Any:
        found: list[Any] = []
        jax.grad(lambda one: noted(found, compat.outer_tracers(one), one))(x)
        return any(outer is x for outer in found[0])

    assert while_tracing(inside, 1.0)


def test_a_tracer_comes_from_the_arguments_that_went_into_it() -> None:
    def inputs(x: Any, y: Any, z: Any) -> Any:
        origins = [compat.origin_of(x), compat.origin_of(x * 2 + z), compat.origin_of(lax.sin(y))]
        return [origin.inputs for origin in origins if origin is not None]

    assert while_tracing(inputs, X, X, X) == [(0,), (0, 2), (1,)]


def staged_constant(x: Any) -> Any:
    number = jnp.array([2, 3]).prod()
    return compat.origin_of(number)


def test_a_tracer_that_no_argument_went_into_comes_from_the_line_that_staged_it() -> None:
    origin = while_tracing(staged_constant, X)
    assert origin.inputs == ()
    assert set(origin.staged_at) == {line_of(staged_constant, 1)}


def test_a_tracer_of_another_transform_has_no_origin() -> None:
    found: list[Any] = []
    jax.vmap(lambda x: noted(found, compat.origin_of(x), x))(X)
    assert found == [None]


# --- traced programs ---------------------------------------------------------------------------------------------------


@jax.jit
def swap(x: Any, y: Any) -> Any:
    return lax.sin(y), x


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x, 0),
        (lambda x: lax.sin(lax.cos(x)), 2),
        (lambda x: swap(x, x), 2),
        (lambda x: lax.scan(lambda c, _: (lax.sin(c), None), x, length=4)[0], 2),
    ],
)
def test_equations_are_counted_with_those_of_nested_programs(fn: Callable[..., Any], expected: int) -> None:
    assert compat.count_equations(traced(fn, X)) == expected


def test_the_equations_of_all_branches_are_counted() -> None:
    def branch(x: Any) -> Any:
        return lax.cond(x[0] > 0, lax.sin, lambda y: lax.cos(lax.cos(y)), x)

    assert compat.count_equations(traced(branch, X)) >= 4


def test_nnx_s_traced_programs_are_counted_too() -> None:
    nnx = pytest.importorskip("flax.nnx")
    jitted = nnx.jit(lambda x: lax.sin(x) + 1)
    if not hasattr(jitted, "trace"):
        pytest.skip("this flax can't trace alone")
    program = jitted.trace(X)
    assert (compat.is_plain_traced(program), compat.count_equations(program)) == (False, 2)
    assert compat.is_plain_traced(traced(lax.sin, X))


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x, y: (x, 1.0, y), (True, False, True)),
        (lambda x, y: lax.sin(x), (True,)),
        (lambda x, y: (jnp.zeros(3), x.shape[0]), (False, False)),
        (lambda x, y: {"b": x, "a": np.ones(3)}, (False, True)),
        (lambda x, y: swap(jnp.zeros(3), y), (True, False)),
        (lambda x, y: swap(x, np.zeros(3)), (False, True)),
        (lambda x, y: lax.scan(lambda c, _: (c, c), x, length=2), (True, True)),
        (lambda x, y: lax.scan(lambda c, _: (c, c), 1.0, length=2), (False, False)),
        (lambda x, y: lax.cond(x[0] > 0, lambda: 1.0, lambda: 2.0), (True,)),
        (lambda x, y: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, y), (True,)),
        (lambda x, y: jax.vmap(jax.grad(lambda v: v * v))(x), (True,)),
        (lambda x, y: None, ()),
    ],
)
def test_outputs_that_an_argument_reaches_are_told_from_constants(
    fn: Callable[..., Any], expected: tuple[bool, ...]
) -> None:
    assert compat.dependent_outputs(traced(fn, X, X)) == expected


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x, y: x, (True, False)),
        (lambda x, y: x + 0 * y, (True, True)),
        (lambda x, y: swap(x, y)[0], (False, True)),
        (lambda x, y: x.shape[0], (False, False)),
        (lambda x, y: lax.cond(y[0] > 0, lax.sin, lax.cos, x), (True, True)),
        (lambda x, y: [jax.debug.print("{}", y), x][1], (True, True)),
    ],
)
def test_arguments_that_go_into_anything_are_told_from_the_rest(
    fn: Callable[..., Any], expected: tuple[bool, ...]
) -> None:
    assert compat.used_inputs(traced(fn, X, X)) == expected


def with_constant(x: Any, constant: Any) -> Any:
    y = x + 1
    return y * constant


def test_captured_arrays_are_found_with_the_line_that_uses_them() -> None:
    constant = jnp.arange(3.0)
    program = traced(lambda x: with_constant(x, constant), X)
    (found,) = compat.constants(program)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(constant))
    assert compat.constant_place(program, found) == line_of(with_constant, 2)


def test_a_program_without_captured_arrays_has_no_constants() -> None:
    program = traced(lambda x: x + 1, X)
    assert compat.constants(program) == ()
    assert compat.constant_place(program, X) is None


def test_a_traced_program_runs() -> None:
    constant = jnp.arange(3.0)
    (out,) = compat.run_program(traced(lambda x: with_constant(x, constant), X), [X])
    np.testing.assert_array_equal(out, [0, 2, 4])


def test_functions_that_are_jitted_already_are_found_with_their_share() -> None:
    def calls(x: Any) -> Any:
        a, b = swap(x, x)
        return a + b

    places = {name: (path, round(3 * share)) for name, path, share in compat.jitted_inside(traced(calls, X))}
    assert places["swap"] == (__file__, 2)


@pytest.mark.parametrize(
    ("fn", "steps"),
    [
        (lambda x: x, 0.0),
        (lambda x: lax.scan(lambda c, _: (c, None), x, length=7)[0], 7.0),
        (lambda x: lax.fori_loop(0, 5, lambda i, c: c + 1, x), 5.0),
        (lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x), float("inf")),
    ],
)
def test_the_longest_loop_is_known_where_its_length_is(fn: Callable[..., Any], steps: float) -> None:
    assert compat.longest_loop(traced(fn, X)) == steps


def test_the_same_function_gives_the_same_program_text() -> None:
    def text(factor: float) -> str:
        return compat.program_text(traced(lambda x: jax.pure_callback(lambda y: y, x, factor * x), X))

    assert text(2.0) == text(2.0)
    assert text(2.0) != text(3.0)


def calls_back(x: Any) -> Any:
    jax.debug.callback(lambda y: None, x)
    jax.pure_callback(lambda y: y, x, x)
    return x


def test_calls_back_into_python_are_found_with_their_lines() -> None:
    found = compat.callbacks(traced(calls_back, X))
    assert [(callback.place, callback.is_used) for callback in found] == [
        (line_of(calls_back, 1), True),
        (line_of(calls_back, 2), False),
    ]


def test_calls_back_within_nested_programs_are_found() -> None:
    program = traced(lambda x: lax.scan(lambda c, _: (calls_back(c), None), x, length=2)[0], X)
    assert len(compat.callbacks(program)) == 2


def test_weak_outputs_are_told_from_strong_ones() -> None:
    assert compat.out_weak_types(traced(lambda x: (1.0, x, jnp.float32(1)), X)) == (True, False, False)


# --- executables -------------------------------------------------------------------------------------------------------


def test_the_compiler_s_figures_are_read() -> None:
    cost = compat.cost_of(traced(lambda x: x * 2, X).lower().compile())
    assert (cost.argument_bytes, cost.output_bytes) in ((12, 12), (None, None))


@pytest.mark.parametrize("compiled", [None, 3, X])
def test_what_gives_no_figures_costs_nothing_and_fails_nothing(compiled: object) -> None:
    assert compat.cost_of(compiled) == Cost()


@pytest.mark.parametrize("said", [[{"flops": -1.0, "bytes accessed": 8.0}], {"flops": -1.0, "bytes accessed": 8.0}])
def test_a_figure_that_the_compiler_does_not_know_is_none(said: Any) -> None:
    class Executable:
        def cost_analysis(self) -> Any:
            return said

        def memory_analysis(self) -> None:
            return None

    assert compat.cost_of(Executable()) == Cost(bytes_accessed=8.0)


# --- what is put back --------------------------------------------------------------------------------------------------


def test_events_are_written_down_within_the_block_alone() -> None:
    with compat.recorded_events() as events:
        jax.jit(lambda x: lax.sin(x) + 1)(X)
    jax.jit(lambda x: lax.sin(x) + 2)(X)
    counts = [events.number(name) for name in (compat.TRACE_EVENT, compat.LOWER_EVENT, compat.COMPILE_EVENT)]
    assert counts[1:] == [1, 1]
    assert counts[0] >= 1


def test_events_of_nested_blocks_go_to_both() -> None:
    with compat.recorded_events() as outer, compat.recorded_events() as inner:
        jax.jit(lambda x: lax.sin(x) + 3)(X)
    assert outer == inner
    assert outer.last(compat.COMPILE_EVENT) > 0


def test_an_event_that_did_not_come_took_no_time() -> None:
    assert (compat.Events().last("never"), compat.Events().number("never")) == (0.0, 0)


def test_nothing_is_written_down_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), compat.recorded_events() as events:
        raise ZeroDivisionError
    jax.jit(lambda x: lax.sin(x) + 4)(X)
    assert events == compat.Events()


def test_tracebacks_are_filtered_again_also_after_an_error() -> None:
    before = jax.config.jax_traceback_filtering
    with compat.unfiltered_tracebacks():
        assert jax.config.jax_traceback_filtering == "off"
    with pytest.raises(ZeroDivisionError), compat.unfiltered_tracebacks():
        raise ZeroDivisionError
    assert jax.config.jax_traceback_filtering == before


def test_wide_types_are_on_within_the_block_alone() -> None:
    with compat.x64(enabled=True):
        assert (compat.x64_is_on(), str(jnp.ones(1).dtype)) == (True, "float64")
    with pytest.raises(ZeroDivisionError), compat.x64(enabled=True):
        raise ZeroDivisionError
    assert (compat.x64_is_on(), str(jnp.ones(1).dtype)) == (False, "float32")


def test_settings_that_were_changed_are_set_back_and_named() -> None:
    before = compat.configuration()
    jax.config.update("jax_debug_nans", True)  # type: ignore[no-untyped-call]  # noqa: FBT003  # JAX's own signature
    assert compat.restore_configuration(before) == {"jax_debug_nans": True}
    assert compat.configuration() == before


def test_settings_that_were_not_changed_are_left() -> None:
    assert compat.restore_configuration(compat.configuration()) == {}


def swallow(x: Any) -> Any:
    try:
        return x if x[0] > 0 else -x
    except jax.errors.TracerBoolConversionError:
        return x


def test_a_tracer_error_that_is_caught_is_written_down_with_its_stack() -> None:
    with compat.recorded_tracer_errors() as seen:
        jax.jit(swallow).trace(X)
    assert len(seen) == 1
    assert line_of(swallow, 2) in seen[0].stack
    assert seen[0].caught_at == line_of(swallow, 2)


def test_tracer_errors_are_as_before_after_the_block() -> None:
    made = jax.errors.TracerBoolConversionError.__init__
    with compat.recorded_tracer_errors() as seen:
        assert jax.errors.TracerBoolConversionError.__init__ is not made
    jax.jit(swallow).trace(X)
    assert (jax.errors.TracerBoolConversionError.__init__ is made, seen) == (True, [])


# --- modules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [X, 1.0, None, "a", step])
def test_what_is_no_module_is_left_alone(leaf: object) -> None:
    assert compat.module_state(leaf) is leaf
    assert compat.module_copy(leaf) is leaf


def test_a_module_that_is_no_pytree_gives_its_arrays_and_a_twin() -> None:
    nnx = pytest.importorskip("flax.nnx")
    module = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    if not jax.tree_util.all_leaves([module]):
        pytest.skip("this flax makes its modules pytrees")
    kind, state = compat.module_state(module)
    assert (kind, sorted(state), state["kernel"].shape) == (nnx.Linear, ["bias", "kernel"], (2, 3))
    assert compat.module_copy(module) is not module
