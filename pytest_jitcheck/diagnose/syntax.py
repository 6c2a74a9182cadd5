"""Reads the user's expression: what is called, indexed or tested there, and the rewrite in the user's own names."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

from pytest_jitcheck import compat
from pytest_jitcheck.arguments import signature_of
from pytest_jitcheck.diagnose.evidence import reads, tracers_in, value_of
from pytest_jitcheck.diagnose.source import Site

__all__ = [
    "arguments_text",
    "array_logic",
    "assigned",
    "at_set_for",
    "call_of",
    "callee",
    "carry_of",
    "debug_print_for",
    "dynamic_slice_for",
    "format_of",
    "index_of",
    "index_text",
    "is_integer_call",
    "is_jax_call",
    "is_logic",
    "is_moving_window",
    "is_number_call",
    "is_sized_call",
    "is_while",
    "jnp_for",
    "key_of",
    "list_index_for",
    "logic_of",
    "loop_bound",
    "masked_for",
    "operand_text",
    "scalar_for",
    "sized_for",
    "slices",
    "static_parameter_names",
    "static_parts",
    "test_of",
    "where_for",
]

_AT_METHODS = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply", "get")
_SIZED = {
    "where": "size",
    "nonzero": "size",
    "flatnonzero": "size",
    "argwhere": "size",
    "unique": "size",
    "unique_values": "size",
    "unique_counts": "size",
    "unique_inverse": "size",
    "unique_all": "size",
    "union1d": "size",
    "intersect1d": "size",
    "setdiff1d": "size",
    "setxor1d": "size",
    "extract": "size",
    "compress": "size",
    "poly": "",
    "roots": "strip_zeros",
    "trim_zeros": "",
    "bincount": "length",
    "repeat": "total_repeat_length",
}
_NUMBER_CALLS = ("int", "float", "complex", "bool", "round", "ord", "chr", "divmod", "pow", "abs")
_NUMBER_MODULES = ("math", "cmath", "decimal", "fractions", "statistics")
_STRUCTURAL = frozenset(
    {
        *("axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "source", "destination", "dims", "dimension"),
        *("dimensions", "broadcast_dimensions", "permutation", "perm", "shape", "newshape", "out_shape", "new_sizes"),
        *(
            "reps",
            "repeats",
            "total_repeat_length",
            "num",
            "n",
            "N",
            "M",
            "m",
            "k",
            "K",
            "size",
            "length",
            "num_classes",
        ),
        *("num_segments", "slice_sizes", "slice_size", "start_index", "limit_index", "indices_or_sections", "bins"),
        *("window", "window_shape", "kernel_size", "strides", "padding", "pad_width", "shift", "offset", "s"),
        *("ord", "order", "deg", "ndim", "decimals", "mode", "method", "side", "norm", "dtype", "keepdims"),
        *("increasing", "reverse", "unroll", "features"),
    }
)
"""Parameter names that decide the program, in JAX's functions and in those that are named after them."""


def call_of(site: Site | None) -> ast.Call | None:
    """The call that was running."""
    return site.node if site is not None and isinstance(site.node, ast.Call) else None


def callee(site: Site | None) -> str:
    """The called function as the user wrote it, or nothing."""
    call = call_of(site)
    return "" if call is None else ast.unparse(call.func)


def _called(site: Site | None) -> Any:
    call = call_of(site)
    return None if call is None or site is None else value_of(call.func, site.frame)


def is_jax_call(site: Site | None) -> bool:
    """Whether a function of JAX was called."""
    module = getattr(_called(site), "__module__", None) or ""
    return module.partition(".")[0] == "jax"


def debug_print_for(site: Site | None) -> str:
    """A formatted value as `jax.debug.print`, in the user's own words."""
    string = format_of(site)
    if not isinstance(string, ast.JoinedStr):
        return "jax.debug.print('{x:.3f}', x=x)"
    template = ""
    values: list[str] = []
    for part in string.values:
        if isinstance(part, ast.Constant):
            template += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            name = part.value.id if isinstance(part.value, ast.Name) else f"value{len(values) or ''}"
            spec = ast.unparse(part.format_spec)[2:-1] if part.format_spec is not None else ""
            template += f"{{{name}:{spec}}}" if spec else f"{{{name}}}"
            values.append(f"{name}={ast.unparse(part.value)}")
    return f"jax.debug.print({template!r}, {', '.join(values)})"


