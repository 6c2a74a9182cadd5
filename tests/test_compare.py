"""Two results to the list of what differs: which leaves, by how much, and what tolerance would pass."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from pytest_jitcheck import compat
from pytest_jitcheck.compare import ATOL_SHARE, RTOL, Tolerance, compare, lowest_precision, same_bits
from pytest_jitcheck.report import Mismatch

DEFAULT = Tolerance()
FLOAT8 = [name for name in dir(jnp) if name.startswith(("float8_", "float4_"))]
FLOATS = ["float32", "float64", "float16", "bfloat16", *FLOAT8]
NARROW_INTEGERS = [name for name in ("int2", "uint2", "int4", "uint4") if hasattr(jnp, name)]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", *NARROW_INTEGERS]


def only(found: tuple[Mismatch, ...]) -> Mismatch:
    (mismatch,) = found
    return mismatch


def difference(eager: Any, compiled: Any, tolerance: Tolerance = DEFAULT, **options: Any) -> Mismatch:
    return only(compare(eager, compiled, tolerance, **options))


def kinds(eager: Any, compiled: Any, tolerance: Tolerance = DEFAULT, **options: Any) -> list[str]:
    return [mismatch.kind for mismatch in compare(eager, compiled, tolerance, **options)]


def agree(eager: Any, compiled: Any, tolerance: Tolerance = DEFAULT, **options: Any) -> bool:
    return compare(eager, compiled, tolerance, **options) == ()


def f32(values: Any) -> Any:
    return np.asarray(values, np.float32)


def c64(values: Any) -> Any:
    return np.asarray(values, np.complex64)


def array(values: Any, dtype: str) -> Any:
    return np.asarray(values).astype(jnp.dtype(dtype))


def after_jit(fn: Callable[..., Any], *args: Any, check_weak_type: bool = False) -> list[str]:
    """The kinds of mismatch between a function and itself under jit, with what is known of its trace."""
    traced = jax.jit(fn).trace(*args)
    return kinds(
        fn(*args),
        jax.jit(fn)(*args),
        check_weak_type=check_weak_type,
        depends=compat.dependent_outputs(traced),
    )


class Pair(NamedTuple):
    """A container that Python names."""

    left: Any
    right: Any


@functools.partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["activation"])
@dataclasses.dataclass
class Layer:
    """A container with a part that is no leaf."""

    weight: Any
    activation: Any = "relu"


@jax.tree_util.register_pytree_node_class
class Unkeyed:
    """A custom node that gives JAX no names."""

    def __init__(self, *children: Any) -> None:
        self.children = children

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return self.children, None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple[Any, ...]) -> Unkeyed:
        return cls(*children)


class Stubborn:
    """An object that can't be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        raise RuntimeError("no repr either")


# --- structure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eager", "compiled", "path", "ours", "theirs"),
    [
        ((1.0, 2.0), [1.0, 2.0], "", "tuple of 2", "list of 2"),
        ((1.0, 2.0), (1.0,), "", "tuple of 2", "tuple of 1"),
        ({"a": 1.0}, {"b": 1.0}, "", "dict with keys 'a'", "dict with keys 'b'"),
        ({}, {"b": 1.0}, "", "empty dict", "dict with keys 'b'"),
        ({"a": [1.0, (2.0,)]}, {"a": [1.0, 2.0]}, "['a'][1]", "tuple of 1", "float 2.0"),
        ((None, 1.0), (1.0, 1.0), "[0]", "None", "float 1.0"),
        ((1.0, None), (1.0, ()), "[1]", "None", "tuple of 0"),
        (Pair(1.0, 2.0), (1.0, 2.0), "", "Pair of 2", "tuple of 2"),
        ([Pair(1.0, {"a": 1})], [Pair(1.0, {"a": None})], "[0].right['a']", "int 1", "None"),
        (Layer([1.0]), Layer((1.0,)), ".weight", "list of 1", "tuple of 1"),
        (Unkeyed(1.0, [2.0]), Unkeyed(1.0, 2.0), "[<flat index 1>]", "list of 1", "float 2.0"),
        (np.zeros((2, 3), np.float32), [1.0], "", "float32[2,3]", "list of 1"),
    ],
)
def test_structures_are_told_apart_where_they_first_differ(
    eager: Any, compiled: Any, path: str, ours: str, theirs: str
) -> None:
    assert difference(eager, compiled) == Mismatch(path=path, kind="structure", eager=ours, compiled=theirs)


