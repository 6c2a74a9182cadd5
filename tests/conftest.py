"""What all tests share."""

from __future__ import annotations

# First, and here: pytester runs pytest in this process and afterwards forgets the modules that were imported meanwhile.
# A jax that is imported for the second time aborts the interpreter.
import jax  # noqa: F401

__all__: list[str] = []

pytest_plugins = ["pytester"]
