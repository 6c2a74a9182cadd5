"""The marker: what it is put on, what it takes, and what pytest makes of a marked test."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_jitcheck import SpecError, jitcheck
from pytest_jitcheck.mark import spec_of, uncollected
from pytest_jitcheck.spec import CheckSpec

Run = Callable[..., pytest.RunResult]

# --- what it is put on --------------------------------------------------------------------------------------------------

BRANCH = "return -x if x[0] < 0 else x"
"""A body that works in plain Python and can't be compiled: it tells a checked test from one that just ran."""


@pytest.mark.parametrize(
    "source",
    [
        f"@pytest.mark.jitcheck\ndef test_it(x): {BRANCH}",
        f"class TestIt:\n    @pytest.mark.jitcheck\n    def test_it(self, x): {BRANCH}",
        f"@pytest.mark.jitcheck\nclass TestIt:\n    def test_it(self, x): {BRANCH}",
        f"class TestIt:\n    pytestmark = pytest.mark.jitcheck\n    def test_it(self, x): {BRANCH}",
        f"pytestmark = pytest.mark.jitcheck\ndef test_it(x): {BRANCH}",
        f"@jitcheck\ndef test_it(x): {BRANCH}",
        f"@jitcheck()\ndef test_it(x): {BRANCH}",
        f"@jitcheck(rtol=0.5)\ndef test_it(x): {BRANCH}",
        f"@jitcheck\nclass TestIt:\n    def test_it(self, x): {BRANCH}",
        f"class Base:\n    @jitcheck\n    def test_it(self, x): {BRANCH}\nclass TestIt(Base): pass",
        f"@jitcheck\nclass Base:\n    def test_it(self, x): {BRANCH}\nclass TestIt(Base): pass",
    ],
    ids=[
        "function", "method", "class", "pytestmark of a class", "pytestmark of a module", "twin", "twin called",
        "twin with options", "twin on a class", "inherited method", "inherited class",
    ],
)  # fmt: skip
def test_it_makes_a_check(run: Run, source: str) -> None:
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["A Python `if` needs `x?0? < 0` to be true or false.*"])


def test_without_it_nothing_is_checked(run: Run) -> None:
    run("def test_it(x): assert (-x if x[0] < 0 else x) is not None").assert_outcomes(passed=1)


@pytest.mark.parametrize("decorators", ["@jitcheck\n@staticmethod", "@staticmethod\n@jitcheck"])
def test_a_static_method_is_checked(run: Run, decorators: str) -> None:
    result = run(f"class TestIt:\n    {decorators.replace(chr(10), chr(10) + '    ')}\n    def test_it(x): {BRANCH}")
    result.assert_outcomes(failed=1)


def test_a_jitted_test_keeps_its_statics(run: Run) -> None:
    run("""
        import functools

        @jitcheck
        @functools.partial(jax.jit, static_argnames="neg")
        def test_it(x, neg): return -x if neg else x

        test_it = pytest.mark.parametrize("neg", [True])(test_it)
    """).assert_outcomes(passed=1)


# --- keywords from several marks ----------------------------------------------------------------------------------------

OFF = "jnp.where(isinstance(x, jax.core.Tracer), x + 0.01 * jnp.abs(x), x)"
"""A function that is wrong by a hundredth when compiled."""


def test_keywords_merge_from_module_class_and_function(run: Run) -> None:
    run(f"""
        pytestmark = pytest.mark.jitcheck(rtol=0.1)

        @pytest.mark.jitcheck(static_argnames="neg")
        class TestIt:
            @pytest.mark.jitcheck(atol=0)
            @pytest.mark.parametrize("neg", [True])
            def test_it(self, x, neg): return {OFF} * (-1 if neg else 1)
    """).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("module", "cls", "function", "parameter", "outcome"),
    [
        ("0.5", "0.5", "0.5", "1e-6", "failed"),
        ("0.5", "0.5", "1e-6", None, "failed"),
        ("0.5", "1e-6", None, None, "failed"),
        ("1e-6", "1e-6", "1e-6", "0.5", "passed"),
        ("1e-6", "1e-6", "0.5", None, "passed"),
        ("1e-6", "0.5", None, None, "passed"),
    ],
)
def test_the_closest_mark_wins(
    run: Run, module: str, cls: str, function: str | None, parameter: str | None, outcome: str
) -> None:
    run(f"""
        pytestmark = pytest.mark.jitcheck(rtol={module}, atol=0)

        @pytest.mark.jitcheck(rtol={cls})
        class TestIt:
            @pytest.mark.jitcheck(rtol={function})
            @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.jitcheck(rtol={parameter}))])
            def test_it(self, x, n): return {OFF} * n
    """).assert_outcomes(**{outcome: 1})


