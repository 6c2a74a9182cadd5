"""Every text that somebody meets after a mistake, whole, as pytest prints it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., pytest.RunResult]

KNOWN = (
    "Known keywords: static_argnums, static_argnames, donate_argnums, donate_argnames, rtol, atol, equal_nan, check_dtype, "
    "check_weak_type, raises, jit, constant, trust, strict_allclose, timing, rounds."
)
PYTEST = tuple(int(part) for part in pytest.__version__.split(".")[:2])


def section(result: pytest.RunResult, title: str) -> list[str]:
    """The lines below the first heading, up to the next title."""
    lines = result.outlines
    start = next(number for number, line in enumerate(lines) if re.fullmatch(f"=+ {title} =+", line)) + 1
    stop = next(number for number, line in enumerate(lines) if number > start and re.match("=====", line))
    return [line for line in lines[start:stop] if not re.match("____", line)]


# --- bad marks: errors of collection ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("rtoll=1", f"unknown keyword 'rtoll' (did you mean 'rtol'?). {KNOWN}"),
        ("zzz=1", f"unknown keyword 'zzz'. {KNOWN}"),
        (
            "static_argnames='neq'",
            "static_argnames=('neq',): the function has no argument 'neq' (did you mean 'neg'?). It takes: x, neg.",
        ),
        (
            "donate_argnames='zzz'",
            "donate_argnames=('zzz',): the function has no argument 'zzz'. It takes: x, neg.",
        ),
        (
            "static_argnums=2",
            "static_argnums=(2,): 2 is out of range. The function's positional arguments, counted from 0, are 0: x, 1: neg.",
        ),
        (
            "donate_argnums=(0, -3)",
            (
                "donate_argnums=(0, -3): -3 is out of range. "
                "The function's positional arguments, counted from 0, are 0: x, 1: neg."
            ),
        ),
        ("rtol='1e-3'", "rtol='1e-3' must be a number such as 1e-5, not str."),
        ("atol=-0.001", "atol=-0.001 must be zero or a positive finite number."),
        ("equal_nan=1", "equal_nan=1 must be True or False, not int."),
        ("static_argnums='neg'", "static_argnums='neg' must be a number or a tuple of numbers, not str."),
        ("static_argnames=1", "static_argnames=1 must be a name or a tuple of names, not int."),
        ("raises='TypeError'", "raises='TypeError' must be an exception class or a tuple of them, not str."),
        ("jit=3", "jit=3 must be a transform with the calling shape of jax.jit, not int."),
        ("timing='quik'", "timing='quik' must be one of 'off', 'quick', 'full' (did you mean 'quick'?)."),
        ("rounds=0", "rounds=0 must be at least 1."),
        ("1e-3, 'neg'", "the marker takes keywords only, such as rtol=1e-5, and was given 0.001, 'neg'."),
    ],
)
def test_a_bad_mark_is_an_error_of_collection(run: Run, options: str, text: str) -> None:
    result = run(f"@pytest.mark.jitcheck({options})\ndef test_it(x, neg=True): return x")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert section(result, "ERRORS") == [f"test_suite.py::test_it: jitcheck: {text}"]


@pytest.mark.parametrize(
    ("source", "name", "text"),
    [
        (
            "@pytest.mark.jitcheck\nasync def test_it(x): return x",
            "test_it",
            "jitcheck can't check an `async def` test: jax.jit compiles plain functions. Call jitcheck inside a plain test.",
        ),
        (
            "async def test_it(jitcheck, x): return x",
            "test_it",
            "jitcheck can't check an `async def` test: jax.jit compiles plain functions. Call jitcheck inside a plain test.",
        ),
        (
            "@pytest.mark.jitcheck\nclass Helper: pass",
            "Helper",
            (
                "jitcheck marks a class that pytest does not collect as a test. Let its name begin with `Test`, or with what "
                "the ini option python_classes says, or remove the mark."
            ),
        ),
        (
            "@pytest.mark.jitcheck\ndef helper(x): return x",
            "helper",
            (
                "jitcheck marks a function that pytest does not collect as a test. Let its name begin with `test`, or with what "
                "the ini option python_functions says, or remove the mark."
            ),
        ),
    ],
    ids=["async def", "async def with the fixture", "class", "function"],
)
def test_what_is_no_test_for_jit_is_an_error_of_collection(run: Run, source: str, name: str, text: str) -> None:
    result = run(source)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert section(result, "ERRORS") == [f"test_suite.py::{name}: {text}"]


FIXTURES = {
    "above": "@{mark}\n@pytest.fixture\ndef y(): return 1\ndef test_it(y): pass",
    "below": "@pytest.fixture\n@{mark}\ndef y(): return 1\ndef test_it(y): pass",
}


@pytest.mark.parametrize(
    "mark", ["pytest.mark.jitcheck", "pytest.mark.jitcheck(rtol=1)", "jitcheck", "jitcheck(rtol=1)"]
)
@pytest.mark.parametrize("order", FIXTURES)
@pytest.mark.filterwarnings("default:Marks applied to fixtures")
def test_a_marked_fixture_is_an_error_of_collection(run: Run, mark: str, order: str) -> None:
    result = run(FIXTURES[order].format(mark=mark))
    ours = "test_suite.py::y: jitcheck marks a fixture, which is not checked: mark the tests that use it."
    typed = (
        "E   TypeError: jitcheck marks tests, and y is a fixture: mark the tests that use it. To check what the fixture "
        "calls, let it take the jitcheck fixture as an argument: jitcheck(f)(x)."
    )
    theirs = "E   Failed: Marks cannot be applied to fixtures."
    untyped = theirs if PYTEST >= (9, 0) else ours
    assert (typed if order == "above" and not mark.startswith("pytest") else untyped) in section(result, "ERRORS")


@pytest.mark.parametrize(
    ("decorator", "error"),
    [
        ("jitcheck(rtoll=1)", f"E   {{spec_error}}: jitcheck: unknown keyword 'rtoll' (did you mean 'rtol'?). {KNOWN}"),
        (
            "jitcheck(1e-3)",
            (
                "E   TypeError: jitcheck marks tests and classes of tests, not 0.001. Its options are keywords: "
                "@jitcheck(rtol=1e-5)."
            ),
        ),
    ],
)
def test_an_error_of_the_twin_ends_at_its_line(run: Run, decorator: str, error: str) -> None:
    lines = section(run(f"@{decorator}\ndef test_it(x): return x"), "ERRORS")
    assert lines[:2] == ["test_suite.py:7: in <module>", f"    @{decorator}"]
    assert lines[-1] == error.format(spec_error="pytest_jitcheck.SpecError")


def test_an_error_of_the_fixture_ends_at_its_line(run: Run) -> None:
    lines = section(run("def test_it(jitcheck, x): jitcheck(jnp.sin, rtoll=1)(x)"), "FAILURES")
    assert [line for line in lines if line.startswith("E ")] == [
        f"E   pytest_jitcheck.SpecError: jitcheck: unknown keyword 'rtoll' (did you mean 'rtol'?). {KNOWN}"
    ]
    assert lines[-1] == "test_suite.py:7: SpecError"


def test_a_bad_mark_of_a_parameter_fails_that_test(run: Run) -> None:
    parameters = "[1, pytest.param(2, marks=pytest.mark.jitcheck(rtoll=1))]"
    result = run(f"@jitcheck\n@pytest.mark.parametrize('n', {parameters})\ndef test_it(n): return jnp.ones(3) * n")
    result.assert_outcomes(passed=1, failed=1)
    assert section(result, "FAILURES") == [f"jitcheck: unknown keyword 'rtoll' (did you mean 'rtol'?). {KNOWN}"]


# --- failures: the seed examples ----------------------------------------------------------------------------------------

SEEDS = {
    "mask": "@jitcheck\ndef test_it(x):\n    return x[x < 0]",
    "flag": "@pytest.fixture\ndef neg(): return True\n@jitcheck\ndef test_it(x, neg):\n    return -x if neg else x",
    "shape": "@jitcheck\ndef test_it(x):\n    return x.reshape(jnp.array(x.shape).prod())",
    "assert": "@jitcheck\ndef test_it(x):\n    assert (x * x >= 0).all()",
    "nothing": "@jitcheck\ndef test_it(x):\n    jnp.sin(x)",
}
TEXTS = {
    "mask": """\