def test_another_order_of_an_ordered_dict_is_another_structure() -> None:
    one, other = collections.OrderedDict(a=1.0, b=2.0), collections.OrderedDict(b=2.0, a=1.0)
    assert difference(one, other).eager == "OrderedDict with keys 'a', 'b'"


def test_another_order_of_a_plain_dict_is_none() -> None:
    assert agree({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0})


def test_static_fields_are_part_of_the_structure() -> None:
    mismatch = difference({"layer": Layer(1.0, "relu")}, {"layer": Layer(1.0, "tanh")})
    assert mismatch == Mismatch(
        path="['layer']", kind="structure", eager="Layer with ('relu',)", compiled="Layer with ('tanh',)"
    )


@pytest.mark.parametrize("make", [lambda: lambda x: x, lambda: np.ones(3), object, lambda: [np.ones(2), {"a": None}]])
def test_a_static_field_that_each_run_makes_anew_is_the_same(make: Callable[[], Any]) -> None:
    assert agree(Layer(1.0, make()), Layer(1.0, make()))


def test_a_static_field_that_holds_other_numbers_is_another_structure() -> None:
    assert kinds(Layer(1.0, np.ones(3)), Layer(1.0, np.zeros(3))) == ["structure"]


def test_none_leaves_are_the_same() -> None:
    assert agree({"a": None, "b": (None, 1.0)}, {"a": None, "b": (None, 1.0)})


def test_the_path_of_the_result_itself_is_empty() -> None:
    assert difference(1.0, 2.0).path == ""


# --- modules of other libraries ----------------------------------------------------------------------------------------


def test_flax_struct_dataclasses_are_followed_by_name() -> None:
    struct = pytest.importorskip("flax.struct")

    class State:
        step: Any
        name: Any = struct.field(pytree_node=False, default="a")

    state: Any = struct.dataclass(State)
    assert difference(state(step=1.0), state(step=2.0)).path == ".step"
    assert kinds(state(step=1.0), state(step=1.0, name="b")) == ["structure"]


def test_equinox_modules_are_followed_by_name() -> None:
    eqx = pytest.importorskip("equinox")
    make = functools.partial(eqx.nn.MLP, 2, 1, 4, 1)
    one, other = make(key=jax.random.key(0)), make(key=jax.random.key(1))
    found = [mismatch.path for mismatch in compare(one, other, DEFAULT)]
    assert found == [".layers[0].weight", ".layers[0].bias", ".layers[1].weight", ".layers[1].bias"]


def test_an_equinox_module_made_twice_is_the_same() -> None:
    eqx = pytest.importorskip("equinox")
    make = functools.partial(eqx.nn.MLP, 2, 1, 4, 1, activation=lambda x: x)
    assert agree(make(key=jax.random.key(0)), make(key=jax.random.key(0)))


def test_an_nnx_module_made_twice_is_the_same() -> None:
    nnx = pytest.importorskip("flax.nnx")
    assert agree(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.Linear(2, 3, rngs=nnx.Rngs(0)))


def test_an_nnx_module_with_other_parameters_differs() -> None:
    nnx = pytest.importorskip("flax.nnx")
    found = compare(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.Linear(2, 3, rngs=nnx.Rngs(1)), DEFAULT)
    assert [mismatch.kind for mismatch in found] == ["value"]
    assert "kernel" in found[0].path


