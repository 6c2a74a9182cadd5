"""Values that leave JAX: for NumPy, for Python numbers, for text and for dicts."""

import datetime
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def decibels(power):
    return 10 * np.log10(power)


def decibels_fixed(power):
    return 10 * jnp.log10(power)


@pytest.mark.gallery("numpy-on-tracer", at="np.log10(power)", blames=["power"])
def test_a_numpy_function_in_the_middle(jitcheck):
    """A NumPy function needs the values now."""
    jitcheck(decibels)(jnp.array([1.0, 10.0, 100.0]))


def standardise(x):
    scale = float(jnp.std(x))
    return x / scale


def standardise_fixed(x):
    return x / jnp.std(x)


@pytest.mark.gallery("python-number", at="float(jnp.std(x))", blames=["x"])
def test_a_python_float_in_the_middle(jitcheck, x):
    """`float` asks for a Python number."""
    jitcheck(standardise)(x)


def log_loss(loss, count):
    return loss.item() / count


def log_loss_fixed(loss, count):
    return loss / count


@pytest.mark.gallery("python-number", at="loss.item()", blames=["loss"])
def test_item(jitcheck):
    """So does `.item()`."""
    jitcheck(log_loss)(jnp.float32(12), 4)


def octave(frequency):
    return math.log2(frequency / 440.0)


def octave_fixed(frequency):
    return jnp.log2(frequency / 440.0)


@pytest.mark.gallery("python-number", at="math.log2(frequency / 440.0)", blames=["frequency"])
def test_the_logarithm_of_python(jitcheck):
    """And so do the functions of `math`."""
    jitcheck(octave)(jnp.float32(880))


def monitored_loss(predictions, targets):
    loss = jnp.mean((predictions - targets) ** 2)
    print(f"loss {loss:.3f}")
    return loss


def monitored_loss_fixed(predictions, targets):
    loss = jnp.mean((predictions - targets) ** 2)
    jax.debug.print("loss {loss:.3f}", loss=loss)
    return loss


@pytest.mark.gallery("format-of-tracer", at="{loss:.3f}", blames=["predictions", "targets"])
def test_printing_the_loss(jitcheck, x):
    """A number that is formatted for a message."""
    jitcheck(monitored_loss)(x, jnp.zeros(6))


STENCILS = {2: (-1.0, 0.0, 1.0), 4: (1 / 6, -4 / 3, 0.0, 4 / 3, -1 / 6)}


def derivative(signal, order):
    return jnp.convolve(signal, jnp.array(STENCILS[order]), mode="same")


@pytest.mark.gallery("key-from-value", at="STENCILS[order]", blames=["order"], static=["order"])
def test_coefficients_from_a_dict(jitcheck, signal):
    """A traced value is no key of a dict."""
    jitcheck(derivative)(signal, 2)


def moved_to(x, other):
    return jax.device_put(x, other.device)


def moved_to_fixed(x, device):
    return jax.device_put(x, device)


@pytest.mark.gallery("missing-attribute", at="other.device", blames=["other"])
def test_the_device_of_an_array(jitcheck, x):
    """A traced array is on no device."""
    jitcheck(moved_to)(x, x)


def elapsed_minutes(x, seconds):
    return x * (datetime.timedelta(seconds=seconds) / datetime.timedelta(minutes=1))


@pytest.mark.gallery(
    "structural-argument", at="datetime.timedelta(seconds=seconds)", blames=["seconds"], static=["seconds"]
)
def test_a_library_that_knows_nothing_of_jax(jitcheck, x):
    """A library that takes numbers only, in its own words."""
    jitcheck(elapsed_minutes)(x, 90.0)


def moving_average(signal, taps):
    return jnp.convolve(signal, jnp.array([1 / taps] * taps), mode="same")


@pytest.mark.gallery("trace-error", at="[1 / taps] * taps", blames=["taps"], static=["taps"])
def test_repeating_a_list(jitcheck, signal):
    """What Python itself refuses, as multiplying a list, without a rule of its own."""
    jitcheck(moving_average)(signal, 4)
