"""Layers: plain functions, an equinox module and a flax module."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx

__all__ = ["Encoder", "Tagger", "attention", "dense_bf16", "layer_norm"]


def dense_bf16(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """A dense layer in bfloat16 with sums in float32."""
    product = jnp.matmul(x, kernel, preferred_element_type=jnp.float32)
    return jax.nn.gelu(product + bias).astype(jnp.bfloat16)


def layer_norm(x: jax.Array, scale: jax.Array, *, eps: float = 1e-5) -> jax.Array:
    """The last axis with mean 0 and variance 1, times a scale."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return scale * (x - mean) * jax.lax.rsqrt(variance + eps)


def attention(query: jax.Array, key: jax.Array, value: jax.Array, *, causal: bool = False) -> jax.Array:
    """Scaled dot-product attention of shape (length, features)."""
    scores = query @ key.T / jnp.sqrt(query.shape[-1])
    if causal:
        scores = jnp.where(jnp.tri(*scores.shape, dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores) @ value


class Encoder(eqx.Module):
    """Two dense layers with an activation between them, which is no array: `eqx.filter_jit` keeps it static."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    activation: Callable[[jax.Array], jax.Array]

    def __init__(self, width: int, key: jax.Array) -> None:
        one, two = jax.random.split(key)
        self.first = eqx.nn.Linear(width, 2 * width, key=one)
        self.second = eqx.nn.Linear(2 * width, width, key=two)
        self.activation = jax.nn.silu

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.second(self.activation(self.first(x)))


class Tagger(nnx.Module):
    """Scores of each label for every position of a sequence."""

    def __init__(self, features: int, labels: int, *, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(features, 16, rngs=rngs)
        self.out = nnx.Linear(16, labels, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.out(jax.nn.relu(self.hidden(x)))
