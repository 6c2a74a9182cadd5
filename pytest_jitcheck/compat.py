"""The one place that knows JAX versions, and that touches what JAX does not publish.

Each function says what it leans on; `tests/test_compat.py` runs them on the oldest and the newest supported JAX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.monitoring

from pytest_jitcheck.report import Cost

__all__ = [
    "Callback",
    "CaughtError",
    "Events",
    "JittedParts",
    "Origin",
    "callbacks",
    "configuration",
    "constant_place",
    "constants",
    "cost_of",
    "count_equations",
    "dependent_outputs",
    "dtypes_inside",
    "inner_jaxpr",
    "input_avals",
    "is_plain_traced",
    "is_tracer",
    "jitted_inside",
    "jitted_parts",
    "longest_loop",
    "module_copy",
    "module_state",
    "origin_of",
    "out_weak_types",
    "outer_tracers",
    "program_text",
    "recorded_events",
    "recorded_tracer_errors",
    "restore_configuration",
    "run_program",
    "trace_of",
    "unfiltered_tracebacks",
    "used_inputs",
    "x64",
    "x64_is_on",
]

TRACE_EVENT = "/jax/core/compile/jaxpr_trace_duration"
LOWER_EVENT = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"
CACHE_HIT_EVENT = "/jax/compilation_cache/cache_hits"


@dataclass(frozen=True, kw_only=True, slots=True)
class JittedParts:
    """What a function was jitted from, and with which statics and donations."""

    function: Callable[..., Any]
    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    transform: Callable[..., Any] | None = None
    """What jitted it, if that was not `jax.jit`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a tracer comes from: inputs of its trace by number, and the lines that staged what no input went into."""

    inputs: tuple[int, ...] = ()
    captured: tuple[Any, ...] = ()
    """Tracers of a trace further out that went into it."""
    staged_at: tuple[tuple[str, int], ...] = ()
    """File name and line of the operations on constants, in the order of the program."""


@dataclass(kw_only=True, slots=True)
class Events:
    """What JAX reported while a block ran: seconds by event name, and how often each event came."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def last(self, name: str) -> float:
        """Seconds of the last such event: nested jits report first, and the outer one's time includes theirs."""
        return self.seconds.get(name, [0.0])[-1]

    def number(self, name: str) -> int:
        """How often such an event came."""
        return self.counts.get(name, 0) + len(self.seconds.get(name, ()))


def is_tracer(value: object) -> bool:
    """Whether `value` stands for an array that is only known while tracing."""
    return isinstance(value, jax.core.Tracer)


def x64_is_on() -> bool:
    """Whether 64-bit types are on, in this thread and now."""
    return bool(jax.config.jax_enable_x64)


@functools.cache
def _pjit_type() -> type:
    return type(jax.jit(lambda: None))


def jitted_parts(fn: Any) -> JittedParts | None:
    """What `fn` was jitted from, by `jax.jit`, `equinox.filter_jit` or `nnx.jit`, or ``None`` if it was not."""
    pjit: Any = _pjit_type()
    if not isinstance(fn, pjit):
        return _jitted_by_equinox(fn) or _jitted_by_nnx(fn)
    chosen = _jit_options(fn)
    if chosen["static_argnums"] and _donations_skip_statics():
        chosen["donate_argnums"] = tuple(_counted_among_all(chosen["donate_argnums"], chosen["static_argnums"]))
    return JittedParts(function=fn.__wrapped__, **chosen)


def _jit_options(fn: Any) -> dict[str, Any]:
    """JAX keeps them in ``_jit_info`` (0.7 and later) or in a cell of the function's own cache miss handler."""
    options = getattr(fn, "_jit_info", None)
    if options is None:
        handler = inspect.unwrap(fn._cache_miss)  # noqa: SLF001  # there is no public way
        options = inspect.getclosurevars(handler).nonlocals.get("jit_info")
    names = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
    return {name: tuple(getattr(options, name, ()) or ()) for name in names}


@functools.cache
def _donations_skip_statics() -> bool:
    """Whether JAX counts donated arguments among those that are not static, as 0.5 does, once it has been told."""
    options = _jit_options(jax.jit(lambda n, x: x, static_argnums=0, donate_argnums=1))
    return bool(options["donate_argnums"] == (0,))


def _counted_among_all(donated: Sequence[int], static: Sequence[int]) -> Iterator[int]:
    for number in donated:
        place = number
        for skipped in sorted(static):
            place += skipped <= place
        yield place


