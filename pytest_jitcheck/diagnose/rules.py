"""The rules: for each kind of failure how it is recognised, what is said of it, and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from pytest_jitcheck import compat
from pytest_jitcheck.diagnose import syntax
from pytest_jitcheck.diagnose.evidence import Blame, Evidence
from pytest_jitcheck.diagnose.phrases import because, listed, subject

__all__ = ["RULES", "Rule", "rule_for", "says_tracer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One kind of failure."""

    id: str
    """Stable name, and that of its section in the docs."""
    matches: Callable[[Evidence], bool]
    """Whether this is that kind; rules are asked in the order of the table."""
    message: Callable[[Evidence, Blame], str]
    """What happened."""
    rewrite: Callable[[Evidence, Blame], str]
    """What to write instead, where nothing can be static."""
    statics: Literal["never", "values", "structure"] = "values"
    """Whether static arguments may be the fix; for what decides a shape or a loop, floats too."""
    has_other_way: bool = True
    """Whether `rewrite` is a way to keep traced what a static fix would declare static."""
    culprits: Callable[[Evidence], list[Any]] = lambda evidence: evidence.triggers
    """The tracers to follow back to the arguments."""
    is_ambiguous: bool = False
    """Whether the culprits hold bystanders, so that the arguments of a fix that works say more."""
    is_guess: bool = False
    """Whether the exception says nothing of tracers, so that only a fix that works shows what it was about."""
    kind: str = "trace_error"
    """Kind of failure in the report."""


def _is(*classes: type[BaseException]) -> Callable[[Evidence], bool]:
    return lambda evidence: isinstance(evidence.root, classes)


def _says(*words: str) -> Callable[[Evidence], bool]:
    return lambda evidence: any(word in evidence.message for word in words)