`x[x < 0]` picks elements with a boolean mask, and how many there are decides the shape of the
result. It depends on `x`, and under jit an argument has a shape and a dtype, but no value yet.

test_suite.py:9 in test_it
    return x[x < 0]
           ^^^^^^^^

traced: x: float32[6]
caused by: argument x

Fix: Write jnp.where(x < 0, x, 0), which keeps the shape and puts 0, or what you choose, in place of
the rest. To have the chosen ones in front, with a static upper bound n: x.at[jnp.nonzero(x < 0,
size=n, fill_value=x.size)[0]].get(mode='fill', fill_value=0).
This was not tried: run the test again after the change.

More: https://pytest-jitcheck.readthedocs.io/errors.html#boolean-mask

JAX said (jax.errors.NonConcreteBooleanIndexError):
""",
    "flag": """\
A Python `if` needs `neg` to be true or false. It is an argument, and under jit an argument has a
shape and a dtype, but no value yet.

test_suite.py:11 in test_it
    return -x if neg else x
                 ^^^

traced: x: float32[6], neg: bool[]
caused by: argument neg

Fix: Declare `neg` static: static_argnames=("neg",) on the marker, and where you jit the function
that it calls.
This was tried and works.
Or, if it changes from call to call, keep it traced: write jnp.where(neg, -x, x).