def format_of(site: Site | None) -> ast.AST | None:
    """The whole f-string, or the expression that formats."""
    if site is None:
        return None
    # Python 3.11 gives the parts of an f-string no places of their own, and a format spec is an f-string within one.
    return next((node for node in site.path_to_node if isinstance(node, ast.JoinedStr)), site.node)


def arguments_text(site: Site | None) -> str:
    """The arguments of the call, as written."""
    call = call_of(site)
    if call is None:
        return ""
    keywords = (ast.unparse(keyword) for keyword in call.keywords)
    return ", ".join([*(ast.unparse(argument) for argument in call.args), *keywords])


def operand_text(site: Site | None) -> str:
    """What the call works on: its first argument, or what it is a method of."""
    call = call_of(site)
    if call is None:
        return "" if site is None else site.text(site.node)
    if call.args:
        return ast.unparse(call.args[0])
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


# --- conditions and loops ----------------------------------------------------------------------------------------------


def test_of(site: Site | None) -> ast.expr | None:
    """The whole condition of the `if`, `while`, `assert` or conditional expression that was being decided."""
    holder = _decided(site)
    return None if holder is None else holder.test


def _decided(site: Site | None) -> ast.If | ast.While | ast.Assert | ast.IfExp | None:
    if site is None:
        return None
    for number in range(len(site.path_to_node) - 1, 0, -1):
        holder, child = site.path_to_node[number - 1], site.path_to_node[number]
        if isinstance(holder, (ast.If, ast.While, ast.Assert, ast.IfExp)) and holder.test is child:
            return holder
        if isinstance(child, ast.stmt):
            return None
    return None


def is_while(site: Site | None) -> bool:
    """Whether the condition is that of a `while`."""
    return isinstance(_decided(site), ast.While)


def is_logic(site: Site | None) -> bool:
    """Whether `and`, `or`, `not`, `in` or a chained comparison asked, outside of an `if` or `while`."""
    if site is None or _decided(site) is not None:
        return False
    if isinstance(site.node, ast.Compare) and (
        len(site.node.ops) > 1 or isinstance(site.node.ops[0], (ast.In, ast.NotIn))
    ):
        return True
    return site.enclosing(ast.BoolOp) is not None or (
        isinstance(site.node, ast.UnaryOp) and isinstance(site.node.op, ast.Not)
    )


def where_for(site: Site | None) -> str | None:
    """The condition as `jnp.where`, where both sides are plain enough to say it in one line."""
    holder = _decided(site)
    if isinstance(holder, ast.IfExp):
        return f"Write {_where(holder.test, holder.body, holder.orelse)}."
    if not isinstance(holder, ast.If) or len(holder.body) != 1 or site is None:
        return None
    body, other = holder.body[0], _other_side(holder, site)
    returned = (getattr(body, "value", None), getattr(other, "value", None))
    if isinstance(body, ast.Return) and isinstance(other, ast.Return) and all(returned):
        return f"Write `return {_where(holder.test, *returned)}`."  # type: ignore[arg-type]  # both are there
    target = _single_target(body)
    if target is not None and isinstance(body, ast.Assign):
        is_pair = isinstance(other, ast.Assign) and _single_target(other) == target and bool(holder.orelse)
        otherwise = other.value if is_pair and isinstance(other, ast.Assign) else ast.Name(id=target)
        return f"Write `{target} = {_where(holder.test, body.value, otherwise)}`."
    if isinstance(body, ast.AugAssign) and not holder.orelse and target is not None:
        changed = ast.BinOp(left=ast.Name(id=target), op=body.op, right=body.value)
        return f"Write `{target} = {_where(holder.test, changed, ast.Name(id=target))}`."
    return None


def _where(test: ast.expr, body: ast.expr, other: ast.expr) -> str:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, body, other = test.operand, other, body
    return f"jnp.where({array_logic(test)}, {ast.unparse(body)}, {ast.unparse(other)})"


def array_logic(test: ast.expr) -> str:
    """A condition with `and`, `or`, `not` and chained comparisons as operators that work on arrays."""
    return ast.unparse(_ArrayLogic().visit(copy.deepcopy(test)))


