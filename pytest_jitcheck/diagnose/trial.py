"""Tries a fix before it is suggested: traces the function again, with arguments held static, and never compiles."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from pytest_jitcheck import compat
from pytest_jitcheck.arguments import Bound, Call
from pytest_jitcheck.diagnose.evidence import Evidence
from pytest_jitcheck.spec import Statics
from pytest_jitcheck.stages import Clock, fresh

__all__ = ["Budget", "StaticFix", "as_static", "error_when_traced", "static_fix", "works_split"]


@dataclass(kw_only=True, slots=True)
class Budget:
    """How long trials may go on: what one of them cost decides whether another is begun."""

    clock: Clock
    seconds: float
    began: float = field(init=False)
    longest_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """The time of one trial, written down."""
        started = self.clock()
        try:
            yield
        finally:
            self.longest_s = max(self.longest_s, self.clock() - started)

    @property
    def allows_another(self) -> bool:
        """Whether a trial like the longest so far would still fit."""
        return self.clock() - self.began + self.longest_s <= self.seconds


@dataclass(frozen=True, slots=True)
class _Held:
    """A value that counts as static whatever it is: equal to itself alone."""

    value: Any

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def error_when_traced(
    call: Call, statics: Mapping[int | str, Any], *, concrete_constants: bool = False
) -> Exception | None:
    """What tracing the call raises with these arguments static, or ``None`` when it works.

    Args:
        call: the call; what it declares static itself is given up, so name those too.
        statics: the values to hold static, by position or keyword.
        concrete_constants: evaluate JAX operations on plain numbers at once, as NumPy would.
    """
    copied = call.copied()
    args = tuple(_Held(statics[number]) if number in statics else value for number, value in enumerate(copied.args))
    kwargs = {name: _Held(statics[name]) if name in statics else value for name, value in copied.kwargs.items()}

    def released(*args: Any, **kwargs: Any) -> Any:
        context = jax.ensure_compile_time_eval() if concrete_constants else contextlib.nullcontext()
        with context:
            return call.fn(*map(_release, args), **{name: _release(value) for name, value in kwargs.items()})

    jitted = jax.jit(
        fresh(released),
        # Sorted: JAX 0.5 hands static arguments over in the order of these numbers.
        static_argnums=tuple(sorted(key for key in statics if isinstance(key, int))),
        static_argnames=tuple(key for key in statics if isinstance(key, str)),
    )
    try:
        with compat.unfiltered_tracebacks():
            jitted.trace(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  # whether the function traces is the question
        return error
    return None


def works_split(call: Call, splits: Mapping[int | str, Collection[int]]) -> bool:
    """Whether the call traces when some leaves of its containers are static and the rest of each stays traced.

    Args:
        call: the call, with the statics that it declares.
        splits: the numbers of the leaves to hold static, by the position or keyword of the container.
    """
    copied = call.copied()
    values = {argument.key: argument.value for argument in copied.bound()}
    held: dict[int | str, Any] = {argument.key: argument.value for argument in copied.bound() if argument.static}
    traced: dict[int | str, Any] = {}
    for key, value in values.items():
        if key not in held:
            leaves = jax.tree_util.tree_leaves(value)
            traced[key] = [leaf for number, leaf in enumerate(leaves) if number not in splits.get(key, ())]

    def joined(traced: dict[int | str, list[Any]]) -> Any:
        arguments = {key: _joined(values[key], splits.get(key, ()), traced[key]) for key in traced} | held
        positional = [arguments[number] for number in range(len(copied.args))]
        return call.fn(*positional, **{name: arguments[name] for name in copied.kwargs})

    try:
        # A list of pairs, since JAX can't sort positions and keywords among each other.
        jax.jit(fresh(lambda pairs: joined(dict(zip(traced, pairs, strict=True))))).trace(list(traced.values()))
    except Exception:  # noqa: BLE001  # whether the function traces is the question
        return False
    return True


def _joined(value: Any, static: Collection[int], traced: list[Any]) -> Any:
    leaves, structure = jax.tree_util.tree_flatten(value)
    rest = iter(traced)
    merged = [leaf if number in static else next(rest) for number, leaf in enumerate(leaves)]
    return jax.tree_util.tree_unflatten(structure, merged)


def _release(value: Any) -> Any:
    return value.value if isinstance(value, _Held) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticFix:
    """A set of arguments that make the function trace when they are static."""

    arguments: tuple[Bound, ...]
    """What to declare beside what is declared already, in the order of the call."""
    converted: tuple[str, ...] = ()
    """Names of those that must be passed in a hashable form, such as a tuple for a list."""
    needs_numpy: bool = False
    """Whether `jnp` on the then plain numbers has to become `numpy` or `math` too."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(argument.name for argument in self.arguments)


