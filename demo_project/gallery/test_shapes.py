"""Shapes that depend on values: under jit a shape has to be known before there are values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def get_negatives(x):
    return x[x < 0]


def get_negatives_fixed(x):
    return jnp.where(x < 0, x, 0)


@pytest.mark.gallery("boolean-mask", at="x[x < 0]", blames=["x"])
@pytest.mark.jitcheck
def test_negatives(x):
    """A boolean mask, whose result is as long as there are negative numbers."""
    return get_negatives(x)


def flatten(x):
    return x.reshape(jnp.array(x.shape).prod())


def flatten_fixed(x):
    return x.reshape((np.prod(x.shape),))


@pytest.mark.gallery("shape-from-value", at="x.reshape(jnp.array(x.shape).prod())")
@pytest.mark.jitcheck
def test_a_shape_that_jnp_computed(image):
    """`jnp` makes a traced value even of a shape, which was a tuple of plain numbers."""
    return flatten(jnp.asarray(image))


def one_sided_window(signal, size):
    return jnp.zeros(size) + signal[0]


@pytest.mark.gallery("shape-from-value", at="jnp.zeros(size)", blames=["size"], static=["size"])
def test_a_size_that_nobody_declared_static(jitcheck, signal):
    """A new array whose size is an argument."""
    jitcheck(one_sided_window)(signal, 16)


def histogram(samples, bins):
    edges = jnp.linspace(-1, 1, bins + 1)
    return jnp.histogram(samples, edges)[0]


@pytest.mark.gallery("structural-argument", at="jnp.linspace(-1, 1, bins + 1)", blames=["bins"], static=["bins"])
def test_a_number_of_bins(jitcheck, signal):
    """A count that a library function needs while it builds the program."""
    jitcheck(histogram)(signal, 4)


def total(x, axis):
    return jnp.sum(x, axis=axis)


@pytest.mark.gallery("structural-argument", at="jnp.sum(x, axis=axis)", blames=["axis"], static=["axis"])
def test_an_axis_that_nobody_declared_static(jitcheck, image):
    """An axis decides the program, so that it can't be traced."""
    jitcheck(total)(image, 1)


def zero_crossings(signal):
    return jnp.nonzero(jnp.diff(jnp.sign(signal)))[0]


def zero_crossings_fixed(signal, most=16):
    return jnp.nonzero(jnp.diff(jnp.sign(signal)), size=most, fill_value=-1)[0]


@pytest.mark.gallery("size-from-value", at="jnp.nonzero(jnp.diff(jnp.sign(signal)))", blames=["signal"])
def test_as_many_places_as_there_are(jitcheck, signal):
    """`nonzero` without a size."""
    jitcheck(zero_crossings)(signal)


def number_of_labels(labels):
    return jnp.unique(labels).size


def number_of_labels_fixed(labels):
    ordered = jnp.sort(labels)
    return 1 + jnp.sum(ordered[1:] != ordered[:-1])


@pytest.mark.gallery("size-from-value", at="jnp.unique(labels)")
@pytest.mark.jitcheck
def test_as_many_labels_as_there_are():
    """`unique` without a size, on the way to a count."""
    return number_of_labels(jnp.array([2, 0, 2, 1]))


@pytest.mark.gallery("size-from-value", at="jnp.unique(labels)", blames=["labels"])
def test_as_many_labels_as_there_are_in_an_argument(jitcheck):
    """The same, on an argument."""
    jitcheck(number_of_labels)(jnp.array([2, 0, 2, 1]))


def first_samples(signal, n):
    return signal[:n]


@pytest.mark.gallery("slice-bound", at="signal[:n]", blames=["n"], static=["n"])
def test_a_slice_up_to_an_argument(jitcheck, signal):
    """A slice bound decides how long the result is."""
    jitcheck(first_samples)(signal, 10)


def frame(signal, start):
    return signal[start : start + 16]


def frame_fixed(signal, start):
    return jax.lax.dynamic_slice_in_dim(signal, start, 16)


@pytest.mark.gallery("moving-window", at="signal[start : start + 16]", blames=["start"])
def test_a_window_that_moves(jitcheck, signal):
    """A slice of constant width whose place is an argument: that can be traced, as another function."""
    jitcheck(frame)(signal, 8)


def mixture(x, weights, number):
    components = [jnp.tanh, jnp.sin, jnp.cos]
    return weights[number] * components[number](x)


def mixture_fixed(x, weights, number):
    return weights[number] * jax.lax.switch(number, [jnp.tanh, jnp.sin, jnp.cos], x)


@pytest.mark.gallery("index-into-list", at="components[number]", blames=["number"], static=["number"])
def test_a_function_from_a_list(jitcheck, x):
    """Indexing an array with a traced number is fine; indexing a Python list is not."""
    jitcheck(mixture)(x, jnp.array([0.5, 0.3, 0.2]), 1)
