"""The demo: its suite passes, and each test of its gallery fails as its marker says."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo_project"


def _run(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Plain, as a user's terminal has it: no options of this run, and no accelerator that happens to be there.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environment |= {"JAX_PLATFORMS": "cpu", "COLUMNS": "80"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def _expected() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each test of the gallery, as a node id without parameters, with what its marker says."""
    for path in sorted((DEMO / "gallery").glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"gallery/{path.name}::{node.name}", _said(node)


def _said(test: ast.FunctionDef) -> dict[str, Any]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.gallery":
            keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in decorator.keywords}
            return {"rule": ast.literal_eval(decorator.args[0]), "blames": [], "static": [], "at": "", **keywords}
    raise AssertionError(f"{test.name} has no gallery marker")


EXPECTED = dict(_expected())


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The checks of the gallery by node id, from one run of it."""
    document = tmp_path_factory.mktemp("gallery") / "checks.json"
    done = _run(DEMO, "gallery", f"--jitcheck-json={document}")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    checks: list[dict[str, Any]] = json.loads(document.read_text(encoding="utf-8"))["checks"]
    return {check["nodeid"].partition("[")[0]: check for check in checks}


def test_the_suite_passes_from_the_root_of_the_repository() -> None:
    done = _run(ROOT, "demo_project/tests", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " failed" not in done.stdout


def test_every_test_of_the_gallery_ran(gallery: dict[str, dict[str, Any]]) -> None:
    assert sorted(gallery) == sorted(EXPECTED)


def test_the_gallery_shows_the_common_explanations() -> None:
    assert len({said["rule"] for said in EXPECTED.values()}) >= 25


@pytest.mark.parametrize("nodeid", EXPECTED)
def test_the_gallery_fails_as_its_markers_say(gallery: dict[str, dict[str, Any]], nodeid: str) -> None:
    check, said = gallery[nodeid], EXPECTED[nodeid]
    failure = check["failure"] or {}
    fix, location = failure.get("fix") or {}, failure.get("location") or {}
    verified = fix.get("static_argnames", []) if fix.get("verified") else []
    assert (check["outcome"], failure.get("rule")) == ("failed", said["rule"])
    assert said["at"] in location.get("source", "")
    assert sorted(failure["arguments"]) == sorted(said["blames"])
    assert sorted(verified) == sorted(said["static"])
