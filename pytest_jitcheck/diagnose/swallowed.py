"""Finds tracer errors that the user's own ``except`` caught, so that the function went another way under jit."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_jitcheck.arguments import Call
from pytest_jitcheck.compat import CaughtError
from pytest_jitcheck.diagnose.source import Ownership, syntax_at
from pytest_jitcheck.report import Diagnosis, Fix, Location

__all__ = ["Swallowed", "swallowed"]

_BROAD = ("Exception", "BaseException")
_KNOWING = ("jax", "Tracer", "Concret")


@dataclass(frozen=True, kw_only=True, slots=True)
class Swallowed:
    """A handler that caught a tracer error."""

    location: Location
    """The line that needed a value."""
    handler: str
    """The handler as it is written."""
    is_broad: bool
    """Whether it catches everything, and so what it was not written for."""

    def diagnosis(self, call: Call) -> Diagnosis:
        """The failure of a check whose function went another way under jit."""
        return Diagnosis(
            kind="trace_error",
            rule="swallowed-tracer-error",
            message=(
                f"While {call.name} was traced, `{self.location.source.strip()}` needed a value that a traced array does not "
                f"have; `{self.handler}` caught JAX's error, and the function went another way than in plain Python. What was "
                "compiled is not what was run."
            ),
            location=self.location,
            fix=Fix(
                text=(
                    "Catch only what is meant, and let JAX's errors through: they say what to change. A check of values belongs "
                    "outside of the jitted function, or into jnp.where."
                )
            ),
        )


def swallowed(errors: Iterable[CaughtError], call: Call) -> Swallowed | None:
    """The first tracer error that a handler in the user's own code caught, or ``None``.

    Args:
        errors: what JAX raised, and somebody caught, while the call was traced.
        call: the call, which was traced nevertheless.
    """
    ownership = Ownership.of(call.fn)
    for error in errors:
        handler = _handler_around(*error.caught_at) if ownership.is_users(error.caught_at[0]) else None
        if handler is not None:
            place = next((place for place in error.stack if ownership.is_users(place[0])), error.caught_at)
            return _found(place, handler)
    return None


def _found(place: tuple[str, int], handler: ast.ExceptHandler) -> Swallowed | None:
    caught = "" if handler.type is None else ast.unparse(handler.type)
    if any(word in caught for word in _KNOWING):
        return None
    path, line = place
    return Swallowed(
        location=Location(path=path, line=line, source=linecache.getline(path, line).rstrip("\n")),
        handler=f"except {caught}:" if caught else "except:",
        is_broad=not caught or any(name in caught.replace("(", " ").replace(",", " ").split() for name in _BROAD),
    )


def _handler_around(path: str, line: int) -> ast.ExceptHandler | None:
    """The handler that catches what the statement at this line raises, if it is in the body of a `try`."""
    nodes = syntax_at(path, line)
    for outer, inner in zip(reversed(nodes[:-1]), reversed(nodes[1:]), strict=True):
        if isinstance(inner, (ast.FunctionDef, ast.Lambda)):
            return None
        if isinstance(outer, ast.Try) and inner in outer.body:
            return next((handler for handler in outer.handlers if _catches_type_errors(handler)), None)
    return None


def _catches_type_errors(handler: ast.ExceptHandler) -> bool:
    # JAX's tracer errors are TypeErrors, and index errors for masks.
    names = "" if handler.type is None else ast.unparse(handler.type)
    return not names or any(name in names for name in (*_BROAD, "TypeError", "IndexError", *_KNOWING))