def _jitted_by_equinox(fn: Any) -> JittedParts | None:
    equinox = sys.modules.get("equinox")
    if equinox is None or not isinstance(fn, type(equinox.filter_jit(lambda: None))):
        return None
    # Without its donations, which a check has no use for.
    return JittedParts(function=fn.__wrapped__, transform=equinox.filter_jit)


def _jitted_by_nnx(fn: Any) -> JittedParts | None:
    nnx = sys.modules.get("flax.nnx")
    # Before flax 0.11, nnx.jit gives a plain function, which keeps JAX's under another name.
    inner = getattr(fn, "jitted_fn", getattr(fn, "inner", None))
    if nnx is None or not isinstance(inner, _pjit_type()) or not hasattr(fn, "__wrapped__"):
        return None
    parts = jitted_parts(inner)
    return None if parts is None else dataclasses.replace(parts, function=fn.__wrapped__, transform=nnx.jit)


def is_plain_traced(traced: Any) -> bool:
    """Whether a `Traced` is JAX's own: that of nnx has other inputs and outputs than the function, and keeps JAX's inside."""
    return hasattr(traced, "jaxpr")


def inner_jaxpr(traced: Any) -> Any:
    """The open jaxpr of a `Traced`: JAX 0.12 gives it there, earlier versions within a closed one."""
    return getattr(traced.jaxpr, "jaxpr", traced.jaxpr)


def _subjaxprs(value: Any) -> Iterator[Any]:
    inner = getattr(
        value, "jaxpr", value
    )  # an open jaxpr gives itself on newer versions, and has no such thing on older
    if hasattr(inner, "eqns"):
        yield inner
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _subjaxprs(item)


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for parameter in equation.params.values():
            for inner in _subjaxprs(parameter):
                yield from _equations(inner)


def count_equations(traced: Any) -> int:
    """Number of equations of the traced program, those of nested ones included."""
    return sum(1 for _ in _equations(inner_jaxpr(traced if is_plain_traced(traced) else traced.traced)))


def dependent_outputs(traced: Any) -> tuple[bool, ...]:
    """For each flat output of the traced program, whether any traced argument goes into it."""
    jaxpr = inner_jaxpr(traced)
    return _outputs_reached(jaxpr, [True] * len(jaxpr.invars))


def _outputs_reached(jaxpr: Any, inputs: Sequence[bool]) -> tuple[bool, ...]:
    reached = {id(var) for var, is_reached in zip(jaxpr.invars, inputs, strict=True) if is_reached}
    for equation in jaxpr.eqns:
        arriving = [id(var) in reached for var in equation.invars]
        for var, is_reached in zip(equation.outvars, _equation_outputs(equation, arriving), strict=True):
            if is_reached:
                reached.add(id(var))
    return tuple(id(var) in reached for var in jaxpr.outvars)


def _equation_outputs(equation: Any, arriving: list[bool]) -> Sequence[bool]:
    # Through a nested jit each output is followed by itself; for loops and branches, any input reaches all outputs.
    inner = _called_jaxpr(equation)
    if inner is not None and len(inner.invars) == len(arriving):
        return _outputs_reached(inner, arriving)
    return [any(arriving)] * len(equation.outvars)


def _called_jaxpr(equation: Any) -> Any:
    """The program of a nested jit, or ``None`` for any other operation."""
    inner = equation.params.get("jaxpr") if equation.primitive.name in ("pjit", "jit", "closed_call") else None
    return getattr(inner, "jaxpr", inner)


def used_inputs(traced: Any) -> tuple[bool, ...]:
    """For each flat input of the traced program, whether anything that it gives or does depends on it."""
    jaxpr = inner_jaxpr(traced)
    return _inputs_used(jaxpr, [True] * len(jaxpr.outvars))


def _inputs_used(jaxpr: Any, outputs: Sequence[bool]) -> tuple[bool, ...]:
    used = {id(var) for var, is_used in zip(jaxpr.outvars, outputs, strict=True) if is_used}
    for equation in reversed(jaxpr.eqns):
        leaving = [id(var) in used for var in equation.outvars]
        if any(leaving) or equation.effects:
            used.update(
                id(var)
                for var, is_used in zip(equation.invars, _equation_inputs(equation, leaving), strict=True)
                if is_used
            )
    return tuple(id(var) in used for var in jaxpr.invars)


