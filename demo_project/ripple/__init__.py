"""Ripple: a small numerical library of array statistics, layers, training steps, image and signal helpers, in JAX."""
