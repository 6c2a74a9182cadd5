"""One call of a function: which of its arguments are static, what they are called, and copies of them for each run."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pytest_jitcheck.compat import jitted_parts, module_copy, module_state
from pytest_jitcheck.leaves import as_traced, is_key
from pytest_jitcheck.report import Argument
from pytest_jitcheck.spec import CheckSpec, SpecError, Statics

__all__ = [
    "Bound",
    "Call",
    "children",
    "describe",
    "function_name",
    "key_text",
    "leaves_of",
    "map_leaves",
    "safe_repr",
    "signature_of",
]

_LONGEST_DESCRIPTION = 240


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """One argument of a call."""

    name: str
    """Parameter name, or ``args[2]`` where the signature gives none."""
    value: Any
    static: bool
    key: int | str
    """Position, or keyword by which it was passed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A function with the arguments and the statics of one check."""

    fn: Callable[..., Any]
    """The plain Python function."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    statics: Statics
    donated: Statics

    @classmethod
    def bind(
        cls, fn: Callable[..., Any], spec: CheckSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Call, CheckSpec]:
        """The call that `spec` describes, and the spec with what the function was already jitted with.

        Raises:
            SpecError: if a static or donated argument is named or numbered that the function lacks.
        """
        spec = spec.over(_chosen_by_transform(spec.jit))
        parts = jitted_parts(fn)
        if parts is not None:
            chosen = {name: getattr(parts, name) or None for name in _CHOICES}
            spec = spec.over(CheckSpec(jit=parts.transform, **chosen))
            fn = parts.function
        signature = signature_of(fn)
        spec = dataclasses.replace(
            spec,
            static_argnums=_counted_from_the_start(signature, spec.static_argnums),
            donate_argnums=_counted_from_the_start(signature, spec.donate_argnums),
        )
        donated = Statics.of(signature, spec.donate_argnums, spec.donate_argnames, keyword="donate")
        if _keywords_of(spec.jit).get("donate", "none") != "none":  # equinox' word
            donated = Statics(argnums=tuple(range(len(args))), argnames=tuple(kwargs))
        statics = Statics.of(signature, spec.static_argnums, spec.static_argnames)
        call = cls(fn=fn, args=args, kwargs=kwargs, statics=statics, donated=donated)
        both = [argument.name for argument in call.bound() if argument.static and call.is_donated(argument.key)]
        if both and (spec.donate_argnums or spec.donate_argnames):
            raise SpecError(f"{both[0]!r} is declared static and donated: a static argument has no buffer to give.")
        return call, spec

    def is_donated(self, key: int | str) -> bool:
        """Whether the argument at this position or keyword is donated."""
        return key in self.donated.positions(len(self.args)) or key in self.donated.argnames

    @property
    def name(self) -> str:
        """Qualified name of the function."""
        return function_name(self.fn)

    def bound(self) -> Iterator[Bound]:
        """The arguments in the order in which they were passed."""
        static = self.statics.positions(len(self.args))
        for number, (name, value) in enumerate(zip(self._positional_names(), self.args, strict=True)):
            yield Bound(name=name, value=value, static=number in static, key=number)
        for name, value in self.kwargs.items():
            yield Bound(name=name, value=value, static=name in self.statics.argnames, key=name)

    def dynamic(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the executable takes: the arguments without the static ones."""
        bound = [argument for argument in self.bound() if not argument.static]
        args = tuple(argument.value for argument in bound if isinstance(argument.key, int))
        return args, {argument.key: argument.value for argument in bound if isinstance(argument.key, str)}

    def copied(self, *, donated: bool = False) -> Call:
        """The same call with its own NumPy arrays and, if asked, its own donated buffers: no run sees another's writes."""
        positions = self.donated.positions(len(self.args)) if donated else frozenset()
        names = self.donated.argnames if donated else ()
        return self.changed(lambda key: _own_buffer if key in positions or key in names else _own)

    def changed(self, change_for: Callable[[int | str], Callable[[Any], Any]]) -> Call:
        """The same call with other leaves; static arguments stay as they are, since another value is another program.

        Args:
            change_for: gives, for an argument's position or keyword, what becomes of each of its leaves.
        """
        # One memo for the whole call: an array that was passed twice is passed twice again.
        memo: dict[int, Any] = {}
        changed = {
            argument.key: argument.value
            if argument.static
            else map_leaves(change_for(argument.key), argument.value, memo)
            for argument in self.bound()
        }
        args = tuple(changed[number] for number in range(len(self.args)))
        kwargs = {name: changed[name] for name in self.kwargs}
        return dataclasses.replace(self, args=args, kwargs=kwargs)

    def run(self) -> Any:
        """What the plain Python function returns."""
        return self.fn(*self.args, **self.kwargs)

    def describe(self) -> tuple[Argument, ...]:
        """The arguments as the report shows them."""
        return tuple(
            Argument(name=argument.name, static=True, value=_shortened(safe_repr(argument.value)))
            if argument.static
            else Argument(name=argument.name, aval=_shortened(describe(argument.value)))
            for argument in self.bound()
        )

    def _positional_names(self) -> list[str]:
        signature = signature_of(self.fn)
        parameters = [] if signature is None else list(signature.parameters.values())
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        extra = [f"{rest}[{number}]" for number in range(max(0, len(self.args) - len(names)))]
        return [*names, *extra][: len(self.args)]


_CHOICES = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


def _chosen_by_transform(jit: Callable[..., Any] | None) -> CheckSpec:
    """The statics and donations of ``functools.partial(jax.jit, ...)``."""
    keywords = _keywords_of(jit)
    return CheckSpec.from_keywords({name: keywords[name] for name in _CHOICES if name in keywords})


def _keywords_of(jit: Callable[..., Any] | None) -> dict[str, Any]:
    return dict(jit.keywords) if isinstance(jit, functools.partial) else {}


def _counted_from_the_start(
    signature: inspect.Signature | None, argnums: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Negative numbers as JAX 0.12 takes them, from the end of the signature; before, they counted from that of the call."""
    parameters = [] if signature is None else list(signature.parameters.values())
    if argnums is None or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return argnums
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(parameter.kind in by_position for parameter in parameters)
    if not all(-count <= number < count for number in argnums):
        return argnums  # to be refused as they were given
    return tuple(number % count for number in argnums)


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a callable, or ``None`` where Python knows none."""
    try:
        return inspect.signature(fn)
    except (ValueError, TypeError):
        return None


def function_name(fn: Callable[..., Any]) -> str:
    """Qualified name of a callable, that of what a partial wraps, or that of its class."""
    while not hasattr(fn, "__qualname__") and hasattr(fn, "func"):
        fn = fn.func
    return getattr(fn, "__qualname__", type(fn).__qualname__)


def children(node: Any) -> list[tuple[Any, Any]] | None:
    """The key and the value of each child of a pytree node, or ``None`` for a leaf."""
    try:
        pairs = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda value: value is not node)[0]
    except ValueError:
        if not isinstance(node, dict):
            raise
        # Keys of several types have no order for JAX; to be shown, they need none.
        return [(jax.tree_util.DictKey(key), item) for key, item in node.items()]
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    return [(path[0], child) for path, child in pairs]


def describe(value: Any) -> str:
    """What is traced for a value: ``float32[10]``, or the structure of a pytree with that of each leaf."""
    nodes = None if value is None else children(value)
    if value is None or nodes is None:
        return _describe_module(value) or _describe_leaf(value)
    if isinstance(value, dict):
        # In the caller's order, which JAX's own flattening sorts.
        return "{" + ", ".join(f"{key!r}: {describe(item)}" for key, item in value.items()) + "}"
    if hasattr(value, "_fields"):
        fields = (f"{name}={describe(item)}" for name, item in zip(value._fields, value, strict=True))
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, (tuple, list)):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return opening + ", ".join(describe(item) for item in value) + comma + closing
    # What holds no leaf, such as the state that flax keeps in each module, is nothing that is traced.
    shown = [(key, item) for key, item in nodes if item is None or jax.tree_util.tree_leaves(item)]
    fields = (f"{key_text(key)}={describe(item)}" for key, item in shown)
    return f"{type(value).__name__}({', '.join(fields)})"


