"""Images: `jax.image`, `jax.scipy.signal` and `jax.scipy.ndimage`; the typed twin of the marker."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ripple import images

from pytest_jitcheck import jitcheck as check


@pytest.fixture
def photo() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (24, 32, 3), dtype=np.uint8)


@pytest.fixture
def scan() -> jax.Array:
    return jax.random.uniform(jax.random.key(4), (24, 32))


@check
def test_grey(photo):
    return images.grey(photo)


@check(static_argnames=("size", "method"))
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_thumbnail(photo, method, size=(12, 16)):
    return images.thumbnail(photo.astype(np.float32), size, method)


@check(static_argnames="radius")
@pytest.mark.parametrize("radius", [1, 3])
def test_blur(scan, radius):
    return images.blur(scan, 1.5, radius=radius)


def test_a_flat_image_has_no_edges(jitcheck):
    assert not jitcheck(images.edges)(jnp.ones((8, 8))).any()


def test_an_image_is_moved_by_whole_pixels(jitcheck, scan):
    moved = jitcheck(images.shift)(scan, jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(moved[1:], scan[:-1], rtol=1e-6)