# --- shapes, dtypes, weak types ----------------------------------------------------------------------------------------


def test_shapes_are_told_apart_without_comparing_values() -> None:
    assert difference(jnp.zeros((2, 1)), jnp.zeros(2)) == Mismatch(
        path="", kind="shape", eager="(2, 1)", compiled="(2,)"
    )


def test_a_scalar_is_no_array_of_one() -> None:
    assert kinds(1.0, jnp.ones(1)) == ["shape"]


def test_dtypes_are_told_apart() -> None:
    assert difference(np.ones(2, np.float32), np.ones(2, np.float16)) == Mismatch(
        path="", kind="dtype", eager="float32", compiled="float16"
    )


def test_dtypes_are_left_alone_on_request() -> None:
    assert agree(np.ones(2, np.float32), np.ones(2, np.float16), check_dtype=False)


def test_a_leaf_that_differs_in_value_and_dtype_is_listed_for_both() -> None:
    assert kinds(f32([1.0]), np.array([2], np.int32)) == ["value", "dtype"]


@pytest.mark.parametrize("value", [True, 3, 2.5, 1 + 2j])
def test_a_python_scalar_agrees_with_what_jit_makes_of_it(value: Any) -> None:
    assert after_jit(lambda x: (value, x), 1.0, check_weak_type=True) == []


@pytest.mark.parametrize("value", [np.float64(0.1), np.int64(3), np.arange(3), np.array([0.1, 0.2]), np.uint64(7)])
def test_a_numpy_constant_that_no_argument_reaches_agrees_with_what_jit_makes_of_it(value: Any) -> None:
    assert after_jit(lambda x: (value, x), 1.0, check_weak_type=True) == []


def test_a_numpy_float64_that_an_argument_reaches_differs_in_dtype() -> None:
    assert kinds(np.float64(0.1), jnp.float32(0.1), depends=[True]) == ["dtype"]


def test_a_numpy_float64_is_held_to_what_float32_can_show() -> None:
    assert kinds(np.array([0.1, 1e-3]), jnp.array([0.1, 1e-3]), check_dtype=False) == []


