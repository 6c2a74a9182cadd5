"""Tests under Hypothesis: each example is checked, one report stands for the test, and compiling is never too slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import hypothesis  # here, once: what a suite inside of a test imports first is forgotten with it
import pytest
from hypothesis import strategies as st

from pytest_jitcheck import CheckReport, Diagnosis, Timings, examples

Run = Callable[..., pytest.RunResult]

HEADER = """
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

few = settings(max_examples=5, derandomize=True, database=None)
"""

# --- through pytest -----------------------------------------------------------------------------------------------------


def checks(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((pytester.path / "checks.json").read_text(encoding="utf-8"))["checks"]
    return found


@pytest.mark.parametrize(
    "test",
    [
        "@jitcheck\n@few\n@given(n=st.integers(0, 9))\ndef test_it(n): return jnp.ones(3) * n",
        "@few\n@given(n=st.integers(0, 9))\n@jitcheck\ndef test_it(n): return jnp.ones(3) * n",
        "@jitcheck(static_argnames='n')\n@few\n@given(st.integers(1, 9))\ndef test_it(n): return jnp.ones(n)",
        "@jitcheck(static_argnums=0)\n@few\n@given(st.integers(1, 9))\ndef test_it(n): return jnp.ones(n)",
        (
            "class TestIt:\n    @jitcheck(static_argnums=0)\n    @few\n    @given(n=st.integers(1, 9))\n"
            "    def test_it(self, n): return jnp.ones(n)"
        ),
        (
            "@jitcheck(static_argnums=-1)\n@few\n@given(n=st.integers(1, 9))\n"
            "@pytest.mark.parametrize('m', [2])\ndef test_it(m, n): return jnp.ones(n) * m"
        ),
    ],
    ids=["above", "below", "static by name", "static by number", "method", "beside a parameter"],
)
def test_each_example_is_checked_and_one_is_reported(run: Run, pytester: pytest.Pytester, test: str) -> None:
    run(HEADER + test, "--jitcheck-json=checks.json").assert_outcomes(passed=1)
    assert [(check["outcome"], check["index"]) for check in checks(pytester)] == [("passed", 0)]


def test_the_report_of_a_failed_test_is_the_failing_example(run: Run, pytester: pytest.Pytester) -> None:
    source = "@jitcheck(static_argnames='n')\n@few\n@given(n=st.sampled_from([1, 2, 3]))\n"
    body = "def test_it(n): return -n if jnp.ones(n)[0] > n - 2.5 else jnp.ones(n)"
    run(HEADER + source + body, "--jitcheck-json=checks.json").assert_outcomes(failed=1)
    (check,) = checks(pytester)
    assert (check["outcome"], check["arguments"][0]["value"]) == ("failed", "1")


def test_the_explanation_ends_with_the_failing_example(run: Run) -> None:
    source = (
        "@jitcheck\n@few\n@given(n=st.integers(0, 9))\ndef test_it(n): return jnp.ones(3) if n > 3 else jnp.zeros(3)"
    )
    result = run(HEADER + source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "A Python `if` needs `n > 3` to be true or false.*",
            "JAX said*",
            "* test_it(",
            "    n=0,*",
            "*1 check, 1 failed",
        ]
    )


def test_an_assumption_turns_an_example_away(run: Run, pytester: pytest.Pytester) -> None:
    source = "@jitcheck(static_argnames='n')\n@few\n@given(n=st.integers(0, 9))\n"
    run(
        HEADER + source + "def test_it(n):\n    assume(n % 2)\n    return jnp.ones(n)", "--jitcheck-json=checks.json"
    ).assert_outcomes(passed=1)
    assert [check["outcome"] for check in checks(pytester)] == ["passed"]


def test_an_example_that_is_expected_to_fail_is_not_reported(run: Run) -> None:
    source = "@jitcheck(static_argnames='n')\n@few\n@given(n=st.integers(0, 8))\n@example(n=9).xfail()\n"
    result = run(HEADER + source + "def test_it(n): return jnp.ones(3) / n if n < 9 else None")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 check, 1 passed"])


@pytest.mark.parametrize("style", ["@jitcheck", "@pytest.mark.skipif(False, reason='')"])
def test_no_deadline_is_kept_while_it_compiles(run: Run, style: str) -> None:
    settings = "@settings(few, deadline=0.001, suppress_health_check=list(HealthCheck))"
    body = "return x + n" if style == "@jitcheck" else "jitcheck(jnp.add)(x, n)"
    fixture = "" if style == "@jitcheck" else "jitcheck, "
    source = f"{style}\n{settings}\n@given(n=st.integers(0, 9))\ndef test_it({fixture}x, n): {body}"
    run(HEADER + source).assert_outcomes(passed=1)


def test_a_deadline_is_kept_where_nothing_is_checked(run: Run) -> None:
    source = "@settings(few, deadline=0.001)\n@given(n=st.integers(0, 9))\ndef test_it(n): sum(range(100_000))"
    run(HEADER + source).assert_outcomes(failed=1)


def test_no_jitcheck_runs_the_examples_eagerly(run: Run) -> None:
    source = "@jitcheck\n@few\n@given(n=st.integers(0, 9))\ndef test_it(n): return n if n > 3 else jnp.zeros(3)"
    run(HEADER + source, "--no-jitcheck").assert_outcomes(passed=1)


def test_a_misspelt_static_is_seen_at_collection(run: Run) -> None:
    source = "@pytest.mark.jitcheck(static_argnames='m')\n@given(n=st.integers(0, 9))\ndef test_it(n): return n"
    result = run(HEADER + source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*has no argument 'm'. It takes: n.*"])


# --- alone --------------------------------------------------------------------------------------------------------------


def report(index: int, *, compile_s: float = 0.0, outcome: Any = "passed", exception: str | None = None) -> CheckReport:
    failure = (
        Diagnosis(kind="eager_error", rule="fails-eagerly", message="", exception=exception) if exception else None
    )
    return CheckReport(
        name="f", outcome=outcome, index=index, failure=failure, timings=Timings(compile_s=compile_s, trace_s=0.1)
    )


def test_the_slowest_example_stands_for_a_test_that_passed() -> None:
    reports = [report(3, compile_s=0.2), report(4, compile_s=0.9), report(5, outcome="failed"), report(6)]
    (chosen,) = examples.representatives(reports, failed=False)
    assert (chosen.timings.compile_s, chosen.index) == (0.9, 3)


def test_the_last_failure_stands_for_a_test_that_failed() -> None:
    reports = [
        report(0, compile_s=0.9),
        report(1, outcome="failed"),
        report(2, outcome="failed", compile_s=0.1),
        report(3),
    ]
    (chosen,) = examples.representatives(reports, failed=True)
    assert (chosen.timings.compile_s, chosen.index) == (0.1, 0)


def test_assumptions_leave_no_report() -> None:
    turned_away = report(0, outcome="failed", exception="hypothesis.errors.UnsatisfiedAssumption")
    assert examples.representatives([turned_away], failed=True) == []


def test_a_test_is_left_as_it_was() -> None:
    @hypothesis.given(st.integers())
    def test(n: int) -> None: ...

    settings, inner = vars(test)["_hypothesis_internal_use_settings"], examples.body_of(test)
    with examples.without_deadline(test), examples.each(test, lambda *call: None):
        assert vars(test)["_hypothesis_internal_use_settings"].deadline is None
        assert examples.body_of(test) is not inner
    assert vars(test)["_hypothesis_internal_use_settings"] is settings
    assert examples.body_of(test) is inner


def test_other_tests_are_not_given_examples() -> None:
    assert not examples.are_given_to(test_other_tests_are_not_given_examples)
    assert examples.body_of(report) is report
    with examples.without_deadline(report):
        pass
