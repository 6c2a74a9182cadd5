"""Statistics of columns and rows."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

__all__ = ["flatten", "log_softmax", "negate", "norm", "quantiles", "summary", "top", "whiten"]


def norm(X: jax.Array) -> jax.Array:
    """The columns of a matrix with mean 0 and standard deviation 1."""
    X = X - X.mean(0)
    return X / X.std(0)


def negate(x: jax.Array, neg: bool) -> jax.Array:
    """The array, or its negative."""
    return -x if neg else x


def flatten(x: jax.Array) -> jax.Array:
    """The array with all its elements in one dimension."""
    return x.reshape((np.prod(x.shape),))


def summary(x: jax.Array, *, axis: int | None = None) -> dict[str, jax.Array]:
    """Mean, standard deviation and extremes along an axis, or of everything."""
    return {"mean": x.mean(axis), "std": x.std(axis), "low": x.min(axis), "high": x.max(axis)}


def quantiles(x: jax.Array, q: tuple[float, ...], method: str = "linear") -> jax.Array:
    """The quantiles of all elements."""
    return jnp.quantile(x, jnp.array(q), method=method)


def top(scores: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The `k` highest scores of each row, and their places."""
    return jax.lax.top_k(scores, k)


def whiten(X: jax.Array, ridge: float = 1e-3) -> jax.Array:
    """The rows of a matrix with an identity covariance."""
    centred = X - X.mean(0)
    covariance = centred.T @ centred / (X.shape[0] - 1) + ridge * jnp.eye(X.shape[1])
    factor = jnp.linalg.cholesky(covariance)
    return jax.scipy.linalg.solve_triangular(factor, centred.T, lower=True).T


def log_softmax(logits: jax.Array) -> jax.Array:
    """Log-probabilities along the last axis."""
    return logits - logsumexp(logits, axis=-1, keepdims=True)
