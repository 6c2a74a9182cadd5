"""Hooks for projects and plugins that want a say in the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_jitcheck.report import CheckReport, Diagnosis, Mismatch
    from pytest_jitcheck.spec import CheckSpec

__all__ = ["pytest_jitcheck_compare", "pytest_jitcheck_diagnose", "pytest_jitcheck_report"]


@pytest.hookspec(firstresult=True)
def pytest_jitcheck_compare(
    config: pytest.Config, eager: Any, compiled: Any, spec: CheckSpec
) -> Sequence[Mismatch] | None:
    """Compare the two results of a check in a way of your own.

    Stops at the first answer that is not ``None``.

    Args:
        config: pytest's configuration.
        eager: what the plain Python function returned.
        compiled: what the compiled one returned.
        spec: what the check was asked to do.

    Returns:
        Everything that differs, empty where nothing does, or ``None`` to leave the comparison to others.
    """


@pytest.hookspec(firstresult=True)
def pytest_jitcheck_diagnose(config: pytest.Config, exception: Exception, diagnosis: Diagnosis) -> Diagnosis | None:
    """Explain an exception that you know better, such as one of your own library's.

    Stops at the first answer that is not ``None``.

    Args:
        config: pytest's configuration.
        exception: what was raised on the way to the compiled run.
        diagnosis: what would be said of it.

    Returns:
        A better diagnosis, or ``None`` to leave it as it is.
    """


@pytest.hookspec
def pytest_jitcheck_report(config: pytest.Config, report: CheckReport) -> None:
    """See the report of each check, in the process that prints the summary (with xdist, the controller).

    Args:
        config: pytest's configuration.
        report: what one check found.
    """
