"""The fixture: the shape of jax.jit, several checks in one test, and the ways in which a test gets at it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., pytest.RunResult]

FUNCTIONS = """
def scaled(x, n, *, shift=0.0):
    return x * n + shift

def branch(x):
    return -x if x[0] < 0 else x

def off(x):
    return jnp.where(isinstance(x, jax.core.Tracer), x + 0.01 * jnp.abs(x), x)
"""
"""One function that is right, one that can't be compiled, and one that is wrong by a hundredth when compiled."""


@pytest.mark.parametrize(
    "call",
    [
        "jitcheck(scaled)(x, 2)",
        "jitcheck(scaled)(x, n=2)",
        "jitcheck(scaled, static_argnums=1)(x, 2)",
        "jitcheck(scaled, static_argnames='n')(x, n=2)",
        "jitcheck(scaled, static_argnames=('n', 'shift'), rtol=1e-5)(x, 2, shift=0.0)",
        "jitcheck(jax.jit(scaled, static_argnums=1))(x, 2)",
        "jitcheck(lambda y: scaled(y, 2))(x)",
        "jitcheck(scaled, jit=jax.jit)(x, 2)",
    ],
)
def test_it_has_the_shape_of_jit_and_returns_the_eager_output(run: Run, call: str) -> None:
    test = f"def test_it(jitcheck, x):\n    np.testing.assert_array_equal({call}, x * 2)"
    run(FUNCTIONS + test).assert_outcomes(passed=1)


def test_the_output_is_the_one_of_plain_python(run: Run) -> None:
    run("def test_it(jitcheck): assert type(jitcheck(lambda x: x + 1)(1.5)) is float").assert_outcomes(passed=1)


def test_a_test_may_make_several_checks(run: Run, pytester: pytest.Pytester) -> None:
    run(
        "def test_it(jitcheck, x):\n    y = jitcheck(jnp.sin)(x)\n    jitcheck(jnp.cos)(y)",
        "--jitcheck-json=checks.json",
    ).stdout.fnmatch_lines(["passed  test_suite.py::test_it sin #1 *", "passed  test_suite.py::test_it cos #2 *"])
    checks = json.loads((pytester.path / "checks.json").read_text(encoding="utf-8"))["checks"]
    assert [(check["nodeid"], check["index"]) for check in checks] == [("test_suite.py::test_it", n) for n in (0, 1)]


def test_a_failed_check_fails_the_test_there_and_then(run: Run) -> None:
    test = "def test_it(jitcheck, x):\n    jitcheck(jnp.sin)(x)\n    jitcheck(branch)(x)\n    jitcheck(jnp.cos)(x)"
    result = run(FUNCTIONS + test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["A Python `if` needs `x?0? < 0`*", "*2 checks, 1 passed, 1 failed", "failed*branch #2 *"]
    )


def test_a_failure_that_the_test_expects_counts_as_skipped(run: Run) -> None:
    error = "jax.errors.TracerBoolConversionError"
    result = run(FUNCTIONS + f"def test_it(jitcheck, x):\n    with pytest.raises({error}): jitcheck(branch)(x)")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 check, 1 skipped"])


def test_an_ordinary_failure_after_a_check_stays_as_pytest_shows_it(run: Run) -> None:
    result = run("def test_it(jitcheck, x):\n    assert jitcheck(jnp.sum)(x) == 12.5")
    result.stdout.fnmatch_lines(
        [
            "E       assert Array(0., dtype=float32) == 12.5",
            "E        +  where * = <function sum at *>(Array(*",
            "*1 check, 1 passed",
        ]
    )


@pytest.mark.parametrize(("call", "outcome"), [("off", "passed"), ("off, rtol=1e-6", "failed")])
def test_the_marker_supplies_defaults(run: Run, call: str, outcome: str) -> None:
    test = f"@pytest.mark.jitcheck(rtol=0.1)\ndef test_it(jitcheck, x): jitcheck({call})(x)"
    run(FUNCTIONS + test).assert_outcomes(**{outcome: 1})


def test_statics_of_the_marker_are_those_of_the_checked_function(run: Run) -> None:
    test = "@pytest.mark.jitcheck(static_argnames='n')\ndef test_it(jitcheck, x): jitcheck(scaled)(x, 2)"
    run(FUNCTIONS + test).assert_outcomes(passed=1)


def test_a_bad_option_fails_the_test(run: Run) -> None:
    result = run("def test_it(jitcheck, x): jitcheck(jnp.sin, rtl=1)(x)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *SpecError: jitcheck: unknown keyword 'rtl' (did you mean 'rtol'?).*"])