More: https://pytest-jitcheck.readthedocs.io/errors.html#python-branch

JAX said (jax.errors.TracerBoolConversionError):
""",
    "shape": """\
`x.reshape(jnp.array(x.shape).prod())` needs a shape, made of plain numbers, and was given a traced
value. No argument goes into it: a JAX operation in this expression makes a traced value, as JAX
operations do under jit even with plain numbers.

test_suite.py:9 in test_it
    return x.reshape(jnp.array(x.shape).prod())
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

traced: x: float32[6]

Fix: Compute shapes with Python, math or numpy instead of jnp: x.shape and x.size are plain numbers
under jit too, and stay so: math.prod(x.shape), x.size // 2, int(np.ceil(...)).
This was tried and works.

More: https://pytest-jitcheck.readthedocs.io/errors.html#shape-from-value

The TypeError said:
""",
    "assert": """\
`assert` needs `(x * x >= 0).all()` to be true or false. It depends on `x`, and under jit an
argument has a shape and a dtype, but no value yet.

test_suite.py:9 in test_it
    assert (x * x >= 0).all()
           ^^^^^^^^^^^^^^^^^^

traced: x: float32[6]
caused by: argument x

Fix: In a test marked with jitcheck, return the value instead: what the test returns is compared,
eager against compiled. Or ask for the jitcheck fixture, call `out = jitcheck(f)(x)` and assert on
`out`, which is the eager result.
This was not tried: run the test again after the change.

More: https://pytest-jitcheck.readthedocs.io/errors.html#assert-on-tracer

JAX said (jax.errors.TracerBoolConversionError):
""",
    "nothing": """\
test_it returned nothing that could be compared, so nothing was checked. The compiled program of
such a function is empty.

test_suite.py:8 in test_it
    def test_it(x):

traced: x: float32[6]

Fix: Return the arrays that it computes. In a marked test, what the test returns is what is
compared: write `return f(x)` instead of asserting on the value, or ask for the jitcheck fixture and
call `out = jitcheck(f)(x)`, which gives the eager result for ordinary asserts. If an empty result
is meant, say constant=True.

More: https://pytest-jitcheck.readthedocs.io/errors.html#returns-nothing
""",
}
TYPES = {
    "mask": "NonConcreteBooleanIndexError",
    "flag": "TracerBoolConversionError",
    "shape": "TypeError",
    "assert": "TracerBoolConversionError",
    "nothing": "JitCheckError",
}


def reason(seed: str) -> str:
    """The failure in a line: its first paragraph, and where it happened."""
    first, excerpt, *_ = TEXTS[seed].split("\n\n")
    return f"{TYPES[seed]}: {' '.join(first.split())} ({excerpt.partition(' in ')[0]})"


seeds = pytest.mark.parametrize("seed", SEEDS)


def explanation(lines: list[str]) -> list[str]:
    """The lines up to the words of JAX, which its versions change, and without pytest's indentation."""
    stripped = [line.removeprefix("E").strip() for line in lines]
    stop = next((number for number, line in enumerate(stripped) if re.match("(JAX|The TypeError) said", line)), None)
    # Python 3.11 knows of an `if` and an `assert` only where the whole of it is.
    carets = "nothing" if sys.version_info >= (3, 12) else r"\^+"
    return [line for line in stripped[:stop] if not re.fullmatch(carets, line)]