def _equation_inputs(equation: Any, leaving: list[bool]) -> Sequence[bool]:
    inner = _called_jaxpr(equation)
    if inner is not None and len(inner.outvars) == len(leaving) and not equation.effects:
        return _inputs_used(inner, leaving)
    return [True] * len(equation.invars)


@dataclass(frozen=True, kw_only=True, slots=True)
class Callback:
    """A call from the traced program back into Python."""

    primitive: str
    """JAX's name, such as ``pure_callback``."""
    place: tuple[str, int] | None
    """The user's file and line."""
    is_used: bool
    """Whether its result goes anywhere; if not, and JAX knows of no effect, the compiled program leaves it out."""


def callbacks(traced: Any) -> tuple[Callback, ...]:
    """The calls back into Python, those of nested programs included."""
    return tuple(_callbacks(inner_jaxpr(traced)))


def _callbacks(jaxpr: Any) -> Iterator[Callback]:
    read = {id(atom) for equation in jaxpr.eqns for atom in equation.invars} | {id(var) for var in jaxpr.outvars}
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if "callback" in name or name in ("debug_print", "outside_call"):
            is_used = bool(equation.effects) or any(id(var) in read for var in equation.outvars)
            yield Callback(primitive=name, place=_user_place(equation), is_used=is_used)
        for parameter in equation.params.values():
            for inner in _subjaxprs(parameter):
                yield from _callbacks(inner)


def constants(traced: Any) -> tuple[Any, ...]:
    """The arrays that the traced program captured from outside."""
    # JAX 0.12 keeps them on the Traced; before, they are on the closed jaxpr.
    return tuple(getattr(traced.jaxpr, "consts", None) or getattr(traced, "_consts", None) or ())


def constant_place(traced: Any, constant: Any) -> tuple[str, int] | None:
    """The user's file and line at which a captured array is first used."""
    jaxpr = inner_jaxpr(traced)
    pairs = zip(getattr(jaxpr, "constvars", ()), constants(traced), strict=False)
    wanted = {id(var) for var, value in pairs if value is constant}
    first = next((equation for equation in jaxpr.eqns if wanted & {id(atom) for atom in equation.invars}), None)
    return None if first is None else _user_place(first)


def dtypes_inside(traced: Any) -> tuple[Any, ...]:
    """The dtypes of what the traced program computes on its way, those of nested programs included."""
    avals = (var.aval for equation in _equations(inner_jaxpr(traced)) for var in equation.outvars)
    return tuple({aval.dtype for aval in avals if hasattr(aval, "dtype")})


def jitted_inside(traced: Any) -> tuple[tuple[str, str, float], ...]:
    """Functions that were jitted by themselves and that the traced program calls: name, file, and share of its equations."""
    jaxpr = inner_jaxpr(traced)
    total = max(1, sum(1 for _ in _equations(jaxpr)))
    found: list[tuple[str, str, float]] = []
    for equation in jaxpr.eqns:
        inner = _called_jaxpr(equation)
        if inner is not None and getattr(inner, "debug_info", None) is not None:
            # It reads such as: step at /home/me/model.py:12
            name, _, place = str(inner.debug_info.func_src_info).partition(" at ")
            share = (1 + sum(1 for _ in _equations(inner))) / total
            found.append((name, place.rpartition(":")[0], share))
    return tuple(found)


def longest_loop(traced: Any) -> float:
    """The largest number of steps that a loop of the traced program is known to take; infinite where it is not known."""
    steps = [0.0]
    for equation in _equations(inner_jaxpr(traced)):
        if equation.primitive.name == "while":
            steps.append(float("inf"))
        elif equation.primitive.name == "scan":
            steps.append(float(equation.params.get("length", float("inf"))))
    return max(steps)


def program_text(traced: Any) -> str:
    """The traced program as text that is the same for the same program: without the addresses of objects."""
    return re.sub(r"0x[0-9a-f]+", "0x", str(inner_jaxpr(traced)))


def run_program(traced: Any, flat_args: Sequence[Any]) -> list[Any]:
    """The flat results of the traced program, run one operation after the other."""
    return list(jax.core.eval_jaxpr(inner_jaxpr(traced), constants(traced), *flat_args))


_GUARDED = (
    "jax_enable_x64",
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)
"""Settings that change what later code computes."""


