"""Each section of docs/errors.md: its first example fails with that rule, or carries that note; its second one passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

# Here, so that pytester, which forgets what was imported since, leaves them loaded for the next example.
import pytest_jitcheck.engine
import pytest_jitcheck.raising
from pytest_jitcheck.report import CheckReport

ROOT = Path(__file__).parent.parent
PACKAGE = Path(pytest_jitcheck.__file__).parent

NO_RULES = {
    "break-even",
    "dist-packages",
    "jitcheck-collector",
    "pytest-jitcheck",
    "rev-parse",
    "site-packages",
    "speed-up",
    "stage-failure",
    "utf-8",
}
"""Words with a dash in the package's source that are no rules."""


def examples(markdown: str) -> Iterator[tuple[str, list[str]]]:
    """Each section's rule, with its Python blocks."""
    tokens = MarkdownIt().parse(markdown)
    headings = [number for number, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    for start, stop in zip(headings, [*headings[1:], len(tokens)], strict=True):
        blocks = [token.content for token in tokens[start:stop] if token.type == "fence" and token.info == "python"]
        yield tokens[start + 1].content, blocks


SECTIONS = dict(examples((ROOT / "docs" / "errors.md").read_text(encoding="utf-8")))


def rules_in_the_code() -> set[str]:
    """What is given as a rule, and every other word with a dash in it: tables of rules hold those as they like."""
    nodes = [node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    given = {ast.unparse(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg in {"rule", "id"}}
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {word for word in words if repr(word) in given or re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", word)} - NO_RULES


def test_every_rule_has_a_section_and_every_section_is_a_rule() -> None:
    assert set(SECTIONS) == rules_in_the_code()


@pytest.fixture
def report_of(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], CheckReport]:
    """Gives the report of an example that is run as its reader would run it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str) -> CheckReport:
        test = pytester.makepyfile(source)
        # Without what collects garbage five times after each run.
        options = ["-p", "pytest_jitcheck.plugin", "-p", "no:unraisableexception", "-p", "no:cacheprovider"]
        recorder = pytester.inline_run(test, *options)
        (call,) = recorder.getcalls("pytest_jitcheck_report")
        report: CheckReport = call.report
        return report

    return run


@pytest.mark.parametrize("rule", SECTIONS)
def test_the_first_example_shows_the_rule_and_the_second_passes(
    rule: str, report_of: Callable[[str], CheckReport]
) -> None:
    first, second = map(report_of, SECTIONS[rule])
    assert rule in shown_by(first)
    assert second.outcome == "passed"
    assert rule not in shown_by(second)


def shown_by(report: CheckReport) -> set[str]:
    """The rules that a report names: its failure's, or its notes' if it did not fail."""
    notes = {note.rule for note in report.notes}
    return {report.failure.rule} if report.outcome == "failed" and report.failure is not None else notes
