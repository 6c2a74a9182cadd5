"""A hundred functions that are sound in plain Python and wrong under jit alone: every one of them is caught.

Each fault is a change that a sound function suffers only while it is traced, or a dependence on something besides its
arguments. The tables cross such changes with sound functions, so that no check can know a case.
"""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytest_jitcheck

X = jnp.linspace(0.1, 1.0, 8)
M = jnp.arange(12.0).reshape(3, 4) + 1

Function = Callable[..., Any]


class Fault(NamedTuple):
    """One seeded fault."""

    name: str
    fn: Function
    args: tuple[Any, ...]
    kinds: tuple[str, ...]
    options: dict[str, Any] = {}  # noqa: RUF012  # never written to


def is_traced(*values: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(values))


# --- a result that is changed while it is traced ----------------------------------------------------------------------------

SOUND: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "scale": (lambda x: 3.0 * x, (X,)),
    "softmax": (jax.nn.softmax, (X,)),
    "matmul": (lambda m: m @ m.T, (M,)),
    "tiny": (lambda x: x * 1e-20, (X,)),
    "huge": (lambda x: x * 1e20, (X,)),
    "loop": (lambda x: jax.lax.fori_loop(0, 3, lambda _, v: v * 1.1, x), (X,)),
    "bfloat16": (lambda x: x * 2, (X.astype(jnp.bfloat16),)),
}

CHANGES: dict[str, tuple[Function, tuple[str, ...]]] = {
    "relative 1e-4": (lambda y: y * (1 + 1e-4), ("value_mismatch",)),
    "sign": (lambda y: -y, ("value_mismatch",)),
    "one element": (lambda y: y.at[(0,) * y.ndim].multiply(1.5), ("value_mismatch",)),
    "rolled": (lambda y: jnp.roll(y, 1), ("value_mismatch",)),
    "reversed": (jnp.flip, ("value_mismatch",)),
    "nan": (lambda y: y.at[(0,) * y.ndim].set(jnp.nan), ("value_mismatch",)),
    "infinity": (lambda y: y.at[(0,) * y.ndim].set(jnp.inf), ("value_mismatch",)),
    "zeroed": (lambda y: y * 0, ("value_mismatch", "vacuous")),
    "dtype": (lambda y: y.astype(jnp.float16), ("dtype_mismatch", "value_mismatch")),
    "shape": (lambda y: y[None], ("shape_mismatch",)),
    "tuple": (lambda y: (y,), ("structure_mismatch",)),
}

TOO_FINE = {("bfloat16", "relative 1e-4")}
"""Below what the precision can hold: no difference is left."""


def changed_results() -> Iterator[Fault]:
    for (sound, (fn, args)), (change, (damage, kinds)) in itertools.product(SOUND.items(), CHANGES.items()):
        if (sound, change) not in TOO_FINE:
            yield Fault(f"{sound}, {change}", _damaged(fn, damage), args, kinds)


def _damaged(fn: Function, damage: Function) -> Function:
    def damaged(*args: Any) -> Any:
        return damage(fn(*args)) if is_traced(args) else fn(*args)

    return damaged


# --- a result that depends on something else ------------------------------------------------------------------------------

CALLS: list[int] = []
STORE: dict[str, Any] = {}
IMPURE = ("nondeterministic", "side_effect", "stale_constant", "value_mismatch")
LEAKED = ("tracer_leak",)


def count_calls(x: jax.Array) -> jax.Array:
    CALLS.append(1)
    return x * len(CALLS)


def keep_the_first(x: jax.Array) -> Any:
    STORE.setdefault("total", x.sum())
    return x + STORE["total"]


def keep_a_history(x: jax.Array) -> jax.Array:
    STORE.setdefault("history", []).append(x * 2)
    return x


@functools.cache
def table(size: int) -> jax.Array:
    return jnp.arange(size) * 1.0


