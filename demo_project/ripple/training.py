"""Parameters, losses and steps of training."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

__all__ = ["Batch", "State", "ema", "init_params", "predict", "squared_error", "train_step", "train_steps"]

Params = dict[str, dict[str, jax.Array]]


class Batch(NamedTuple):
    """Inputs and targets, a row an example."""

    inputs: jax.Array
    targets: jax.Array


class State(NamedTuple):
    """What a step of training takes and gives."""

    params: Params
    optimizer: Any
    step: jax.Array


OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1e-2, momentum=0.9))


def init_params(key: jax.Array, features: int, hidden: int) -> Params:
    """Random parameters of a network with one hidden layer."""
    one, two = jax.random.split(key)
    return {
        "hidden": {"kernel": jax.random.normal(one, (features, hidden)) / features**0.5, "bias": jnp.zeros(hidden)},
        "out": {"kernel": jax.random.normal(two, (hidden, 1)) / hidden**0.5, "bias": jnp.zeros(1)},
    }


def predict(params: Params, inputs: jax.Array) -> jax.Array:
    """The network's output, one number an example."""
    hidden = jnp.tanh(inputs @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return (hidden @ params["out"]["kernel"] + params["out"]["bias"])[:, 0]


def squared_error(params: Params, batch: Batch) -> jax.Array:
    """Mean squared error of the predictions."""
    return jnp.mean(jnp.square(predict(params, batch.inputs) - batch.targets))


def train_step(state: State, batch: Batch) -> tuple[State, jax.Array]:
    """The state after one step of the optimizer, and the loss before it."""
    loss, gradients = jax.value_and_grad(squared_error)(state.params, batch)
    updates, optimizer = OPTIMIZER.update(gradients, state.optimizer, state.params)
    return State(optax.apply_updates(state.params, updates), optimizer, state.step + 1), loss


def train_steps(state: State, batch: Batch, steps: int) -> tuple[State, jax.Array]:
    """The state after some steps on one batch, and the loss before each."""
    return jax.lax.scan(lambda carry, _: train_step(carry, batch), state, length=steps)


def ema(average: Params, params: Params, decay: float) -> Params:
    """The moving average of parameters, one step further."""
    return jax.tree.map(lambda old, new: new + decay * (old - new), average, params)
