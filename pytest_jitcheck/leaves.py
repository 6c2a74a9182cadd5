"""What a leaf of a pytree is: an array, a number, a PRNG key, or nothing that JAX takes."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["as_traced", "is_array_like", "is_floating", "is_inexact", "is_key", "is_key_dtype", "is_number", "ready"]

_T = TypeVar("_T")


def ready(value: _T) -> _T:
    """The same pytree, once the device has computed it."""
    waited: _T = jax.block_until_ready(value)  # type: ignore[no-untyped-call]  # JAX leaves it without types
    return waited


def is_key_dtype(dtype: Any) -> bool:
    """Whether a dtype is that of typed PRNG keys, which has no NumPy form."""
    return bool(jnp.issubdtype(dtype, jax.dtypes.extended))


def is_key(leaf: object) -> bool:
    """Whether a leaf is an array of typed PRNG keys."""
    return isinstance(leaf, jax.Array) and is_key_dtype(leaf.dtype)


def is_number(leaf: object) -> bool:
    """Whether a leaf is a plain Python number."""
    return isinstance(leaf, (bool, int, float, complex))


def is_array_like(leaf: object) -> bool:
    """Whether jit takes a leaf as an ordinary argument."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind not in "OUSmM"
    return is_number(leaf) or isinstance(leaf, jax.Array)


def is_floating(leaf: object) -> bool:
    """Whether a leaf holds real floating-point numbers."""
    dtype = getattr(leaf, "dtype", None)
    return isinstance(leaf, float) if dtype is None else bool(jnp.issubdtype(dtype, np.floating))


def is_inexact(dtype: Any) -> bool:
    """Whether a dtype is that of real or complex floating-point numbers."""
    return bool(jnp.issubdtype(dtype, np.inexact))


def as_traced(dtype: Any) -> Any:
    """The dtype in which jit takes a value of this dtype: 64 bits become 32 unless x64 is on."""
    return dtype if is_key_dtype(dtype) else jax.dtypes.canonicalize_dtype(dtype)
