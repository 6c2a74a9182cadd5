"""Why two results differ: what makes the difference go away when it is tried."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pytest_jitcheck import compat
from pytest_jitcheck.arguments import Call
from pytest_jitcheck.compare import Tolerance, compare
from pytest_jitcheck.leaves import is_number

__all__ = ["Cause", "Difference", "likely_cause"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """What would explain a difference, because trying it made the difference go away."""

    rule: str
    text: str
    fix: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Two results of a call that differ."""

    call: Call
    eager: Any
    compiled: Any
    traced: Any
    """JAX's `Traced`, or ``None`` where the program has no part in it."""
    tolerance: Tolerance
    run: Callable[[Call], Any]
    """Runs a call in plain Python, as the reference was made."""

    def is_gone(self, call: Call) -> bool:
        """Whether the plain run of this call agrees with the compiled result."""
        try:
            eager = self.run(call)
        except Exception:  # noqa: BLE001  # a change that the function does not take explains nothing
            return False
        return not compare(eager, self.compiled, self.tolerance, check_dtype=False)


def likely_cause(difference: Difference) -> Cause | None:
    """The first change to the eager run, or to the compiled one, that makes both agree; ``None`` where none does."""
    attempts = (_sorted_dicts, _python_values, _compilation)
    return next((cause for attempt in attempts if (cause := attempt(difference)) is not None), None)


def _sorted_dicts(difference: Difference) -> Cause | None:
    call = difference.call
    names = tuple(
        argument.name for argument in call.bound() if not argument.static and _has_unsorted_dict(argument.value)
    )
    if not names:
        return None
    resorted = Call(
        fn=call.fn,
        args=tuple(jax.tree_util.tree_map(lambda leaf: leaf, value) for value in call.args),
        kwargs={name: jax.tree_util.tree_map(lambda leaf: leaf, value) for name, value in call.kwargs.items()},
        statics=call.statics,
        donated=call.donated,
    )
    if not difference.is_gone(resorted):
        return None
    return Cause(
        rule="dict-order",
        text=(
            f"The result depends on the order of the keys in {' and '.join(names)}. Under jit a dict arrives with its keys "
            "sorted; with sorted keys the eager result is the same."
        ),
        fix="Take the values in an order that the code names: [d[key] for key in sorted(d)], or use a NamedTuple or a dataclass.",
        arguments=names,
    )


def _has_unsorted_dict(value: Any) -> bool:
    if isinstance(value, dict):
        keys = list(value)
        in_order = list(jax.tree_util.tree_map(lambda leaf: leaf, dict.fromkeys(keys, 0)))
        return keys != in_order or any(_has_unsorted_dict(item) for item in value.values())
    return isinstance(value, (tuple, list)) and any(_has_unsorted_dict(item) for item in value)


def _python_values(difference: Difference) -> Cause | None:
    """Python numbers and NumPy arrays compute by their own rules until jit makes JAX arrays of them."""
    call = difference.call
    keys = [argument for argument in call.bound() if not argument.static and _has_foreign_leaf(argument.value)]
    chosen = {argument.key for argument in keys}
    if not keys or not difference.is_gone(_as_jax_in(call, chosen)):
        return None
    for argument in keys:
        fewer = chosen - {argument.key}
        if fewer and difference.is_gone(_as_jax_in(call, fewer)):
            chosen = fewer
    names = tuple(argument.name for argument in keys if argument.key in chosen)
    leaves = [leaf for a in keys if a.key in chosen for leaf in jax.tree_util.tree_leaves(a.value)]
    is_numpy = any(isinstance(leaf, (np.ndarray, np.generic)) for leaf in leaves)
    whose, what = ("NumPy", "a NumPy array") if is_numpy else ("Python", "a Python number")
    return Cause(
        rule="numpy-input" if is_numpy else "python-scalar",
        text=(
            f"{' and '.join(names)} is {what} in the eager run, and computes by the rules of {whose}; under jit it is a JAX "
            "array. Given as a JAX array, the eager result is the same as the compiled one."
        ),
        fix=_conversion_advice(names[0], leaves, difference.eager),
        arguments=names,
    )


def _as_jax_in(call: Call, keys: Collection[int | str]) -> Call:
    return call.changed(lambda key: _as_jax if key in keys else _same)


def _conversion_advice(name: str, leaves: list[Any], eager: Any) -> str:
    is_integral = all(
        np.asarray(leaf).dtype.kind in "iu" for leaf in jax.tree_util.tree_leaves(eager) if is_number(leaf)
    )
    results = [leaf for leaf in jax.tree_util.tree_leaves(eager) if isinstance(leaf, int)]
    if is_integral and any(abs(leaf) >= 2**31 for leaf in results):
        return "JAX's integers have 32 bits and overflow silently: pass a float, or turn x64 on."
    advice = f"Decide which of the two is meant. To compute by JAX's rules both ways, convert on entry: {name} = jnp.asarray({name})."
    if any(isinstance(leaf, np.ndarray) for leaf in leaves):
        return f"{advice} Methods that change a NumPy array in place, such as .sort(), return a new array in JAX."
    return f"{advice} To keep Python's number, declare {name} static."


def _has_foreign_leaf(value: Any) -> bool:
    return any(
        isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic))
        for leaf in jax.tree_util.tree_leaves(value)
    )


def _as_jax(leaf: Any) -> Any:
    return jax.numpy.asarray(leaf) if isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic)) else leaf


def _same(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _compilation(difference: Difference) -> Cause | None:
    """Run the traced program operation by operation: then what is left is the compiler's, or it was the trace's already."""
    if difference.traced is None or compat.longest_loop(difference.traced) == float("inf"):
        return None
    flat = jax.tree_util.tree_leaves(difference.call.dynamic())
    try:
        one_by_one = compat.run_program(difference.traced, [jax.numpy.asarray(leaf) for leaf in flat])
    except Exception:  # noqa: BLE001  # a program that can't be run so explains nothing
        return None
    leaves, compiled_leaves = (
        jax.tree_util.tree_leaves(difference.eager),
        jax.tree_util.tree_leaves(difference.compiled),
    )
    if not compare(leaves, one_by_one, difference.tolerance, check_dtype=False):
        return Cause(
            rule="compiler-rounding",
            text=(
                "Run operation by operation, the traced program gives the eager result: the difference comes from the "
                "compiler, which fuses operations, keeps extra precision between them, or reorders sums."
            ),
            fix=(
                "Look for a subtraction of nearly equal numbers, or for a comparison that rounding can flip, and reformulate it; "
                "jax.lax.reduce_precision fixes the precision of a value. Or say the tolerance that the result deserves."
            ),
        )
    if not compare(compiled_leaves, one_by_one, difference.tolerance, check_dtype=False):
        return Cause(
            rule="traced-otherwise",
            text=(
                "Run operation by operation, the traced program gives the compiled result: the compiler is not to blame. The "
                "Python code did something else while it was traced."
            ),
            fix=(
                "Look for code that asks what its input is (isinstance, hasattr, try and except), for values that come from "
                "outside of the arguments, and for indices out of bounds."
            ),
        )
    return None
