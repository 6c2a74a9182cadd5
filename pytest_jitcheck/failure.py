"""The text of a failed check: what happened, where, what to change, and JAX's own words last."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pytest_jitcheck.display import columns, cut, plural, significant_above
from pytest_jitcheck.report import Argument, CheckReport, Location, Mismatch, Stage

__all__ = ["DOCS_URL", "failure_text", "one_line"]

DOCS_URL = "https://pytest-jitcheck.readthedocs.io/errors.html"
"""The page with a section for each rule."""

_WIDTH = 100
"""Columns after which a list goes on one item a line, and an item of it is shortened."""
_LONGEST_LIST = 12
_LONGEST_QUOTE = 12
_INDENT = "    "
_MOST_ULPS = 1_000_000
"""Beyond so many units in the last place, their number says nothing that the relative difference does not."""
_STAGES: dict[Stage, str] = {
    "eager": "in the eager run, without jax.jit",
    "trace": "while JAX traced the function",
    "lower": "while JAX translated the traced function for the compiler",
    "compile": "in the compiler",
    "run": "while the compiled function ran",
    "compare": "when the eager and the compiled result were compared",
}
_TRIABLE = ("trace_error", "static_argument")
"""Kinds whose fixes are tried; of the others there is nothing to say."""
_VERDICTS = {
    True: "This was tried and works.",
    False: "This was not tried: run the test again after the change.",
}


def failure_text(report: CheckReport) -> str:
    """The text of a failed check, in paragraphs, the explanation first."""
    paragraphs = ("\n".join(paragraph(report)) for paragraph in _PARAGRAPHS)
    return "\n\n".join(filter(None, paragraphs))


def one_line(report: CheckReport) -> str:
    """The short reason, for pytest's short summary: the explanation's first line and where it happened."""
    reason = _message(report).splitlines()[0]
    location = report.failure.location if report.failure is not None else None
    place = "" if location is None else f" ({_file_name(location.path)}:{location.line})"
    return " ".join(f"{reason}{place}".split())


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _message(report: CheckReport) -> str:
    message = report.failure.message.strip() if report.failure is not None else ""
    where = "" if report.stage is None else f" {_STAGES[report.stage]}"
    return message or f"{report.name} failed{where}."


def _explanation(report: CheckReport) -> Iterator[str]:
    yield from _wrapped(_message(report))


def _wrapped(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def _where(report: CheckReport) -> Iterator[str]:
    if report.failure is not None and report.failure.location is not None:
        yield from _excerpt(report.failure.location)


def _origin(report: CheckReport) -> Iterator[str]:
    if report.failure is not None and report.failure.origin is not None:
        yield "The value stopped being an ordinary Python value here:"
        yield from _excerpt(report.failure.origin)


def _excerpt(location: Location) -> Iterator[str]:
    function = "" if location.function is None else f" in {location.function}"
    yield f"{_shown_path(location.path)}:{location.line}{function}"
    if source := location.source.strip():
        yield _INDENT + _printable(source)
        if location.column is not None:
            yield _INDENT + _carets(location, location.column)


def _shown_path(path: str) -> str:
    """The path as the terminal's reader would type it: relative, where it is below the working directory."""
    below = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(below)


def _carets(location: Location, column: int) -> str:
    indentation = len(location.source) - len(location.source.lstrip())
    source = location.source.strip()
    start = min(max(column - indentation, 0), len(source))
    stop = max(_last_column(location, column) - indentation, start)
    return " " * columns(_printable(source[:start])) + "^" * max(columns(_printable(source[start:stop])), 1)


def _last_column(location: Location, column: int) -> int:
    if location.end_line is not None and location.end_line > location.line:
        return len(location.source)
    return column + 1 if location.end_column is None else location.end_column


def _printable(source: str) -> str:
    # A tab is as wide as where it starts, which pytest's own prefixes move: one width for it keeps the carets in place.
    return "".join("    " if character == "\t" else " " if character.isspace() else character for character in source)


def _arguments(report: CheckReport) -> Iterator[str]:
    # Before the trace nothing was traced.
    dynamic = "called with" if report.stage == "eager" else "traced"
    yield from _listed(dynamic, (_traced(argument) for argument in report.arguments if not argument.static))
    yield from _listed("static", (f"{one.name}={one.value}" for one in report.arguments if one.static))
    if report.failure is not None and report.failure.arguments:
        noun = "argument" if len(report.failure.arguments) == 1 else "arguments"
        yield f"caused by: {noun} {_enumerated(report.failure.arguments)}"


def _traced(argument: Argument) -> str:
    return argument.name if argument.aval is None else f"{argument.name}: {argument.aval}"


def _listed(label: str, items: Iterable[str]) -> Iterator[str]:
    every = list(items)
    line = f"{label}: {', '.join(every)}"
    if columns(line) <= _WIDTH:
        yield from [line] if every else []
        return
    yield f"{label}:"
    for item in every[:_LONGEST_LIST]:
        yield _INDENT + cut(item, _WIDTH - len(_INDENT))
    if len(every) > _LONGEST_LIST:
        yield f"{_INDENT}and {len(every) - _LONGEST_LIST} more"


