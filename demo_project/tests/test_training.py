"""Training: parameter pytrees, optimizer states, donated buffers, and functions that are jitted already."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from ripple import training


@pytest.fixture
def batch() -> training.Batch:
    inputs = jax.random.normal(jax.random.key(0), (64, 5))
    return training.Batch(inputs=inputs, targets=inputs.sum(1))


@pytest.fixture
def state() -> training.State:
    params = training.init_params(jax.random.key(1), features=5, hidden=7)
    return training.State(params=params, optimizer=training.OPTIMIZER.init(params), step=jnp.array(0))


@pytest.mark.jitcheck
def test_train_step(state, batch):
    return training.train_step(state, batch)


def test_a_step_that_reuses_the_buffers_of_the_state_lowers_the_loss(jitcheck, state, batch):
    after, loss = jitcheck(training.train_step, donate_argnames="state")(state, batch)
    assert training.squared_error(after.params, batch) < loss
    assert after.step == 1


def test_steps_that_are_jitted_already(jitcheck, state, batch):
    steps = jax.jit(training.train_steps, static_argnames="steps")
    _, losses = jitcheck(steps)(state, batch, steps=3)
    assert losses.shape == (3,)


def test_prediction_and_loss(jitcheck, state, batch):
    predictions = jitcheck(training.predict)(state.params, batch.inputs)
    loss = jitcheck(training.squared_error)(state.params, batch)
    jitcheck(jax.grad(training.squared_error))(state.params, batch)
    assert jnp.allclose(jnp.square(predictions - batch.targets).mean(), loss)


@pytest.mark.jitcheck(jit=partial(jax.jit, inline=True))
@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_moving_average(state, decay):
    return training.ema(state.params, jax.tree.map(jnp.ones_like, state.params), decay)
