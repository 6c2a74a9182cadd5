"""The marker from both sides: the typed decorator, and what the marks of a test add up to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Unpack, overload

import pytest

from pytest_jitcheck import examples
from pytest_jitcheck.spec import CheckSpec, Options, SpecError, Statics

__all__ = ["HELP", "MARKER", "asks_for_fixture", "jitcheck", "problem_with", "spec_of", "uncollected"]

MARKER = "jitcheck"

_T = TypeVar("_T", bound="Callable[..., Any] | type")


@overload
def jitcheck(test: _T, /) -> _T: ...


@overload
def jitcheck(**options: Unpack[Options]) -> Callable[[_T], _T]: ...


def jitcheck(test: Any = None, /, **options: Any) -> Any:
    """Mark a test or a class of tests, as ``pytest.mark.jitcheck`` does, with types and with an early look at the keywords.

    Raises:
        SpecError: for an unknown keyword, a wrong type or a value out of range.
        TypeError: for what can't be marked: a fixture, or an option that is no keyword.
    """
    __tracebackhide__ = True
    try:
        CheckSpec.from_keywords(options)
    except SpecError as error:
        # From here: pytest then ends its traceback at the decorator, which is the line to change.
        raise SpecError(f"jitcheck: {error}") from None
    if test is not None:
        return _marked(test, options)

    def decorate(test: Any) -> Any:
        __tracebackhide__ = True
        return _marked(test, options)

    return decorate


def _marked(test: Any, options: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    # pytest's name of what it makes a fixture into is its own.
    if isinstance(test, type(pytest.fixture(lambda: None))):
        raise TypeError(
            f"jitcheck marks tests, and {test.__name__} is a fixture: mark the tests that use it. To check what the fixture "
            f"calls, let it take the jitcheck fixture as an argument: jitcheck(f)(x)."
        )
    if not callable(test):
        raise TypeError(
            f"jitcheck marks tests and classes of tests, not {test!r}. Its options are keywords: @jitcheck(rtol=1e-5)."
        )
    return pytest.mark.jitcheck(**options)(test)


def spec_of(marks: Iterable[pytest.Mark], defaults: CheckSpec) -> CheckSpec:
    """What the marks of a test ask for, keyword by keyword: the closest one decides, then the run's defaults.

    Args:
        marks: the test's jitcheck marks, the closest first, as `iter_markers` gives them.
        defaults: what the command line and the ini file say.

    Raises:
        SpecError: for a keyword that is unknown or has a wrong value.
    """
    spec = CheckSpec()
    for mark in marks:
        if mark.args:
            raise SpecError(
                f"the marker takes keywords only, such as rtol=1e-5, and was given {', '.join(map(repr, mark.args))}."
            )
        spec = spec.over(CheckSpec.from_keywords(mark.kwargs))
    return spec.over(defaults)


def problem_with(function: Callable[..., Any], marks: Iterable[pytest.Mark]) -> str | None:
    """What is wrong with the marks of a test, or ``None``: seen at collection, before anything runs.

    Args:
        function: the test function, without ``self``.
        marks: its jitcheck marks, the closest first.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "jitcheck can't check an `async def` test: jax.jit compiles plain functions. Call jitcheck inside a plain test."
    try:
        spec = spec_of(marks, CheckSpec())
        # With the fixture, statics are those of the functions that the test checks.
        if not asks_for_fixture(function):
            signature = inspect.signature(examples.body_of(function))
            Statics.of(signature, spec.static_argnums, spec.static_argnames)
            Statics.of(signature, spec.donate_argnums, spec.donate_argnames, keyword="donate")
    except SpecError as error:
        return f"jitcheck: {error}"
    return None


def asks_for_fixture(function: Callable[..., Any]) -> bool:
    """Whether a test takes the `jitcheck` fixture as an argument, to check other functions with it."""
    return MARKER in inspect.signature(function).parameters


def uncollected(name: str, obj: object, module: str | None) -> str | None:
    """What is wrong with a marked object that pytest does not collect, or ``None`` where nothing is.

    Args:
        name: its name.
        obj: the object.
        module: name of the module that is being collected: what was imported from elsewhere is judged there.
    """
    if not _is_marked(obj) or inspect.ismodule(obj):
        return None
    if (inspect.isclass(obj) or inspect.isroutine(obj)) and vars(obj).get("__test__") is False:
        return None
    if isinstance(obj, type(pytest.fixture(lambda: None))):
        return "jitcheck marks a fixture, which is not checked: mark the tests that use it."
    if inspect.isclass(obj):
        # A base class that real test classes inherit from hands its marks down to them.
        is_base = bool(obj.__subclasses__()) or obj.__module__ != module
        return None if is_base else _UNCOLLECTED.format("class", "Test", "python_classes")
    return _UNCOLLECTED.format("function", "test", "python_functions") if inspect.isroutine(obj) else None


_UNCOLLECTED = (
    "jitcheck marks a {0} that pytest does not collect as a test. Let its name begin with `{1}`, or with what the ini option "
    "{2} says, or remove the mark."
)


def _is_marked(obj: object) -> bool:
    try:
        marks = vars(obj).get("pytestmark", ())
    except Exception:  # noqa: BLE001  # no __dict__, or a proxy such as flask.request, which raises what it likes
        return False
    # As a class may write it: pytestmark = pytest.mark.jitcheck, with or without a list around it.
    each = marks if isinstance(marks, (list, tuple)) else [marks]
    return any(isinstance(one, (pytest.Mark, pytest.MarkDecorator)) and one.name == MARKER for one in each)


HELP = (
    "jitcheck(static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None, rtol=None, atol=None, "
    "equal_nan=True, check_dtype=True, check_weak_type=False, raises=None, jit=jax.jit, constant=False, trust='standard', "
    "strict_allclose=False, timing='quick', rounds=None): "
    "run the test function eagerly and under jax.jit and assert that both return the same. Fixtures and parameters are its "
    "arguments; what it returns is compared, so return the result instead of asserting on it. Static and donated arguments "
    "are declared as for jax.jit, tolerances as for numpy.testing.assert_allclose. raises= names the exception of a known "
    "incompatibility: the test passes only while jit fails with it. jit= takes another transform, such as "
    "equinox.filter_jit. constant=True allows a result that depends on no argument. trust, strict_allclose, timing, rounds, "
    "rtol and atol have defaults in the options of the same names (pytest --help). To check other functions inside a test, "
    "and to assert on their results, use the jitcheck fixture."
)
"""What ``pytest --markers`` says."""