def _enumerated(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _differences(report: CheckReport) -> Iterator[str]:
    if report.mismatches:
        yield "What the eager run (without jax.jit) and the compiled run (with it) gave:"
    for mismatch in report.mismatches:
        yield from _both(mismatch)
        for measure in _MEASURES:
            yield from (_INDENT + line for line in measure(mismatch))


def _both(mismatch: Mismatch) -> Iterator[str]:
    leaf = f"result{mismatch.path} ({mismatch.kind.replace('_', ' ')})"
    place = f", at index [{', '.join(map(str, mismatch.index))}]" if mismatch.index else ""
    line = f"{leaf}: eager {mismatch.eager}, compiled {mismatch.compiled}{place}"
    if columns(line) <= _WIDTH and "\n" not in line:
        yield line
        return
    yield f"{leaf}{place}:"
    for label, value in (("eager", mismatch.eager), ("compiled", mismatch.compiled)):
        first, *rest = value.splitlines() or [""]
        yield f"{_INDENT}{label:<8} {cut(first, 3 * _WIDTH)}"
        yield from (f"{_INDENT}{'':<8} {cut(line, 3 * _WIDTH)}" for line in rest)


def _spread(mismatch: Mismatch) -> Iterator[str]:
    if mismatch.size > 1:
        verb = "differs" if mismatch.mismatched == 1 else "differ"
        share = _percent(mismatch.mismatched, mismatch.size)
        yield f"{mismatch.mismatched:,} of {mismatch.size:,} elements {verb} ({share})"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    if 0 < share < 0.01:
        return "under 0.01 %"
    # All or nothing is said only of all or nothing.
    return "over 99.9 %" if 99.9 < share < 100 else f"{share:.3g} %"


def _errors(mismatch: Mismatch) -> Iterator[str]:
    measured = ((mismatch.max_abs, "absolute"), (mismatch.max_rel, "relative"))
    errors = [f"{number:.3g} {word}" for number, word in measured if number is not None]
    if mismatch.max_ulp is not None and mismatch.max_ulp <= _MOST_ULPS:
        errors.append(f"{mismatch.max_ulp:,} ULP")
    if errors:
        yield f"largest difference: {', '.join(errors)}"


def _tolerance(mismatch: Mismatch) -> Iterator[str]:
    used = _assignments(("rtol", mismatch.rtol), ("atol", mismatch.atol), shown=lambda number: f"{number:.3g}")
    passing = _assignments(("rtol", mismatch.passing_rtol), ("atol", mismatch.passing_atol), shown=significant_above)
    if used:
        enough = f"{' or '.join(passing)} would pass" if passing else "no tolerance would pass"
        yield f"tolerance: {', '.join(used)}; {enough}"


def _assignments(*pairs: tuple[str, float | None], shown: Callable[[float], str]) -> list[str]:
    return [f"{name}={shown(number)}" for name, number in pairs if number is not None]


_MEASURES: Sequence[Callable[[Mismatch], Iterator[str]]] = (_spread, _errors, _tolerance)


def _fix(report: CheckReport) -> Iterator[str]:
    fix = report.failure.fix if report.failure is not None else None
    if fix is not None:
        yield from _wrapped(f"Fix: {_closed(fix.text.strip())}")
        if fix.verified or (report.failure is not None and report.failure.kind in _TRIABLE):
            yield _VERDICTS[fix.verified]
        if fix.alternative:
            yield from _wrapped(_closed(fix.alternative))


def _closed(advice: str) -> str:
    # Advice of several lines ends in code, which no full stop should follow.
    return advice if advice.endswith(".") or "\n" in advice else f"{advice}."


def _notes(report: CheckReport) -> Iterator[str]:
    for note in report.notes:
        yield from _wrapped(f"Note: {note.text}")


def _more(report: CheckReport) -> Iterator[str]:
    if report.failure is not None:
        yield f"More: {DOCS_URL}#{report.failure.rule}"


def _exception(report: CheckReport) -> Iterator[str]:
    failure = report.failure
    if failure is None or not failure.exception_message or not failure.exception_message.strip():
        return
    name = failure.exception or "exception"
    yield f"JAX said ({name}):" if name.startswith("jax") else f"The {name} said:"
    yield from (f"{_INDENT}{line}".rstrip() for line in _quoted(failure.exception_message.strip().splitlines()))


def _quoted(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) > _LONGEST_QUOTE:
        # JAX ends its messages with the address of its own page on the error.
        kept = _LONGEST_QUOTE - 2
        lines = [*lines[:kept], f"... ({plural(len(lines) - kept - 1, 'line')} left out)", lines[-1]]
    yield from (cut(line, 3 * _WIDTH) for line in lines)


_PARAGRAPHS: Sequence[Callable[[CheckReport], Iterator[str]]] = (
    _explanation,
    _where,
    _origin,
    _arguments,
    _differences,
    _fix,
    _notes,
    _more,
    _exception,
)