@pytest.mark.parametrize(
    ("eager", "compiled", "expected"),
    [
        (1, jnp.float32(1.0), ("int", "float32")),
        (1.0, jnp.int32(1), ("float", "int32")),
        (True, jnp.int32(1), ("bool", "int32")),
        (1.0, jnp.complex64(1.0), ("float", "complex64")),
    ],
)
def test_a_python_scalar_of_another_kind_differs_in_dtype(eager: Any, compiled: Any, expected: tuple[str, str]) -> None:
    mismatch = difference(eager, compiled)
    assert (mismatch.kind, mismatch.eager, mismatch.compiled) == ("dtype", *expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8", "uint32", *NARROW_INTEGERS])
def test_a_python_scalar_has_a_kind_and_no_width(dtype: str) -> None:
    assert agree(1.0 if "float" in dtype else 1, jnp.asarray(1, dtype))


def test_weak_types_are_compared_on_request_alone() -> None:
    weak, strong = jax.jit(lambda: 1.0)(), jnp.float32(1.0)
    assert agree(weak, strong)
    assert difference(weak, strong, check_weak_type=True) == Mismatch(
        path="", kind="weak_type", eager="weak_type=True", compiled="weak_type=False"
    )


def test_a_numpy_scalar_is_strong() -> None:
    assert kinds(np.float64(1.0), jax.jit(lambda: 1.0)(), check_weak_type=True, check_dtype=False) == ["weak_type"]


# --- values: floats ----------------------------------------------------------------------------------------------------


def test_each_dtype_has_its_tolerance() -> None:
    missing = [name for name in FLOATS if name not in RTOL]
    assert missing == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_within_its_tolerance_passes(dtype: str) -> None:
    one = array([1.0, 2.0], dtype)
    assert agree(one, one.copy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
def test_a_float_beyond_its_tolerance_fails(dtype: str) -> None:
    rtol = RTOL[dtype.replace("complex64", "float32")]
    assert agree(array([1.0], dtype), array([1.0 + rtol / 2], dtype))
    assert kinds(array([1.0], dtype), array([1.0 + 3 * rtol], dtype)) == ["value"]


@pytest.mark.parametrize("dtype", [name for name in FLOAT8 if name != "float8_e8m0fnu"])
def test_a_small_float_of_another_sign_fails(dtype: str) -> None:
    mismatch = difference(array([1.0, 1.0], dtype), array([1.0, -1.0], dtype))
    assert (mismatch.index, mismatch.eager, mismatch.compiled, mismatch.max_rel) == ((1,), "1", "-1", 2.0)


def test_an_exponent_of_8_bits_fails_when_it_is_two_steps_off() -> None:
    if not hasattr(jnp, "float8_e8m0fnu"):
        pytest.skip("this JAX has no float8_e8m0fnu")
    mismatch = difference(array([1.0], "float8_e8m0fnu"), array([4.0], "float8_e8m0fnu"))
    assert (mismatch.compiled, mismatch.max_ulp) == ("4", 2)


@pytest.mark.parametrize("exponent", [-30, -20, -10, -3, 0, 3, 10, 20, 30])
def test_an_error_of_a_tenth_per_mille_in_float32_fails_at_any_magnitude(exponent: int) -> None:
    one = f32([10.0**exponent])
    assert kinds(one, (one.astype(np.float64) * (1 + 1e-4)).astype(np.float32)) == ["value"]


@given(st.floats(1e-30, 1e30), st.sampled_from([-1.0, 1.0]))
@settings(max_examples=50, deadline=None)
def test_no_magnitude_hides_an_error_of_a_tenth_per_mille(magnitude: float, sign: float) -> None:
    one = f32([sign * magnitude])
    other = (one.astype(np.float64) * (1 + 1.1e-4)).astype(np.float32)
    assert kinds(one, other) == ["value"]


def test_small_elements_are_held_to_a_share_of_the_largest() -> None:
    step = ATOL_SHARE * RTOL["float32"]
    assert agree(f32([1.0, 0.0]), f32([1.0, 0.9 * step]))
    assert kinds(f32([1.0, 0.0]), f32([1.0, 1.1 * step])) == ["value"]


def test_the_lowest_precision_that_went_in_decides() -> None:
    one, other = f32([1.0]), f32([1.0 + RTOL["bfloat16"] / 2])
    assert kinds(one, other) == ["value"]
    assert agree(one, other, Tolerance(precision="bfloat16"))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([], None),
        (["int32", "bool"], None),
        (["float32", "bfloat16", "int32"], "bfloat16"),
        (["complex64", "float64"], "float32"),
        (["complex128"], "float64"),
    ],
)
def test_the_lowest_precision_is_found_among_the_inputs(dtypes: list[str], expected: str | None) -> None:
    assert lowest_precision([jnp.dtype(name) for name in dtypes]) == expected


def test_keys_have_no_precision() -> None:
    assert lowest_precision([jax.random.key(0).dtype, np.dtype(np.float32)]) == "float32"


def test_a_tolerance_of_zero_is_a_tolerance() -> None:
    one = f32([1.0])
    assert agree(one, np.nextafter(one, f32(2)))
    assert kinds(one, np.nextafter(one, f32(2)), Tolerance(rtol=0.0, atol=0.0)) == ["value"]


def test_negative_zero_is_zero() -> None:
    assert agree(f32([0.0, -0.0]), f32([-0.0, 0.0]), Tolerance(rtol=0.0, atol=0.0))


def test_a_value_against_zero_passes_with_no_relative_tolerance() -> None:
    mismatch = difference(np.zeros(3, np.float32), f32([0, 1e-30, 0]))
    assert (mismatch.passing_rtol, mismatch.passing_atol, mismatch.max_rel) == (None, 1.1e-30, None)