def _all(*tests: Callable[[Evidence], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: all(test(evidence) for test in tests)


_BOOL = _is(jax.errors.TracerBoolConversionError)
_INTEGER = _is(jax.errors.TracerIntegerConversionError)
_ARRAY = _is(jax.errors.TracerArrayConversionError)
_CONCRETE = _is(jax.errors.ConcretizationTypeError)
says_tracer = _says("Tracer", "Traced<", "traced array", "tracer")
"""Whether the exception speaks of a traced value."""


def _within(*kinds: type[ast.AST]) -> Callable[[Evidence], bool]:
    return lambda evidence: evidence.site is not None and evidence.site.enclosing(*kinds) is not None


def _calls(*names: str) -> Callable[[Evidence], bool]:
    return lambda evidence: syntax.callee(evidence.site) in names


def _expression(evidence: Evidence) -> str:
    return "" if evidence.site is None else evidence.site.text(evidence.site.node)


def _fixed(text: str) -> Callable[[Evidence, Blame], str]:
    return lambda evidence, blame: text


def _blamed(sentence: str) -> Callable[[Evidence, Blame], str]:
    """A message from a sentence with ``{it}`` for the expression, and why there is no value."""
    return lambda evidence, blame: (
        f"{sentence.format(it=subject(_expression(evidence)))} {because(blame, _expression(evidence))}."
    )


# --- what each family looks at ---------------------------------------------------------------------------------------


def _at_test(evidence: Evidence) -> list[Any]:
    """For a Python condition: all that it reads, since JAX looks at one operand at a time."""
    found = evidence.triggers
    return found or evidence.tracers_at(evidence.site)


def _in_index(evidence: Evidence) -> list[Any]:
    index = syntax.index_of(evidence.site)
    found = [] if index is None else evidence.tracers_at(evidence.site, index)
    masks = [one for one in found if one.dtype == np.bool_ and one.ndim]
    inner = [one for entry in evidence.beyond for one in _boolean_locals(entry.frame.f_locals)]
    return masks or inner[:1] or found


def _boolean_locals(local: dict[str, Any]) -> list[Any]:
    flat = [
        leaf for name, value in local.items() if name in ("item", "idx", "index", "i", "key") for leaf in _leaves(value)
    ]
    return [leaf for leaf in flat if compat.is_tracer(leaf) and leaf.dtype == np.bool_]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _in_slice(evidence: Evidence) -> list[Any]:
    index = syntax.index_of(evidence.site)
    found: list[Any] = []
    for part in syntax.slices(index):
        found.extend(evidence.tracers_at(evidence.site, part))
    return found or evidence.triggers


def _in_shape(evidence: Evidence) -> list[Any]:
    """The tracers inside the shape that JAX refused."""
    for entry in reversed(evidence.beyond):
        for name in ("shape", "newshape", "new_sizes", "sizes", "dims"):
            held = [leaf for leaf in _leaves(entry.frame.f_locals.get(name)) if compat.is_tracer(leaf)]
            if held:
                return held
    return evidence.triggers


def _static_parameters(evidence: Evidence) -> list[Any]:
    """The tracers in the arguments of the failing call that the callee wants static; in all of them where that is unknown."""
    held: list[Any] = []
    for part in syntax.static_parts(evidence.site):
        held.extend(evidence.tracers_at(evidence.site, part))
    return held or evidence.tracers_at(evidence.site) or evidence.triggers


# --- messages ----------------------------------------------------------------------------------------------------------


def _condition_message(what: str) -> Callable[[Evidence, Blame], str]:
    def message(evidence: Evidence, blame: Blame) -> str:
        return f"{what} needs {subject(_condition(evidence), 'its condition')} to be true or false. {because(blame, _condition(evidence))}."

    return message


def _logic_message(evidence: Evidence, blame: Blame) -> str:
    text = _expression(evidence)
    return (
        f"Python's `and`, `or`, `not` and `in`, and chained comparisons, ask each part for True or False, here "
        f"{subject(text)}. {because(blame, text)}."
    )


def _builtin_message(evidence: Evidence, blame: Blame) -> str:
    text = _expression(evidence)
    return f"{subject(text)} compares or tests values in Python, and needs True or False each time. {because(blame, text)}."


def _condition(evidence: Evidence) -> str:
    test = syntax.test_of(evidence.site)
    return _expression(evidence) if test is None or evidence.site is None else evidence.site.text(test)


def _branch_rewrite(evidence: Evidence, blame: Blame) -> str:
    return syntax.where_for(evidence.site) or (
        f"Compute both sides and choose: jnp.where({_array_condition(evidence)}, a, b); or run one of two functions: "
        f"jax.lax.cond({_array_condition(evidence)}, f, g, x)."
    )


def _array_condition(evidence: Evidence) -> str:
    test = syntax.test_of(evidence.site)
    return _expression(evidence) if test is None else syntax.array_logic(test)


def _while_rewrite(evidence: Evidence, blame: Blame) -> str:
    carry = syntax.carry_of(evidence.site) or ["carry"]
    condition = _array_condition(evidence)
    if len(carry) == 1:
        name = carry[0]
        return (
            f"Let JAX run the loop: {name} = jax.lax.while_loop(lambda {name}: {condition}, step, {name}), where step({name}) "
            "returns what one round makes of it."
        )
    names = ", ".join(carry)
    return (
        f"Let JAX run the loop over ({names}): {names} = jax.lax.while_loop(cond, step, ({names})), where cond(carry) takes "
        f"its names apart, `{names} = carry`, and returns `{condition}`, and step(carry) returns those of the next round, in "
        "the same shapes and dtypes."
    )


def _loop_rewrite(evidence: Evidence, blame: Blame) -> str:
    bound = syntax.loop_bound(evidence.site) or "n"
    return (
        f"Let JAX run the loop: jax.lax.fori_loop(0, {bound}, lambda i, carry: ..., carry), or jax.lax.scan where each "
        "step gives an output."
    )


def _assert_rewrite(evidence: Evidence, blame: Blame) -> str:
    function = "" if evidence.site is None else evidence.site.location.function or ""
    if function.rpartition(".")[2].startswith("test"):
        return (
            "In a test marked with jitcheck, return the value instead: what the test returns is compared, eager against "
            "compiled. Or ask for the jitcheck fixture, call `out = jitcheck(f)(x)` and assert on `out`, which is the eager "
            "result."
        )
    return "Check values before the jitted call, or inside of it with jax.experimental.checkify."


def _builtin_rewrite(evidence: Evidence, blame: Blame) -> str:
    name = syntax.callee(evidence.site).rpartition(".")[2]
    arguments = syntax.arguments_text(evidence.site)
    twins = {
        "sorted": "jnp.sort({})",
        "min": "jnp.min({})",
        "max": "jnp.max({})",
        "any": "jnp.any({})",
        "all": "jnp.all({})",
        "sum": "jnp.sum({})",
        "bool": "a comparison inside jnp.where",
    }
    if name in ("min", "max") and "," in arguments:
        return f"Write jnp.{name}imum({arguments})."
    if arguments.startswith(("[", "(")):
        arguments = f"jnp.stack({arguments})"
    return f"Write {twins.get(name, 'the jnp function of that name').format(arguments)}."


def _logical_rewrite(evidence: Evidence, blame: Blame) -> str:
    expression = syntax.logic_of(evidence.site)
    if isinstance(expression, ast.Compare) and isinstance(expression.ops[0], (ast.In, ast.NotIn)):
        return "Write jnp.any(values == x), or jnp.isin(x, values)."
    text = "a & b" if expression is None else syntax.array_logic(expression)
    return f"Write {text}: the operators &, | and ~ work on arrays of bools, element by element."


def _mask_rewrite(evidence: Evidence, blame: Blame) -> str:
    return syntax.masked_for(evidence.site)


def _slice_rewrite(evidence: Evidence, blame: Blame) -> str:
    return syntax.dynamic_slice_for(evidence.site)


def _shape_rewrite(evidence: Evidence, blame: Blame) -> str:
    if not blame.inputs:
        return (
            "Compute shapes with Python, math or numpy instead of jnp: x.shape and x.size are plain numbers under jit too, "
            "and stay so: math.prod(x.shape), x.size // 2, int(np.ceil(...))."
        )
    return (
        "A shape has to be known while tracing. Make the array as large as it can get and mask the rest: "
        "jnp.where(jnp.arange(size) < n, values, 0)."
    )


def _size_rewrite(evidence: Evidence, blame: Blame) -> str:
    return syntax.sized_for(evidence.site)


def _scalar_message(evidence: Evidence, blame: Blame) -> str:
    name = syntax.callee(evidence.site)
    what = (
        f"`{name if '.' not in name or name.startswith('math.') else '.' + name.rpartition('.')[2]}()`"
        if name
        else subject(_expression(evidence))
    )
    return f"{what} asks for a Python number from {_operand(evidence)}. {because(blame, syntax.operand_text(evidence.site))}."


def _operand(evidence: Evidence) -> str:
    return subject(syntax.operand_text(evidence.site))


def _scalar_rewrite(evidence: Evidence, blame: Blame) -> str:
    return syntax.scalar_for(evidence.site)


def _numpy_message(evidence: Evidence, blame: Blame) -> str:
    name = syntax.callee(evidence.site) or "NumPy"
    reason = because(blame, syntax.operand_text(evidence.site))
    return f"{name} converts {_operand(evidence)} to a NumPy array, which needs its values. {reason}."


def _numpy_rewrite(evidence: Evidence, blame: Blame) -> str:
    return syntax.jnp_for(evidence.site)


def _structural_message(evidence: Evidence, blame: Blame) -> str:
    name = syntax.callee(evidence.site) or "the called function"
    parameters = syntax.static_parameter_names(evidence.site)
    if parameters:
        return f"{name} needs a plain value for {listed(parameters)} while the function is traced, and got a traced one. {because(blame)}."
    return f"{name} needs plain Python values while the function is traced, and got a traced one. {because(blame)}."


def _attribute(evidence: Evidence) -> str:
    """Name of the attribute that was asked for."""
    node = None if evidence.site is None else evidence.site.node
    return getattr(evidence.root, "name", None) or (node.attr if isinstance(node, ast.Attribute) else "")


def _attribute_message(evidence: Evidence, blame: Blame) -> str:
    name = _attribute(evidence) or "this attribute"
    return (
        f"`.{name}` was read of a traced value, which lacks it: a traced array has a shape and a dtype, but no device, no "
        f"buffer and no NumPy methods."
    )


def _attribute_rewrite(evidence: Evidence, blame: Blame) -> str:
    name = _attribute(evidence)
    advice = {
        "device": "Leave device= out: under jit results are placed where the inputs are.",
        "devices": "Ask for the devices outside of the jitted function.",
        "sharding": "Use jax.lax.with_sharding_constraint, or ask for the sharding outside of the jitted function.",
        "numpy": "Use jnp functions on the array itself.",
        "tolist": "Use jnp functions on the array itself, and .tolist() on the result outside.",
        "tobytes": "Convert to bytes outside of the jitted function.",
        "fill": "Write jnp.full_like(x, value).",
        "put": "Write x.at[indices].set(values).",
        "flat": "Write x.ravel(), or x.ravel()[i] for one element.",
        "sort": "Write jnp.sort(x), which returns the sorted array.",
    }
    return advice.get(name, f"Read `.{name}` before the jitted call, and pass what is needed of it as an argument.")


def _formatted(evidence: Evidence) -> str:
    return "" if evidence.site is None else evidence.site.text(syntax.format_of(evidence.site))


def _iteration_rewrite(evidence: Evidence, blame: Blame) -> str:
    return (
        "Give the loop something with a length: an array of at least one dimension, range() over a static number, or "
        "jax.lax.fori_loop."
    )


def _returns_message(evidence: Evidence, blame: Blame) -> str:
    return (
        f"{evidence.call.name} returns something that is neither an array nor a number, which a compiled function can't "
        f"do: {evidence.message.splitlines()[0]}"
    )


def _item_message(evidence: Evidence, blame: Blame) -> str:
    return f"{subject(_statement(evidence), 'This')} writes into a traced array, and JAX arrays can't be changed."


def _statement(evidence: Evidence) -> str:
    site = evidence.site
    return "" if site is None or site.statement is None else site.text(site.statement).splitlines()[0]


def _item_rewrite(evidence: Evidence, blame: Blame) -> str:
    held = [argument for argument in blame.arguments if isinstance(argument.value, np.ndarray)]
    first = (
        f"`{held[0].name}` is a NumPy array in plain Python, which has no .at: begin with {held[0].name} = jnp.asarray({held[0].name}). "
        if held
        else ""
    )
    return first + syntax.at_set_for(evidence.site)


def _generic_message(evidence: Evidence, blame: Blame) -> str:
    what = (
        "A traced value was used where Python or a library needs a concrete one"
        if says_tracer(evidence)
        else (f"The function raised {type(evidence.root).__name__} while JAX traced it, though it runs in plain Python")
    )
    tail = f" {because(blame)}." if blame.inputs or blame.staged else ""
    return f"{what}, at {subject(_expression(evidence), 'this line')}.{tail}"


def _generic_rewrite(evidence: Evidence, blame: Blame) -> str:
    return (
        "Keep what needs a concrete value out of the jitted function, or give it plain Python numbers: shapes, dtypes and "
        "static arguments are such under jit too. jnp functions and jax.lax control flow take traced values."
    )


def _is_structural(evidence: Evidence) -> bool:
    """Whether a call was given a tracer for an argument that decides the program: an axis, a length, a mode."""
    if syntax.call_of(evidence.site) is None:
        return False
    unhashable = "Non-hashable static arguments" in evidence.message or "__hash__" in evidence.message
    is_about_tracers = isinstance(evidence.root, (TypeError, ValueError)) and says_tracer(evidence)
    return unhashable or is_about_tracers or _CONCRETE(evidence) or _INTEGER(evidence) or _ARRAY(evidence)


_LEAK_MESSAGE = (
    "A traced value was kept from one trace and used in another: a global, an attribute, a closure or a cache "
    "(functools.lru_cache, functools.cache) holds it."
)
_LEAK_REWRITE = (
    "Return the value instead of storing it. Fill caches with numpy values, or under jax.ensure_compile_time_eval(), which "
    "computes constants at once."
)

RULES: tuple[Rule, ...] = (
    Rule(
        id="leaked-tracer",
        kind="tracer_leak",
        matches=_is(jax.errors.UnexpectedTracerError),
        message=_fixed(_LEAK_MESSAGE),
        rewrite=_fixed(_LEAK_REWRITE),
        statics="never",
        culprits=lambda evidence: [],
    ),
    Rule(
        id="assert-on-tracer",
        matches=_all(_BOOL, _within(ast.Assert)),
        message=_condition_message("`assert`"),
        rewrite=_assert_rewrite,
        culprits=_at_test,
    ),
    Rule(
        id="python-builtin",
        matches=_all(_BOOL, _calls("sorted", "min", "max", "any", "all", "sum", "bool", "filter", "list.sort")),
        message=_builtin_message,
        rewrite=_builtin_rewrite,
        culprits=lambda evidence: evidence.tracers_at(evidence.site) or evidence.triggers,
    ),
    Rule(
        id="python-logic",
        matches=_all(_BOOL, lambda evidence: syntax.is_logic(evidence.site)),
        message=_logic_message,
        rewrite=_logical_rewrite,
        culprits=_at_test,
    ),
    Rule(
        id="python-while",
        matches=_all(_BOOL, lambda evidence: syntax.is_while(evidence.site)),
        message=_condition_message("A Python `while`"),
        rewrite=_while_rewrite,
        culprits=_at_test,
    ),
    Rule(
        id="python-branch",
        matches=_BOOL,
        message=_condition_message("A Python `if`"),
        rewrite=_branch_rewrite,
        culprits=_at_test,
    ),
    Rule(
        id="python-loop",
        matches=_all(_INTEGER, _calls("range")),
        message=_blamed("{it} needs a Python integer."),
        rewrite=_loop_rewrite,
        statics="structure",
    ),
    Rule(
        id="index-into-list",
        matches=_all(_INTEGER, lambda evidence: syntax.index_of(evidence.site) is not None),
        message=_blamed("{it} looks up an item of a Python list or tuple, which needs a Python integer."),
        rewrite=lambda evidence, blame: syntax.list_index_for(evidence.site),
        statics="structure",
    ),
    Rule(
        id="boolean-mask",
        matches=_is(jax.errors.NonConcreteBooleanIndexError),
        message=_blamed(
            "{it} picks elements with a boolean mask, and how many there are decides the shape of the result."
        ),
        rewrite=_mask_rewrite,
        statics="never",
        culprits=_in_index,
    ),
    Rule(
        id="size-from-value",
        has_other_way=False,
        matches=_all(_is(TypeError), lambda evidence: syntax.is_sized_call(evidence.site)),
        message=_blamed("{it} gives a result whose length depends on the values."),
        rewrite=_size_rewrite,
        statics="structure",
    ),
    Rule(
        id="numpy-on-tracer",
        matches=_all(_ARRAY, lambda evidence: not syntax.is_jax_call(evidence.site)),
        message=_numpy_message,
        rewrite=_numpy_rewrite,
    ),
    Rule(
        id="moving-window",
        matches=_all(_is(IndexError, TypeError), lambda evidence: syntax.is_moving_window(evidence.site)),
        message=_blamed("{it} has slice bounds that are traced, though its width is constant."),
        rewrite=_slice_rewrite,
        statics="never",
        culprits=_in_slice,
    ),
    Rule(
        id="slice-bound",
        matches=_all(_is(IndexError, TypeError), lambda evidence: bool(syntax.slices(syntax.index_of(evidence.site)))),
        message=_blamed("{it} has a slice bound that is traced, and the bounds decide the shape of the result."),
        rewrite=_slice_rewrite,
        statics="structure",
        culprits=_in_slice,
    ),
    Rule(
        id="shape-from-value",
        has_other_way=False,
        matches=_says("Shapes must be 1D sequences", "shape must be", "Shape must be", "shapes must be"),
        message=_blamed("{it} needs a shape, made of plain numbers, and was given a traced value."),
        rewrite=_shape_rewrite,
        statics="structure",
        culprits=_in_shape,
    ),
    Rule(
        id="python-integer",
        has_other_way=False,
        matches=_all(
            _is(TypeError),
            lambda evidence: syntax.is_number_call(evidence.site) and syntax.is_integer_call(evidence.site),
        ),
        message=_scalar_message,
        rewrite=_scalar_rewrite,
        statics="structure",
    ),
    Rule(
        id="python-number",
        matches=_all(_is(TypeError), lambda evidence: syntax.is_number_call(evidence.site)),
        message=_scalar_message,
        rewrite=_scalar_rewrite,
    ),
    Rule(
        id="structural-argument",
        has_other_way=False,
        matches=_is_structural,
        message=_structural_message,
        rewrite=_generic_rewrite,
        statics="structure",
        culprits=_static_parameters,
        is_ambiguous=True,
    ),
    Rule(
        id="iteration-over-scalar",
        has_other_way=False,
        matches=_says(
            "iteration over a 0-d array", "cannot unpack non-iterable", "len() of unsized", "object is not iterable"
        ),
        message=_blamed("{it} goes over the elements of a value that has none: a traced scalar."),
        rewrite=_iteration_rewrite,
        statics="structure",
    ),
    Rule(
        id="item-assignment",
        matches=_says("does not support item assignment", "JAX arrays are immutable", "does not support item deletion"),
        message=_item_message,
        rewrite=_item_rewrite,
        statics="never",
        culprits=lambda evidence: evidence.tracers_at(evidence.site, syntax.assigned(evidence.site)),
    ),
    Rule(
        id="format-of-tracer",
        matches=_says("unsupported format string", "a real number is required", "format: a number is required"),
        message=lambda evidence, blame: f"{subject(_formatted(evidence))} formats a number as text. {because(blame)}.",
        rewrite=lambda evidence, blame: (
            f"Print with {syntax.debug_print_for(evidence.site)}, which runs when the value is there, or format the result "
            "outside."
        ),
        culprits=lambda evidence: (
            evidence.tracers_at(evidence.site, syntax.format_of(evidence.site)) or evidence.triggers
        ),
    ),
    Rule(
        id="key-from-value",
        matches=_says("unhashable type"),
        message=_blamed("{it} uses a traced value as a key of a dict or a member of a set, which must be hashed."),
        rewrite=_fixed(
            "Look values up in an array, table[i], or choose a function with jax.lax.switch(i, functions, x). Dicts and "
            "sets need plain Python keys."
        ),
        statics="structure",
        culprits=lambda evidence: evidence.tracers_at(evidence.site, syntax.key_of(evidence.site)) or evidence.triggers,
    ),
    Rule(
        id="missing-attribute",
        matches=lambda evidence: (
            isinstance(evidence.root, AttributeError)
            or (isinstance(evidence.root, NotImplementedError) and _attribute(evidence) != "")
        ),
        message=_attribute_message,
        rewrite=_attribute_rewrite,
        statics="never",
    ),
    Rule(
        id="endless-recursion",
        matches=_is(RecursionError),
        message=_blamed(
            "The function calls itself without end: under jit nothing stops it. {it} is where Python gave up."
        ),
        rewrite=_fixed(
            "Stop on something static, or write the recursion as jax.lax.while_loop: jnp.where and jax.lax.cond trace both "
            "sides, the recursive call included."
        ),
        culprits=lambda evidence: evidence.tracers_at(evidence.site),
    ),
    Rule(
        id="trace-error",
        has_other_way=False,
        matches=lambda evidence: True,
        message=_generic_message,
        rewrite=_generic_rewrite,
        statics="structure",
        culprits=lambda evidence: evidence.triggers if says_tracer(evidence) else evidence.tracers_at(evidence.site),
        is_guess=True,
    ),
)


def rule_for(evidence: Evidence) -> Rule:
    """The first rule of the table that fits."""
    return next(rule for rule in RULES if rule.matches(evidence))