class Counter:
    """Multiplies by how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls += 1
        return x * self.calls


class Model:
    """Keeps its last activation."""

    last: Any = None

    def apply(self, x: jax.Array) -> Any:
        self.last = jnp.tanh(x)
        return self.last


def swallow(x: jax.Array) -> jax.Array:
    try:
        return x if x[0] > 0 else -x
    except Exception:  # noqa: BLE001  # the fault
        return x


def fall_back(x: jax.Array) -> jax.Array:
    try:
        return x * float(x[0])
    except TypeError:
        return x


def increment(x: np.ndarray[Any, Any]) -> jax.Array:
    x += 1
    return jnp.asarray(x) * 2


class HashedById:
    """Equal by value, hashed by identity."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashedById) and self.value == other.value

    def __hash__(self) -> int:
        return id(self)


class EqualByArray:
    """Compares arrays, which gives no truth value."""

    def __init__(self) -> None:
        self.values = np.ones(2)

    def __eq__(self, other: object) -> Any:
        return self.values == getattr(other, "values", None)

    def __hash__(self) -> int:
        return 1


ONE_BY_ONE = (
    Fault("numpy.random", lambda x: x + np.random.rand(), (X,), IMPURE),  # noqa: NPY002
    Fault("random", lambda x: x * random.random(), (X,), IMPURE),  # noqa: S311
    Fault("time", lambda x: x + time.time() % 10, (X,), IMPURE),
    Fault("perf_counter", lambda x: x + time.perf_counter() % 1, (X,), IMPURE),
    Fault("id of a new object", lambda x: x + id(object()) % 7 + random.random(), (X,), IMPURE),  # noqa: S311
    Fault("a counter in a global", count_calls, (X,), IMPURE),
    Fault("a counter in an object", Counter(), (X,), IMPURE),
    Fault("a cached tracer in a dict", keep_the_first, (X,), LEAKED),
    Fault("a history in a list", keep_a_history, (X,), LEAKED),
    Fault("a cached tracer in functools.cache", lambda x: x * table(8), (X,), LEAKED),
    Fault("a tracer in an attribute", Model().apply, (X,), LEAKED),
    Fault("a broad except", swallow, (X,), ("trace_error",)),
    Fault("a fallback on TypeError", fall_back, (X,), ("trace_error",)),
    Fault("a constant result", lambda x: jnp.zeros(3), (X,), ("vacuous",)),
    Fault(
        "a constant folded in", lambda x: jnp.asarray(np.linspace(0.1, 1.0, 8, dtype=np.float32)), (X,), ("vacuous",)
    ),
    Fault("nothing", lambda x: None, (X,), ("vacuous",)),
    Fault("a write into the argument", increment, (np.ones(3, np.float32),), ("side_effect",)),
    Fault("the order of a dict", lambda d: jnp.stack(list(d.values())), ({"b": X, "a": 2 * X},), ("value_mismatch",)),
    Fault("float64 of NumPy", lambda x: x * 2, (np.arange(3.0),), ("dtype_mismatch",)),
    Fault("an integer that overflows", lambda n: n * 4, (2**30,), ("value_mismatch",)),
    Fault("a modulus in float64", lambda t: t % 0.1, (0.3,), ("value_mismatch",)),
    Fault("a power of a negative number", lambda t: t**0.5, (-4.0,), ("value_mismatch",)),
    Fault(
        "an index out of bounds", lambda u: u[5], (np.arange(3, dtype=np.float32),), ("value_mismatch", "trace_error")
    ),
    Fault("a hash by identity", lambda x, c: x * c.value, (X, HashedById(2)), ("retrace",), {"static_argnums": 1}),
    Fault("an == without a truth value", lambda x, c: x * 2, (X, EqualByArray()), ("retrace",), {"static_argnums": 1}),
)

FAULTS = (*changed_results(), *ONE_BY_ONE)


def test_there_are_a_hundred_faults() -> None:
    assert len({fault.name for fault in FAULTS}) >= 100


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_caught(fault: Fault) -> None:
    CALLS.clear()
    STORE.clear()
    table.cache_clear()
    report = pytest_jitcheck.check(fault.fn, timing="off", **fault.options)(*fault.args)
    assert report.failure is not None
    assert report.failure.kind in fault.kinds


@pytest.mark.parametrize("name", SOUND)
def test_the_sound_function_passes(name: str) -> None:
    fn, args = SOUND[name]
    assert pytest_jitcheck.check(fn, timing="off")(*args).passed
