"""The sentences that explanations share."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_jitcheck.diagnose.evidence import Blame, Input
from pytest_jitcheck.diagnose.trial import StaticFix

__all__ = ["because", "listed", "names_tuple", "static_advice", "subject"]


def listed(words: Sequence[str], last: str = "and") -> str:
    """The words in backquotes, as English lists them."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if quoted else ""


def names_tuple(names: Sequence[str]) -> str:
    """The names as a Python tuple in double quotes."""
    return "(" + ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "") + ")"


def because(blame: Blame, text: str = "") -> str:
    """Why a value was not there: the inputs that it depends on, or the line that staged it.

    Args:
        blame: what it depends on.
        text: the expression that gave it, so that an argument is not said to depend on itself.
    """
    if [item.text for item in blame.inputs] == [text]:
        return "It is an argument, and under jit an argument has a shape and a dtype, but no value yet"
    if blame.inputs:
        return (
            f"It depends on {listed([item.text for item in _few(blame.inputs)])}{_rest(blame.inputs)}, and under jit an "
            "argument has a shape and a dtype, but no value yet"
        )
    if blame.staged:
        place = blame.staged[0]
        if text and text in place.source:
            return (
                "No argument goes into it: a JAX operation in this expression makes a traced value, as JAX operations do under "
                "jit even with plain numbers"
            )
        return (
            f"No argument goes into it: it comes from the JAX operation in line {place.line}, `{place.source.strip()}`, "
            "and under jit JAX operations give traced values even for plain numbers"
        )
    return "Under jit, JAX operations give traced values, which have a shape and a dtype, but no value yet"


def subject(text: str, fallback: str = "a traced value") -> str:
    """An expression in backquotes, cut where it is long."""
    if not text:
        return fallback
    return f"`{text}`" if len(text) <= 70 else f"`{text[:67]}...`"


def static_advice(fix: StaticFix, function: str, blamed: Sequence[str] = ()) -> str:
    """How to declare these arguments static.

    Args:
        fix: what to declare.
        function: name of the checked function.
        blamed: the arguments of the first error; what is declared beside them, the next error would have named.
    """
    names = names_tuple(fix.names)
    is_test = function.rpartition(".")[2].startswith("test")
    where = (
        "on the marker, and where you jit the function that it calls"
        if is_test
        else f"in the check, and where {function} is jitted"
    )
    said = f"Declare {listed(fix.names)} static: static_argnames={names} {where}."
    later = [name for name in fix.names if name not in blamed] if blamed else []
    if later:
        said += f" {listed(later)} would have failed next."
    if any(isinstance(argument.value, float) for argument in fix.arguments):
        said += " Each new value then compiles anew."
    if fix.converted:
        said += f" Pass {listed(fix.converted)} as a tuple, which can be hashed."
    if fix.needs_numpy:
        said += (
            " And compute with numpy or math instead of jnp: under jit, jnp makes a traced value even of plain numbers."
        )
    return said


def _few(inputs: Sequence[Input]) -> Sequence[Input]:
    return inputs[:4]


def _rest(inputs: Sequence[Input]) -> str:
    return f" and {len(inputs) - 4} more" if len(inputs) > 4 else ""
