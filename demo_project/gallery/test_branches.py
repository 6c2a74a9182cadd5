"""Python decides what to run next: branches, loops and logic on values that are not there while JAX traces."""

import jax
import jax.numpy as jnp
import pytest


def f(x, neg):
    return -x if neg else x


@pytest.mark.gallery("python-branch", at="-x if neg else x", blames=["neg"], static=["neg"])
def test_a_flag_that_nobody_declared_static(jitcheck, x):
    """A conditional expression on a flag, with nothing static."""
    jitcheck(f)(x, True)


@pytest.mark.gallery("python-branch", at="-x if neg else x", blames=["neg"], static=["neg"])
@pytest.mark.jitcheck
@pytest.mark.parametrize("neg", [True])
def test_a_parameter_that_nobody_declared_static(x, neg):
    """The same flag, from `parametrize`."""
    return f(x, neg)


def clip_gradient(gradient, limit):
    length = jnp.linalg.norm(gradient)
    if length > limit:
        gradient = gradient * (limit / length)
    return gradient


def clip_gradient_fixed(gradient, limit):
    length = jnp.linalg.norm(gradient)
    return jnp.where(length > limit, gradient * (limit / length), gradient)


@pytest.mark.gallery("python-branch", at="if length > limit", blames=["gradient", "limit"])
def test_a_branch_on_a_norm(jitcheck, x):
    """A Python `if` on a value computed from an array: no argument can be static, both sides have to be computed."""
    jitcheck(clip_gradient)(x, 1.0)


def square_root(a, tolerance):
    guess = a
    while jnp.abs(guess * guess - a) > tolerance:
        guess = (guess + a / guess) / 2
    return guess


def square_root_fixed(a, tolerance):
    return jax.lax.while_loop(
        lambda guess: jnp.abs(guess * guess - a) > tolerance, lambda guess: (guess + a / guess) / 2, a
    )


@pytest.mark.gallery("python-while", at="while jnp.abs(guess * guess - a) > tolerance", blames=["a", "tolerance"])
def test_iterating_until_it_has_converged(jitcheck):
    """A Python `while` that runs until values have converged."""
    jitcheck(square_root)(jnp.float32(2), 1e-5)


def simulate(state, steps):
    for _ in range(steps):
        state = state + 0.1 * jnp.cos(state)
    return state


@pytest.mark.gallery("python-loop", at="range(steps)", blames=["steps"], static=["steps"])
def test_a_number_of_steps(jitcheck, x):
    """`range` over an argument."""
    jitcheck(simulate)(x, 5)


def huber(residual, delta):
    if -delta < residual < delta:
        return residual**2 / 2
    return delta * (abs(residual) - delta / 2)


def huber_fixed(residual, delta):
    inside = (-delta < residual) & (residual < delta)
    return jnp.where(inside, residual**2 / 2, delta * (abs(residual) - delta / 2))


@pytest.mark.gallery("python-branch", at="if -delta < residual < delta", blames=["residual", "delta"])
def test_a_branch_on_a_chained_comparison(jitcheck):
    """`a < x < b` is `a < x and x < b`: the `and` has to go as well as the `if`."""
    jitcheck(huber)(jnp.float32(0.3), 1.0)


def step_is_good(gain, length, limit):
    accepted = gain > 0 and length <= limit
    return jnp.where(accepted, length, 0.0)


def step_is_good_fixed(gain, length, limit):
    accepted = (gain > 0) & (length <= limit)
    return jnp.where(accepted, length, 0.0)


@pytest.mark.gallery("python-logic", at="gain > 0 and length <= limit", blames=["gain"])
def test_two_conditions_at_once(jitcheck):
    """`and` asks for one truth value."""
    jitcheck(step_is_good)(jnp.float32(0.3), jnp.float32(0.5), jnp.float32(1))


def hinge(margin):
    return max(0.0, 1.0 - margin)


def hinge_fixed(margin):
    return jnp.maximum(0.0, 1.0 - margin)


@pytest.mark.gallery("python-builtin", at="max(0.0, 1.0 - margin)", blames=["margin"])
def test_the_maximum_of_python(jitcheck):
    """Python's `max` compares."""
    jitcheck(hinge)(jnp.float32(0.25))


def median(samples):
    return sorted(samples)[samples.size // 2]


def median_fixed(samples):
    return jnp.sort(samples)[samples.size // 2]


@pytest.mark.gallery("python-builtin", at="sorted(samples)", blames=["samples"])
def test_sorting_with_python(jitcheck):
    """Python's `sorted` compares, too."""
    jitcheck(median)(jnp.array([3.0, 1.0, 2.0]))


def probabilities(weights):
    assert (weights >= 0).all(), "weights must not be negative"
    return weights / weights.sum()


def probabilities_fixed(weights):
    return jnp.where((weights >= 0).all(), weights / weights.sum(), jnp.nan)


@pytest.mark.gallery("assert-on-tracer", at="assert (weights >= 0).all()", blames=["weights"])
def test_an_assertion_in_a_library(jitcheck):
    """A function that checks its input with `assert`."""
    jitcheck(probabilities)(jnp.arange(1.0, 5.0))
