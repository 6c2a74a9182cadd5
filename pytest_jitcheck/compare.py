"""Two pytrees, the eager result and the compiled one, to the list of what differs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from pytest_jitcheck.arguments import children, safe_repr
from pytest_jitcheck.compat import module_state
from pytest_jitcheck.leaves import as_traced, is_key, is_key_dtype
from pytest_jitcheck.report import Mismatch

__all__ = ["RTOL", "Tolerance", "compare", "lowest_precision", "same_bits"]

_Array = np.ndarray[Any, Any]

RTOL: dict[str, float] = {
    "float4_e2m1fn": 1.0,
    "float8_e8m0fnu": 1.0,
    "float8_e3m4": 1.25e-1,
    "float8_e4m3": 2.5e-1,
    "float8_e4m3b11fnuz": 2.5e-1,
    "float8_e4m3fn": 2.5e-1,
    "float8_e4m3fnuz": 2.5e-1,
    "float8_e5m2": 5e-1,
    "float8_e5m2fnuz": 5e-1,
    "bfloat16": 5e-2,
    "float16": 5e-3,
    "float32": 1e-5,
    "float64": 1e-12,
}
"""Default relative tolerance by dtype, complex ones by that of their parts; integers and bools are exact.

Source: the measurement in ``benchmarks/tolerances.py``, summed up in ``docs/tolerances.md``.
"""

ATOL_SHARE = 0.1
"""The default absolute tolerance of a leaf is this share of `rtol` times the leaf's largest magnitude."""

_LONGEST_VALUE = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """What counts as equal; ``None`` leaves the choice to the precision of what went in."""

    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = True
    precision: str | None = None
    """Name of the floating dtype with the lowest precision among the inputs."""

    def for_leaf(self, dtype: np.dtype[Any], magnitude: float) -> tuple[float, float]:
        """The relative and the absolute tolerance of a leaf of this dtype with this largest magnitude."""
        if _is_exact(dtype):
            return 0.0, 0.0
        names = [_part_name(dtype), *([self.precision] if self.precision else [])]
        rtol = max(RTOL.get(name, RTOL["float32"]) for name in names) if self.rtol is None else self.rtol
        atol = ATOL_SHARE * rtol * magnitude if self.atol is None else self.atol
        return rtol, atol


def lowest_precision(dtypes: Sequence[Any]) -> str | None:
    """The name of the floating dtype with the lowest precision among these, or ``None`` if there is no such dtype."""
    # What calls itself dtype may be anything: that of an nnx module is a setting, or None.
    names = [_part_name(dtype) for dtype in dtypes if hasattr(dtype, "name") and not is_key_dtype(dtype)]
    known = [name for name in names if name in RTOL]
    return max(known, key=RTOL.__getitem__, default=None)


def compare(
    eager: Any,
    compiled: Any,
    tolerance: Tolerance,
    *,
    check_dtype: bool = True,
    check_weak_type: bool = False,
    depends: Sequence[bool] | None = None,
) -> tuple[Mismatch, ...]:
    """Everything in which the compiled result differs from the eager one.

    Args:
        eager: result of the plain Python function, any pytree.
        compiled: result of the compiled one.
        tolerance: what counts as equal.
        check_dtype: whether a differing dtype is a mismatch.
        check_weak_type: whether a differing weak type is a mismatch.
        depends: for each leaf, whether any traced argument goes into it; a NumPy constant comes out of jit as a JAX
            array, in the dtype that JAX makes of it, and that is no mismatch.
    """
    eager, compiled = (jax.tree_util.tree_map(module_state, result) for result in (eager, compiled))
    structure = _structure(eager, compiled, "")
    if structure is not None:
        return (structure,)
    eager_leaves = jax.tree_util.tree_flatten_with_path(eager)[0]
    compiled_leaves = jax.tree_util.tree_leaves(compiled)
    if depends is None or len(depends) != len(eager_leaves):
        depends = [True] * len(eager_leaves)
    found: list[Mismatch] = []
    for (path, one), other, is_reached in zip(eager_leaves, compiled_leaves, depends, strict=True):
        leaf = _Leaf(path=jax.tree_util.keystr(path), eager=one, compiled=other, is_constant=not is_reached)
        found.extend(leaf.mismatches(tolerance, check_dtype=check_dtype, check_weak_type=check_weak_type))
    return tuple(found)