@pytest.mark.parametrize("smallest", [f32(1e-45), np.float64(5e-324)])
def test_subnormal_numbers_are_compared(smallest: Any) -> None:
    mismatch = difference(np.array([smallest]), np.array([10 * smallest]))
    assert (mismatch.max_ulp, mismatch.mismatched) == (9, 1)
    assert mismatch.passing_atol is not None
    assert mismatch.passing_atol >= 9 * float(smallest)


def test_the_largest_numbers_are_compared() -> None:
    largest = np.finfo(np.float64).max
    mismatch = difference(np.array([largest]), np.array([-largest]))
    assert (mismatch.max_abs, mismatch.passing_rtol, mismatch.passing_atol) == (None, None, None)


def test_complex_numbers_are_compared_by_distance() -> None:
    mismatch = difference(c64([3 + 4j]), c64([3 + 5j]))
    assert (mismatch.max_abs, mismatch.max_rel, mismatch.max_ulp) == (1.0, 0.2, None)
    assert (mismatch.eager, mismatch.compiled) == ("3+4j", "3+5j")


# --- values: NaN and infinities ----------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e5m2"])
def test_nan_and_infinities_in_the_same_places_pass(dtype: str) -> None:
    one = array([NAN, INF, -INF, 1.0], dtype)
    assert agree(one, array([NAN, INF, -INF, 1.0], dtype))


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [([NAN, 1], [1, NAN]), ([INF], [-INF]), ([INF], [NAN]), ([1.0], [INF]), ([NAN], [0.0]), ([INF], [3e38])],
)
def test_nan_and_infinities_elsewhere_fail_and_no_tolerance_passes(eager: Any, compiled: Any) -> None:
    mismatch = difference(f32(eager), f32(compiled))
    assert (mismatch.max_abs, mismatch.passing_rtol, mismatch.passing_atol) == (None, None, None)
    assert kinds(f32(eager), f32(compiled), Tolerance(rtol=1e30, atol=1e30)) == ["value"]


def test_nan_is_unlike_itself_on_request() -> None:
    one = f32([NAN, 1.0])
    mismatch = difference(one, one, Tolerance(equal_nan=False))
    assert (mismatch.mismatched, mismatch.index, mismatch.eager) == (1, (0,), "nan")


def test_infinities_in_place_do_not_hide_the_size_of_an_error_elsewhere() -> None:
    mismatch = difference(f32([INF, NAN, 2.0]), f32([INF, NAN, 2.5]))
    assert (mismatch.max_abs, mismatch.max_rel, mismatch.index) == (0.5, 0.25, (2,))
    assert mismatch.passing_atol == 0.5


def test_a_nan_is_worse_than_any_number() -> None:
    mismatch = difference(f32([1.0, 1.0]), f32([1e30, NAN]))
    assert (mismatch.index, mismatch.mismatched, mismatch.compiled) == ((1,), 2, "nan")


@pytest.mark.parametrize(
    ("eager", "compiled", "is_same"),
    [
        (complex(INF, NAN), complex(INF, NAN), True),
        (complex(NAN, 1.0), complex(NAN, 1.0 + 1e-7), True),
        (complex(INF, 1.0), complex(INF, 1.1), False),
        (complex(INF, 1.0), complex(1.0, INF), False),
        (complex(INF, 0.0), complex(-INF, 0.0), False),
    ],
)
def test_complex_numbers_that_are_not_finite_are_compared_part_by_part(
    eager: complex, compiled: complex, *, is_same: bool
) -> None:
    assert agree(c64([eager]), c64([compiled])) == is_same


# --- values: exact ones ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact_whatever_the_tolerance(dtype: str) -> None:
    mismatch = difference(array([0, 1], dtype), array([0, 0], dtype), Tolerance(rtol=1.0, atol=1.0))
    assert (mismatch.index, mismatch.eager, mismatch.compiled, mismatch.max_abs) == ((1,), "1", "0", 1.0)
    assert (mismatch.rtol, mismatch.atol, mismatch.passing_rtol, mismatch.passing_atol) == (0.0, 0.0, None, None)


