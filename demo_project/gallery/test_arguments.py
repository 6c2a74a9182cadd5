"""Arguments and results that are no arrays, and arguments that were declared wrongly."""

import typing

import jax
import jax.numpy as jnp
import pytest


def extend(signal, width, mode):
    return jnp.pad(signal, width, mode=mode)


@pytest.mark.gallery("argument-is-no-array", at="def extend", blames=["mode"], static=["mode", "width"])
def test_a_string_argument(jitcheck, signal):
    """The name of a mode is no array; declared static, it shows that the width has to be static as well."""
    jitcheck(extend)(signal, 4, "reflect")


def hidden_layer(x, kernel, activation):
    return activation(x @ kernel)


@pytest.mark.gallery("argument-is-no-array", at="def hidden_layer", blames=["activation"], static=["activation"])
def test_a_function_as_an_argument(jitcheck, x):
    """A function is no array either."""
    jitcheck(hidden_layer)(x, jnp.ones((6, 2)), jnp.tanh)


def decoder(x, widths):
    for width in widths:
        x = jnp.tanh(x @ jnp.ones((x.size, width)))
    return x


@pytest.mark.gallery("unhashable-static", at="def decoder", blames=["widths"], static=["widths"])
def test_a_static_list(jitcheck, x):
    """A list can't be static, a tuple can."""
    jitcheck(decoder, static_argnames="widths")(x, [4, 2])


@pytest.mark.gallery("static-not-there", at="def decoder")
def test_a_misspelt_static_argument(jitcheck, x):
    """A static argument that the function does not have."""
    jitcheck(decoder, static_argnames="width")(x, (4, 2))


def sample(seed, shape):
    return jax.random.normal(jax.random.key(seed), shape)


def sample_fixed(key, shape):
    return jax.random.normal(key, shape)


@pytest.mark.gallery("integer-too-large", at="def sample", blames=["seed"])
def test_a_long_seed(jitcheck):
    """A Python integer has no limit, a traced one has 32 bits."""
    jitcheck(sample, static_argnames="shape")(20_251_201_093_000, (3,))


def interpolator(places, values):
    order = jnp.argsort(places)
    return lambda place: jnp.interp(place, places[order], values[order])


def interpolator_fixed(places, values):
    order = jnp.argsort(places)
    return jax.tree_util.Partial(jnp.interp, xp=places[order], fp=values[order])


@pytest.mark.gallery("returns-no-array", at="return lambda place:")
def test_a_returned_function(jitcheck, x):
    """A compiled function can't make a function."""
    jitcheck(interpolator)(x, x**2)


def measure(x):
    return {"value": jnp.max(x) - jnp.min(x), "unit": "dB"}


def measure_fixed(x):
    return {"value": jnp.max(x) - jnp.min(x)}


@pytest.mark.gallery("returns-no-array", at="return measure(x)")
@pytest.mark.jitcheck
def test_a_returned_label(x):
    """Nor can it return a string."""
    return measure(x)


@pytest.mark.gallery("returns-no-array", at='return {"value": jnp.max(x) - jnp.min(x), "unit": "dB"}')
def test_a_label_returned_from_a_library(jitcheck, x):
    """The same, in a function of the library."""
    jitcheck(measure)(x)


def mixed(state, other):
    return 0.9 * state + 0.1 * other


@pytest.mark.gallery("donated-twice", at="def mixed", blames=["state", "other"])
def test_a_buffer_that_is_donated_and_read(jitcheck, x):
    """The buffer of an argument is given away, and another argument is the same buffer."""
    jitcheck(mixed, donate_argnames="state")(x, x)


class Grid:
    """A grid of points, hashed by its address, so that equal grids have different hashes."""

    def __init__(self, points, spacing):
        self.points, self.spacing = points, spacing

    def __eq__(self, other):
        return (self.points, self.spacing) == (other.points, other.spacing)

    def __hash__(self):
        return id(self)


class GridFixed(typing.NamedTuple):
    """A grid of points; a NamedTuple of plain values is equal to its copies, and hashed like them."""

    points: int
    spacing: float


def integral(values, grid):
    return values.sum() * grid.spacing / grid.points


@pytest.mark.gallery("broken-equality", at="def integral", blames=["grid"])
def test_a_static_argument_that_jit_never_finds_again(jitcheck, x):
    """An equal object with another hash is another program: each call would compile."""
    jitcheck(integral, static_argnames="grid")(x, Grid(6, 0.5))
