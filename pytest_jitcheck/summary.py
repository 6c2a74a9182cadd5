"""The lines of pytest's terminal section `jitcheck`, made from reports."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pytest_jitcheck.display import columns, count, cut, left, plural, right, seconds, significant
from pytest_jitcheck.failure import failure_text, one_line
from pytest_jitcheck.report import CheckReport, Outcome

__all__ = ["Line", "failure_text", "one_line", "render"]

_LONG_SUITE = 20
"""Number of checks that are shown in full without ``-v``."""
_ENOUGH_NAME = 20
"""Columns of a name for which columns of figures make way; a longer name is shortened rather."""
_LEAST_NAME = 8
_GAP = "  "
_MARKUP: Mapping[Outcome, Mapping[str, bool]] = {
    "passed": {"green": True},
    "failed": {"red": True},
    "skipped": {"yellow": True},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of the terminal section."""

    text: str
    """The line, without its line break."""
    markup: Mapping[str, bool]
    """Keywords of pytest's `TerminalWriter`, such as ``{"red": True}``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    """A figure that every check has."""

    heading: str
    cell: Callable[[CheckReport], str | None]
    """The figure of one check, or ``None`` where it has none."""
    rank: int
    """How much the column is worth: where the line is too short, the lowest goes first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Filled:
    """A column with its cells."""

    heading: str
    cells: tuple[str | None, ...]
    rank: int

    @property
    def is_empty(self) -> bool:
        """Whether no check has this figure, as with timing=off."""
        return all(cell is None for cell in self.cells)

    @property
    def width(self) -> int:
        """Terminal columns that it takes with the gap before it."""
        return len(_GAP) + max(columns(text or "") for text in (self.heading, *self.cells))

    def lines(self) -> Iterator[str]:
        """The heading and each cell, as wide as the column."""
        yield right(self.heading, self.width)
        for cell in self.cells:
            yield right("-" if cell is None else cell, self.width)


def render(
    reports: Sequence[CheckReport],
    *,
    environment: Mapping[str, Any] | None,
    width: int,
    verbose: bool,
    durations: int,
    disabled: int = 0,
) -> Iterator[Line]:
    """The whole section: a headline, a row a check and remarks; nothing where there was nothing to check.

    Args:
        reports: one a check, in any order: rows are sorted, so that xdist workers give the same table.
        environment: that of the document, if it is known.
        width: columns of the terminal.
        verbose: whether a long suite shows every check.
        durations: how many of the slowest compiles a long suite shows beside its failures; 0 shows every check.
        disabled: number of marked tests that ``--no-jitcheck`` let run eagerly only.
    """
    if reports:
        yield Line(text=_headline(reports, environment, width), markup={})
        shown = _shown(reports, show_all=verbose or durations <= 0, durations=durations)
        yield from _table(shown, _names(reports, shown), width)
        yield from _remark(_cached(shown), width)
        yield from _remark(_hidden(reports, shown), width)
    yield from _remark(_disabled(disabled), width, yellow=True)


def _headline(reports: Sequence[CheckReport], environment: Mapping[str, Any] | None, width: int) -> str:
    known = environment or {}
    outcomes = Counter(report.outcome for report in reports)
    numbers = [f"{outcomes[outcome]} {outcome}" for outcome in get_args(Outcome) if outcomes[outcome]]
    versions = [f"jax {known['jax']}"] if "jax" in known else []
    where = [*versions, _precision(reports, known)]
    rest = f"{', '.join(where)}: {', '.join([plural(len(reports), 'check'), *numbers])}"
    devices = _devices(reports, known)
    return f"{cut(devices, max(width - columns(rest) - 2, _LEAST_NAME))}, {rest}" if devices else rest


def _devices(reports: Sequence[CheckReport], environment: Mapping[str, Any]) -> str:
    used = [_device(report.device.platform, report.device.kind) for report in reports if report.device is not None]
    there = [_device(device["platform"], device["kind"]) for device in environment.get("devices", ())]
    return " and ".join(dict.fromkeys(used or there))


def _device(platform: str, kind: str) -> str:
    return platform if kind.lower() == platform.lower() else f"{platform} ({kind})"


def _precision(reports: Sequence[CheckReport], environment: Mapping[str, Any]) -> str:
    # A check that was skipped never looked: its x64 says nothing.
    used = {report.x64 for report in reports if report.device is not None} or {bool(environment.get("x64"))}
    return f"x64 {' and '.join('on' if x64 else 'off' for x64 in sorted(used))}"


def _shown(reports: Sequence[CheckReport], *, show_all: bool, durations: int) -> list[CheckReport]:
    ordered = sorted(reports, key=_order)
    if show_all or len(ordered) <= _LONG_SUITE:
        return ordered
    failures = [report for report in ordered if report.outcome == "failed"]
    others = [report for report in ordered if report.outcome != "failed"]
    return failures + sorted(others, key=_compile_s, reverse=True)[:durations]


def _order(report: CheckReport) -> tuple[list[tuple[int, str]], int]:
    # [9] before [10]: parameters are often sizes. Of two numbers the one with more digits is larger.
    parts = re.split(r"0*([0-9]+)", report.nodeid)
    return [(len(part) if number % 2 else -1, part) for number, part in enumerate(parts)], report.index


def _compile_s(report: CheckReport) -> float:
    return -1.0 if report.timings.compile_s is None else report.timings.compile_s