class _ArrayLogic(ast.NodeTransformer):
    """Rewrites what asks Python for one truth value; calls and lambdas inside stay as they are."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        operator = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        return functools.reduce(lambda left, right: ast.BinOp(left=left, op=operator, right=right), node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.UnaryOp(op=ast.Invert(), operand=node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        lefts = [node.left, *node.comparators[:-1]]
        pairs: list[ast.expr] = [
            ast.Compare(left=left, ops=[operator], comparators=[right])
            for left, operator, right in zip(lefts, node.ops, node.comparators, strict=True)
        ]
        return functools.reduce(lambda left, right: ast.BinOp(left=left, op=ast.BitAnd(), right=right), pairs)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def logic_of(site: Site | None) -> ast.expr | None:
    """The whole expression whose truth value Python asked for, outside of an `if` or `while`."""
    kinds = (ast.BoolOp, ast.UnaryOp, ast.Compare)
    if site is None:
        return None
    inside = itertools.takewhile(lambda node: not isinstance(node, ast.stmt), reversed(site.path_to_node))
    return next((node for node in reversed(list(inside)) if isinstance(node, kinds)), None)


def _other_side(holder: ast.If, site: Site) -> ast.stmt | None:
    if len(holder.orelse) == 1:
        return holder.orelse[0]
    if holder.orelse:
        return None
    parent = site.path_to_node[site.path_to_node.index(holder) - 1]
    statements = getattr(parent, "body", [])
    position = statements.index(holder) if isinstance(statements, list) and holder in statements else -1
    following = statements[position + 1 : position + 2] if position >= 0 else []
    return following[0] if following else None


def _single_target(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return None


def carry_of(site: Site | None) -> list[str]:
    """The names that the body of the `while` assigns."""
    holder = _decided(site)
    if not isinstance(holder, ast.While):
        return []
    stored = [
        node.id
        for statement in holder.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    needed = {node.id for node in ast.walk(holder) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return [name for name in dict.fromkeys(stored) if name in needed]


def loop_bound(site: Site | None) -> str:
    """The upper bound of the `range` that was called."""
    call = call_of(site)
    if call is None or not call.args:
        return ""
    return ast.unparse(call.args[0] if len(call.args) == 1 else call.args[1])


# --- indexing ----------------------------------------------------------------------------------------------------------


def _indexed(site: Site | None) -> ast.Subscript | None:
    if site is None:
        return None
    node = site.node
    # x.at[index].set(value) fails in the call, and what is wrong with it is the index.
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _AT_METHODS:
        node = node.func.value
    return node if isinstance(node, ast.Subscript) else None


def index_of(site: Site | None) -> ast.expr | None:
    """The index of the subscript that was running."""
    subscript = _indexed(site)
    return None if subscript is None else subscript.slice


def index_text(index: ast.expr) -> str:
    """An index as it stands between the brackets."""
    return ast.unparse(ast.Subscript(value=ast.Name("x"), slice=index))[2:-1]


def slices(index: ast.expr | None) -> list[ast.Slice]:
    """The slices with a bound in an index."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return [part for part in parts if isinstance(part, ast.Slice) and (part.lower or part.upper or part.step)]


def is_moving_window(site: Site | None) -> bool:
    """Whether the index is a single slice of constant width whose start is traced."""
    found = slices(index_of(site))
    return bool(found) and site is not None and all(_width(part, site) is not None for part in found)


def _width(part: ast.Slice, site: Site) -> ast.expr | None:
    """The width of a slice ``[i : i + width]`` or ``[i - width : i]``, if nothing traced is in it."""
    if part.lower is None or part.upper is None or part.step is not None:
        return None
    for bound, other, operator in ((part.upper, part.lower, ast.Add), (part.lower, part.upper, ast.Sub)):
        if isinstance(bound, ast.BinOp) and isinstance(bound.op, operator):
            sides = (
                [(bound.left, bound.right), (bound.right, bound.left)]
                if operator is ast.Add
                else [(bound.left, bound.right)]
            )
            for same, width in sides:
                if ast.dump(same) == ast.dump(other) and not _is_traced(width, site) and _is_traced(other, site):
                    return width
    return None


def _is_traced(node: ast.expr, site: Site) -> bool:
    return any(tracers_in(value_of(part, site.frame)) for part in reads(node))