def as_static(value: Any, *, allow_float: bool) -> tuple[bool, Any]:
    """Whether a value is one that may soundly be static, and the hashable form of it.

    An array is not, nor is an object that holds one: each new value would compile again, and most can't be hashed. A
    float is only where it decides a shape.
    """
    if isinstance(value, (jax.Array, np.ndarray)) or compat.is_tracer(value):
        return _array_as_static(value)
    if isinstance(value, (float, complex, np.floating)) and not allow_float:
        return False, value
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple) and type(value) is tuple:
        parts = [as_static(item, allow_float=True) for item in value]
        return all(sound for sound, _ in parts), tuple(form for _, form in parts)
    if _holds_arrays(value) or isinstance(value, (dict, set)):
        return False, value
    try:
        hash(value)
    except Exception:  # noqa: BLE001  # a user's __hash__ may raise anything
        return False, value
    return True, value


def _array_as_static(value: Any) -> tuple[bool, Any]:
    # NumPy holds names in arrays, which are no JAX arrays: a tuple of them is a fine static.
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        return True, tuple(value.tolist())
    return False, value


def _holds_arrays(value: Any) -> bool:
    held = [value, *getattr(value, "__dict__", {}).values()]
    leaves = [leaf for item in held for leaf in jax.tree_util.tree_leaves(item)]
    return any(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in leaves)


def static_fix(
    evidence: Evidence,
    blamed: Callable[[Evidence], Collection[Bound]],
    *,
    allow_float: bool,
    budget: Budget,
) -> StaticFix | None:
    """The smallest set of arguments whose being static makes the whole function trace, or ``None`` if there is none.

    One error often hides the next: what the next one blames is added until the function traces, and what turns out not
    to be needed is taken away again.

    Args:
        evidence: the first error.
        blamed: the arguments that an error blames.
        allow_float: whether a float may be static.
        budget: how long to try.
    """
    declared = {argument.key: argument.value for argument in evidence.call.bound() if argument.static}
    chosen: dict[int | str, Bound] = {}
    forms: dict[int | str, Any] = {}
    current = evidence
    while budget.allows_another:
        news = [argument for argument in blamed(current) if argument.key not in {*declared, *chosen}]
        for argument in news:
            sound, form = as_static(argument.value, allow_float=allow_float)
            if sound:
                chosen[argument.key], forms[argument.key] = argument, form
        if not chosen or (not news and current is not evidence):
            return _with_numpy(evidence.call, declared, chosen, forms, budget)
        with budget.trial():
            error = error_when_traced(evidence.call, {**declared, **forms})
        if error is None:
            return _smallest(evidence.call, declared, chosen, forms, budget)
        if not any(argument.key in chosen for argument in news):
            return None
        statics = _declared(evidence.call, {**declared, **forms})
        current = Evidence(error=error, stage="trace", call=statics, spec=evidence.spec)
    return None


def _declared(call: Call, keys: Collection[int | str]) -> Call:
    statics = Statics(
        argnums=tuple(key for key in keys if isinstance(key, int)),
        argnames=tuple(key for key in keys if isinstance(key, str)),
    )
    return dataclasses.replace(call, statics=statics)


def _with_numpy(
    call: Call,
    declared: dict[int | str, Any],
    chosen: dict[int | str, Bound],
    forms: dict[int | str, Any],
    budget: Budget,
) -> StaticFix | None:
    if not chosen or not budget.allows_another:
        return None
    with budget.trial():
        error = error_when_traced(call, {**declared, **forms}, concrete_constants=True)
    if error is not None:
        return None
    return StaticFix(arguments=tuple(chosen.values()), converted=_converted(chosen, forms), needs_numpy=True)


def _smallest(
    call: Call,
    declared: dict[int | str, Any],
    chosen: dict[int | str, Bound],
    forms: dict[int | str, Any],
    budget: Budget,
) -> StaticFix:
    for key in list(chosen):
        if len(chosen) == 1 or not budget.allows_another:
            break
        fewer = {name: form for name, form in forms.items() if name != key}
        with budget.trial():
            error = error_when_traced(call, {**declared, **fewer})
        if error is None:
            del chosen[key], forms[key]
    order = [argument.key for argument in call.bound()]
    arguments = sorted(chosen.values(), key=lambda argument: order.index(argument.key))
    return StaticFix(arguments=tuple(arguments), converted=_converted(chosen, forms))


def _converted(chosen: Mapping[int | str, Bound], forms: Mapping[int | str, Any]) -> tuple[str, ...]:
    return tuple(argument.name for key, argument in chosen.items() if type(forms[key]) is not type(argument.value))
