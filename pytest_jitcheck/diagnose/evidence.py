"""What is known about an exception before anything is concluded: its frames, the user's place, and whose tracer it was."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from pytest_jitcheck import compat, stages
from pytest_jitcheck.arguments import Bound, Call, key_text
from pytest_jitcheck.diagnose.source import Frame, Ownership, Site, frames_of, innermost_site, site_of
from pytest_jitcheck.report import Location, Stage
from pytest_jitcheck.spec import CheckSpec

__all__ = ["Blame", "Evidence", "Input", "is_tracer_error", "tracers_in", "value_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One traced leaf of the call."""

    argument: Bound
    path: str
    """Key path within the argument, such as ``['w']``; empty for an argument that is an array itself."""
    number: int
    """Number of the leaf in the argument, in JAX's order."""
    key: str
    """The last part of the path, as a name; empty for an argument that is an array itself."""
    tracer: Any

    @property
    def text(self) -> str:
        """The leaf as one would write it in Python."""
        return self.argument.name + self.path


@dataclass(frozen=True, kw_only=True, slots=True)
class Blame:
    """What a value that was needed depends on."""

    inputs: tuple[Input, ...] = ()
    staged: tuple[Location, ...] = ()
    """The user's lines at which a JAX operation made a tracer of plain numbers."""

    @property
    def arguments(self) -> tuple[Bound, ...]:
        """The arguments, each once, in the order of the call."""
        seen = {item.argument.key: item.argument for item in self.inputs}
        return tuple(seen.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments' names."""
        return tuple(argument.name for argument in self.arguments)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """An exception of one stage, with the call that led to it. Everything is worked out once, when it is asked for."""

    error: Exception
    stage: Stage
    call: Call
    spec: CheckSpec = field(default_factory=CheckSpec)

    @functools.cached_property
    def root(self) -> BaseException:
        """The exception behind the exception: JAX's, where user or library code caught it and raised its own."""
        chain = list(_chain(self.error))
        tracer_errors = [error for error in chain if is_tracer_error(error)]
        return tracer_errors[-1] if tracer_errors else self.error

    @functools.cached_property
    def message(self) -> str:
        """What the exception says."""
        return str(self.root)

    @functools.cached_property
    def ownership(self) -> Ownership:
        """Whose files are whose."""
        return Ownership.of(self.call.fn)

    @functools.cached_property
    def frames(self) -> list[Frame]:
        """From the outermost frame to where it was raised."""
        outer = [] if self.root is self.error else frames_of(self.error.__traceback__)
        inner = frames_of(self.root.__traceback__)
        # A caught exception's traceback begins where it was caught: the frames before that are in the outer one's.
        known = {id(entry.frame) for entry in inner}
        shared = next((number for number, entry in enumerate(outer) if id(entry.frame) in known), len(outer))
        return [*outer[:shared], *inner]

    @functools.cached_property
    def _started(self) -> int | None:
        """Number of the frame in which the user's function is called with its tracers."""
        code = stages.fresh(lambda: None).__code__
        return next((number for number, entry in enumerate(self.frames) if entry.frame.f_code is code), None)

    @functools.cached_property
    def site(self) -> Site | None:
        """The innermost place in the user's own code; ``None`` for what is raised before it runs."""
        return None if self._started is None else innermost_site(self.frames[self._started + 1 :], self.ownership)

    @functools.cached_property
    def beyond(self) -> list[Frame]:
        """The library frames that the user's place called into."""
        if self.site is None:
            return self.frames
        frames = [entry.frame for entry in self.frames]
        return self.frames[frames.index(self.site.frame.frame) + 1 :]

    @functools.cached_property
    def users_frames(self) -> list[Frame]:
        """The user's own frames, outermost first."""
        started = 0 if self._started is None else self._started + 1
        return [entry for entry in self.frames[started:] if self.ownership.is_users(entry.path)]

    @functools.cached_property
    def inputs(self) -> dict[int, Input]:
        """The traced leaves of the call by their number in the trace."""
        if self._started is None:
            return {}
        local = self.frames[self._started].frame.f_locals
        passed: dict[int | str, Any] = {**dict(enumerate(local["args"])), **local["kwargs"]}
        found: dict[int, Input] = {}
        for argument in self.call.bound():
            pairs = jax.tree_util.tree_flatten_with_path(passed.get(argument.key))[0]
            for number, (path, leaf) in enumerate(pairs):
                origin = compat.origin_of(leaf) if compat.is_tracer(leaf) else None
                if origin is not None and len(origin.inputs) == 1:
                    found[origin.inputs[0]] = Input(
                        argument=self._renamed(argument, leaf),
                        path=jax.tree_util.keystr(path),
                        number=number,
                        key=key_text(path[-1]) if path else "",
                        tracer=leaf,
                    )
        return found

    def _renamed(self, argument: Bound, leaf: Any) -> Bound:
        """The argument under the user's own name, where a wrapper's ``*args`` hides it."""
        if "[" not in argument.name:
            return argument
        for entry in self.users_frames:
            code = entry.frame.f_code
            for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                if entry.frame.f_locals.get(name) is leaf:
                    return Bound(name=name, value=argument.value, static=argument.static, key=argument.key)
        return argument

    @functools.cached_property
    def trace(self) -> Any:
        """The trace of the checked function itself, among those of the functions that it traces."""
        return next((compat.trace_of(item.tracer) for item in self.inputs.values()), None)

    def blame(self, tracers: Iterable[Any]) -> Blame:
        """What these tracers depend on, followed back to the inputs of the call."""
        numbers: set[int] = set()
        places: list[tuple[str, int]] = []
        self._follow(list(tracers), numbers, places, set())
        inputs = tuple(self.inputs[number] for number in sorted(numbers) if number in self.inputs)
        # An operation on constants explains nothing where an argument does.
        staged = (
            ()
            if inputs
            else tuple(_location(*place) for place in dict.fromkeys(places) if self.ownership.is_users(place[0]))
        )
        return Blame(inputs=inputs, staged=staged)

    def _follow(self, tracers: list[Any], numbers: set[int], places: list[tuple[str, int]], seen: set[int]) -> None:
        for tracer in tracers:
            if id(tracer) in seen:
                continue
            seen.add(id(tracer))
            origin = compat.origin_of(tracer)
            if origin is None:
                self._follow(list(compat.outer_tracers(tracer)), numbers, places, seen)
                continue
            places.extend(origin.staged_at)
            self._follow(list(origin.captured), numbers, places, seen)
            if self.trace is None or compat.trace_of(tracer) is self.trace:
                numbers.update(origin.inputs)
            else:
                self._follow(self._passed_in(tracer, origin.inputs), numbers, places, seen)

    def _passed_in(self, tracer: Any, positions: tuple[int, ...]) -> list[Any]:
        """The outer values that these inputs of an inner trace stand for."""
        if not positions:
            return []
        avals, inner = compat.input_avals(tracer), compat.trace_of(tracer)
        for entry in reversed(self.frames):
            for value in list(entry.frame.f_locals.values()):
                if isinstance(value, (list, tuple)) and len(value) == len(avals) and _stands_for(value, avals, inner):
                    return [value[position] for position in positions if compat.is_tracer(value[position])]
        # A loop's body sees slices of what was passed: all that the user's call was given counts.
        for entry in reversed(self.users_frames):
            found = [one for one in self.tracers_at(site_of(entry)) if compat.trace_of(one) is not inner]
            if found:
                return found
        return []

    def tracers_at(self, site: Site | None, node: ast.AST | None = None) -> list[Any]:
        """The tracers in the values that an expression of the user's reads."""
        node = node or (None if site is None else site.node)
        if site is None or node is None:
            return []
        found: list[Any] = []
        for part in reads(node):
            found.extend(tracers_in(value_of(part, site.frame)))
        return found

    @functools.cached_property
    def triggers(self) -> list[Any]:
        """The tracers whose value was asked for: those in the innermost library frame that holds any."""
        for entry in reversed(self.beyond):
            local = entry.frame.f_locals
            direct = {id(value): value for value in local.values() if compat.is_tracer(value)}
            if len(direct) == 1:
                return list(direct.values())
            if direct:
                preferred = [
                    local[name] for name in ("tracer", "val", "arg", "self") if compat.is_tracer(local.get(name))
                ]
                return preferred[:1] or list(direct.values())
        return self.tracers_at(self.site)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def is_tracer_error(error: BaseException) -> bool:
    """Whether JAX raised it because a traced value was asked for what it doesn't have."""
    return isinstance(error, _tracer_errors())


@functools.cache
def _tracer_errors() -> tuple[type[BaseException], ...]:
    return (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.NonConcreteBooleanIndexError,
        jax.errors.UnexpectedTracerError,
    )


def _location(path: str, line: int) -> Location:
    import linecache

    return Location(path=path, line=line, source=linecache.getline(path, line).rstrip("\n"))


def _stands_for(values: Any, avals: tuple[Any, ...], inner: Any) -> bool:
    """Whether these are the values that were passed to a function that was traced with these avals."""
    if not any(compat.is_tracer(value) and compat.trace_of(value) is not inner for value in values):
        return False
    pairs = zip(values, avals, strict=True)
    return all(
        np.shape(value) == aval.shape and getattr(value, "dtype", aval.dtype) == aval.dtype for value, aval in pairs
    )


def tracers_in(value: Any) -> list[Any]:
    """The tracers that a value is or holds: in containers, and in the attributes of an object."""
    if compat.is_tracer(value):
        return [value]
    leaves = jax.tree_util.tree_leaves(value)
    found = [leaf for leaf in leaves if compat.is_tracer(leaf)]
    if found or callable(value):
        return found
    attributes = [item for leaf in leaves[:50] for item in getattr(leaf, "__dict__", {}).values()]
    return [item for item in attributes if compat.is_tracer(item)]


def reads(node: ast.AST) -> Iterator[ast.expr]:
    """The longest names, attributes and subscripts that an expression reads, those of inner functions left out."""
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and _is_plain(node):
        yield node
        return
    children = [node.func.value, *node.args, *node.keywords] if _is_method_call(node) else ast.iter_child_nodes(node)  # type: ignore[attr-defined]
    for child in children:
        yield from reads(child)


def _is_method_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def _is_plain(node: ast.AST) -> bool:
    """Whether it can be read again without running anything of the user's."""
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Attribute):
        return _is_plain(node.value)
    return (
        isinstance(node, ast.Subscript) and _is_plain(node.value) and isinstance(node.slice, (ast.Constant, ast.Name))
    )


def value_of(node: ast.AST | None, frame: Frame) -> Any:
    """The value of a plain expression in a frame, or ``None`` where it can't be read."""
    try:
        return _read(node, {**frame.frame.f_builtins, **frame.frame.f_globals, **frame.frame.f_locals})
    except Exception:  # noqa: BLE001  # names that are gone, properties that raise: then the expression tells nothing
        return None


def _read(node: ast.AST | None, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        holder = _read(node.value, names)
        # A property of a tracer may add to the program that is being looked at; what a shape is made of may not.
        is_static = node.attr in ("shape", "dtype", "ndim", "size", "aval")
        return holder if compat.is_tracer(holder) and not is_static else getattr(holder, node.attr)
    if isinstance(node, ast.Subscript):
        holder = _read(node.value, names)
        return holder if compat.is_tracer(holder) else holder[_read(node.slice, names)]
    raise TypeError(node)
