"""Signals: Fourier transforms, complex numbers, keys in and out, and a known incompatibility."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ripple import signals

pytestmark = pytest.mark.jitcheck(rtol=1e-5)


@pytest.fixture
def signal() -> jax.Array:
    return jnp.sin(jnp.linspace(0, 40, 256))


@pytest.mark.jitcheck(static_argnames="width")
@pytest.mark.parametrize("width", [1, 9])
def test_smooth(signal, width):
    return signals.smooth(signal, width)


@pytest.mark.jitcheck(static_argnames="keep")
@pytest.mark.parametrize("keep", [4, 40])
def test_band_limit(signal, keep):
    return signals.band_limit(signal, keep)


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey], ids=["typed", "raw"])
def test_jitter(jitcheck, key, signal):
    following, noisy = jitcheck(signals.jitter)(key(7), signal, 0.1)
    assert following.dtype == key(7).dtype
    assert 0 < jnp.abs(noisy - signal).max() < 1


def test_resonance(signal):
    return signals.resonance(signal, centre=0.25, width=0.1)


def test_within_keeps_to_the_limits(jitcheck, signal):
    assert not jitcheck(signals.within)(jnp.array([jnp.nan, jnp.inf]), -1.0, 1.0).any()
    assert jitcheck(signals.within)(signal, -1.0, 1.0).all()


@pytest.mark.parametrize("start", [0, 100])
def test_frame(jitcheck, signal, start):
    framed = jitcheck(signals.frame, static_argnames="width")(signal, start, width=16)
    np.testing.assert_array_equal(framed, signal[start : start + 16])


@pytest.mark.jitcheck(raises=jax.errors.NonConcreteBooleanIndexError)
def test_peaks_are_for_plain_python_only(signal):
    return signal[signal > 0.9]
