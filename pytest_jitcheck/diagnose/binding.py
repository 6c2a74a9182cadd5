"""Failures outside of the traced function's body: its arguments, what it returns, and what the compiler makes of it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pytest_jitcheck.arguments import Bound, Call
from pytest_jitcheck.diagnose.evidence import Evidence, is_tracer_error
from pytest_jitcheck.diagnose.phrases import listed, static_advice
from pytest_jitcheck.diagnose.source import function_line
from pytest_jitcheck.diagnose.trial import Budget, as_static, error_when_traced, static_fix
from pytest_jitcheck.leaves import is_array_like
from pytest_jitcheck.report import Diagnosis, Fix, Location

__all__ = ["RULES", "BindingRule", "kind_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BindingRule:
    """One kind of failure before or after the function's body."""

    id: str
    """Stable name, and that of its section in the docs."""
    matches: Callable[[Evidence], bool]
    """Whether this is that kind."""
    explain: Callable[[Evidence, Budget], Diagnosis]
    """What is said of it."""


def kind_of(evidence: Evidence) -> str:
    """The kind of failure that a stage's exception is, if nothing more is known."""
    kinds = {"trace": "trace_error", "lower": "lower_error", "compile": "compile_error", "run": "runtime_error"}
    return kinds.get(evidence.stage, "trace_error")


def _before_the_body(evidence: Evidence) -> bool:
    return evidence.stage == "trace" and evidence.site is None


# --- arguments that JAX does not take ----------------------------------------------------------------------------------


def _foreign(call: Call) -> list[Bound]:
    """The traced arguments that hold something which is neither an array nor a number."""
    return [
        argument
        for argument in call.bound()
        if not argument.static and any(not is_array_like(leaf) for leaf in jax.tree_util.tree_leaves(argument.value))
    ]


def _foreign_argument(evidence: Evidence, budget: Budget) -> Diagnosis:
    arguments = _foreign(evidence.call)
    names = tuple(argument.name for argument in arguments)
    kinds = " and ".join(dict.fromkeys(_foreign_kind(argument.value) for argument in arguments))
    # Whatever the statics show next belongs to the same answer, so the rules of the body are asked for it.
    from pytest_jitcheck.diagnose.rules import rule_for

    def blamed(current: Evidence) -> tuple[Bound, ...]:
        if current is evidence:
            return tuple(arguments)
        return current.blame(rule_for(current).culprits(current)).arguments

    statics = static_fix(evidence, blamed, allow_float=True, budget=budget)
    return Diagnosis(
        kind="static_argument",
        rule="argument-is-no-array",
        message=(
            f"{listed(names)} {'is' if len(names) == 1 else 'are'} not static, and {'holds' if len(names) == 1 else 'hold'} "
            f"{kinds}. Under jit an ordinary argument has to be an array, a number, or a container of those."
        ),
        location=function_line(evidence.call.fn),
        arguments=names,
        fix=Fix(text=static_advice(statics, evidence.call.name, names), verified=True, static_argnames=statics.names)
        if statics is not None
        else Fix(text=_pytree_advice(arguments[0])),
    )


def _foreign_kind(value: Any) -> str:
    leaf = next(leaf for leaf in jax.tree_util.tree_leaves(value) if not is_array_like(leaf))
    if isinstance(leaf, np.ndarray):
        return f"a NumPy array of dtype {leaf.dtype}"
    if isinstance(leaf, str):
        return "a string"
    return "a function" if inspect.isroutine(leaf) else f"an object of type {type(leaf).__name__}"


def _pytree_advice(argument: Bound) -> str:
    value, name = argument.value, argument.name
    if isinstance(value, (dict, list, tuple)):
        return f"Split `{name}`: pass what is no array as an argument of its own, and declare that static."
    return (
        f"Register {type(value).__name__} as a pytree, with its arrays as children, so that `{name}` can be traced: "
        "jax.tree_util.register_dataclass, or make it an equinox.Module, a flax.struct.dataclass or a NamedTuple."
    )


# --- statics that can't be -----------------------------------------------------------------------------------------------


def _unhashable(call: Call) -> list[Bound]:
    return [argument for argument in call.bound() if argument.static and not _can_hash(argument.value)]


def _can_hash(value: Any) -> bool:
    try:
        hash(value)
    except Exception:  # noqa: BLE001  # a user's __hash__ may raise anything
        return False
    return True


def _unhashable_static(evidence: Evidence, budget: Budget) -> Diagnosis:
    arguments = _unhashable(evidence.call)
    names = tuple(argument.name for argument in arguments)
    kinds = " and ".join(dict.fromkeys(type(argument.value).__name__ for argument in arguments))
    return Diagnosis(
        kind="static_argument",
        rule="unhashable-static",
        message=(
            f"{listed(names)} is declared static, but a {kinds} can't be hashed: jit finds the compiled program of a static "
            "value by its hash."
        ),
        location=function_line(evidence.call.fn),
        arguments=names,
        fix=_hashable_fix(evidence.call, arguments, budget),
    )