def test_a_mark_beats_the_defaults_of_the_run_keyword_by_keyword() -> None:
    marks = [pytest.mark.jitcheck(rtol=0.5).mark, pytest.mark.jitcheck(rtol=0.1, equal_nan=False).mark]
    assert spec_of(marks, CheckSpec(rtol=0.9, atol=0.2)) == CheckSpec(rtol=0.5, equal_nan=False, atol=0.2)


# --- arguments ----------------------------------------------------------------------------------------------------------


def arguments(result: pytest.RunResult, pytester: pytest.Pytester) -> list[tuple[str, Any]]:
    """The names of the arguments of the only check with what was traced, or the value of a static one."""
    (check,) = json.loads((pytester.path / "checks.json").read_text(encoding="utf-8"))["checks"]
    return [(argument["name"], argument["aval"] or argument["value"]) for argument in check["arguments"]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@jitcheck\ndef test_it(x): return x", [("x", "float32[6]")]),
        (
            "@jitcheck\n@pytest.mark.parametrize('n', [2])\ndef test_it(n, x): return n * x",
            [("n", "int32[]"), ("x", "float32[6]")],
        ),
        (
            ("@pytest.fixture\ndef y(request): return jnp.ones(request.param)\n"
            "@jitcheck\n@pytest.mark.parametrize('y', [3], indirect=True)\ndef test_it(y): return y"),
            [("y", "float32[3]")],
        ),
        ("@jitcheck\ndef test_it(x, scale=2.0): return scale * x", [("x", "float32[6]")]),
        ("@jitcheck\ndef test_it(*, x): return x", [("x", "float32[6]")]),
        (
            "@jitcheck(static_argnums=0)\n@pytest.mark.parametrize('n', [2])\ndef test_it(n, x): return x[:n]",
            [("n", "2"), ("x", "float32[6]")],
        ),
        (
            "@jitcheck(static_argnums=-1)\n@pytest.mark.parametrize('n', [2])\ndef test_it(x, n): return x[:n]",
            [("x", "float32[6]"), ("n", "2")],
        ),
        (
            ("class TestIt:\n    @jitcheck(static_argnums=0)\n    @pytest.mark.parametrize('n', [2])\n"
            "    def test_it(self, n, x): return x[:n]"),
            [("n", "2"), ("x", "float32[6]")],
        ),
        (
            ("from unittest import mock\n@jitcheck(static_argnums=2)\n@pytest.mark.parametrize('n', [2])\n"
            "@mock.patch('math.sin')\ndef test_it(sin, x, n):\n    assert isinstance(sin, mock.Mock)\n    return x[:n]"),
            [("x", "float32[6]"), ("n", "2")],
        ),
    ],
    ids=[
        "fixture", "parameter", "indirect", "default", "keyword-only", "static by number", "from the end", "method",
        "mock.patch",
    ],
)  # fmt: skip
def test_fixtures_and_parameters_are_the_arguments(
    run: Run, pytester: pytest.Pytester, source: str, expected: list[tuple[str, str]]
) -> None:
    result = run(source, "--jitcheck-json=checks.json")
    result.assert_outcomes(passed=1)
    assert sorted(arguments(result, pytester)) == sorted(expected)


def test_a_default_may_be_static(run: Run) -> None:
    run("@jitcheck(static_argnames='n')\ndef test_it(x, n=2): return x[:n]").assert_outcomes(passed=1)