def dynamic_slice_for(site: Site | None) -> str:
    """A slice as `jax.lax.dynamic_slice`, or what to do where the width is traced."""
    subscript = _indexed(site)
    found = slices(None if subscript is None else subscript.slice)
    if site is None or subscript is None or not found:
        return "Use jax.lax.dynamic_slice, which takes a traced start and a static size."
    holder = ast.unparse(subscript.value).removesuffix(".at")
    width = _width(found[0], site)
    if width is not None:
        axis = subscript.slice.elts.index(found[0]) if isinstance(subscript.slice, ast.Tuple) else 0
        start = ast.unparse(found[0].lower) if found[0].lower is not None else "0"
        return f"Write jax.lax.dynamic_slice_in_dim({holder}, {start}, {ast.unparse(width)}, axis={axis}), which takes a traced start."
    upper = found[0].upper or found[0].lower
    bound = "n" if upper is None else ast.unparse(upper)
    return (
        f"Keep the whole array and mask it: jnp.where(jnp.arange({holder}.shape[0]) < {bound}, {holder}, 0); or use "
        "jax.lax.dynamic_slice, if the size is static and only the start moves."
    )


def masked_for(site: Site | None) -> str:
    """A boolean mask as `jnp.where`."""
    subscript = _indexed(site)
    if site is None or subscript is None:
        return "Use jnp.where(mask, x, fill), which keeps the shape."
    holder, mask = ast.unparse(subscript.value), index_text(subscript.slice)
    if holder.endswith(".at"):
        return _masked_update(site, holder.removesuffix(".at"), subscript)
    if isinstance(subscript.ctx, ast.Store):
        return f"Write {holder} = jnp.where({mask}, {_stored_value(site, holder)}, {holder})."
    if isinstance(subscript.slice, ast.Tuple):
        return _masked_among_others(holder, subscript.slice, site)
    reduced = _reduction_of(site)
    if reduced in ("sum", "mean", "min", "max", "any", "all", "prod", "std", "var"):
        return f"Write jnp.{reduced}({holder}, where={mask}{_initial(reduced, holder)}), which skips the rest."
    return (
        f"Write jnp.where({mask}, {holder}, 0), which keeps the shape and puts 0, or what you choose, in place of the rest. "
        f"To have the chosen ones in front, with a static upper bound n: {holder}.at[jnp.nonzero({mask}, size=n, "
        f"fill_value={holder}.size)[0]].get(mode='fill', fill_value=0)."
    )


def _stored_value(site: Site, holder: str) -> str:
    statement = site.statement
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(ast.BinOp(left=ast.Name(id=holder), op=statement.op, right=statement.value))
    return ast.unparse(statement.value) if isinstance(statement, ast.Assign) else "value"


def _masked_among_others(holder: str, index: ast.Tuple, site: Site) -> str:
    parts = [ast.unparse(part) for part in index.elts]
    masks = [number for number, part in enumerate(index.elts) if _is_traced(part, site)]
    mask = parts[masks[0]] if masks else "mask"
    plain = ", ".join(":" if number in masks else part for number, part in enumerate(parts))
    return (
        f"Index with what is plain first, {holder}[{plain}], and mask that: jnp.where({mask}, {holder}[{plain}], 0), with the "
        "mask in the shape of what it masks."
    )


def _initial(reduced: str, holder: str) -> str:
    return {"min": ", initial=jnp.inf", "max": ", initial=-jnp.inf"}.get(reduced, "")


def _masked_update(site: Site, holder: str, subscript: ast.Subscript) -> str:
    call = call_of(site)
    value = ast.unparse(call.args[0]) if call is not None and call.args else "value"
    if isinstance(subscript.slice, ast.Tuple):
        parts = [ast.unparse(part) for part in subscript.slice.elts]
        masks = [number for number, part in enumerate(subscript.slice.elts) if _is_traced(part, site)]
        mask = parts[masks[0]] if masks else "mask"
        plain = ", ".join(":" if number in masks else part for number, part in enumerate(parts))
        return f"Write {holder}.at[{plain}].set(jnp.where({mask}, {value}, {holder}[{plain}])), with plain slices in the index."
    changed = {
        "set": value,
        "add": f"{holder} + {value}",
        "multiply": f"{holder} * {value}",
        "mul": f"{holder} * {value}",
    }
    method = call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else "set"
    return f"Write jnp.where({ast.unparse(subscript.slice)}, {changed.get(method, value)}, {holder})."


def _reduction_of(site: Site) -> str | None:
    for number in range(len(site.path_to_node) - 1, 1, -1):
        if site.path_to_node[number] is not site.node:
            continue
        holder, call = site.path_to_node[number - 1], site.path_to_node[number - 2]
        if isinstance(holder, ast.Attribute) and isinstance(call, ast.Call) and call.func is holder and not call.args:
            return holder.attr
        if isinstance(holder, ast.Call) and isinstance(holder.func, ast.Attribute) and holder.args[:1] == [site.node]:
            return holder.func.attr if len(holder.args) == 1 and not holder.keywords else None
    return None