def _hashable_fix(call: Call, arguments: list[Bound], budget: Budget) -> Fix:
    statics = {argument.key: argument.value for argument in call.bound() if argument.static}
    bad = {argument.key for argument in arguments}
    names = tuple(argument.name for argument in arguments)
    # A list was meant to be static and is a tuple away from it; an array may not have been.
    if not all(isinstance(argument.value, (list, set)) for argument in arguments) and _traces_without(
        call, statics, bad, budget
    ):
        return Fix(
            text=f"Take {listed(names)} out of the static arguments: the function traces without.", verified=True
        )
    forms = {argument.key: _hashable_form(argument.value) for argument in arguments}
    if any(form is None for form in forms.values()):
        return Fix(text=_pytree_advice(arguments[0]))
    with budget.trial():
        works = error_when_traced(call, {**statics, **forms}) is None
    advice = " ".join(_form_advice(argument) for argument in arguments)
    return Fix(text=advice, verified=works, static_argnames=names if works else ())


def _traces_without(call: Call, statics: dict[int | str, Any], bad: set[int | str], budget: Budget) -> bool:
    with budget.trial():
        return error_when_traced(call, {key: value for key, value in statics.items() if key not in bad}) is None


def _hashable_form(value: Any) -> Any:
    """What the value would be if its author made it hashable, or ``None`` where it holds arrays."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return value.item() if value.ndim == 0 else tuple(np.asarray(value).tolist()) if value.ndim == 1 else None
    sound, form = as_static(value, allow_float=True)
    if sound:
        return form
    # A class that compares by value without being frozen: what it holds decides.
    held = list(getattr(value, "__dict__", {}).values())
    holds_arrays = any(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree_util.tree_leaves(held))
    return None if holds_arrays or (isinstance(value, (dict, set)) and not value) else value


def _form_advice(argument: Bound) -> str:
    value, name = argument.value, argument.name
    if isinstance(value, (jax.Array, np.ndarray)):
        form = f"int({name})" if value.ndim == 0 else f"tuple({name}.tolist())"
        return f"Pass `{name}` as plain Python, {form}, and keep it static."
    if isinstance(value, list):
        return f"Pass `{name}` as a tuple, tuple({name}), and keep it static."
    if isinstance(value, (dict, set)):
        return f"Pass `{name}` in a form that can't change: a frozen dataclass, a NamedTuple, or tuple(sorted({name}.items()))."
    return (
        f"Make {type(value).__name__} immutable, which gives it a hash: @dataclasses.dataclass(frozen=True), or a NamedTuple; "
        f"then `{name}` can stay static."
    )


# --- numbers, results, buffers -----------------------------------------------------------------------------------------


def _too_large(evidence: Evidence, budget: Budget) -> Diagnosis:
    names = tuple(
        argument.name
        for argument in evidence.call.bound()
        if not argument.static and any(_overflows(leaf) for leaf in jax.tree_util.tree_leaves(argument.value))
    )
    return Diagnosis(
        kind="trace_error",
        rule="integer-too-large",
        message=(
            f"{listed(names) or 'A Python integer'} does not fit into the integers that JAX traces, which are 32 bits wide "
            "unless x64 is on. In plain Python integers have no limit."
        ),
        location=function_line(evidence.call.fn),
        arguments=names,
        fix=Fix(
            text="For a seed, make the key outside, jax.random.key(seed), and pass that. For a number, pass a float, or turn x64 "
            "on (jax_enable_x64)."
        ),
    )


def _overflows(leaf: Any) -> bool:
    bits = 64 if jax.config.jax_enable_x64 else 32
    return isinstance(leaf, int) and not -(2 ** (bits - 1)) <= leaf < 2 ** (bits - 1)


def _returned(evidence: Evidence, budget: Budget) -> Diagnosis:
    what = re.search(r"of type <class '([\w.]+)'>", evidence.message)
    where = re.search(r"at (?:output component |flat index |result)?(\[[^,\s]+)", evidence.message)
    kind = "something that is neither an array nor a number" if what is None else f"a {what[1].rpartition('.')[2]}"
    return Diagnosis(
        kind="trace_error",
        rule="returns-no-array",
        message=(
            f"{evidence.call.name} returns {kind}{'' if where is None else f' at {where[1]}'}. A compiled function can only "
            "give back arrays and numbers, and containers of those."
        ),
        location=_return_line(evidence.call) or function_line(evidence.call.fn),
        fix=Fix(
            text=(
                "Return the arrays alone. For a function that closes over arrays, return the arrays and make the function "
                "outside, or return jax.tree_util.Partial(f, arrays). Strings and other labels belong to the caller."
            )
        ),
    )


def _return_line(call: Call) -> Location | None:
    """The return statement of the function, where it has a single one."""
    defined = function_line(call.fn)
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(call.fn)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return None
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    inner = [
        node
        for fn in ast.walk(tree)
        if isinstance(fn, (ast.FunctionDef, ast.Lambda)) and fn is not tree.body[0]
        for node in ast.walk(fn)
    ]
    own = [node for node in returns if node not in inner]
    if len(own) != 1 or defined is None:
        return None
    import linecache

    first = inspect.unwrap(call.fn).__code__.co_firstlineno
    line = first + own[0].lineno - 1
    text = linecache.getline(defined.path, line).rstrip("\n")
    return Location(path=defined.path, line=line, source=text, function=defined.function)


def _donation(evidence: Evidence, budget: Budget) -> Diagnosis:
    names = _aliases(evidence.call)
    return Diagnosis(
        kind="runtime_error",
        rule="donated-twice",
        message=(
            f"{listed(names)} are the same buffer, and it is donated: the compiled function may write its result over a "
            "buffer that it still has to read."
        ),
        location=function_line(evidence.call.fn),
        arguments=names,
        fix=Fix(text=f"Pass a copy: jnp.copy({names[-1]}), or do not donate it."),
    )


def _aliases(call: Call) -> tuple[str, ...]:
    """The arguments that share a donated buffer with another one."""
    positions, names = call.donated.positions(len(call.args)), call.donated.argnames
    holders: dict[int, list[Bound]] = {}
    for argument in call.bound():
        for leaf in jax.tree_util.tree_leaves(argument.value):
            if isinstance(leaf, (jax.Array, np.ndarray)):
                holders.setdefault(id(leaf), []).append(argument)
    shared = [
        group
        for group in holders.values()
        if len(group) > 1 and any(a.key in positions or a.key in names for a in group)
    ]
    return tuple(dict.fromkeys(argument.name for group in shared for argument in group))


def _stage_failure(evidence: Evidence, budget: Budget) -> Diagnosis:
    words = {"lower": "lowering it to StableHLO", "compile": "compiling it", "run": "running the compiled program"}
    first = (evidence.message.strip().splitlines() or [""])[0]
    return Diagnosis(
        kind=kind_of(evidence),
        rule={"lower": "lower-error", "compile": "compile-error", "run": "runtime-error"}[evidence.stage],
        message=f"{evidence.call.name} traces, but {words[evidence.stage]} failed: {first}",
        location=function_line(evidence.call.fn),
        fix=Fix(
            text=(
                "The Python code was taken; the compiler or the device refused the program. Look at what JAX said for an "
                "operation or a dtype that this backend lacks, a host callback that raised, or memory that ran out."
            )
        ),
    )


def _unordered_keys(evidence: Evidence, budget: Budget) -> Diagnosis:
    names = tuple(argument.name for argument in evidence.call.bound() if _has_unordered_keys(argument.value))
    what = f"{listed(names)} holds" if names else f"{evidence.call.name} returns"
    return Diagnosis(
        kind="trace_error",
        rule="unordered-keys",
        message=f"{what} a dict with keys of different types. JAX takes dicts with their keys sorted, and these have no order.",
        location=function_line(evidence.call.fn),
        arguments=names,
        fix=Fix(text="Use keys of one type, such as strings, or a NamedTuple or a dataclass in place of the dict."),
    )


def _has_unordered_keys(value: Any) -> bool:
    try:
        jax.tree_util.tree_leaves(value)
    except ValueError:
        return True
    return False


RULES: tuple[BindingRule, ...] = (
    BindingRule(
        id="unordered-keys",
        matches=lambda evidence: "dictionary keys" in evidence.message and isinstance(evidence.root, ValueError),
        explain=_unordered_keys,
    ),
    BindingRule(
        id="donated-twice",
        matches=lambda evidence: evidence.stage == "run" and bool(_aliases(evidence.call)),
        explain=_donation,
    ),
    BindingRule(
        id="stage-failure",
        matches=lambda evidence: evidence.stage in ("lower", "compile", "run"),
        explain=_stage_failure,
    ),
    BindingRule(
        id="unhashable-static",
        matches=lambda evidence: _before_the_body(evidence) and bool(_unhashable(evidence.call)),
        explain=_unhashable_static,
    ),
    BindingRule(
        id="argument-is-no-array",
        matches=lambda evidence: _before_the_body(evidence) and bool(_foreign(evidence.call)),
        explain=_foreign_argument,
    ),
    BindingRule(
        id="integer-too-large",
        matches=lambda evidence: _before_the_body(evidence) and isinstance(evidence.root, OverflowError),
        explain=_too_large,
    ),
    BindingRule(
        id="returns-no-array",
        matches=lambda evidence: (
            _before_the_body(evidence) and isinstance(evidence.root, TypeError) and not is_tracer_error(evidence.root)
        ),
        explain=_returned,
    ),
)
