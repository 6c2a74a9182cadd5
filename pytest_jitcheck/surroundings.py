"""What a function reads and changes beside its arguments: globals, closures, objects and caches, before and after a trace."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from pytest_jitcheck import compat

__all__ = ["Change", "Surroundings"]

_CONTAINERS = (list, dict, set)
_PLAIN = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
_DEPTH = 3
"""How many calls deep the functions that a function calls are looked through."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Something outside of the arguments that a run changed."""

    name: str
    """Where it is, as one would write it in Python."""
    text: str
    """What happened to it."""
    holds_tracer: bool
    """Whether a traced value was put there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """The state around a function at one moment, one level deep."""

    held: dict[str, Any] = field(default_factory=dict)
    """Each object by its name."""
    contents: dict[str, Any] = field(default_factory=dict)
    """A shallow copy of what each held."""

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> Surroundings:
        """The state that `fn`, and the functions of its own module that it calls, can reach by name."""
        held = dict(_reachable(fn, "", _DEPTH, set()))
        return cls(held=held, contents={name: _contents(value) for name, value in held.items()})

    def changes(self, fn: Callable[..., Any]) -> tuple[Change, ...]:
        """What is different now."""
        now = dict(_reachable(fn, "", _DEPTH, set()))
        found = (self._change(name, value) for name, value in now.items())
        return tuple(change for change in found if change is not None)

    def _change(self, name: str, value: Any) -> Change | None:
        if name not in self.held:
            return _appeared(name, value)
        before, after = self.contents[name], _contents(value)
        if isinstance(value, _PLAIN):
            return (
                None
                if _is_same(before, value)
                else Change(name=name, text=f"went from {before!r} to {value!r}", holds_tracer=False)
            )
        if self.held[name] is not value:
            holds = compat.is_tracer(value)
            return Change(name=name, text="was given a new value", holds_tracer=holds)
        if _is_same_contents(before, after):
            return None
        news = [item for item in _items(after) if not any(item is old for old in _items(before))]
        holds = any(compat.is_tracer(leaf) for item in news for leaf in jax.tree_util.tree_leaves(item))
        return Change(name=name, text=_difference(before, after), holds_tracer=holds)

    def place_of(self, array: Any) -> str | None:
        """Where a captured array sits in something that can change: a container or an object, not a name of its own."""
        for name, value in self.held.items():
            if any(item is array for item in _items(self.contents[name])) and not isinstance(value, tuple):
                return name
        return None


def _appeared(name: str, value: Any) -> Change | None:
    return Change(name=name, text="was set", holds_tracer=True) if compat.is_tracer(value) else None


def _reachable(fn: Any, prefix: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Each name that the code of `fn` can reach, with its value."""
    owner = getattr(fn, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        yield from _of_value(f"{prefix}self", owner)
    fn = getattr(fn, "__func__", fn)
    fn = getattr(fn, "func", fn) if not hasattr(fn, "__code__") else fn
    code = getattr(fn, "__code__", None)
    if code is None or id(code) in seen:
        return
    seen.add(id(code))
    cells = dict(zip(code.co_freevars, getattr(fn, "__closure__", None) or (), strict=False))
    names = {**{name: fn.__globals__[name] for name in _names(code) if name in fn.__globals__}, **_cell_contents(cells)}
    for name, value in names.items():
        inner = getattr(value, "__wrapped__", value)
        if isinstance(inner, types.FunctionType) and depth and inner.__module__ == fn.__module__:
            yield from _reachable(inner, "", depth - 1, seen)
        yield from _of_value(name, value)


def _names(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(one) for one in inner))


def _cell_contents(cells: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in cells.items():
        try:
            found[name] = cell.cell_contents
        except ValueError:  # assigned later than here
            continue
    return found


def _of_value(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)):
        return
    is_known = hasattr(value, "cache_info") or isinstance(value, (*_CONTAINERS, *_PLAIN)) or compat.is_tracer(value)
    if is_known or (isinstance(getattr(value, "__dict__", None), dict) and not callable(value)):
        yield name, value


def _contents(value: Any) -> Any:
    if hasattr(value, "cache_info"):
        return value.cache_info().currsize
    if isinstance(value, _CONTAINERS):
        return value.copy()
    if isinstance(value, _PLAIN):
        return value
    return dict(getattr(value, "__dict__", {}))


def _items(contents: Any) -> list[Any]:
    if isinstance(contents, dict):
        return list(contents.values())
    return list(contents) if isinstance(contents, (list, set, tuple)) else [contents]


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_is_same(*pair) for pair in zip(one, other, strict=True))
    if not isinstance(one, _PLAIN) or not isinstance(other, _PLAIN):
        return one is other
    is_both_nan = one != one and other != other  # noqa: PLR0124  # what NaN is known by
    return one is other or bool(one == other) or is_both_nan


def _is_same_contents(before: Any, after: Any) -> bool:
    if isinstance(before, int):
        return bool(before == after)
    if len(before) != len(after):
        return False
    if isinstance(before, dict):
        return all(key in after and after[key] is item for key, item in before.items())
    if isinstance(before, set):
        return bool(before == after)
    return all(one is other for one, other in zip(before, after, strict=True))


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, int):
        return f"cached {after - before} more"
    if len(after) > len(before):
        return f"grew by {len(after) - len(before)}"
    return f"shrank by {len(before) - len(after)}" if len(after) < len(before) else "holds something else now"