@pytest.mark.parametrize(("expression", "passed"), [("jitcheck", 2), ("not jitcheck", 1)])
def test_the_marker_selects_tests_that_ask_for_it(run: Run, expression: str, passed: int) -> None:
    run(
        """
        @pytest.fixture
        def y(jitcheck, x): return jitcheck(jnp.sin)(x)

        def test_direct(jitcheck, x): jitcheck(jnp.sin)(x)
        def test_through_another(y): pass
        def test_plain(): pass
        """,
        "-m",
        expression,
    ).assert_outcomes(passed=passed, deselected=3 - passed)


# --- through other fixtures ---------------------------------------------------------------------------------------------


def test_a_fixture_may_check_too(run: Run) -> None:
    result = run("""
        @pytest.fixture
        def y(jitcheck, x): return jitcheck(jnp.sin)(x)

        def test_it(y): assert y.shape == (6,)
    """)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 check, 1 passed", "passed  test_suite.py::test_it *"])


@pytest.mark.parametrize("body", ["jitcheck(branch)(x)\n    yield", "yield\n    jitcheck(branch)(x)"])
def test_a_check_that_fails_before_or_after_the_test_is_shown_and_counted(run: Run, body: str) -> None:
    source = f"@pytest.fixture\ndef y(jitcheck, x):\n    jitcheck(jnp.sin)(x)\n    {body}\ndef test_it(y): pass"
    result = run(FUNCTIONS + source)
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(["A Python `if` needs `x?0? < 0`*", "*2 checks, 1 passed, 1 failed"])


@pytest.mark.parametrize("expression", ["'jitcheck'", "'j' + 'itcheck'"])
def test_a_test_may_get_it_by_name(run: Run, expression: str) -> None:
    source = f"def test_it(request, x): request.getfixturevalue({expression})(branch)(x)"
    result = run(FUNCTIONS + source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["A Python `if` needs `x?0? < 0`*", "*1 check, 1 failed"])


def test_a_fixture_may_get_it_by_name(run: Run) -> None:
    source = "@pytest.fixture\ndef y(request, x): return request.getfixturevalue('jitcheck')(jnp.sin)(x)\n"
    run(source + "def test_it(y): assert y.shape == (6,)").assert_outcomes(passed=1)


def test_a_marked_test_is_checked_though_its_fixtures_check_too(run: Run) -> None:
    result = run("""
        @pytest.fixture
        def y(jitcheck, x): return jitcheck(jnp.sin)(x)

        @pytest.mark.jitcheck
        def test_it(y): return -y if y[0] < 0 else y
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["A Python `if` needs `y?0? < 0`*", "*2 checks, 1 passed, 1 failed"])


def test_a_check_inside_of_a_check_says_how_it_came_about(run: Run) -> None:
    result = run("""
        @pytest.fixture
        def checked_sin(jitcheck): return lambda x: jitcheck(jnp.sin)(x)

        @pytest.mark.jitcheck
        def test_it(checked_sin, x): return checked_sin(x)
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*remove the marker, or let the test take `jitcheck` as an argument.*"])


# --- tests that check nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["pass", "jitcheck(jnp.sin)", "assert True"])
def test_a_test_that_runs_no_check_fails(run: Run, body: str) -> None:
    result = run(f"def test_it(jitcheck): {body}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_it is marked with jitcheck and ended without checking anything."])


@pytest.mark.parametrize(
    ("source", "disabled"),
    [
        ("@pytest.mark.jitcheck\ndef test_it(x): return branch(x)", 1),
        ("def test_it(jitcheck, x): assert jitcheck(branch)(x).shape == (6,)", 1),
        ("def test_it(request, x): request.getfixturevalue('jitcheck')(branch)(x)", 1),
        ("def test_it(jitcheck, x): pytest.skip('not here')", 0),
    ],
)
def test_no_jitcheck_runs_eagerly_only_and_says_so(run: Run, source: str, disabled: int) -> None:
    result = run(FUNCTIONS + source, "--no-jitcheck")
    assert not result.parseoutcomes().get("failed")
    said = "--no-jitcheck: 1 marked test ran without jax.jit; nothing was compared."
    assert (said in result.outlines) == bool(disabled)


def test_no_jitcheck_keeps_ordinary_failures(run: Run) -> None:
    run("@pytest.mark.jitcheck\ndef test_it(x): assert x[0] > 0", "--no-jitcheck").assert_outcomes(failed=1)
