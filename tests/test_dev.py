"""The script that makes the environment and runs tests and demo in it."""

from __future__ import annotations

import ast
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent.parent / "dev.py"


@pytest.fixture(scope="module")
def dev() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_an_old_interpreter_can_read_that_it_is_too_old() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_newer_syntax_would_be_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("(x := 1)", feature_version=(3, 6))


def test_an_environment_that_somebody_else_made_is_left_alone(tmp_path: Path) -> None:
    for name in ("dev.py", "pyproject.toml"):
        shutil.copy(SCRIPT.with_name(name), tmp_path)
    theirs = tmp_path / ".venv" / "theirs.txt"
    theirs.parent.mkdir()
    theirs.touch()
    done = subprocess.run([sys.executable, "dev.py", "test"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert theirs.exists()
    assert done.stderr == (
        f"{tmp_path / '.venv'} was not made by dev.py, so dev.py leaves it alone. Move it away, and run this again.\n"
    )


def test_a_group_brings_the_groups_that_it_includes(dev: dict[str, Any]) -> None:
    groups = {"demo": ["optax"], "test": ["hypothesis", {"include-group": "demo"}]}
    assert dev["group"]({"dependency-groups": groups}, "test") == ["hypothesis", "optax"]


def test_the_gallery_has_a_plan(dev: dict[str, Any]) -> None:
    assert dict(dev["plan"]())["test_shapes.py::test_negatives"] == "boolean-mask"


def test_a_gallery_that_fails_as_planned_has_no_problem(dev: dict[str, Any]) -> None:
    check = {"nodeid": "gallery/test_a.py::test_mask[2]", "failure": {"rule": "boolean-mask"}}
    assert list(dev["unlike_the_plan"]({"test_a.py::test_mask": "boolean-mask"}, [check])) == []


def test_a_gallery_that_does_not_fail_as_planned_says_where(dev: dict[str, Any]) -> None:
    planned = {
        "test_a.py::test_mask": "boolean-mask",
        "test_a.py::test_if": "python-branch",
        "test_b.py::test_b": "leak",
    }
    checks = [
        {"nodeid": "gallery/test_a.py::test_mask", "failure": {"rule": "numpy-on-tracer"}},
        {"nodeid": "gallery/test_a.py::test_if", "failure": None},
        {"nodeid": "gallery/test_c.py::test_c", "failure": {"rule": "leak"}},
    ]
    assert list(dev["unlike_the_plan"](planned, checks)) == [
        "test_a.py::test_if: planned python-branch, got no failure",
        "test_a.py::test_mask: planned boolean-mask, got numpy-on-tracer",
        "test_b.py::test_b: planned leak, got no check",
        "test_c.py::test_c: planned nothing, got leak",
    ]
