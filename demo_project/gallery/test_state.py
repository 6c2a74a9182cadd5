"""Functions that change something, remember something, or read something that is no argument."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def without_border(image):
    image[0, :] = 0
    image[-1, :] = 0
    return image * 2


def without_border_fixed(image):
    return jnp.asarray(image).at[jnp.array([0, -1]), :].set(0) * 2


@pytest.mark.gallery("item-assignment", at="image[0, :] = 0", blames=["image"])
def test_writing_into_an_array(jitcheck, image):
    """NumPy arrays can be changed, traced arrays can't."""
    jitcheck(without_border)(image)


def centred(image):
    image -= image.mean()
    return image


def centred_fixed(image):
    return image - image.mean()


@pytest.mark.gallery("writes-into-argument", at="image -= image.mean()", blames=["image"])
def test_changing_an_argument(jitcheck, image):
    """`-=` changes the caller's NumPy array in plain Python, and makes a new one under jit."""
    jitcheck(centred)(image)


@functools.lru_cache
def twiddles(n):
    return jnp.exp(-2j * jnp.pi * jnp.arange(n) / n)


def spectrum(signal):
    return jnp.abs(jnp.sum(signal * twiddles(signal.size)))


@functools.lru_cache
def twiddles_fixed(n):
    return np.exp(-2j * np.pi * np.arange(n) / n).astype(np.complex64)


def spectrum_fixed(signal):
    return jnp.abs(jnp.sum(signal * twiddles_fixed(signal.size)))


@pytest.mark.gallery("leaked-tracer", at="jnp.exp(-2j")
def test_a_cache_that_keeps_a_traced_value(jitcheck, signal):
    """A cache that is filled while JAX traces holds a tracer, which is of no use to the next call."""
    jitcheck(spectrum)(signal)


def augmented(image):
    return image + np.random.normal(size=image.shape).astype(np.float32)


def augmented_fixed(key, image):
    return image + jax.random.normal(key, image.shape)


@pytest.mark.gallery("nondeterministic", at="def augmented")
def test_noise_from_numpy(jitcheck, image):
    """Random numbers of NumPy are drawn once, while JAX traces."""
    jitcheck(augmented)(image)


BATCH = jnp.linspace(0, 1, 8)


def mean_of_batch(weights):
    return jnp.mean(jnp.square(BATCH))


def mean_of_batch_fixed(weights):
    return jnp.mean(weights * jnp.square(BATCH))


@pytest.mark.gallery("constant-result", at="def mean_of_batch", blames=["weights"])
def test_a_result_that_ignores_its_arguments(jitcheck):
    """The argument was forgotten: such a check would pass whatever the function does."""
    jitcheck(mean_of_batch)(jnp.ones(8))


CALLS = {"count": 0}


def annealed(x):
    CALLS["count"] += 1
    return x * 0.5 ** CALLS["count"]


def annealed_fixed(x, count):
    return x * 0.5**count, count + 1


@pytest.mark.gallery("nondeterministic", at="def test_counting_the_calls")
@pytest.mark.jitcheck
def test_counting_the_calls(x):
    """A counter outside of the function is counted once, while JAX traces."""
    return annealed(x)


HISTORY: list[jax.Array] = []


def recorded(x):
    HISTORY.append(jnp.max(x))
    return x / jnp.max(x)


def recorded_fixed(x):
    return x / jnp.max(x), jnp.max(x)


@pytest.mark.gallery("leaked-tracer", at="def recorded")
def test_appending_to_a_list(jitcheck, x):
    """A list outside of the function collects traced values, which stand for no number."""
    jitcheck(recorded)(x)