def key_of(site: Site | None) -> ast.expr | None:
    """The value that is looked up in a dict or a set."""
    if site is not None and isinstance(site.node, ast.Compare):
        return site.node.left
    return index_of(site)


def list_index_for(site: Site | None) -> str:
    """An item of a Python list by a traced number."""
    subscript = _indexed(site)
    if site is None or subscript is None:
        return "Stack the items into one array, jnp.stack(items)[i], or choose a function with jax.lax.switch."
    items, index = ast.unparse(subscript.value), index_text(subscript.slice)
    held = value_of(subscript.value, site.frame)
    if isinstance(held, (list, tuple)) and held and all(callable(item) for item in held):
        return f"Write jax.lax.switch({index}, {items}, x), which calls the chosen function."
    return f"Write jnp.stack({items})[{index}], or jnp.asarray({items})[{index}] for numbers."


def assigned(site: Site | None) -> ast.expr | None:
    """What an item is assigned to."""
    subscript = _stored(site)
    return None if subscript is None else subscript.value


def _stored(site: Site | None) -> ast.Subscript | None:
    statement = None if site is None else site.statement
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return next((target for target in targets if isinstance(target, ast.Subscript)), None)


def at_set_for(site: Site | None) -> str:
    """An assignment to an item as ``.at[...]``."""
    subscript, statement = _stored(site), None if site is None else site.statement
    if subscript is None or statement is None:
        return "Write x = x.at[i].set(value), which returns the changed array."
    holder, index = ast.unparse(subscript.value), index_text(subscript.slice)
    operators = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power"}
    method = operators.get(type(statement.op), "apply") if isinstance(statement, ast.AugAssign) else "set"
    value = ast.unparse(statement.value) if isinstance(statement, (ast.Assign, ast.AugAssign)) else "value"
    return f"Write `{holder} = {holder}.at[{index}].{method}({value})`, which returns the changed array."


# --- calls -------------------------------------------------------------------------------------------------------------


def is_sized_call(site: Site | None) -> bool:
    """Whether the call's result is as long as its values say, and no size was given."""
    call, name = call_of(site), callee(site).rpartition(".")[2]
    if call is None or name not in _SIZED or any(keyword.arg == _SIZED[name] for keyword in call.keywords):
        return False
    return name != "where" or len(call.args) + len(call.keywords) == 1


def sized_for(site: Site | None) -> str:
    """The call with its size."""
    name = callee(site)
    keyword = _SIZED.get(name.rpartition(".")[2], "size")
    arguments = arguments_text(site)
    if keyword == "length":
        return f"Give the number of bins: {name}({arguments}, length=n), with a static n above the largest value."
    if keyword == "total_repeat_length":
        return f"Give the length of the result: {name}({arguments}, total_repeat_length=n), with a static n."
    if keyword == "strip_zeros":
        return f"Write {name}({arguments}, strip_zeros=False)."
    if keyword == "":
        return f"Call {name} outside of the jitted function: its result has no static upper bound."
    operand = operand_text(site)
    of = f", such as {operand}.size" if operand.isidentifier() else ""
    three = (
        " Or use jnp.where(condition, a, b) with three arguments, which keeps the shape."
        if name.endswith("where")
        else ""
    )
    return (
        f"Give an upper bound of how many there are: {name}({arguments}, size=n), with a static n{of}. What is left over is "
        f"filled: fill_value= says with what.{three}"
    )


def is_number_call(site: Site | None) -> bool:
    """Whether the call turns an array into a Python number."""
    call, name = call_of(site), callee(site)
    if call is None:
        return False
    module = getattr(_called(site), "__module__", None)
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in (
        "item",
        "tolist",
        "__index__",
        "__float__",
        "__int__",
    )
    return name in _NUMBER_CALLS or is_method or module in _NUMBER_MODULES


def is_integer_call(site: Site | None) -> bool:
    """Whether the call makes a Python integer, such as a size."""
    name = callee(site).rpartition(".")[2]
    return name in (
        "int",
        "ceil",
        "floor",
        "trunc",
        "__index__",
        "__int__",
        "factorial",
        "comb",
        "perm",
        "gcd",
        "lcm",
        "isqrt",
    )