def _names(reports: Sequence[CheckReport], shown: Sequence[CheckReport]) -> list[list[str]]:
    """The names of the rows in several lengths, longest first, as far as they still tell the rows apart."""
    checks = Counter(report.nodeid for report in reports)
    lengths = [[_name(report, shorten, checks) for report in shown] for shorten in _SHORTENINGS]
    return [names for names in lengths if len(set(names)) == len(set(lengths[0]))]


def _name(report: CheckReport, shorten: Callable[[str], str], checks: Mapping[str, int]) -> str:
    function = report.name.rpartition(".")[2]
    if not report.nodeid:
        return function
    return shorten(report.nodeid) + (f" {function} #{report.index + 1}" if checks[report.nodeid] > 1 else "")


def _without_directories(nodeid: str) -> str:
    path, separator, test = nodeid.partition("::")
    return f"{path.rpartition('/')[2]}{separator}{test}"


def _without_file(nodeid: str) -> str:
    return nodeid.partition("::")[2] or nodeid


_SHORTENINGS: Sequence[Callable[[str], str]] = (str, _without_directories, _without_file)


def _table(reports: Sequence[CheckReport], lengths: Sequence[Sequence[str]], width: int) -> Iterator[Line]:
    lead = len(_GAP) + max(len(report.outcome) for report in reports)
    shortest = max(map(columns, ["check", *lengths[-1]]))
    figures = _fitting(reports, width - lead - min(shortest, _ENOUGH_NAME))
    room = max(width - lead - sum(figure.width for figure in figures), _LEAST_NAME)
    names = next((names for names in lengths if max(map(columns, names)) <= room), lengths[-1])
    names = ["check", *(cut(name, room) for name in names)]
    outcomes = [left(outcome, lead) for outcome in ("", *(report.outcome for report in reports))]
    labels = [left(name, max(map(columns, names))) for name in names]
    markups = [{"bold": True}, *(_MARKUP[report.outcome] for report in reports)]
    reasons = [None, *(_reason(report, figures, number) for number, report in enumerate(reports))]
    cells = [outcomes, labels, *(figure.lines() for figure in figures)]
    for row, reason, markup in zip(zip(*cells, strict=True), reasons, markups, strict=True):
        text = "".join(row if reason is None else row[:2])
        yield Line(text=(text if reason is None else cut(f"{text}{_GAP}{reason}", width)).rstrip(), markup=markup)


def _reason(report: CheckReport, figures: Sequence[_Filled], number: int) -> str | None:
    """Why a check failed that has no figure to show: the rule, and the user's line."""
    failure = report.failure
    if failure is None or any(figure.cells[number] is not None for figure in figures):
        return None
    place = failure.location
    where = "" if place is None else f" {place.path.replace(chr(92), '/').rpartition('/')[2]}:{place.line}"
    return f"{failure.rule}{where}"


def _fitting(reports: Sequence[CheckReport], room: int) -> list[_Filled]:
    filled = (
        _Filled(heading=column.heading, cells=tuple(map(column.cell, reports)), rank=column.rank) for column in _COLUMNS
    )
    kept = [column for column in filled if not column.is_empty]
    while sum(column.width for column in kept) > room and kept:
        kept.remove(min(kept, key=lambda column: column.rank))
    return kept


def _remark(text: str, width: int, **markup: bool) -> Iterator[Line]:
    for part in textwrap.wrap(text, width, break_on_hyphens=False):
        yield Line(text=part, markup=markup)


def _cached(shown: Sequence[CheckReport]) -> str:
    if not any(report.timings.cached for report in shown):
        return ""
    return "* loaded from JAX's compilation cache: a first compile takes longer."


def _hidden(reports: Sequence[CheckReport], shown: Sequence[CheckReport]) -> str:
    hidden = len(reports) - len(shown)
    if not hidden:
        return ""
    others = [report for report in shown if report.outcome != "failed"]
    timed = any(report.timings.compile_s is not None for report in others)
    rows = f"the {plural(len(others), 'slowest compile')}" if timed else plural(len(others), "other check")
    failures = "all failures and " if len(others) < len(shown) else ""
    return f"Shown: {failures}{rows}; -v shows {plural(hidden, 'more check')}."


def _disabled(tests: int) -> str:
    return f"--no-jitcheck: {plural(tests, 'marked test')} ran without jax.jit; nothing was compared." if tests else ""


def _time(stage: str) -> Callable[[CheckReport], str | None]:
    def cell(report: CheckReport) -> str | None:
        duration_s = getattr(report.timings, stage)
        return None if duration_s is None else seconds(duration_s)

    return cell


def _compile_time(report: CheckReport) -> str | None:
    duration = _time("compile_s")(report)
    return f"*{duration}" if duration is not None and report.timings.cached else duration


def _speedup(report: CheckReport) -> str | None:
    speedup = report.timings.speedup
    return None if speedup is None else f"{significant(speedup)}x"


def _break_even(report: CheckReport) -> str | None:
    calls = report.timings.break_even_calls
    if calls is None:
        return None
    return "never" if calls == math.inf else f"{count(calls)} {'call' if calls == 1 else 'calls'}"


_COLUMNS: Iterable[_Column] = (
    _Column(heading="eager", rank=4, cell=_time("eager_s")),
    _Column(heading="trace", rank=2, cell=_time("trace_s")),
    _Column(heading="lower", rank=1, cell=_time("lower_s")),
    _Column(heading="compile", rank=7, cell=_compile_time),
    _Column(heading="run", rank=5, cell=_time("run_s")),
    _Column(heading="speed-up", rank=6, cell=_speedup),
    _Column(heading="break-even", rank=3, cell=_break_even),
)
