"""Explanations of what fails without an exception on the compiled side: differences, and checks that checked nothing."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_jitcheck.arguments import Call
from pytest_jitcheck.causes import Cause
from pytest_jitcheck.diagnose.source import Ownership, frames_of, function_line, innermost_site, writing_statement
from pytest_jitcheck.report import Diagnosis, Fix, Location, Mismatch

__all__ = ["did_not_raise", "eager_error", "eager_only", "mismatch", "nothing_returned", "unused_arguments", "writes"]


def eager_error(error: Exception, call: Call) -> Diagnosis:
    """The function fails in plain Python too."""
    return Diagnosis(
        kind="eager_error",
        rule="fails-eagerly",
        message=f"{call.name} fails without jit too: it raised {type(error).__name__}. This is no jit problem.",
        exception=exception_name(error),
        exception_message=str(error),
        location=location_of(error, call),
    )


def eager_only(error: Exception, call: Call) -> Diagnosis:
    """The function fails in plain Python, and jit takes it."""
    return Diagnosis(
        kind="value_mismatch",
        rule="fails-only-eagerly",
        message=(
            f"{call.name} raises {type(error).__name__} in plain Python, but traces under jit without an error. "
            f"There, nothing checks the value{_UNCHECKED.get(type(error), ('', ''))[0]}."
        ),
        exception=exception_name(error),
        exception_message=str(error),
        location=location_of(error, call),
        fix=Fix(
            text="Check the value before the jitted call, or make the bad case visible in the result"
            f"{_UNCHECKED.get(type(error), ('', ''))[1]}."
        ),
    )


_UNCHECKED: dict[type[Exception], tuple[str, str]] = {
    IndexError: (
        ": an index that is out of bounds is clamped to the last element",
        ": jnp.asarray(x).at[i].get(mode='fill', fill_value=jnp.nan)",
    ),
    ZeroDivisionError: (
        ": a division by zero gives inf or nan",
        ": jnp.where(d == 0, jnp.nan, n / jnp.where(d == 0, 1, d))",
    ),
    OverflowError: (": a float that is too large becomes inf", ""),
}
"""What jit does instead of raising, and how to see it, by what Python raises."""

_MISMATCHES = {
    "structure": (
        "structure_mismatch",
        "result-structure",
        "returns another structure when compiled",
        "Return the same containers whichever way the function is called, and only arrays and numbers in them.",
    ),
    "shape": (
        "shape_mismatch",
        "result-shape",
        "returns another shape when compiled",
        "Look for code that asks whether its input is a NumPy array or a tracer, and takes two paths.",
    ),
    "dtype": (
        "dtype_mismatch",
        "result-dtype",
        "returns another dtype when compiled",
        (
            "Convert the inputs with jnp.asarray before computing, so that both ways start from JAX's dtypes, or turn x64 on. "
            "If the difference is meant, say check_dtype=False."
        ),
    ),
    "value": (
        "value_mismatch",
        "result-value",
        "returns other values when compiled",
        (
            "If the difference is rounding, say the tolerance that would pass; if not, look for values that the function "
            "reads from anywhere but its arguments, or that Python and JAX compute differently."
        ),
    ),
    "weak_type": (
        "weak_type_mismatch",
        "result-weak-type",
        "returns another weak type when compiled",
        "Give the value a dtype: jnp.asarray(value, dtype=...). Weak types change what later operations return.",
    ),
}
_ORDER = ("structure", "shape", "value", "dtype", "weak_type")


def mismatch(mismatches: Sequence[Mismatch], call: Call, cause: Cause | None = None, judgement: str = "") -> Diagnosis:
    """The two results differ.

    Args:
        mismatches: how.
        call: the call.
        cause: what makes the difference go away, if anything does.
        judgement: how both compare to a reference, if there is one.
    """
    worst = min(mismatches, key=lambda one: _ORDER.index(one.kind))
    kind, rule, what, advice = _MISMATCHES[worst.kind]
    where = f" at {worst.path}" if worst.path else ""
    more = f", and in {len(mismatches) - 1} more" if len(mismatches) > 1 else ""
    return Diagnosis(
        kind=kind,
        rule=cause.rule if cause else rule,
        message=" ".join(filter(None, [f"{call.name} {what}{where}{more}.", cause.text if cause else judgement])),
        location=function_line(call.fn),
        arguments=cause.arguments if cause else (),
        fix=Fix(text=cause.fix if cause else advice),
    )


def nothing_returned(call: Call) -> Diagnosis:
    """There is no output to compare."""
    return Diagnosis(
        kind="vacuous",
        rule="returns-nothing",
        message=(
            f"{call.name} returned nothing that could be compared, so nothing was checked. "
            "The compiled program of such a function is empty."
        ),
        location=function_line(call.fn),
        fix=Fix(
            text=(
                "Return the arrays that it computes. In a marked test, what the test returns is what is compared: "
                "write `return f(x)` instead of asserting on the value, or ask for the jitcheck fixture and call "
                "`out = jitcheck(f)(x)`, which gives the eager result for ordinary asserts. If an empty result is "
                "meant, say constant=True."
            )
        ),
    )


def unused_arguments(call: Call) -> Diagnosis:
    """The compiled program's output is a constant."""
    traced = [argument.name for argument in call.bound() if not argument.static]
    return Diagnosis(
        kind="vacuous",
        rule="constant-result",
        message=(
            f"No traced argument of {call.name} goes into its result: the compiled program returns a constant, "
            "which is equal whatever the function would do with other inputs."
        ),
        location=function_line(call.fn),
        arguments=tuple(traced),
        fix=Fix(
            text=(
                "Compute the result from the arguments. A constant comes from a value that was read from a global, from "
                "a host copy (np.asarray of a concrete array) or from shapes alone. If a constant is meant, say "
                "constant=True."
            )
        ),
    )


def writes(names: Sequence[str], call: Call) -> Diagnosis:
    """The plain function changes the caller's arrays, which jit can't."""
    listed = " and ".join(names)
    found = writing_statement(call.fn, names[0])
    return Diagnosis(
        kind="side_effect",
        rule="writes-into-argument",
        message=(
            f"{call.name} writes into its argument {listed}: in plain Python the caller's NumPy array is changed, under "
            "jit it is left alone."
        ),
        location=found[0] if found is not None else function_line(call.fn),
        arguments=tuple(names),
        fix=Fix(
            text=f"Make a new array instead, and return it: {found[1] if found is not None else 'x = x + 1 for x += 1'}."
        ),
    )


def did_not_raise(names: str, call: Call) -> Diagnosis:
    """A declared incompatibility is gone."""
    return Diagnosis(
        kind="did_not_raise",
        rule="did-not-raise",
        message=f"{call.name} was declared to fail under jit with {names}, but it traces, compiles and runs.",
        location=function_line(call.fn),
        fix=Fix(text="Remove raises= from the check, so that it compares the results from now on."),
    )


def location_of(error: BaseException, call: Call | None) -> Location | None:
    """The innermost place in the user's code that an exception went through."""
    ownership = Ownership.of(None if call is None else call.fn)
    site = innermost_site(frames_of(error.__traceback__), ownership)
    return None if site is None else site.location


def exception_name(error: BaseException) -> str:
    """Qualified name of an exception's class, JAX's by their public module."""
    cls = type(error)
    module = "jax.errors" if cls.__module__ == "jax._src.errors" else cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"
