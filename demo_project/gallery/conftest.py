"""The values that the gallery's tests share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture
def x() -> jax.Array:
    return jnp.array([3.0, -1.0, 2.0, -5.0, 0.5, -0.5])


@pytest.fixture
def signal() -> jax.Array:
    return jnp.sin(jnp.linspace(0, 12, 64))


@pytest.fixture
def image() -> np.ndarray:
    return np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