def test_what_the_body_returns_is_compared(run: Run) -> None:
    result = run(f"@jitcheck\ndef test_it(x): return {{'y': {OFF}}}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["result?'y'? (value): eager *, compiled *, at index *"])


# --- beside pytest's other features -------------------------------------------------------------------------------------


def test_setup_and_teardown_run_once_around_the_check(run: Run) -> None:
    result = run("""
        class TestIt:
            def setup_method(self): print("set up")
            def teardown_method(self): print("torn down")

            @jitcheck
            def test_it(self, x): return x
    """, "-s")  # fmt: skip
    assert tuple(map(result.stdout.str().count, ("set up", "torn down"))) == (1, 1)


def test_a_unittest_method_is_told_what_to_write(run: Run) -> None:
    result = run("""
        import unittest

        class TestIt(unittest.TestCase):
            @jitcheck
            def test_it(self): pass
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Fix: A method of a unittest.TestCase is run by unittest, which takes no arguments*"])


def test_a_unittest_method_may_check_through_the_fixture(run: Run) -> None:
    run("""
        import unittest

        class TestIt(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _checker(self, jitcheck): self.jitcheck = jitcheck

            def test_it(self): assert self.jitcheck(jnp.sum)(jnp.ones(3)) == 3
    """).assert_outcomes(passed=1)


@pytest.mark.parametrize("decorator", ["skip", "skipif(True, reason='')", "xfail(run=False)"])
def test_a_skipped_test_is_a_skipped_check(run: Run, decorator: str) -> None:
    result = run(f"@pytest.mark.{decorator}\n@jitcheck\ndef test_it(x): return x")
    result.stdout.fnmatch_lines(["x64 off: 1 check, 1 skipped", "skipped  test_suite.py::test_it"])


def test_a_test_that_skips_itself_is_a_skipped_check(run: Run) -> None:
    result = run("@jitcheck\ndef test_it(x): pytest.skip('not here')")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*1 check, 1 skipped"])


def test_an_expected_failure_is_a_skipped_check(run: Run) -> None:
    error = "jax.errors.TracerBoolConversionError"
    result = run(f"@pytest.mark.xfail(raises={error}, strict=True)\n@jitcheck\ndef test_it(x): {BRANCH}")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*1 check, 1 skipped"])


def test_an_unexpected_failure_is_a_failed_check(run: Run) -> None:
    result = run(f"@pytest.mark.xfail(raises=ZeroDivisionError)\n@jitcheck\ndef test_it(x): {BRANCH}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 check, 1 failed"])


def test_an_unexpected_pass_fails_the_test_only(run: Run) -> None:
    result = run("@pytest.mark.xfail(strict=True, reason='soon')\n@jitcheck\ndef test_it(x): return x")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 check, 1 passed", "FAILED test_suite.py::test_it*"])


@pytest.mark.parametrize(("expression", "passed"), [("jitcheck", 1), ("not jitcheck", 2)])
def test_the_marker_selects(run: Run, expression: str, passed: int) -> None:
    source = "@jitcheck\ndef test_it(x): return x\ndef test_plain(): pass\ndef test_other(): pass"
    run(source, "-m", expression).assert_outcomes(passed=passed, deselected=3 - passed)


def test_a_test_that_is_run_again_starts_anew(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            for report in runtestprotocol(item, nextitem=nextitem, log=False):
                item.ihook.pytest_runtest_logreport(report=report)
            item._initrequest()
    """)
    run(f"@jitcheck\ndef test_it(x): {BRANCH}").stdout.fnmatch_lines(["*1 check, 1 failed"])


def test_a_mark_that_is_added_late_counts(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.jitcheck(rtl=1))
    """)
    result = run(f"def test_it(x): {BRANCH}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["jitcheck: unknown keyword 'rtl' (did you mean 'rtol'?).*"])


def test_a_subtest_is_a_check_of_its_test(run: Run) -> None:
    if not hasattr(pytest, "Subtests"):
        pytest.skip("pytest has subtests since 9.0")
    result = run(f"""
        def branch(x): {BRANCH}

        def test_it(jitcheck, subtests, x):
            for fn in (jnp.sin, branch, jnp.cos):
                with subtests.test():
                    jitcheck(fn)(x)
    """)
    result.stdout.fnmatch_lines(["A Python `if` needs*", "*3 checks, 2 passed, 1 failed"])


# --- the typed twin -----------------------------------------------------------------------------------------------------


def test_the_twin_is_the_marker() -> None:
    def test(x: Any) -> Any:
        return x

    marked: Any = jitcheck(rtol=0.5, static_argnames="n")(test)
    assert vars(marked) is vars(test)
    assert [(mark.name, mark.kwargs) for mark in marked.pytestmark] == [
        ("jitcheck", {"rtol": 0.5, "static_argnames": "n"})
    ]


def test_the_twin_looks_at_its_keywords_at_once() -> None:
    with pytest.raises(SpecError, match="did you mean 'rtol'"):
        jitcheck(rtl=1e-3)  # type: ignore[call-overload]


# --- marks where they do nothing ----------------------------------------------------------------------------------------


class Marked:
    pytestmark = pytest.mark.jitcheck


class Inherited(Marked): ...


class NoTest:
    pytestmark = pytest.mark.jitcheck
    __test__ = False


@pytest.mark.parametrize("obj", [Marked, NoTest, Inherited, inspect, 3, "text", pytest.mark.jitcheck, None])
def test_what_needs_no_collection_is_no_problem(obj: object) -> None:
    assert uncollected("obj", obj, __name__) is None


def test_a_class_is_judged_where_it_is_defined() -> None:
    lost = type("Lost", (), {"pytestmark": [pytest.mark.jitcheck], "__module__": "here"})
    assert uncollected("Lost", lost, "elsewhere") is None
    assert "does not collect" in (uncollected("Lost", lost, "here") or "")


def test_a_proxy_that_refuses_to_be_looked_at_is_left_alone() -> None:
    class Proxy:
        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
            raise RuntimeError("working outside of request context")

    assert uncollected("request", Proxy(), __name__) is None
