"""Layers, with the transforms of equinox and flax in the place of `jax.jit`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from ripple import layers


@pytest.fixture
def sequence() -> jax.Array:
    return jax.random.normal(jax.random.key(1), (12, 8))


@pytest.fixture
def encoder() -> layers.Encoder:
    return layers.Encoder(8, jax.random.key(2))


@pytest.mark.jitcheck(jit=eqx.filter_jit)
def test_encoder(encoder, sequence):
    return jax.vmap(encoder)(sequence)


@pytest.mark.jitcheck(jit=eqx.filter_jit)
def test_gradient_of_the_encoder(encoder, sequence):
    return eqx.filter_grad(lambda model: jnp.square(jax.vmap(model)(sequence)).sum())(encoder)


@pytest.mark.jitcheck(jit=nnx.jit)
def test_tagger(sequence):
    return layers.Tagger(8, 3, rngs=nnx.Rngs(0))(sequence)


def test_a_tagger_that_is_passed_in(jitcheck, sequence):
    tagger = layers.Tagger(8, 3, rngs=nnx.Rngs(0))
    scores = jitcheck(lambda model, x: model(x), jit=nnx.jit)(tagger, sequence)
    assert scores.shape == (12, 3)


@pytest.mark.jitcheck
def test_a_dense_layer_in_bfloat16():
    kernel = jax.random.normal(jax.random.key(3), (8, 16), jnp.bfloat16)
    return layers.dense_bf16(jnp.ones((4, 8), jnp.bfloat16), kernel, jnp.zeros(16))


def test_attention_sees_only_the_past(jitcheck, sequence):
    attend = jitcheck(layers.attention, static_argnames="causal")
    out = attend(sequence, sequence, sequence, causal=True)
    np.testing.assert_allclose(out[0], sequence[0], rtol=1e-6)
    assert not np.allclose(out, attend(sequence, sequence, sequence, causal=False))


@pytest.mark.jitcheck
def test_layer_norm(sequence):
    return layers.layer_norm(sequence, jnp.ones(8), eps=1e-6)
