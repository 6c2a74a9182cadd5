"""The pages of docs/ name what exists, all of it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pytest_jitcheck import compare, hookspec
from pytest_jitcheck.options import OPTIONS, Option
from pytest_jitcheck.report import Cost, Counts, Timings
from pytest_jitcheck.spec import CheckSpec

DOCS = Path(__file__).parent.parent / "docs"


def rows(page: str) -> list[list[str]]:
    """The cells of each row of the page's tables, headings left out."""
    lines = [line for line in (DOCS / page).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = {number for number, cells in enumerate(table) if set(cells[0]) == {"-"}}
    return [cells for number, cells in enumerate(table) if not {number, number + 1} & rules]


def code(cell: str) -> list[str]:
    return re.findall(r"`(.+?)`", cell)


def test_the_marker_page_has_every_keyword() -> None:
    assert [code(keyword) for keyword, *_ in rows("marker.md")] == [[f.name] for f in dataclasses.fields(CheckSpec)]


def test_the_options_page_has_every_option() -> None:
    assert [(code(flag), code(ini)) for flag, ini, *_ in rows("options.md")] == [
        (flags(option), [option.name]) for option in OPTIONS
    ]


def flags(option: Option) -> list[str]:
    return [option.flag, option.flag.replace("--", "--no-", 1)] if option.metavar is None else [option.flag]


def test_the_options_page_has_the_defaults() -> None:
    shown = {code(ini)[0]: code(default) for _, ini, default, _ in rows("options.md")}
    defaults = {option.name: [str(option.default).lower()] for option in OPTIONS if option.default is not None}
    assert {name: shown[name] for name in defaults} == defaults


def test_the_verdict_page_has_the_tolerances() -> None:
    shown = {name: rtol for names, rtol in rows("verdict.md") for name in names.split(", ")}
    dtypes = ("float64", "float32", "float16", "bfloat16")
    assert [shown[dtype] for dtype in dtypes] == [f"{compare.RTOL[dtype]:.3g}" for dtype in dtypes]


@pytest.mark.parametrize("section", [Timings, Counts, Cost])
def test_the_figures_page_has_every_figure(section: type) -> None:
    page = (DOCS / "figures.md").read_text(encoding="utf-8")
    assert [field.name for field in dataclasses.fields(section) if field.name not in page] == []


def test_the_hooks_page_has_every_hook() -> None:
    headings = re.findall(r"^## (.+)$", (DOCS / "hooks.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings == hookspec.__all__
