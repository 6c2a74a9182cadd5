"""Our own hooks: a project's conftest.py may compare, explain and watch."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from pytest_jitcheck import hookspec

Run = Callable[..., pytest.RunResult]

OFF = "@jitcheck\ndef test_it(x): return jnp.where(isinstance(x, jax.core.Tracer), x + 0.01 * jnp.abs(x), x)"
"""A test that is wrong by a hundredth when compiled."""

COMPARE = """
from pytest_jitcheck import Mismatch

def pytest_jitcheck_compare(config, eager, compiled, spec):
    assert config.rootpath and spec.rtol == 0.5
    return {answer}
"""


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("()", "passed"),
        ("[]", "passed"),
        ("None", "failed"),
        ("[Mismatch(path='', kind='value', eager=str(eager[0]), compiled=str(compiled[0]))]", "failed"),
    ],
)
def test_a_comparison_of_ones_own_decides(run: Run, pytester: pytest.Pytester, answer: str, outcome: str) -> None:
    pytester.makeconftest(COMPARE.format(answer=answer))
    source = OFF.replace("0.01", "10").replace("@jitcheck", "@jitcheck(rtol=0.5)")
    run(source, "--jitcheck-trust=off").assert_outcomes(**{outcome: 1})


def test_what_a_comparison_found_is_shown(run: Run, pytester: pytest.Pytester) -> None:
    answer = "[Mismatch(path='[0]', kind='value', eager='black', compiled='white')]"
    pytester.makeconftest(COMPARE.format(answer=answer))
    result = run("@jitcheck(rtol=0.5)\ndef test_it(x): return x")
    result.stdout.fnmatch_lines(["result[[]0[]] (value): eager black, compiled white"])


DIAGNOSE = """
import dataclasses

def pytest_jitcheck_diagnose(config, exception, diagnosis):
    if "[1] < 0" in diagnosis.message:
        return dataclasses.replace(diagnosis, message=f"Ours: {type(exception).__name__}, {diagnosis.rule}.", fix=None)
"""
BRANCH = "@jitcheck\ndef test_it(x): return -x if x[{index}] < 0 else x"


def test_a_diagnosis_of_ones_own_replaces_ours(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(DIAGNOSE)
    result = run(BRANCH.format(index=1))
    result.stdout.fnmatch_lines(["Ours: TracerBoolConversionError, python-branch."])
    result.stdout.no_fnmatch_line("Fix:*")


def test_where_it_has_nothing_to_say_ours_stays(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(DIAGNOSE)
    run(BRANCH.format(index=0)).stdout.fnmatch_lines(["A Python `if` needs*", "Fix: *"])


REPORT = """
def pytest_jitcheck_report(config, report):
    print("\\nsaw", report.nodeid, report.index, report.outcome)
"""


def test_every_report_is_shown_to_who_watches(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(REPORT)
    source = "def test_it(jitcheck, x):\n    jitcheck(jnp.sin)(x)\n    jitcheck(lambda x: -x if x[0] < 0 else x)(x)"
    lines = run(source, "-s").outlines
    expected = [f"saw test_suite.py::test_it {index} {outcome}" for index, outcome in enumerate(("passed", "failed"))]
    assert [line for line in lines if line.startswith("saw")] == expected


@pytest.mark.parametrize("name", hookspec.__all__)
def test_a_hook_is_documented(name: str) -> None:
    # Dedented, as Python 3.13 does by itself.
    assert "Args:\n    config: pytest's configuration." in (inspect.getdoc(getattr(hookspec, name)) or "")
