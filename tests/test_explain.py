"""`pytest --jitcheck-explain RULE`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_jitcheck import manual

PROBE = """
import sys
import pytest

exit_code = pytest.main(["-p", "pytest_jitcheck.plugin", *sys.argv[1:]])
sys.exit("jax was imported" if "jax" in sys.modules else exit_code)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makepyfile("def test_that_must_not_run():\n    assert False\n")
    return pytester


def test_it_prints_the_section_and_runs_nothing(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess("--jitcheck-explain", "boolean-mask")
    assert result.ret == pytest.ExitCode.OK
    assert result.outlines == manual.section("boolean-mask", width=80).splitlines()


def test_an_unknown_rule_is_a_usage_error_with_the_nearest_name(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess("--jitcheck-explain=boolean-masks")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    expected = (
        "ERROR: --jitcheck-explain: no rule is called 'boolean-masks' (did you mean 'boolean-mask'?). The rules are:"
    )
    assert result.stderr.lines[0] == expected


def test_it_does_not_import_jax(tmp_path: Path) -> None:
    environ = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", PROBE, "--jitcheck-explain", "boolean-mask"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_explained_where_nobody_asks(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess().assert_outcomes(failed=1)
