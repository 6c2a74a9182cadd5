"""Tests that Hypothesis drives: each example is checked, and one report stands for the test."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_jitcheck.report import CheckReport

__all__ = ["are_given_to", "body_of", "each", "representatives", "without_deadline"]

_SETTINGS = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test; there is no published way to change them after decoration."""


def are_given_to(test: Callable[..., Any]) -> bool:
    """Whether the test is decorated with ``@hypothesis.given``."""
    return getattr(test, "is_hypothesis_test", False) and hasattr(test, "hypothesis")


def body_of(test: Callable[..., Any]) -> Callable[..., Any]:
    """The function that takes all arguments, those that Hypothesis makes included."""
    if not are_given_to(test):
        return test
    body: Any = test.hypothesis.inner_test  # type: ignore[attr-defined]
    owner = getattr(test, "__self__", None)
    bound: Callable[..., Any] = body if owner is None else body.__get__(owner)
    return bound


@contextlib.contextmanager
def each(
    test: Callable[..., Any], check: Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], Any]
) -> Iterator[None]:
    """While this is open, each example that Hypothesis gives to the test goes to ``check(body, args, kwargs)`` instead."""
    handle: Any = test.hypothesis  # type: ignore[attr-defined]
    inner, body = handle.inner_test, body_of(test)
    signature = inspect.signature(inner)

    # Hypothesis reads the signature and the source of what it calls, and refuses a test that returns something.
    @functools.wraps(inner)
    def checked(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        bound = signature.bind(*args, **kwargs)
        check(body, bound.args if body is inner else bound.args[1:], bound.kwargs)

    handle.inner_test = checked
    try:
        yield
    finally:
        handle.inner_test = inner


@contextlib.contextmanager
def without_deadline(test: Callable[..., Any]) -> Iterator[None]:
    """While this is open, no example is too slow for Hypothesis: compiling takes its time, and differs from run to run."""
    function: Any = getattr(test, "__func__", test)
    before = getattr(function, _SETTINGS, None)
    if before is None:
        yield
        return
    # The test has imported it already.
    from hypothesis import settings

    setattr(function, _SETTINGS, settings(parent=before, deadline=None))
    try:
        yield
    finally:
        setattr(function, _SETTINGS, before)


def representatives(reports: Sequence[CheckReport], *, failed: bool) -> list[CheckReport]:
    """One report a checked function: of a test that failed the failing example's, which is the last one, else the slowest.

    Args:
        reports: those of all examples, in the order in which they ran.
        failed: whether the test failed.
    """
    # What `hypothesis.assume` turns away is no example.
    kept = [report for report in reports if not _is_turned_away(report)]
    chosen = [
        _representative([report for report in kept if report.name == name], failed=failed)
        for name in dict.fromkeys(report.name for report in kept)
    ]
    first = min((report.index for report in reports), default=0)
    return [dataclasses.replace(report, index=first + number) for number, report in enumerate(chosen)]


def _is_turned_away(report: CheckReport) -> bool:
    return report.failure is not None and report.failure.exception == "hypothesis.errors.UnsatisfiedAssumption"


def _representative(reports: Sequence[CheckReport], *, failed: bool) -> CheckReport:
    failures = [report for report in reports if report.outcome == "failed"]
    if failures and failed:
        return failures[-1]
    # An example that was expected to fail, as `@example(...).xfail()` says, does not stand for a test that passes.
    return max([report for report in reports if report.passed] or failures, key=_spent_s)


def _spent_s(report: CheckReport) -> float:
    timings = report.timings
    spent = (timings.trace_s, timings.lower_s, timings.compile_s, timings.first_run_s)
    return sum(duration_s for duration_s in spent if duration_s is not None)