def test_bools_are_exact_and_shown_as_such() -> None:
    mismatch = difference(np.array([True, True]), np.array([True, False]))
    assert (mismatch.eager, mismatch.compiled, mismatch.mismatched, mismatch.max_ulp) == ("True", "False", 1, None)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_extremes_of_64_bits_are_exact(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    assert agree(np.array([limits.min, limits.max], dtype), np.array([limits.min, limits.max], dtype))
    mismatch = difference(np.array([limits.min, limits.max], dtype), np.array([limits.min, limits.max - 1], dtype))
    assert (mismatch.index, mismatch.max_abs, mismatch.eager) == ((1,), 1.0, str(limits.max))


def test_signed_and_unsigned_extremes_are_told_apart() -> None:
    one, other = np.array([-1], np.int64), np.array([2**64 - 1], np.uint64)
    assert difference(one, other, check_dtype=False).max_abs == 2.0**64


def test_the_smallest_integer_has_a_magnitude() -> None:
    assert difference(np.array([-128], np.int8), np.array([127], np.int8)).max_rel == 255 / 128


def test_the_worst_integer_is_the_furthest() -> None:
    assert difference(np.array([5, 5, 5]), np.array([15, 500, 6])).index == (1,)


def test_python_integers_beyond_64_bits_are_exact() -> None:
    assert agree(2**70, 2**70)
    assert difference(2**70, 2**70 + 1).eager == f"int {2**70}"
    assert kinds(10**5000, 10**5000 + 1) == ["structure"]


# --- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_keys_are_compared_by_their_data(make: Callable[[int], Any]) -> None:
    assert agree(make(7), make(7))
    mismatch = difference(make(7), make(8))
    assert (mismatch.kind, mismatch.eager, mismatch.compiled, mismatch.index) == ("value", "7", "8", (1,))


def test_arrays_of_keys_are_compared() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    assert agree({"keys": keys}, {"keys": keys})
    assert difference({"keys": keys}, {"keys": keys[::-1]}).path == "['keys']"


@pytest.mark.parametrize(
    ("eager", "compiled", "ours", "theirs"),
    [
        (jax.random.key(0), jax.random.PRNGKey(0), "key<fry>", "uint32"),
        (jax.random.PRNGKey(0), jax.random.key(0), "uint32", "key<fry>"),
        (jax.random.key(0), jax.random.key(0, impl="rbg"), "key<fry>", "key<rbg>"),
    ],
)
def test_keys_of_another_kind_differ_in_dtype(eager: Any, compiled: Any, ours: str, theirs: str) -> None:
    assert difference(eager, compiled) == Mismatch(path="", kind="dtype", eager=ours, compiled=theirs)


# --- leaves that are no arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: "a", lambda: np.array(["a"]), lambda: np.array([None, 1]), object])
def test_what_is_no_array_is_the_same_when_it_is_equal(make: Callable[[], Any]) -> None:
    assert agree([make()], [make()])


@pytest.mark.parametrize(
    ("eager", "compiled", "ours", "theirs"),
    [
        ("a", "b", "str 'a'", "str 'b'"),
        ("a", f32(1), "str 'a'", "float32[]"),
        (len, max, "builtin_function_or_method <built-in function len>", None),
    ],
)
def test_what_is_no_array_differs_in_structure(eager: Any, compiled: Any, ours: str, theirs: str | None) -> None:
    mismatch = difference([eager], [compiled])
    assert (mismatch.kind, mismatch.path, mismatch.eager) == ("structure", "[0]", ours)
    assert theirs in (None, mismatch.compiled)


def test_an_object_whose_eq_raises_is_only_like_itself() -> None:
    one = Stubborn()
    assert agree(one, one)
    mismatch = difference(one, Stubborn())
    assert mismatch.eager == "Stubborn <Stubborn, whose repr raised RuntimeError>"


def test_a_long_value_is_cut() -> None:
    assert difference("a" * 1000, "b").eager == "str '" + "a" * 114 + "…"


# --- what is reported --------------------------------------------------------------------------------------------------


def test_every_differing_leaf_is_listed_with_its_path_in_the_order_of_the_tree() -> None:
    one = {"b": f32([1.0]), "a": (np.int32(1), f32(2.0)), "c": f32(0)}
    other = {"b": f32([2.0]), "a": (np.int32(2), f32(2.0)), "c": np.zeros(1, np.float32)}
    found = [(mismatch.path, mismatch.kind) for mismatch in compare(one, other, DEFAULT)]
    assert found == [("['a'][0]", "value"), ("['b']", "value"), ("['c']", "shape")]


def test_a_mismatch_tells_all_about_the_leaf() -> None:
    one = f32([[1.0, 2.0], [4.0, 8.0]])
    other = f32([[1.0, 2.5], [4.0, 9.0]])
    assert difference({"w": one}, {"w": other}, Tolerance(rtol=0.1, atol=0.01)) == Mismatch(
        path="['w']",
        kind="value",
        eager="2",
        compiled="2.5",
        mismatched=2,
        size=4,
        max_abs=1.0,
        max_rel=0.25,
        max_ulp=2097152,
        index=(0, 1),
        rtol=0.1,
        atol=0.01,
        passing_rtol=0.25,
        passing_atol=1.0,
    )


def test_a_scalar_has_the_empty_index() -> None:
    mismatch = difference(f32(1.0), f32(2.0))
    assert (mismatch.index, mismatch.size, mismatch.mismatched) == ((), 1, 1)


def test_floats_are_shown_with_the_digits_that_tell_them_apart() -> None:
    one = np.array([0.1])
    mismatch = difference(one, np.nextafter(one, 1), Tolerance(rtol=0.0, atol=0.0))
    assert (mismatch.eager, mismatch.compiled) == ("0.10000000000000001", "0.10000000000000002")


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 0)])
def test_arrays_without_elements_agree_in_value_but_not_in_dtype(shape: tuple[int, ...]) -> None:
    assert agree(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
    assert kinds(np.zeros(shape, np.float32), np.zeros(shape, np.int32)) == ["dtype"]


def test_a_large_array_is_compared_element_by_element() -> None:
    one = np.linspace(1, 2, 1_000_000, dtype=np.float32).reshape(1000, 1000)
    other = one.copy()
    other[123, 456] += f32(0.5)
    mismatch = difference(one, other)
    assert (mismatch.mismatched, mismatch.index, mismatch.size) == (1, (123, 456), 1_000_000)


def test_arrays_of_any_memory_order_are_compared() -> None:
    one = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert agree(np.asfortranarray(one), one)
    assert difference(one[::-1, ::2], one[:, ::2]).index == (2, 0)


def test_numpy_extended_precision_has_no_ulp() -> None:
    assert difference(np.array([1.0], np.longdouble), np.array([2.0], np.longdouble)).max_ulp is None


# --- properties --------------------------------------------------------------------------------------------------------

ANY_FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e-45, 1e-38, 3e38, NAN, INF, -INF])
FINITE = st.floats(-(2.0**60), 2.0**60, width=32) | st.sampled_from([0.0, -0.0, 1e-45, 1e-30, 1e30])
TOLERANCES = st.none() | st.sampled_from([0.0, 1e-7, 1e-3, 0.3])


