"""Functions that trace and compile, and give another result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def phase(time, period):
    return jnp.sin(time % period)


def phase_fixed(time, period):
    return jnp.sin(jnp.float32(time) % jnp.float32(period))


@pytest.mark.gallery("python-scalar", at="def phase", blames=["period"])
def test_a_remainder_of_python_numbers(jitcheck):
    """Python computes 0.3 % 0.1 in double precision, JAX in single: 0.1 and 0.0 are both right."""
    jitcheck(phase)(0.3, 0.1)


def blend(old, new, decay):
    return decay * old + (1 - decay) * new


def blend_fixed(old, new, decay):
    return new + decay * (old - new)


@pytest.mark.gallery("python-scalar", at="def blend", blames=["decay"])
def test_a_small_difference_of_python_numbers(jitcheck):
    """`1 - decay` loses most of its digits in single precision."""
    jitcheck(blend)(jnp.zeros(4), jnp.ones(4), 0.9999)


def best(scores, k):
    scores.sort()
    return scores[-k:]


def best_fixed(scores, k):
    return jnp.sort(scores)[-k:]


@pytest.mark.gallery("numpy-input", at="def best", blames=["scores"])
def test_sorting_in_place(jitcheck):
    """`.sort()` sorts a NumPy array in place, and gives a new array for a traced one."""
    jitcheck(best, static_argnames="k")(np.array([3.0, 1.0, 2.0], dtype=np.float32), 2)


def features(columns):
    return jnp.stack(list(columns.values()))


def features_fixed(columns):
    return jnp.stack([columns[name] for name in sorted(columns)])


@pytest.mark.gallery("dict-order", at="def features", blames=["columns"])
def test_the_order_of_a_dict(jitcheck, x):
    """JAX hands dicts over with their keys sorted."""
    jitcheck(features)({"velocity": x, "position": 2 * x})


def brightness(image):
    return image / 255


def brightness_fixed(image):
    return jnp.asarray(image) / 255


@pytest.mark.gallery("numpy-input", at="def brightness", blames=["image"])
def test_double_precision_from_numpy(jitcheck):
    """NumPy divides bytes in double precision, JAX in single."""
    jitcheck(brightness)(np.arange(0, 256, 51, dtype=np.uint8))


def as_column(x):
    return x[:, None] if isinstance(x, np.ndarray) else x


def as_column_fixed(x):
    return jnp.asarray(x)[:, None]


@pytest.mark.gallery("numpy-input", at="def as_column", blames=["x"])
def test_another_path_for_numpy(jitcheck):
    """A function that asks for the type of its input takes another path under jit."""
    jitcheck(as_column)(np.ones(3, dtype=np.float32))


def bounds(x):
    low, high = jnp.min(x), jnp.max(x)
    return [low, high] if isinstance(x, jax.core.Tracer) else {"low": low, "high": high}


def bounds_fixed(x):
    return {"low": jnp.min(x), "high": jnp.max(x)}


@pytest.mark.gallery("result-structure", at="def bounds")
def test_another_container_when_traced(jitcheck, x):
    """Lists in one case, dicts in the other."""
    jitcheck(bounds)(x)


def step_response(table, index):
    return table[index]


def step_response_fixed(table, index):
    return jnp.asarray(table).at[index].get(mode="fill", fill_value=jnp.nan)


@pytest.mark.gallery("fails-only-eagerly", at="return table[index]")
def test_an_index_that_is_out_of_bounds(jitcheck):
    """NumPy refuses the index, and the compiled function takes the last element."""
    jitcheck(step_response)(np.array([0.0, 0.5, 1.0], dtype=np.float32), 7)