@seeds
@pytest.mark.parametrize("arguments", [[], ["--tb=short"], ["-q"], ["-v"], ["-vv"]], ids=" ".join)
def test_a_failure_is_its_explanation(run: Run, seed: str, arguments: list[str]) -> None:
    result = run(SEEDS[seed], *arguments)
    assert explanation(section(result, "FAILURES")) == explanation(TEXTS[seed].splitlines())


@seeds
def test_tb_line_is_a_line(run: Run, seed: str) -> None:
    result = run(SEEDS[seed], "--tb=line")
    *before, line = section(result, "FAILURES")
    assert re.sub("^.*/", "", line) == re.sub(r"(.*\((.*)\))", r"\2: \1", reason(seed))
    assert before in ([], [reason(seed).partition(": ")[2]])  # since 9.1 pytest itself says it twice


@seeds
def test_tb_no_leaves_the_reason(run: Run, seed: str) -> None:
    result = run(SEEDS[seed], "--tb=no", "-vv")
    assert "FAILURES" not in result.stdout.str()
    assert f"FAILED test_suite.py::test_it - {reason(seed)}" in result.outlines


@seeds
def test_the_short_summary_begins_with_the_reason(run: Run, seed: str) -> None:
    line = next(line for line in run(SEEDS[seed]).outlines if line.startswith("FAILED"))
    assert line.endswith("...")
    assert f"FAILED test_suite.py::test_it - {reason(seed)}".startswith(line.removesuffix("..."))


@seeds
@pytest.mark.parametrize("style", ["long", "native"])
def test_longer_styles_hold_the_explanation_too(run: Run, seed: str, style: str) -> None:
    lines = explanation(section(run(SEEDS[seed], f"--tb={style}"), "FAILURES"))
    expected = explanation(TEXTS[seed].splitlines())
    assert lines[-len(expected)].endswith(expected[0])
    assert lines[1 - len(expected) :] == expected[1:]


@seeds
def test_tb_long_shows_no_frame_of_ours_or_of_jax(run: Run, seed: str) -> None:
    lines = section(run(SEEDS[seed], "--tb=long"), "FAILURES")
    assert not [line for line in lines if re.match(r"\S*(pytest_jitcheck|jax|pluggy)/\S*:\d+:", line)]
    assert "hidden" not in "\n".join(lines)


def test_full_trace_shows_all(run: Run) -> None:
    lines = section(run(SEEDS["mask"], "--full-trace"), "FAILURES")
    assert [line for line in lines if re.match(r"\S*pytest_jitcheck/items.py:\d+:", line)]


def test_an_eager_failure_is_pytests_own_with_a_word_on_it(run: Run) -> None:
    lines = section(run("@jitcheck\ndef test_it(x):\n    return x / {}['a']"), "FAILURES")
    assert lines[-2:] == [
        "----------------------------------- jitcheck -----------------------------------",
        "test_it fails without jit too: it raised KeyError. This is no jit problem. (test_suite.py:9)",
    ]
    assert ">       return x / {}['a']" in lines


def test_a_test_that_runs_no_check_says_what_to_call(run: Run) -> None:
    assert section(run("def test_it(jitcheck): jitcheck(jnp.sin)"), "FAILURES") == [
        "test_it is marked with jitcheck and ended without checking anything.",
        "",
        "Fix: Call the fixture on the function and then on its arguments: `out = jitcheck(f)(x)`.",
        "`jitcheck(f)` alone checks nothing.",
        "",
        "More: https://pytest-jitcheck.readthedocs.io/errors.html#ran-no-check",
    ]