def same_bits(one: Any, other: Any) -> bool:
    """Whether two results are the same to the last bit, structure and dtypes included."""
    return not compare(one, other, Tolerance(rtol=0.0, atol=0.0))


def _structure(eager: Any, compiled: Any, path: str) -> Mismatch | None:
    if _is_same_treedef(jax.tree_util.tree_structure(eager), jax.tree_util.tree_structure(compiled)):
        return None
    # None is a node without children for JAX, and so is an empty tuple: the type tells them apart.
    here, there = children(eager), children(compiled)
    if here is None and there is None:
        return None
    if here is None or there is None or type(eager) is not type(compiled):
        return Mismatch(path=path, kind="structure", eager=_summary(eager), compiled=_summary(compiled))
    keys, other_keys = [key for key, _ in here], [key for key, _ in there]
    if keys != other_keys:
        return Mismatch(path=path, kind="structure", eager=_summary(eager), compiled=_summary(compiled))
    ours, theirs = _static_part(eager), _static_part(compiled)
    if not _is_same_static_part(ours, theirs):
        name = type(eager).__name__
        return Mismatch(
            path=path, kind="structure", eager=_cut(f"{name} with {ours}"), compiled=_cut(f"{name} with {theirs}")
        )
    for (key, child), (_, other) in zip(here, there, strict=True):
        difference = _structure(child, other, path + jax.tree_util.keystr((key,)))
        if difference is not None:
            return difference
    return None