def floats(elements: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=2, max_side=4), elements=elements)


@given(floats(ANY_FLOATS), TOLERANCES, TOLERANCES)
@settings(max_examples=50, deadline=None)
def test_an_array_agrees_with_itself(one: Any, rtol: float | None, atol: float | None) -> None:
    assert agree(one, one.copy(), Tolerance(rtol=rtol, atol=atol))


LEAVES = floats(ANY_FLOATS) | st.integers() | st.floats() | st.none() | st.booleans() | st.text(max_size=3)
TREES = st.recursive(
    LEAVES,
    lambda nodes: st.lists(nodes, max_size=3) | st.tuples(nodes) | st.dictionaries(st.text(max_size=2), nodes),
    max_leaves=8,
)


@given(TREES)
@settings(max_examples=50, deadline=None)
def test_a_tree_agrees_with_itself(tree: Any) -> None:
    assert same_bits(tree, jax.tree_util.tree_map(lambda leaf: leaf, tree))


@st.composite
def near_and_far(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two arrays of one shape, of which some elements are near each other and some are not."""
    one = draw(floats(FINITE))
    factors = draw(hnp.arrays(np.float64, one.shape, elements=st.sampled_from([1.0, 1 + 1e-6, 1.001, -1.0, 0.0, 3.7])))
    return one, (one * factors).astype(np.float32)


@given(near_and_far(), TOLERANCES, TOLERANCES)
@settings(max_examples=80, deadline=None)
def test_the_relative_tolerance_that_is_said_to_pass_does(
    pair: tuple[Any, Any], rtol: float | None, atol: float | None
) -> None:
    for mismatch in compare(*pair, Tolerance(rtol=rtol, atol=atol)):
        if mismatch.passing_rtol is not None:
            assert agree(*pair, Tolerance(rtol=mismatch.passing_rtol, atol=atol))


@given(near_and_far(), TOLERANCES, TOLERANCES)
@settings(max_examples=80, deadline=None)
def test_the_absolute_tolerance_that_is_said_to_pass_does_alone(
    pair: tuple[Any, Any], rtol: float | None, atol: float | None
) -> None:
    for mismatch in compare(*pair, Tolerance(rtol=rtol, atol=atol)):
        assert mismatch.passing_atol is not None
        assert agree(*pair, Tolerance(rtol=0.0, atol=mismatch.passing_atol))
        assert agree(*pair, Tolerance(rtol=rtol, atol=mismatch.passing_atol))


@given(near_and_far())
@settings(max_examples=50, deadline=None)
def test_a_tolerance_of_nine_tenths_of_the_one_that_passes_does_not(pair: tuple[Any, Any]) -> None:
    for mismatch in compare(*pair, Tolerance(rtol=0.0, atol=0.0)):
        assert mismatch.passing_atol is not None
        assert not agree(*pair, Tolerance(rtol=0.0, atol=0.9 * mismatch.passing_atol)) or mismatch.passing_atol < 1e-322


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
@given(start=st.floats(-8.0, 8.0, width=16), steps=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_the_distance_in_ulp_is_the_number_of_steps_to_the_next_float(dtype: Any, start: float, steps: int) -> None:
    one = np.array([start], dtype)
    other = one
    for _ in range(steps):
        other = np.nextafter(other, np.array([448], dtype))
    expected = steps if one[0] else (steps, steps + 1)
    assert difference(one, other, Tolerance(rtol=0.0, atol=0.0)).max_ulp in np.atleast_1d(expected)


# --- several devices ---------------------------------------------------------------------------------------------------

SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from pytest_jitcheck.compare import Tolerance, compare

mesh = Mesh(np.array(jax.devices()), ("rows",))
place = lambda array: jax.device_put(array, NamedSharding(mesh, PartitionSpec("rows")))
one = place(jnp.arange(8.0))
assert len(one.sharding.device_set) == 4
assert compare(one, jnp.arange(8.0), Tolerance()) == ()
(mismatch,) = compare(one, place(jnp.arange(8.0).at[5].set(9.0)), Tolerance())
print(mismatch.index, mismatch.eager, mismatch.compiled)
"""


def test_arrays_spread_over_devices_are_compared() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env={"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("(5,) 5 9\n", 0), ran.stderr
