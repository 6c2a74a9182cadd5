"""Checks that a function means the same under `jax.jit` as in plain Python, and what compiling it costs."""
from pytest_jitcheck.engine import check