def _is_same_treedef(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001  # what a node holds beside its children may have an == that raises, as NumPy's does
        return False


def _static_part(node: Any) -> Any:
    """What a pytree node holds beside its children, such as the static fields of a module."""
    treedef: Any = jax.tree_util.tree_structure(node, is_leaf=lambda value: value is not node)
    known = treedef.node_data()
    return None if known is None else known[1]


def _is_same_static_part(one: Any, other: Any) -> bool:
    if type(one) is type(other) and isinstance(one, (tuple, list)) and len(one) == len(other):
        return all(map(_is_same_static_part, one, other))
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return all(_is_same_static_part(one[key], other[key]) for key in one)
    return _equal_objects(one, other)


def _summary(value: Any) -> str:
    nodes = None if value is None else children(value)
    if value is None or nodes is None:
        return "None" if value is None else _leaf_summary(value)
    if isinstance(value, dict):
        keys = f"{type(value).__name__} with keys {', '.join(map(safe_repr, value))}"
        return _cut(keys) if value else f"empty {type(value).__name__}"
    return f"{type(value).__name__} of {len(nodes)}"


def _leaf_summary(value: Any) -> str:
    array = _as_array(value)
    if array is None or not hasattr(value, "dtype"):
        return _cut(f"{type(value).__name__} {safe_repr(value)}")
    return f"{value.dtype.name}[{','.join(map(str, np.shape(value)))}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leaf:
    """One leaf of both results."""

    path: str
    eager: Any
    compiled: Any
    is_constant: bool

    def mismatches(self, tolerance: Tolerance, *, check_dtype: bool, check_weak_type: bool) -> Iterator[Mismatch]:
        eager, compiled = _as_array(self.eager), _as_array(self.compiled)
        if eager is None or compiled is None:
            if not _equal_objects(self.eager, self.compiled):
                yield self._mismatch("structure", _leaf_summary(self.eager), _leaf_summary(self.compiled))
            return
        if check_dtype and self._has_other_keys():
            # Key data of two kinds may differ in shape, which would be no help.
            yield self._dtypes(_dtype_name(self.eager), _dtype_name(self.compiled))
            return
        if eager.shape != compiled.shape:
            yield self._mismatch("shape", str(eager.shape), str(compiled.shape))
            return
        values = _values(self.path, eager, compiled, tolerance, self._dtype(compiled))
        if values is not None:
            yield values
        if check_dtype and (dtype := self._dtype_mismatch(is_value_equal=values is None)) is not None:
            yield dtype
        weak, other = _is_weak(self.eager), _is_weak(self.compiled)
        if check_weak_type and weak != other:
            yield self._mismatch("weak_type", f"weak_type={weak}", f"weak_type={other}")

    def _has_other_keys(self) -> bool:
        if is_key(self.eager) and is_key(self.compiled):
            return bool(self.eager.dtype != self.compiled.dtype)
        return is_key(self.eager) or is_key(self.compiled)

    def _dtype(self, compiled: _Array) -> Any:
        # The eager side of Python scalars and of NumPy constants has no say: 64 bits are just what Python computes with.
        dtype = getattr(self.eager, "dtype", None)
        return compiled.dtype if dtype is None or self.is_constant or is_key(self.eager) else np.dtype(dtype)

    def _dtype_mismatch(self, *, is_value_equal: bool) -> Mismatch | None:
        ours, theirs = getattr(self.eager, "dtype", None), getattr(self.compiled, "dtype", None)
        if theirs is None or ours == theirs:
            return None
        if ours is None:
            # A Python scalar has a kind and no width; where its value differs, that is what there is to say.
            is_same_kind = np.result_type(type(self.eager)).kind == _kind(theirs)
            return None if is_same_kind or not is_value_equal else self._dtypes(_dtype_name(self.eager), theirs.name)
        if self.is_constant and not isinstance(self.eager, jax.Array) and as_traced(ours) == theirs:
            return None
        return self._dtypes(ours.name, theirs.name)

    def _dtypes(self, ours: str, theirs: str) -> Mismatch:
        return self._mismatch("dtype", ours, theirs)

    def _mismatch(
        self, kind: Literal["structure", "shape", "dtype", "weak_type"], eager: str, compiled: str
    ) -> Mismatch:
        return Mismatch(path=self.path, kind=kind, eager=eager, compiled=compiled)


def _dtype_name(value: Any) -> str:
    return str(value.dtype.name) if hasattr(value, "dtype") else type(value).__name__


def _as_array(value: Any) -> _Array | None:
    """The value as NumPy holds it; keys by their key data, and ``None`` for what is no array or number."""
    if is_key(value):
        return np.asarray(jax.random.key_data(value))
    if isinstance(value, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
        array = np.asarray(value)  # of an integer beyond 64 bits, an object
        return None if array.dtype.kind in "OUSmM" else array
    return None


def _is_weak(value: Any) -> bool:
    # By exact type: NumPy's float64 is a Python float too and strong, and so is a bool.
    return type(value) in (int, float, complex) or bool(getattr(value, "weak_type", False))


def _equal_objects(eager: Any, compiled: Any) -> bool:
    """Whether two things that are no arrays are the same: what `equinox.filter_jit` hands through, or static fields."""
    if eager is compiled:
        return True
    try:
        if isinstance(eager, np.ndarray) and isinstance(compiled, np.ndarray):
            return bool(np.array_equal(eager, compiled))
        if type(eager) is type(compiled) and _has_only_identity(eager):
            # Each run makes its own object, and nothing says whether two are equal; of functions, their code does.
            return _code(eager) == _code(compiled)
        return bool(eager == compiled)
    except Exception:  # noqa: BLE001  # an __eq__ that can't answer has not said that they are equal
        return False


def _has_only_identity(value: Any) -> bool:
    kind: Any = type(value)
    return kind.__eq__ is object.__eq__


def _code(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, name, None) for name in ("__code__", "__module__", "__qualname__"))


def _kind(dtype: Any) -> str:
    """NumPy's letter for a dtype, which for bfloat16, the 8-bit floats and the 4-bit integers is no help: they are "V"."""
    kinds = {"b": np.bool_, "i": np.integer, "f": np.floating, "c": np.complexfloating}
    return next((kind for kind, family in kinds.items() if jnp.issubdtype(dtype, family)), "O")


def _is_exact(dtype: Any) -> bool:
    return _kind(dtype) not in "fc"


def _part_name(dtype: Any) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(dtype.name, str(dtype.name))


def _wide(array: _Array) -> _Array:
    """The same values in a type in which their differences are exact enough to be measured."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if _kind(array.dtype) == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    return array if array.dtype.kind in "iu" else array.astype(np.int64)  # int4 is kind "V"


def _values(
    path: str,
    eager: _Array,
    compiled: _Array,
    tolerance: Tolerance,
    dtype: np.dtype[Any],
) -> Mismatch | None:
    if eager.size == 0 or (tolerance.equal_nan and _is_same_memory(eager, compiled)):
        return None
    # A NumPy float64 against what jit makes of it, float32: the narrower of the two says what agreement can mean.
    narrow = dtype if _precision(dtype) <= _precision(compiled.dtype) else compiled.dtype
    # Overflow and NaN are what is being looked for here, and each is judged by name below.
    with np.errstate(all="ignore"):
        return _judge(path, eager, compiled, tolerance, narrow)


def _precision(dtype: Any) -> float:
    return math.inf if _is_exact(dtype) else -RTOL.get(_part_name(dtype), 0.0)


def _judge(
    path: str,
    eager: _Array,
    compiled: _Array,
    tolerance: Tolerance,
    dtype: np.dtype[Any],
) -> Mismatch | None:
    one, other = _wide(eager), _wide(compiled)
    # Before abs, which can't give the smallest integer's magnitude in its own type.
    magnitude = np.abs(one.astype(np.float64) if one.dtype.kind in "iu" else one)
    is_finite = np.isfinite(one) & np.isfinite(other)
    largest = float(np.max(np.where(is_finite, magnitude, 0), initial=0.0))
    rtol, atol = tolerance.for_leaf(dtype, largest)
    difference = _difference(one, other)
    allowed = atol + rtol * magnitude
    by_parts = _is_close_by_parts(one, other, rtol, atol, equal_nan=tolerance.equal_nan)
    is_close = np.where(is_finite, difference <= allowed, by_parts)
    if is_close.all():
        return None
    far = np.where(is_finite, difference, np.where(is_close, 0.0, np.inf))
    worst = _worst(far, allowed, is_close)
    passing = _Passing(difference=difference[is_finite], magnitude=magnitude[is_finite], largest=largest)
    is_hopeless = _is_exact(dtype) or not (is_finite | is_close).all()
    return Mismatch(
        path=path,
        kind="value",
        eager=_show(eager[worst]),
        compiled=_show(compiled[worst]),
        mismatched=int(np.count_nonzero(~is_close)),
        size=int(one.size),
        max_abs=_finite(np.max(far)),
        max_rel=_finite(np.max(np.where(is_close, 0.0, far / np.where(magnitude > 0, magnitude, np.nan)))),
        max_ulp=_ulps(eager, compiled, ~is_close & is_finite),
        index=tuple(int(i) for i in worst),
        rtol=rtol,
        atol=atol,
        passing_rtol=None if is_hopeless else passing.rtol(tolerance.atol),
        passing_atol=None if is_hopeless else passing.atol(),
    )


def _worst(far: _Array, allowed: _Array, is_close: _Array) -> tuple[Any, ...]:
    """Index of the element that is furthest beyond its tolerance; among those that no tolerance allows, of the furthest."""
    excess = np.where(is_close, -1.0, np.where(allowed > 0, far / allowed, np.inf))
    return np.unravel_index(int(np.argmax(np.where(excess == excess.max(), far, -1.0))), far.shape)


def _difference(one: _Array, other: _Array) -> _Array:
    if one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        return np.abs(one - other).astype(np.float64)
    if max(one.dtype.itemsize, other.dtype.itemsize) < 8:
        return np.abs(one.astype(np.int64) - other.astype(np.int64)).astype(np.float64)
    # As Python integers: uint64 and int64 have no common NumPy type that keeps every bit.
    return np.where(one == other, 0, np.abs(one.astype(object) - other.astype(object))).astype(np.float64)


def _is_close_by_parts(one: _Array, other: _Array, rtol: float, atol: float, *, equal_nan: bool) -> _Array:
    """Where both hold the same infinity, both hold NaN, or numbers that are close; complex ones part by part."""
    if "c" in (one.dtype.kind, other.dtype.kind):
        parts = ((one.real, other.real), (one.imag, other.imag))
        real, imag = (_is_close_by_parts(*pair, rtol, atol, equal_nan=equal_nan) for pair in parts)
        return real & imag
    is_near = np.isfinite(one) & np.isfinite(other) & (np.abs(one - other) <= atol + rtol * np.abs(one))
    is_close: _Array = is_near | (one == other) | (np.isnan(one) & np.isnan(other) & equal_nan)
    return is_close


@dataclass(frozen=True, kw_only=True, slots=True)
class _Passing:
    """The finite elements of a leaf, to find the smallest tolerance that passes, rounded up to two digits."""

    difference: _Array
    magnitude: _Array
    largest: float

    def rtol(self, atol: float | None) -> float | None:
        """The relative tolerance that passes beside this absolute one; ``None`` where none does."""
        # In the words of the comparison itself, so that its rounding can't make a difference.
        if atol is None:
            needed = self.difference / (self.magnitude + ATOL_SHARE * self.largest)
            return self._first(needed, lambda rtol: ATOL_SHARE * rtol * self.largest + rtol * self.magnitude)
        needed = np.where(self.difference > atol, (self.difference - atol) / self.magnitude, 0.0)
        return self._first(needed, lambda rtol: atol + rtol * self.magnitude)

    def atol(self) -> float | None:
        """The absolute tolerance that passes alone."""
        return self._first(self.difference, lambda atol: atol + 0.0 * self.magnitude)

    def _first(self, needed: _Array, allowed: Callable[[float], _Array]) -> float | None:
        # Where nothing differs, 0 / 0 is nothing to need.
        largest = float(np.max(np.where(self.difference > 0, needed, 0.0), initial=0.0))
        candidates = _rounded_up(largest) if math.isfinite(largest) else ()
        return next((one for one in candidates if bool((self.difference <= allowed(one)).all())), None)


def _rounded_up(value: float) -> Iterator[float]:
    """The finite numbers of two digits from just below `value` on."""
    mantissa, exponent = f"{value:.1e}".split("e")
    tenths = round(10 * float(mantissa))
    # Through text, so that 3.1e-05 is written so and not as 3.1000000000000002e-05.
    numbers = (float(f"{tenths + step}e{int(exponent) - 1}") for step in range(3))
    yield from (number for number in numbers if math.isfinite(number))


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _show(value: Any) -> str:
    if value.dtype.kind == "b":
        return str(bool(value))
    if value.dtype.kind == "c" or _kind(value.dtype) == "f":
        digits = 17 if value.dtype.itemsize >= 8 and value.dtype.kind == "f" else 9
        return f"{complex(value):.{digits}g}" if value.dtype.kind == "c" else f"{float(value):.{digits}g}"
    return str(int(value))


_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGN_BIT = {"float4_e2m1fn": 3}
_WITHOUT_SIGN = ("float8_e8m0fnu",)


def _ulps(eager: _Array, compiled: _Array, where: _Array) -> int | None:
    """Largest distance in representable numbers, where both sides have the same real floating dtype."""
    if eager.dtype != compiled.dtype or _kind(eager.dtype) != "f" or not where.any():
        return None
    if eager.dtype.itemsize not in _UNSIGNED:  # NumPy's longdouble, which JAX does not have
        return None
    one, other = _ordered(eager)[where], _ordered(compiled)[where]
    return int(np.max(np.where(one > other, one - other, other - one)))


def _ordered(array: _Array) -> _Array:
    """Unsigned integers in the order of the floats: neighbouring floats are neighbours here."""
    bits = np.atleast_1d(array).view(_UNSIGNED[array.dtype.itemsize]).astype(np.uint64).reshape(array.shape)
    if array.dtype.name in _WITHOUT_SIGN:
        return bits
    sign = np.uint64(1) << np.uint64(_SIGN_BIT.get(array.dtype.name, 8 * array.dtype.itemsize - 1))
    return np.where(bits & sign, sign - (bits & (sign - np.uint64(1))), bits + sign)


def _is_same_memory(one: _Array, other: _Array) -> bool:
    if one.dtype != other.dtype:
        return False
    return one.tobytes() == other.tobytes()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
