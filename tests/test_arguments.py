"""One call: which arguments are static, what they are called, how they are shown, and copies that nothing shares."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pytest_jitcheck.arguments import Call, children, describe, function_name, key_text, map_leaves, signature_of
from pytest_jitcheck.compat import is_tracer, jitted_parts, x64
from pytest_jitcheck.report import Argument
from pytest_jitcheck.spec import CheckSpec, SpecError

CHOICES = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


def bind(fn: Callable[..., Any], *args: Any, options: Mapping[str, Any] | None = None, **kwargs: Any) -> Call:
    return Call.bind(fn, CheckSpec.from_keywords(options or {}), args, kwargs)[0]


def statics(call: Call) -> list[str]:
    return [argument.name for argument in call.bound() if argument.static]


def refusal(fn: Callable[..., Any], **options: Any) -> str:
    with pytest.raises(SpecError) as caught:
        bind(fn, options=options)
    return str(caught.value)


def two(x: Any, n: Any) -> Any:
    return x, n


def defaults(x: Any, n: Any = 3, m: Any = 4) -> Any:
    return x, n, m


def by_keyword(x: Any, *, n: Any = 3) -> Any:
    return x, n


def by_position(x: Any, n: Any, /) -> Any:
    return x, n


def many(x: Any, *rest: Any, n: Any = 3, **more: Any) -> Any:
    return x, rest, n, more


def any_keywords(x: Any, /, n: Any = 1, **more: Any) -> Any:
    return x, n, more


def nothing() -> int:
    return 0


class Scale:
    """A callable with a method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any, n: Any = 1) -> Any:
        return self.factor * x * n

    def method(self, x: Any, n: Any = 1) -> Any:
        return self.factor * x * n


class Point(NamedTuple):
    """A container that Python names."""

    x: Any
    y: Any


@functools.partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["name"])
@dataclasses.dataclass
class Layer:
    """A container with a part that is no leaf."""

    weight: Any
    name: str = "dense"