def key_text(key: Any) -> str:
    """A part of a key path as a word: ``w`` for ``['w']``, ``0`` for ``[0]``, ``step`` for ``.step``."""
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _describe_module(value: Any) -> str | None:
    state = module_state(value)
    if state is value:
        return None
    return f"{type(value).__name__}({', '.join(f'{name}={describe(item)}' for name, item in state[1].items())})"


def _describe_leaf(value: Any) -> str:
    if value is None:
        return "None"
    dtype = getattr(value, "dtype", None)
    if dtype is None and isinstance(value, (bool, int, float, complex)):
        dtype = np.result_type(type(value))
    if dtype is None or getattr(dtype, "kind", "") in ("U", "S", "O"):
        return type(value).__name__
    dtype = as_traced(dtype)
    return f"{dtype.name}[{','.join(map(str, np.shape(value)))}]"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_DESCRIPTION else text[: _LONGEST_DESCRIPTION - 1] + "…"


def safe_repr(value: Any) -> str:
    """The repr of a value, or words that it has none."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  # a user's __repr__ may do anything; the report goes on without it
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def map_leaves(change: Callable[[Any], Any], value: Any, memo: dict[int, Any] | None = None) -> Any:
    """The same pytree with changed leaves, dicts in the caller's order, and what was one object still one object.

    `jax.tree_util.tree_map` hands dicts back with sorted keys, and gives two leaves for an array that stands in two places.
    """
    memo = {} if memo is None else memo
    # The value is kept beside its twin, so that no other object can get its id meanwhile.
    if id(value) not in memo:
        memo[id(value)] = value, _mapped(change, value, memo)
    return memo[id(value)][1]


def leaves_of(value: Any) -> list[Any]:
    """The leaves of a pytree in the caller's order, of dicts too whose keys JAX can't sort."""
    found: list[Any] = []

    def take(leaf: Any) -> Any:
        found.append(leaf)
        return leaf

    map_leaves(take, value)
    return found


def _mapped(change: Callable[[Any], Any], value: Any, memo: dict[int, Any]) -> Any:
    if value is None or isinstance(value, _LEAVES):
        return value if value is None else change(value)
    if isinstance(value, dict):
        twin = copy.copy(value)
        for key, item in value.items():
            twin[key] = map_leaves(change, item, memo)
        return twin
    if children(value) is None:
        return change(value)
    return jax.tree_util.tree_map(
        lambda item: map_leaves(change, item, memo), value, is_leaf=lambda item: item is not value
    )


_LEAVES = (np.ndarray, np.generic, jax.Array, bool, int, float, complex, str)


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else module_copy(value)


def _own_buffer(value: Any) -> Any:
    if is_key(value):
        data = _own_buffer(jax.random.key_data(value))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
    # Through NumPy, since jnp.array(copy=True) compiles a program for each shape.
    return jax.device_put(np.array(value), value.sharding) if isinstance(value, jax.Array) else _own(value)
