"""The reports of all checks, gathered where the summary is printed: in this process, or on xdist's controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jitcheck.options import Settings

if TYPE_CHECKING:
    from pytest_jitcheck.report import CheckReport

# The modules that read, show and write reports are imported where a report is at hand: a suite without checks starts without.

__all__ = ["Collector"]


class Collector:
    """Gathers the reports of all checks, from this process or from workers, and says at the end what they add up to."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._reports: dict[str, dict[int, CheckReport]] = {}
        self._environment: Mapping[str, Any] | None = None
        self._disabled: set[str] = set()
        self._trouble = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            # A test that is run again, as pytest-rerunfailures does, replaces its reports.
            self._reports.pop(report.nodeid, None)
        if getattr(report, "jitcheck_disabled", False):
            self._disabled.add(report.nodeid)
        self._environment = getattr(report, "jitcheck_environment", self._environment)
        carried_reports = getattr(report, "jitcheck", ())
        if carried_reports:
            from pytest_jitcheck.report import CheckReport
        for carried in carried_reports:
            check = CheckReport.from_json(carried)
            self._reports.setdefault(check.nodeid, {})[check.index] = check
            self._config.hook.pytest_jitcheck_report(config=self._config, report=check)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._settings.json is None or self._config.getoption("collectonly"):
            return
        from pytest_jitcheck import document

        try:
            document.write(
                self._settings.json, document.build(self._all(), self._environment, created=datetime.now(UTC))
            )
        except document.DocumentError as error:
            self._trouble = f"{self._settings.json_source}: {error}"
            # A gate that reads the document must not take a missing one for a good one.
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not (self._reports or self._disabled or self._trouble):
            return
        from pytest_jitcheck import summary

        lines = list(
            summary.render(
                self._all(),
                environment=self._environment,
                width=self._config.get_terminal_writer().fullwidth,
                verbose=self._config.get_verbosity() > 0,
                durations=self._settings.durations,
                disabled=len(self._disabled),
            )
        )
        if self._trouble:
            lines.append(summary.Line(text=self._trouble, markup={"red": True}))
        if lines:
            terminalreporter.section("jitcheck")
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)

    def _all(self) -> Sequence[CheckReport]:
        return [check for checks in self._reports.values() for check in checks.values()]
