"""Marked tests: fixtures and parameters are the arguments, and what a test returns is compared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ripple import statistics


@pytest.fixture
def X() -> jax.Array:
    return jnp.array(np.random.default_rng(0).normal(3, 2, (10_000, 10)), dtype=jnp.float32)


@pytest.fixture
def x() -> jax.Array:
    return jnp.linspace(-1, 1, 24).reshape(2, 3, 4)


@pytest.mark.jitcheck(atol=1e-6)
def test_norm(X):
    return statistics.norm(X)


@pytest.mark.jitcheck(static_argnums=(1,))
@pytest.mark.parametrize("neg", [True, False])
def test_negate(x, neg):
    return statistics.negate(x, neg)


@pytest.mark.jitcheck
def test_flatten(x):
    return statistics.flatten(x)


@pytest.mark.jitcheck
def test_whiten(X):
    return statistics.whiten(X[:200])


@pytest.mark.jitcheck
def test_log_softmax(x):
    return statistics.log_softmax(10 * x)


@pytest.mark.jitcheck(static_argnames="axis")
@pytest.mark.parametrize("axis", [None, 0])
class TestSummary:
    """The mark of a class holds for all its tests, and a method's own mark adds to it."""

    def test_of_floats(self, x, axis):
        return statistics.summary(x, axis=axis)

    @pytest.mark.jitcheck(rtol=1e-2)
    def test_of_bfloat16(self, x, axis):
        return statistics.summary(x.astype(jnp.bfloat16), axis=axis)


@pytest.mark.jitcheck(static_argnames=("q", "method"))
@pytest.mark.parametrize(("q", "method"), [((0.5,), "linear"), ((0.1, 0.9), "nearest")])
def test_quantiles(x, q, method):
    return statistics.quantiles(x, q, method=method)


def test_the_best_scores_come_first(jitcheck, x):
    scores, places = jitcheck(statistics.top, static_argnames="k")(x, k=2)
    assert scores.shape == places.shape == (2, 3, 2)
    assert (scores[..., 0] >= scores[..., 1]).all()


def test_normalised_columns_have_mean_0_and_deviation_1(jitcheck, X):
    normal = jitcheck(statistics.norm, atol=1e-6)(X)
    np.testing.assert_allclose(normal.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(normal.std(0), 1, rtol=1e-5)