def scalar_for(site: Site | None) -> str:
    """What to write for a conversion to a Python number."""
    name, operand = callee(site), operand_text(site)
    last = name.rpartition(".")[2]
    if getattr(_called(site), "__module__", None) in _NUMBER_MODULES:
        twin = {"fabs": "abs", "pow": "power", "gamma": "", "dist": "", "fsum": "sum", "isqrt": "sqrt"}.get(last, last)
        if twin and hasattr(jnp, twin):
            return f"Write jnp.{twin}({arguments_text(site)})."
        return f"Use the function of jax.numpy or jax.scipy that does what {name} does."
    if last in ("float", "complex", "item", "abs", "tolist"):
        return f"Leave {last}() out and compute with {operand} itself: a scalar array works wherever a float does."
    if last == "bool":
        return f"Leave bool() out, and choose with jnp.where({operand}, a, b)."
    if last == "round":
        return f"Write jnp.round({arguments_text(site)})."
    return (
        f"Leave {last or 'the conversion'}() out and write ({operand}).astype(int) for an integer array. If it is a size, it "
        "has to be static: compute it with math or numpy from static arguments or shapes."
    )


def jnp_for(site: Site | None) -> str:
    """The jnp twin of a NumPy call."""
    call, name = call_of(site), callee(site)
    last, operand = name.rpartition(".")[2], operand_text(site)
    if call is None:
        return f"Use jnp instead of np in `{'' if site is None else site.text(site.node)}`, or convert the NumPy array with jnp.asarray."
    called = _called(site)
    if isinstance(called, type) and hasattr(jnp, last):
        return f"Write {operand}.astype(jnp.{last})."
    if last in ("array", "asarray", "asanyarray", "ascontiguousarray"):
        return f"Write jnp.asarray({operand}), or leave it out: {operand} is an array already."
    module = str(getattr(called, "__module__", "") or "")
    if module.startswith("scipy"):
        return f"Use the function of jax.scipy instead of {name}."
    twin = ".".join(part for part in name.split(".")[1:]) or last
    if _has_twin(twin):
        return f"Write jnp.{twin}({arguments_text(site)})."
    return f"{name} needs NumPy arrays. Use jnp functions, or jax.pure_callback to run it on the host."


def _has_twin(dotted: str) -> bool:
    found: Any = jnp
    for part in dotted.split("."):
        found = getattr(found, part, None)
    return found is not None


def static_parts(site: Site | None) -> list[ast.expr]:
    """The traced parts of a call's arguments that the callee needs while tracing."""
    return [node for _, node in _structural(site)]


def static_parameter_names(site: Site | None) -> list[str]:
    """The callee's names of the traced arguments that it needs while tracing."""
    return [name for name, _ in _structural(site)]


def _structural(site: Site | None) -> list[tuple[str, ast.expr]]:
    if site is None:
        return []
    traced = [(name, node) for name, node in _bound(site) if _is_traced(node, site)]
    parts = compat.jitted_parts(_jnp_function(site))
    if parts is not None and (parts.static_argnames or parts.static_argnums):
        return [(name, node) for name, node in traced if name in _static_names(parts)]
    return [(name, node) for name, node in traced if name in _STRUCTURAL]


def _static_names(parts: compat.JittedParts) -> tuple[str, ...]:
    signature = signature_of(parts.function)
    parameters = [] if signature is None else list(signature.parameters)
    return (
        *parts.static_argnames,
        *(parameters[number] for number in parts.static_argnums if number < len(parameters)),
    )


def _bound(site: Site) -> Iterator[tuple[str, ast.expr]]:
    """The call's argument expressions under the callee's parameter names."""
    call = call_of(site)
    if call is None:
        return
    signature = signature_of(_jnp_function(site)) if callable(_jnp_function(site)) else None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [] if signature is None else [name for name, p in signature.parameters.items() if p.kind in kinds]
    # A method of an array is the jnp function of that name, with the array in front.
    names = names[1:] if _is_method(site) else names
    for number, node in enumerate(call.args):
        yield (names[number] if number < len(names) else f"argument {number + 1}"), node
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def _is_method(site: Site) -> bool:
    call = call_of(site)
    holder = (
        value_of(call.func.value, site.frame) if call is not None and isinstance(call.func, ast.Attribute) else None
    )
    return compat.is_tracer(holder)


def _jnp_function(site: Site) -> Any:
    call = call_of(site)
    if call is None:
        return None
    if isinstance(call.func, ast.Attribute) and (
        _is_method(site) or not isinstance(call.func.value, (ast.Name, ast.Attribute))
    ):
        return getattr(jnp, call.func.attr, None)
    return _called(site)