def configuration() -> dict[str, Any]:
    """The settings of JAX that change what later code computes."""
    return {name: getattr(jax.config, name) for name in _GUARDED if hasattr(jax.config, name)}


def restore_configuration(before: Mapping[str, Any]) -> dict[str, Any]:
    """Set back what has changed since `before`, and give what each changed setting had become."""
    changed = {name: value for name, value in configuration().items() if value != before[name]}
    for name in changed:
        _set_config(name, before[name])
    return changed


def _set_config(name: str, value: Any) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]  # JAX leaves it without types


@contextlib.contextmanager
def x64(*, enabled: bool) -> Iterator[None]:
    """Within the block, 64-bit types are on or off."""
    before = x64_is_on()
    _set_config("jax_enable_x64", enabled)
    try:
        yield
    finally:
        _set_config("jax_enable_x64", before)


def out_weak_types(traced: Any) -> tuple[bool, ...]:
    """For each flat output of the traced program, whether its type is weak."""
    return tuple(bool(getattr(var.aval, "weak_type", False)) for var in inner_jaxpr(traced).outvars)


def cost_of(compiled: Any) -> Cost:
    """What the compiler says of an executable; figures that a backend or a JAX version lacks are ``None``."""
    # Backends differ in what they answer and how they refuse; none of it may fail a check.
    with contextlib.suppress(Exception):
        # equinox wraps the executable in one of its own.
        compiled = getattr(compiled, "compiled", compiled)
        said = compiled.cost_analysis()
        flat = (said[0] if isinstance(said, list) else said) or {}
        memory = compiled.memory_analysis()
        return Cost(
            flops=_figure(flat.get("flops")),
            bytes_accessed=_figure(flat.get("bytes accessed")),
            argument_bytes=getattr(memory, "argument_size_in_bytes", None),
            output_bytes=getattr(memory, "output_size_in_bytes", None),
            temp_bytes=getattr(memory, "temp_size_in_bytes", None),
            generated_code_bytes=getattr(memory, "generated_code_size_in_bytes", None),
        )
    return Cost()


def _figure(value: float | None) -> float | None:
    # XLA answers -1 for what it does not know.
    return None if value is None or value < 0 else float(value)


def trace_of(tracer: Any) -> Any:
    """The trace that a tracer belongs to; two tracers of one traced function give the same object."""
    return getattr(tracer, "_trace", None)


def outer_tracers(tracer: Any) -> tuple[Any, ...]:
    """The tracers that a tracer of a transform (vmap, grad) wraps: those of the jit around it."""
    wrapped = (getattr(tracer, name, None) for name in ("val", "primal", "tangent"))
    return tuple(value for value in wrapped if is_tracer(value))


def origin_of(tracer: Any) -> Origin | None:
    """Where a tracer of a jit comes from, or ``None`` for a tracer of another transform."""
    frame = getattr(trace_of(tracer), "frame", None)
    if frame is None or not hasattr(frame, "invars"):
        return None
    ancestors = {id(_variable(frame, tracer))}
    # Before JAX 0.7 a scalar is a captured constant; since then it is a literal, which has a value and no variable.
    constants = {id(var): value for var, value in frame.constvar_to_val.copy().items()}
    roots: list[Any] = []
    for equation in reversed(list(frame.get_eqns() if hasattr(frame, "get_eqns") else frame.eqns)):
        if ancestors.isdisjoint(map(id, equation.outvars)):
            continue
        sources = [atom for atom in equation.invars if not hasattr(atom, "val")]
        ancestors.update(map(id, sources))
        if all(id(atom) in constants for atom in sources):
            roots.append(equation)
    places = (_user_place(equation) for equation in reversed(roots))
    return Origin(
        inputs=tuple(number for number, var in enumerate(frame.invars) if id(var) in ancestors),
        captured=tuple(value for var, value in constants.items() if var in ancestors and is_tracer(value)),
        staged_at=tuple(place for place in places if place is not None),
    )


def _variable(frame: Any, tracer: Any) -> Any:
    # Before JAX 0.7 the frame keeps a table; since then the tracer itself holds its variable.
    table = getattr(frame, "tracer_to_var", None)
    return tracer.val if table is None else table.get(id(tracer))


def input_avals(tracer: Any) -> tuple[Any, ...]:
    """The avals of the flat inputs of this tracer's trace."""
    frame = getattr(trace_of(tracer), "frame", None)
    return tuple(var.aval for var in getattr(frame, "invars", ()))


