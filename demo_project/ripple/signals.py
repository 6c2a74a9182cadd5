"""Signals: samples along the last axis."""

import jax
import jax.numpy as jnp

__all__ = ["band_limit", "frame", "jitter", "resonance", "smooth", "within"]


def smooth(signal: jax.Array, width: int) -> jax.Array:
    """The moving average over an odd number of samples."""
    return jnp.convolve(signal, jnp.full(width, 1 / width), mode="same")


def band_limit(signal: jax.Array, keep: int) -> jax.Array:
    """The signal without any but its lowest frequencies."""
    spectrum = jnp.fft.rfft(signal)
    return jnp.fft.irfft(jnp.where(jnp.arange(spectrum.size) < keep, spectrum, 0), n=signal.size)


def frame(signal: jax.Array, start: jax.Array, width: int) -> jax.Array:
    """`width` samples from `start` on."""
    return jax.lax.dynamic_slice_in_dim(signal, start, width)


def resonance(frequency: jax.Array, centre: float, width: float) -> jax.Array:
    """A complex response curve."""
    return width / (width + 1j * (frequency - centre))


def within(signal: jax.Array, low: float, high: float) -> jax.Array:
    """Where the signal is within limits."""
    return (low <= signal) & (signal <= high)


def jitter(key: jax.Array, signal: jax.Array, amount: float) -> tuple[jax.Array, jax.Array]:
    """The next key, and the signal with normal noise."""
    key, noise = jax.random.split(key)
    return key, signal + amount * jax.random.normal(noise, signal.shape)
