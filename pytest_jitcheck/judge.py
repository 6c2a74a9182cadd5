"""Whether a difference is jit's fault: both results against the same function in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pytest_jitcheck import compat
from pytest_jitcheck.arguments import Call, map_leaves
from pytest_jitcheck.compare import Tolerance
from pytest_jitcheck.leaves import is_inexact, is_key
from pytest_jitcheck.report import Mismatch

__all__ = ["Verdict", "against_float64"]

_FACTOR = 2.0
_FACTOR_COARSE = 3.0
_FEW = 10
"""Up to so many elements a leaf is judged by the coarser factor: few errors average badly.

Source of the rule and its factors: ``torch._dynamo.utils.same``, which torch's compiler tests use.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the float64 reference says of a difference."""

    is_acquitted: bool
    """Whether the compiled result is no worse than the eager one."""
    text: str
    """How both compare to the reference, or why there is none."""


def against_float64(
    call: Call,
    eager: Any,
    compiled: Any,
    mismatches: Sequence[Mismatch],
    tolerance: Tolerance,
    run: Callable[[Call], Any],
) -> Verdict:
    """Hold both results against the same function in float64.

    Compiled is acquitted where its root mean square error is within 2 times eager's, 3 times for half precision and small
    leaves, plus a tenth of the tolerance: the rule of torch's compiler tests.

    Args:
        call: the call.
        eager: result of the plain Python function.
        compiled: result of the compiled one.
        mismatches: how they differ.
        tolerance: what counts as equal.
        run: runs a call in plain Python, as the reference was made.
    """
    if any(mismatch.kind != "value" for mismatch in mismatches):
        return Verdict(is_acquitted=False, text="")
    reference = _reference(call, run)
    if isinstance(reference, str):
        return Verdict(is_acquitted=False, text=f"There is no float64 reference to judge by: {reference}.")
    triples = _triples(reference, eager, compiled, {mismatch.path for mismatch in mismatches})
    if triples is None:
        text = "There is no float64 reference to judge by: in float64 the function returns another structure."
        return Verdict(is_acquitted=False, text=text)
    errors = [_errors(*triple, tolerance) for triple in triples]
    text = " ".join(error.text for error in errors)
    return Verdict(is_acquitted=bool(errors) and all(error.is_acquitted for error in errors), text=text)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Errors:
    is_acquitted: bool
    text: str


def _reference(call: Call, run: Callable[[Call], Any]) -> Any:
    """The plain function's result on float64 inputs, as NumPy leaves, or the reason why there is none."""
    inputs = jax.tree_util.tree_leaves(call.dynamic())
    if not any(_is_narrow_float(leaf) for leaf in inputs):
        return "no input is an array of floats narrower than that"
    try:
        with compat.x64(enabled=True):
            result = run(call.changed(lambda key: _widened))
            return map_leaves(_on_host, result)
    except Exception as error:  # noqa: BLE001  # a function that insists on float32 has no reference, which is worth saying
        return f"in float64 the function raised {type(error).__name__}"


def _is_narrow_float(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and is_inexact(dtype) and dtype not in (np.dtype(np.float64), np.dtype(np.complex128))


def _widened(leaf: Any) -> Any:
    if not _is_narrow_float(leaf):
        return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
    # Containers stay what they are: a function may compute NumPy arrays in another way than JAX's.
    wide = np.complex128 if leaf.dtype.kind == "c" else np.float64
    array = np.asarray(leaf).astype(wide)
    return array if isinstance(leaf, (np.ndarray, np.generic)) else jax.numpy.asarray(array)


def _on_host(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_key(leaf) else leaf


def _triples(reference: Any, eager: Any, compiled: Any, paths: set[str]) -> list[tuple[str, Any, Any, Any]] | None:
    pairs = jax.tree_util.tree_flatten_with_path(eager)[0]
    references = jax.tree_util.tree_leaves(reference)
    others = jax.tree_util.tree_leaves(compiled)
    if not len(pairs) == len(references) == len(others):
        return None
    found: list[tuple[str, Any, Any, Any]] = []
    for (path, ours), theirs, wide in zip(pairs, others, references, strict=True):
        name = jax.tree_util.keystr(path)
        if name in paths:
            if np.shape(ours) != np.shape(wide):
                return None
            found.append((name, wide, ours, theirs))
    return found


def _errors(path: str, reference: Any, eager: Any, compiled: Any, tolerance: Tolerance) -> _Errors:
    name = f"result{path}"
    dtype = np.asarray(compiled).dtype
    wide, one, other = (np.asarray(value).astype(np.complex128) for value in (reference, eager, compiled))
    if not is_inexact(dtype):
        is_same = bool(np.array_equal(wide, other))
        verb = "agrees" if is_same else "disagrees"
        return _Errors(is_acquitted=is_same, text=f"The compiled {name} {verb} with a run in float64.")
    if _special(wide) != _special(other):
        text = f"The compiled {name} has NaN or infinities in other places than a run in float64."
        return _Errors(is_acquitted=False, text=text)
    eager_error = _rmse(wide, one) if _special(wide) == _special(one) else float("inf")
    compiled_error = _rmse(wide, other)
    is_coarse = dtype.itemsize <= 2 or wide.size <= _FEW
    rtol, atol = tolerance.for_leaf(dtype, float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide))))
    slack = (rtol * _rms(wide) + atol) / 10
    limit = (_FACTOR_COARSE if is_coarse else _FACTOR) * eager_error + slack
    text = (
        f"Against a run in float64, {name} is off by {compiled_error:.3g} compiled and by {eager_error:.3g} eager (root mean "
        "square)."
    )
    return _Errors(is_acquitted=compiled_error <= limit, text=text)


def _special(array: np.ndarray[Any, Any]) -> bytes:
    """Where an array holds NaN or an infinity, and which."""
    signs = np.where(np.isinf(array), np.sign(array.real), 0)
    return bytes(np.isnan(array).tobytes() + signs.astype(np.int8).tobytes())


def _rmse(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    finite = np.isfinite(one) & np.isfinite(other)
    return _rms(one[finite] - other[finite])


def _rms(array: np.ndarray[Any, Any]) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