def _user_place(equation: Any) -> tuple[str, int] | None:
    from jax._src import source_info_util

    info = equation.source_info
    try:
        place = source_info_util.user_frame(info.traceback)
    except AttributeError:  # JAX before 0.7 takes the source info itself
        place = source_info_util.user_frame(info)
    return None if place is None else (place.file_name, place.start_line)


def module_state(leaf: Any) -> Any:
    """The arrays of an nnx module that is no pytree, which they are since flax 0.11; any other leaf as it is."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or not isinstance(leaf, nnx.Object):
        return leaf
    return type(leaf), nnx.to_pure_dict(nnx.state(leaf))


def module_copy(leaf: Any) -> Any:
    """A twin of an nnx module that is no pytree, which a call may then change; any other leaf as it is."""
    nnx = sys.modules.get("flax.nnx")
    return leaf if nnx is None or not isinstance(leaf, nnx.Object) else nnx.clone(leaf)


@contextlib.contextmanager
def unfiltered_tracebacks() -> Iterator[None]:
    """Within the block, exceptions keep JAX's own frames, whose locals say which tracer was at fault."""
    before = jax.config.jax_traceback_filtering
    _set_config("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        _set_config("jax_traceback_filtering", before)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaughtError:
    """A tracer error of JAX's that somebody caught."""

    caught_at: tuple[str, int]
    """File and line of the frame that caught it."""
    stack: tuple[tuple[str, int], ...]
    """File and line of each frame when it was made, the innermost first."""


@contextlib.contextmanager
def recorded_tracer_errors() -> Iterator[list[CaughtError]]:
    """Within the block, the tracer errors that JAX makes are written down; the list is filled when the block ends.

    A function that catches one goes another way under jit than in plain Python, and nothing else shows that.
    """
    caught: list[CaughtError] = []
    made_errors: list[tuple[BaseException, tuple[tuple[str, int], ...]]] = []
    classes = (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.NonConcreteBooleanIndexError,
        jax.errors.TracerBoolConversionError,
    )
    before = [(cls, cls.__dict__["__init__"]) for cls in classes if "__init__" in cls.__dict__]
    for cls, made in before:
        setattr(cls, "__init__", _recording(made, made_errors))  # noqa: B010  # mypy refuses the plain assignment
    try:
        yield caught
    finally:
        for cls, made in before:
            setattr(cls, "__init__", made)  # noqa: B010
        # Now, and without keeping them: an error holds its frames, and they hold tracers.
        caught.extend(_caught(error, stack) for error, stack in made_errors if error.__traceback__ is not None)
        made_errors.clear()


def _caught(error: BaseException, stack: tuple[tuple[str, int], ...]) -> CaughtError:
    # A traceback begins at the frame in which the error was caught.
    outermost = error.__traceback__
    assert outermost is not None  # noqa: S101  # for mypy: the caller asked
    return CaughtError(caught_at=(outermost.tb_frame.f_code.co_filename, outermost.tb_lineno), stack=stack)


def _recording(
    made: Callable[..., None], errors: list[tuple[BaseException, tuple[tuple[str, int], ...]]]
) -> Callable[..., None]:
    def __init__(self: BaseException, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # it stands in for one
        made(self, *args, **kwargs)
        stack: list[tuple[str, int]] = []
        frame = inspect.currentframe()
        while frame is not None:
            stack.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        errors.append((self, tuple(stack)))

    return __init__


@functools.cache
def _listeners() -> list[Events]:
    # One pair of listeners for the process: JAX had no public way to take a listener away before 0.10.
    active: list[Events] = []

    def on_duration(event: str, duration_secs: float, **_: str | int) -> None:
        for events in active:
            events.seconds.setdefault(event, []).append(duration_secs)

    def on_event(event: str, **_: str | int) -> None:
        for events in active:
            events.counts[event] = events.counts.get(event, 0) + 1

    jax.monitoring.register_event_duration_secs_listener(on_duration)
    jax.monitoring.register_event_listener(on_event)
    return active


@contextlib.contextmanager
def recorded_events() -> Iterator[Events]:
    """Within the block, what JAX traces, lowers, compiles and finds in its persistent cache is written down."""
    active = _listeners()
    events = Events()
    active.append(events)
    try:
        yield events
    finally:
        active.remove(events)
