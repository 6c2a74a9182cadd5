"""Images of shape (height, width, channels)."""

import jax
import jax.numpy as jnp

__all__ = ["blur", "edges", "grey", "shift", "thumbnail"]


def grey(image: jax.Array) -> jax.Array:
    """The brightness of each pixel, from 0 to 1, of an image of bytes."""
    return (image.astype(jnp.float32) / 255) @ jnp.array([0.299, 0.587, 0.114])


def thumbnail(image: jax.Array, size: tuple[int, int], method: str = "bilinear") -> jax.Array:
    """The image scaled to a height and a width."""
    return jax.image.resize(image, (*size, image.shape[-1]), method=method)


def blur(image: jax.Array, sigma: float = 1.0, *, radius: int = 3) -> jax.Array:
    """A grey image under a Gaussian blur."""
    offsets = jnp.arange(-radius, radius + 1)
    kernel = jnp.exp(-0.5 * jnp.square(offsets / sigma))
    return jax.scipy.signal.convolve2d(image, jnp.outer(kernel, kernel) / kernel.sum() ** 2, mode="same")


def edges(image: jax.Array) -> jax.Array:
    """How steep a grey image is at each pixel."""
    down, right = jnp.gradient(image)
    return jnp.hypot(down, right)


def shift(image: jax.Array, offset: jax.Array) -> jax.Array:
    """A grey image moved by a fraction of a pixel in both directions."""
    rows, columns = jnp.indices(image.shape)
    return jax.scipy.ndimage.map_coordinates(image, [rows - offset[0], columns - offset[1]], order=1, mode="nearest")
