"""Checks that check nothing, and failures that are no matter of jit."""

import jax
import jax.numpy as jnp
import pytest
from ripple import statistics


@pytest.mark.gallery("assert-on-tracer", at="assert (jnp.abs(normal) < 5).all()", blames=["x"])
@pytest.mark.jitcheck
def test_asserting_in_a_marked_test(x):
    """The body of a marked test is what is traced: an `assert` in it has no values to look at."""
    normal = statistics.norm(x[:, None])
    assert (jnp.abs(normal) < 5).all()


@pytest.mark.gallery("returns-nothing", at="def test_returning_nothing")
@pytest.mark.jitcheck
def test_returning_nothing(x):
    """A marked test that returns nothing compares nothing."""
    statistics.negate(x, True)


@pytest.mark.gallery("ran-no-check")
def test_a_check_that_was_never_called(jitcheck):
    """The fixture takes the function first and its arguments second: without those, nothing runs."""
    jitcheck(statistics.norm)


@pytest.mark.gallery("did-not-raise", at="def test_an_incompatibility_that_is_gone")
@pytest.mark.jitcheck(raises=jax.errors.TracerBoolConversionError)
def test_an_incompatibility_that_is_gone(x):
    """A declared incompatibility has to be one."""
    return jnp.where(x > 0, x, 0)


@pytest.mark.gallery("fails-eagerly", at="x @ jnp.ones((4, 2))")
def test_a_failure_without_jit(jitcheck, x):
    """The function fails in plain Python: that is said to be no problem of jit."""
    jitcheck(lambda x: x @ jnp.ones((4, 2)))(x)
