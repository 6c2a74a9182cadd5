"""From a test's checks to pytest's report of it: what xdist carries to the controller, and the text of a failure."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_jitcheck import items, summary
from pytest_jitcheck.report import CheckReport, JitCheckError, Note

__all__ = ["attach"]


def attach(item: pytest.Function, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put what the checks of this phase found on pytest's own report, as plain values that xdist carries to the controller."""
    record = items.record_of(item)
    if report.skipped and not record.reports:
        record.reports.append(CheckReport(name=item.function.__qualname__, outcome="skipped", nodeid=item.nodeid))
    reports = [_as_pytest_sees_it(one, report) for one in record.reports[record.sent :]]
    record.sent += len(reports)
    carrier: Any = report
    carrier.jitcheck = [one.to_json() for one in reports]
    carrier.jitcheck_disabled = (
        report.when == "call" and not item.config.stash[items.SETTINGS].enabled and not record.reports
    )
    if any(one.device is not None or one.failure is not None for one in reports):
        from pytest_jitcheck.engine import environment

        carrier.jitcheck_environment = environment()
    if record.failure is not None and call.excinfo is not None and report.failed:
        error, failed_check = record.failure
        if call.excinfo.value is error:
            _show_explanation(item, call.excinfo, report, failed_check)


def _as_pytest_sees_it(check: CheckReport, report: pytest.TestReport) -> CheckReport:
    """The report of a check; one whose failure its test expects counts as pytest counts an expected failure, skipped."""
    if check.outcome != "failed" or report.failed:
        return check
    reason = getattr(report, "wasxfail", None)
    text = "the test caught the failure and passed" if reason is None else f"xfail: {reason}".removesuffix(": ")
    note = Note(rule="expected-failure", text=f"Expected to fail ({text}).")
    return dataclasses.replace(check, outcome="skipped", notes=(*check.notes, note))


def _show_explanation(
    item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport, check: CheckReport
) -> None:
    if check.failure is not None and check.failure.kind == "eager_error":
        is_explained = check.failure.rule != "fails-eagerly"
        report.sections.append(("jitcheck", summary.failure_text(check) if is_explained else summary.one_line(check)))
        return
    longrepr: Any = report.longrepr
    if _is_enough(excinfo, item):
        text = summary.failure_text(check)
        # Others add to it as Python's notes: Hypothesis its failing example.
        notes = [note for note in getattr(excinfo.value, "__notes__", ()) if note != text]
        paragraphs = [summary.one_line(check)] if item.config.getoption("tbstyle") == "line" else [text, *notes]
        explanation = JitCheckError("\n\n".join(paragraphs), check).with_traceback(excinfo.tb)
        longrepr = pytest.ExceptionInfo.from_exception(explanation).getrepr(style="value", chain=False)
        report.longrepr = longrepr
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = f"{type(excinfo.value).__name__}: {summary.one_line(check)}"
        place = None if check.failure is None else check.failure.location
        start = (item.location[1] or 0) + 1
        crash.path, crash.lineno = (str(item.path), start) if place is None else (place.path, place.line)


def _is_enough(excinfo: pytest.ExceptionInfo[BaseException], item: pytest.Item) -> bool:
    """Whether the explanation stands alone: it has the user's line, and pytest's view of the frames would bury it."""
    style = item.config.getoption("tbstyle")
    if item.config.getoption("fulltrace") or style not in ("auto", "short", "line", "long"):
        return False
    # Of a traceback without a frame to show, pytest says no more than that.
    return style != "long" or not any(entry.path == item.path for entry in excinfo.traceback)