@jax.tree_util.register_pytree_node_class
class Derived:
    """A custom node that makes its children when it is asked for them."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return ([np.array(part) for part in self.parts], [float(self.parts[0])]), None

    @classmethod
    def tree_unflatten(cls, aux: None, nodes: tuple[Any, ...]) -> Derived:
        return cls(*nodes[0])


# --- which arguments are static ----------------------------------------------------------------------------------------

FUNCTIONS = [two, defaults, by_keyword, by_position, many, any_keywords, nothing, Scale(2.0), Scale(2.0).method]
OPTIONS: list[dict[str, Any]] = [
    {},
    *({"static_argnums": number} for number in (0, 1, 2, 5, -1, -2, -3, -6, (0, 1), (-1, 0), ())),
    *({"static_argnames": names} for names in ("x", "n", "m", "rest", "more", "other", ("x", "n"), ())),
    {"static_argnums": 0, "static_argnames": "n"},
    {"static_argnums": 1, "static_argnames": "x"},
    {"static_argnums": (), "static_argnames": "n"},
    {"donate_argnums": 0},
    {"donate_argnums": -1},
    {"donate_argnames": "x"},
    {"donate_argnames": "other"},
    {"static_argnames": "n", "donate_argnums": 0},
]


def named(case: object) -> str:
    return function_name(case) if callable(case) else str(case)


def jax_takes(fn: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    try:
        jax.jit(fn, **options)
    except ValueError:
        return False
    return True


def we_take(fn: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    try:
        bind(fn, options=options)
    except SpecError:
        return False
    return True


@pytest.mark.parametrize("fn", FUNCTIONS, ids=named)
def test_what_jax_refuses_is_refused_and_nothing_else(fn: Callable[..., Any]) -> None:
    assert [options for options in OPTIONS if we_take(fn, options) != jax_takes(fn, options)] == []


def jax_infers(fn: Callable[..., Any], spec: CheckSpec) -> tuple[set[int], set[str]]:
    parts = jitted_parts(jax.jit(fn, **{name: value for name, value in spec.said().items() if name in CHOICES}))
    assert parts is not None
    return set(parts.static_argnums), set(parts.static_argnames)


@pytest.mark.parametrize("fn", FUNCTIONS, ids=named)
def test_what_is_inferred_is_what_jax_infers(fn: Callable[..., Any]) -> None:
    for options in OPTIONS:
        if jax_takes(fn, options):
            call, spec = Call.bind(fn, CheckSpec.from_keywords(options), (), {})
            assert (set(call.statics.argnums), set(call.statics.argnames)) == jax_infers(fn, spec), options


CALLS: list[tuple[Callable[..., Any], dict[str, Any], tuple[Any, ...], dict[str, Any]]] = [
    (two, {"static_argnums": 1}, (1.0, 2), {}),
    (two, {"static_argnums": 1}, (1.0,), {"n": 2}),
    (two, {"static_argnames": "n"}, (1.0, 2), {}),
    (two, {"static_argnums": -1}, (1.0, 2), {}),
    (two, {"static_argnums": (0, 1)}, (1.0, 2), {}),
    (defaults, {"static_argnums": (1, 2)}, (1.0,), {}),
    (defaults, {"static_argnums": -1}, (1.0, 2), {}),
    (defaults, {"static_argnums": -1}, (1.0,), {"m": 2}),
    (defaults, {"static_argnames": ("n", "m")}, (1.0, 2), {"m": 3}),
    (by_keyword, {"static_argnames": "n"}, (1.0,), {"n": 2}),
    (by_position, {"static_argnums": 1}, (1.0, 2), {}),
    (many, {"static_argnums": (1, 3)}, (1.0, 2, 3.0, 4), {}),
    (many, {"static_argnums": -1}, (1.0, 2, 3.0, 4), {}),
    (many, {"static_argnames": ("n", "other")}, (1.0, 2.0), {"n": 3, "other": 4, "third": 5.0}),
    (any_keywords, {"static_argnames": "other"}, (1.0, 2), {"other": 4}),
    (Scale(2.0), {"static_argnames": "n"}, (1.0, 2), {}),
    (Scale(2.0).method, {"static_argnums": 1}, (1.0, 2), {}),
]


@pytest.mark.parametrize(("fn", "options", "args", "kwargs"), CALLS, ids=named)
def test_what_is_static_is_what_jax_does_not_trace(
    fn: Callable[..., Any], options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    is_traced: dict[int | str, bool] = {}

    def spy(*args: Any, **kwargs: Any) -> int:
        passed: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        is_traced.update({key: is_tracer(value) for key, value in passed})
        return 0

    call, spec = Call.bind(fn, CheckSpec.from_keywords(options), args, kwargs)
    functools.update_wrapper(spy, fn, updated=())
    jax.jit(spy, **spec.said()).trace(*args, **kwargs)
    assert is_traced == {argument.key: not argument.static for argument in call.bound()}


@pytest.mark.parametrize(
    ("fn", "options", "text"),
    [
        (
            two,
            {"static_argnames": "m"},
            "static_argnames=('m',): the function has no argument 'm'. It takes: x, n.",
        ),
        (
            two,
            {"donate_argnums": 2},
            "donate_argnums=(2,): 2 is out of range. The function's positional arguments, counted from 0, are 0: x, 1: n.",
        ),
        (
            two,
            {"static_argnums": (-1, -3)},
            "static_argnums=(-1, -3): -3 is out of range. The function's positional arguments, counted from 0, are 0: x, 1: n.",
        ),
        (
            any_keywords,
            {"static_argnames": "x"},
            "static_argnames=('x',): 'x' is positional-only or a *parameter; use static_argnums.",
        ),
    ],
)
def test_a_choice_that_the_function_lacks_is_refused_in_its_words(
    fn: Callable[..., Any], options: dict[str, Any], text: str
) -> None:
    assert refusal(fn, **options) == text


def test_a_function_without_a_signature_is_taken_at_its_callers_word() -> None:
    assert signature_of(max) is None
    call = bind(max, 1, 2, options={"static_argnums": (1, 7)})
    assert [(argument.name, argument.static) for argument in call.bound()] == [("args[0]", False), ("args[1]", True)]


# --- functions that something has jitted already -----------------------------------------------------------------------


def test_a_jitted_function_is_checked_without_its_jit() -> None:
    call = bind(jax.jit(two), 1, 2)
    assert call.fn is two


@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": -1}])
def test_a_jitted_function_keeps_its_statics(options: dict[str, Any]) -> None:
    call = bind(functools.partial(jax.jit, **options)(two), 1, 2)
    assert statics(call) == ["n"]


def test_a_jitted_function_keeps_its_donations() -> None:
    call = bind(jax.jit(two, donate_argnums=0), 1, 2)
    assert (call.donated.argnums, call.donated.argnames) == ((0,), ("x",))


def test_the_check_s_own_choice_beats_that_of_the_jitted_function() -> None:
    call = bind(jax.jit(two, static_argnums=1), 1, 2, options={"static_argnums": 0})
    assert 0 in call.statics.argnums
    assert 1 not in call.statics.argnums


def test_a_partial_of_jit_says_what_is_static_and_donated() -> None:
    jit = functools.partial(jax.jit, static_argnames="n", donate_argnums=(0,))
    call = bind(two, 1, 2, options={"jit": functools.partial(jit, donate_argnums=())})
    assert (statics(call), call.donated.argnums) == (["n"], ())


def test_a_partial_of_jit_with_a_bad_choice_is_refused() -> None:
    assert refusal(two, jit=functools.partial(jax.jit, static_argnames="m")).endswith("It takes: x, n.")


def test_the_check_s_own_choice_beats_that_of_the_transform() -> None:
    call = bind(two, 1, 2, options={"jit": functools.partial(jax.jit, static_argnums=0), "static_argnums": 1})
    assert statics(call) == ["n"]


def test_a_function_that_equinox_jitted_is_checked_with_its_filter_jit() -> None:
    eqx = pytest.importorskip("equinox")
    call, spec = Call.bind(eqx.filter_jit(two), CheckSpec(), (1, 2), {})
    assert (call.fn, spec.jit) == (two, eqx.filter_jit)


def test_a_function_that_nnx_jitted_is_checked_with_its_jit_and_statics() -> None:
    nnx = pytest.importorskip("flax.nnx")
    call, spec = Call.bind(nnx.jit(two, static_argnums=1), CheckSpec(), (1, 2), {})
    assert (call.fn, spec.jit, statics(call)) == (two, nnx.jit, ["n"])


def test_a_filter_jit_that_donates_uses_up_every_argument() -> None:
    eqx = pytest.importorskip("equinox")
    call = bind(two, 1, n=2, options={"jit": functools.partial(eqx.filter_jit, donate="all")})
    assert (call.donated.argnums, call.donated.argnames) == ((0,), ("n",))


# --- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "names"),
    [
        (two, (1, 2), {}, ["x", "n"]),
        (two, (), {"n": 1, "x": 2}, ["n", "x"]),
        (many, (1, 2, 3), {"n": 4, "z": 5}, ["x", "rest[0]", "rest[1]", "n", "z"]),
        (by_position, (1, 2), {}, ["x", "n"]),
        (functools.partial(two, 1), (2,), {}, ["n"]),
        (functools.partial(two, n=1), (2,), {}, ["x"]),
        (Scale(1.0), (1, 2), {}, ["x", "n"]),
        (Scale(1.0).method, (1,), {"n": 2}, ["x", "n"]),
        (max, (1, 2), {}, ["args[0]", "args[1]"]),
        (nothing, (), {}, []),
    ],
    ids=named,
)
def test_arguments_have_the_names_of_the_signature(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
) -> None:
    assert [argument.name for argument in bind(fn, *args, **kwargs).bound()] == names


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (two, "two"),
        (Scale(1.0).method, "Scale.method"),
        (Scale(1.0), "Scale"),
        (functools.partial(functools.partial(two, 1), 2), "two"),
        (functools.partial(Scale(1.0), 1), "Scale"),
        (jax.jit(two), "two"),
        (max, "max"),
    ],
)
def test_a_callable_has_the_name_of_what_it_calls(fn: Callable[..., Any], name: str) -> None:
    assert bind(fn).name == name


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"w": 1}, ["w"]),
        ([5], ["0"]),
        (Layer(1), ["weight"]),
        (Point(1, 2), ["x", "y"]),
        (Derived(1), ["0", "1"]),
    ],
)
def test_the_parts_of_a_path_have_words(tree: Any, words: list[str]) -> None:
    nodes = children(tree)
    assert nodes is not None
    assert [key_text(key) for key, _ in nodes] == words


@pytest.mark.parametrize("leaf", [1, "a", np.ones(2), jnp.ones(2), two, object()])
def test_a_leaf_has_no_children(leaf: Any) -> None:
    assert children(leaf) is None


@pytest.mark.parametrize("node", [(), [], {}, None])
def test_an_empty_node_has_children_and_they_are_none(node: Any) -> None:
    assert children(node) == []


# --- how they are shown ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (jnp.ones(10), "float32[10]"),
        (np.ones((2, 3)), "float32[2,3]"),
        (np.float16(1), "float16[]"),
        (jnp.zeros((0, 4), jnp.bfloat16), "bfloat16[0,4]"),
        (jnp.zeros(2, jnp.int4), "int4[2]"),
        (True, "bool[]"),
        (3, "int32[]"),
        (2.5, "float32[]"),
        (1j, "complex64[]"),
        (jax.random.key(0), "key<fry>[]"),
        (jax.random.PRNGKey(0), "uint32[2]"),
        (None, "None"),
        ("adam", "str"),
        (np.array(["a"]), "ndarray"),
        (two, "function"),
        ((), "()"),
        ((1,), "(int32[],)"),
        ([1, (2.0, None)], "[int32[], (float32[], None)]"),
        ({"b": 1, "a": {"c": 2.0}}, "{'b': int32[], 'a': {'c': float32[]}}"),
        ({"a": 1, 2: 3}, "{'a': int32[], 2: int32[]}"),
        (Point(1, [2.0]), "Point(x=int32[], y=[float32[]])"),
        (Layer(jnp.ones(3)), "Layer(weight=float32[3])"),
        (collections.OrderedDict(b=1), "{'b': int32[]}"),
    ],
)
def test_a_traced_value_is_shown_by_its_structure_and_types(value: Any, text: str) -> None:
    assert describe(value) == text


def test_wide_types_are_shown_as_they_are_traced() -> None:
    with x64(enabled=True):
        assert (describe(np.ones(2)), describe(3)) == ("float64[2]", "int64[]")


def test_an_nnx_module_is_shown_by_its_parameters() -> None:
    nnx = pytest.importorskip("flax.nnx")
    text = describe(nnx.Linear(2, 3, rngs=nnx.Rngs(0)))
    assert text.startswith("Linear(bias=")
    assert "float32[2,3]" in text


def test_the_report_shows_static_values_and_traced_types() -> None:
    call = bind(two, jnp.ones(3), "fast", options={"static_argnames": "n"})
    assert call.describe() == (
        Argument(name="x", aval="float32[3]"),
        Argument(name="n", value="'fast'", static=True),
    )


def test_a_repr_that_raises_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    (argument,) = bind(lambda n: n, Broken(), options={"static_argnums": 0}).describe()
    assert argument.value == "<Broken, whose repr raised RuntimeError>"


def test_long_texts_are_cut() -> None:
    (argument,) = bind(lambda n: n, list(range(1000))).describe()
    assert argument.aval == "[" + "int32[], " * 26 + "int3…"


# --- copies ------------------------------------------------------------------------------------------------------------


def copied(value: Any, **options: Any) -> Any:
    return bind(lambda value: value, value).copied(**options).args[0]


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: [a], lambda a: {"a": (a,)}, Layer, lambda a: Point(a, None)])
def test_a_copy_has_numpy_arrays_of_its_own(wrap: Callable[[Any], Any]) -> None:
    array = np.ones(3)
    (mine,) = jax.tree_util.tree_leaves(copied(wrap(array)))
    mine[:] = 7
    assert array.tolist() == [1, 1, 1]


def test_a_copy_has_the_same_types_and_values() -> None:
    value = {"b": Point(np.arange(3), [None, "a"]), "a": Layer(np.float32(1), "out")}
    twin = copied(value)
    assert str(jax.tree_util.tree_structure(twin)) == str(jax.tree_util.tree_structure(value))
    assert (twin["b"].x.tolist(), twin["b"].y, twin["a"].name) == ([0, 1, 2], [None, "a"], "out")


def test_a_copy_keeps_the_order_of_dicts_and_their_class() -> None:
    twin = copied(collections.OrderedDict(b=1, a={"d": np.ones(1), "c": 2}))
    assert (type(twin), list(twin), list(twin["a"])) == (collections.OrderedDict, ["b", "a"], ["d", "c"])


def test_what_was_passed_twice_is_passed_twice_again() -> None:
    array, shared = np.ones(2), [np.ones(1)]
    call = bind(many, array, [array], shared, n=array, m={"s": shared}).copied()
    first, (second,), third = call.args
    assert first is second is call.kwargs["n"]
    assert third is call.kwargs["m"]["s"]
    assert first is not array


def test_children_that_a_node_makes_anew_are_not_mistaken_for_each_other() -> None:
    nodes = [Derived(number, number + 1) for number in range(50)]
    twins = copied(nodes)
    assert [int(twin.parts[0]) for twin in twins] == list(range(50))


def test_jax_arrays_are_not_copied() -> None:
    value = {"x": jnp.ones(3), "key": jax.random.key(0)}
    twin = copied(value, donated=True)
    assert twin["x"] is value["x"]
    assert twin["key"] is value["key"]


@pytest.mark.parametrize("make", [lambda: jnp.ones(3), lambda: jax.random.key(7), lambda: {"w": [jnp.ones(3)]}])
def test_donated_arrays_are_copied_on_request(make: Callable[[], Any]) -> None:
    value = make()
    call = bind(two, value, n=value, options={"donate_argnums": 0})
    jax.jit(lambda x: x, donate_argnums=0)(call.copied(donated=True).args[0])
    assert not any(leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(value))
    assert call.copied().args[0] is value or isinstance(value, dict)


def test_a_copied_key_is_the_same_key() -> None:
    key = jax.random.key(7, impl="rbg")
    twin = bind(two, key, options={"donate_argnums": 0}).copied(donated=True).args[0]
    assert twin is not key
    assert (twin.dtype, jax.random.bits(twin)) == (key.dtype, jax.random.bits(key))


def test_donated_arguments_by_name_are_copied() -> None:
    x = jnp.ones(3)
    call = bind(two, x=x, n=x, options={"donate_argnames": "x"}).copied(donated=True)
    assert call.kwargs["x"] is not x


def test_a_copy_of_an_nnx_module_has_variables_of_its_own() -> None:
    nnx = pytest.importorskip("flax.nnx")
    module = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    twin = copied(module)
    twin.kernel = nnx.Param(jnp.zeros((2, 3)))
    assert jnp.any(jax.tree_util.tree_leaves(nnx.state(module))[1] != 0)


def test_leaves_are_changed_where_they_stand() -> None:
    assert map_leaves(lambda leaf: leaf + 1, {"b": [1, None], "a": Point(2, (3,))}) == {
        "b": [2, None],
        "a": Point(3, (4,)),
    }


def test_a_call_runs_the_plain_function() -> None:
    assert bind(many, 1, 2, z=3).run() == (1, (2,), 3, {"z": 3})
