"""With xdist: the same section, the same document, and a controller that never imports jax."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xdist")

SUITE = """
import jax, jax.numpy as jnp, pytest

X = jnp.arange(6.0)

@pytest.fixture
def x(): return X

@pytest.fixture
def y(jitcheck): return jitcheck(jnp.sin)(X)

@pytest.mark.jitcheck
def test_mask(x):
    return x[x < 0]

@pytest.mark.jitcheck
@pytest.mark.parametrize("n", [2, 10, 9])
def test_power(x, n): return x * n

@pytest.mark.skip(reason="not now")
@pytest.mark.jitcheck
def test_skipped(x): return x

@pytest.mark.xfail(reason="known")
@pytest.mark.jitcheck
def test_known(x): return -x if x[0] < 0 else x

def test_two(jitcheck, x):
    jitcheck(jnp.sin)(x)
    jitcheck(jnp.cos)(x)

def test_through_a_fixture(y): pass

def test_plain(): pass
"""

CONFTEST = """
import sys
import pytest

@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"jax on the controller: {'jax' in sys.modules}")

def pytest_jitcheck_report(config, report):
    assert not hasattr(config, "workerinput")
"""


WAYS = {
    "alone": [],
    "-n0": ["-n0"],
    "-n2": ["-n2"],
    "loadscope": ["-n2", "--dist=loadscope"],
}
_FIGURE = re.compile(r"\d\S* (ns|µs|ms|s|calls?)\b|\d\S*x\b|\bnever\b")
spread = pytest.mark.parametrize("way", [way for way in WAYS if way != "alone"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], Any]]:
    """What pytest printed and the document, for each way to distribute the suite."""
    directory = tmp_path_factory.mktemp("suite")
    (directory / "test_suite.py").write_text(SUITE, encoding="utf-8")
    # Whatever lies above the directory is none of the suite's.
    (directory / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (directory / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    return {way: run_pytest(directory, *arguments) for way, arguments in WAYS.items()}


def run_pytest(directory: Path, *arguments: str) -> tuple[list[str], Any]:
    # A process of its own: in this one jax is there already.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--jitcheck-json=checks.json", *arguments]
    environ = os.environ | {"COLUMNS": "200", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    return done.stdout.splitlines(), json.loads((directory / "checks.json").read_text(encoding="utf-8"))


def section(lines: list[str]) -> list[str]:
    """The section of the checks, without its figures and the spaces that they take."""
    start = next(number for number, line in enumerate(lines) if re.fullmatch("=+ jitcheck =+", line)) + 1
    stop = next(number for number, line in enumerate(lines) if number > start and line.startswith("====="))
    return [re.sub(r" +", " ", re.sub(_FIGURE, "#", line)) for line in lines[start:stop]]


def without_times(document: Any) -> Any:
    """The document without what differs from run to run, its checks sorted: workers finish in any order."""
    checks = [{**check, "timings": None} for check in document["checks"]]
    return {**document, "created": None, "checks": sorted(checks, key=lambda check: (check["nodeid"], check["index"]))}


def test_the_section_lists_every_check(runs: dict[str, tuple[list[str], Any]]) -> None:
    lines = section(runs["alone"][0])
    assert lines[0].endswith(" x64 off: 9 checks, 6 passed, 1 failed, 2 skipped")
    assert [line.split()[1].removeprefix("test_suite.py::") for line in lines[2:-1]] == [
        "test_known", "test_mask", "test_power[2]", "test_power[9]", "test_power[10]", "test_skipped",
        "test_through_a_fixture", "test_two", "test_two",
    ]  # fmt: skip
    assert len([line for line in lines if "# #" in line]) == 6


@spread
def test_the_section_is_the_same(runs: dict[str, tuple[list[str], Any]], way: str) -> None:
    lines = [line for line in section(runs[way][0]) if "controller" not in line]
    assert lines == [line for line in section(runs["alone"][0]) if "controller" not in line]


@spread
def test_the_document_is_the_same(runs: dict[str, tuple[list[str], Any]], way: str) -> None:
    assert without_times(runs[way][1]) == without_times(runs["alone"][1])


def test_the_document_lists_every_check(runs: dict[str, tuple[list[str], Any]]) -> None:
    document = runs["-n2"][1]
    assert document["summary"] == {"passed": 6, "failed": 1, "skipped": 2}
    assert document["environment"]["jax"]


@pytest.mark.parametrize("way", ["-n2", "loadscope"])
def test_the_explanation_comes_from_the_worker(runs: dict[str, tuple[list[str], Any]], way: str) -> None:
    lines = runs[way][0]
    start = lines.index("    return x[x < 0]")
    assert lines[start + 1] == "           ^^^^^^^^"
    assert any(
        re.match("FAILED test_suite.py::test_mask - NonConcreteBooleanIndexError: `x.x < 0.`", line) for line in lines
    )


@pytest.mark.parametrize(("way", "imported"), [("-n2", False), ("loadscope", False), ("alone", True), ("-n0", True)])
def test_the_controller_imports_no_jax(runs: dict[str, tuple[list[str], Any]], way: str, imported: bool) -> None:
    assert f"jax on the controller: {imported}" in runs[way][0]
