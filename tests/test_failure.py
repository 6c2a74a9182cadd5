"""The text of a failed check, whole, from reports made by hand."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pytest_jitcheck.failure import failure_text, one_line
from pytest_jitcheck.report import Argument, CheckReport, Diagnosis, Fix, Location, Mismatch, Note, Stage

FLIP = Location(
    path="/home/me/flips.py",
    line=4,
    column=17,
    end_line=4,
    end_column=20,
    source="    return -x if neg else x",
    function="flip",
)
BRANCH = Diagnosis(
    kind="trace_error",
    rule="python-branch",
    message="`if neg` has to know whether `neg` is true, but under jax.jit the argument `neg` has no value yet.",
    exception="jax.errors.TracerBoolConversionError",
    exception_message="Attempted boolean conversion of traced array with shape bool[].\nSee https://docs.jax.dev.",
    location=FLIP,
    arguments=("neg",),
    fix=Fix(text='Declare static_argnames=("neg",)', verified=True, static_argnames=("neg",)),
)
DIFFERS = Diagnosis(kind="value_mismatch", rule="value-mismatch", message="The results differ.")


def report(failure: Diagnosis | None = DIFFERS, **fields: Any) -> CheckReport:
    return CheckReport(**{"name": "flip", "outcome": "failed", "stage": "trace", **fields}, failure=failure)


def paragraphs(failure: Diagnosis | None = DIFFERS, **fields: Any) -> list[str]:
    return failure_text(report(failure, **fields)).split("\n\n")


def excerpt(source: str, column: int | None, end_column: int | None = None, end_line: int | None = None) -> list[str]:
    """The source line and the line under it, without their indentation."""
    location = Location(
        path="a.py", line=4, source=source, column=column, end_line=end_line or 4, end_column=end_column
    )
    return [line[4:] for line in paragraphs(dataclasses.replace(DIFFERS, location=location))[1].splitlines()[1:]]


def leaf(**fields: Any) -> str:
    """What is said of one leaf."""
    mismatch = Mismatch(**{"path": "['w']", "kind": "value", "eager": "1.0", "compiled": "2.0", **fields})
    return paragraphs(mismatches=(mismatch,))[1].partition("\n")[2]


def whole(block: str) -> str:
    return textwrap.dedent(block).strip("\n")


def test_a_failed_trace_is_explained_before_jax_is_quoted() -> None:
    arguments = (Argument(name="x", aval="float32[10]"), Argument(name="neg", aval="bool[]"))
    assert failure_text(report(BRANCH, arguments=arguments)) == whole("""
        `if neg` has to know whether `neg` is true, but under jax.jit the argument `neg` has no value yet.

        /home/me/flips.py:4 in flip
            return -x if neg else x
                         ^^^

        traced: x: float32[10], neg: bool[]
        caused by: argument neg

        Fix: Declare static_argnames=("neg",).
        This was tried and works.

        More: https://pytest-jitcheck.readthedocs.io/errors.html#python-branch

        JAX said (jax.errors.TracerBoolConversionError):
            Attempted boolean conversion of traced array with shape bool[].
            See https://docs.jax.dev.
    """)


def test_a_failed_comparison_lists_every_leaf_that_differs() -> None:
    mismatches = (
        Mismatch(
            path="['w']",
            kind="value",
            eager="1.0000001",
            compiled="1.0000123",
            mismatched=12,
            size=1200,
            max_abs=1.22e-5,
            max_rel=1.2201e-5,
            max_ulp=1030,
            index=(3, 4),
            rtol=1e-6,
            atol=0.0,
            passing_rtol=1.22011e-5,
            passing_atol=1.22e-5,
        ),
        Mismatch(path="['n']", kind="dtype", eager="int32", compiled="float32"),
    )
    arguments = (Argument(name="x", aval="float32[100]"), Argument(name="axis", value="0", static=True))
    notes = (Note(rule="shared-cores", text="Other workers shared the cores."),)
    assert failure_text(report(mismatches=mismatches, arguments=arguments, notes=notes)) == whole("""
        The results differ.

        traced: x: float32[100]
        static: axis=0

        What the eager run (without jax.jit) and the compiled run (with it) gave:
        result['w'] (value): eager 1.0000001, compiled 1.0000123, at index [3, 4]
            12 of 1,200 elements differ (1 %)
            largest difference: 1.22e-05 absolute, 1.22e-05 relative, 1,030 ULP
            tolerance: rtol=1e-06, atol=0; rtol=1.23e-05 or atol=1.22e-05 would pass
        result['n'] (dtype): eager int32, compiled float32

        Note: Other workers shared the cores.

        More: https://pytest-jitcheck.readthedocs.io/errors.html#value-mismatch
    """)


def test_the_line_where_the_value_became_a_tracer_is_shown_if_it_is_another() -> None:
    origin = Location(path="flips.py", line=2, column=8, end_line=2, end_column=11, source="    n = abs(x)")
    assert paragraphs(dataclasses.replace(BRANCH, origin=origin))[2] == whole("""
        The value stopped being an ordinary Python value here:
        flips.py:2
            n = abs(x)
                ^^^
    """)


@pytest.mark.parametrize(
    ("source", "column", "end_column", "shown"),
    [
        ("if x > 0:", 3, 8, ["if x > 0:", "   ^^^^^"]),
        ("\tif x > 0:\n", 4, 9, ["if x > 0:", "   ^^^^^"]),
        ("if\tx > 0:", 3, 8, ["if    x > 0:", "      ^^^^^"]),
        ('if "日本" in x:', 11, 12, ['if "日本" in x:', "             ^"]),
        ("größe = 日本(x)", 8, 13, ["größe = 日本(x)", "        ^^^^^^^"]),
        ("if x:", 3, None, ["if x:", "   ^"]),
        ("if x:", 3, 3, ["if x:", "   ^"]),
        ("if x:", 3, 99, ["if x:", "   ^^"]),
        ("if x:", 99, 100, ["if x:", "     ^"]),
        ("    if x:", 0, 9, ["if x:", "^^^^^"]),
        ("if x:", None, None, ["if x:"]),
        ("", 3, 4, []),
    ],
)
def test_the_carets_are_under_the_expression(
    source: str, column: int | None, end_column: int | None, shown: list[str]
) -> None:
    assert excerpt(source, column, end_column) == shown


def test_an_expression_of_several_lines_is_marked_to_the_end_of_the_first() -> None:
    assert excerpt("    y = jnp.where(", 8, 5, end_line=7) == ["y = jnp.where(", "    ^^^^^^^^^^"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "caused by: argument neg"),
        ((Argument(name="args[0]"),), "traced: args[0]\ncaused by: argument neg"),
        ((Argument(name="n", static=True, value="'a'"),), "static: n='a'\ncaused by: argument neg"),
    ],
)
def test_arguments_are_said_as_far_as_they_are_known(arguments: tuple[Argument, ...], text: str) -> None:
    assert paragraphs(BRANCH, arguments=arguments)[2] == text


def test_several_causes_are_enumerated() -> None:
    assert paragraphs(dataclasses.replace(DIFFERS, arguments=("a", "b", "c")))[1] == "caused by: arguments a, b and c"


def test_in_the_eager_run_nothing_was_traced() -> None:
    assert paragraphs(stage="eager", arguments=(Argument(name="x", aval="int32[]"),))[1] == "called with: x: int32[]"


def test_long_lists_of_arguments_are_shortened_one_a_line() -> None:
    arguments = tuple(Argument(name=f"layer{n}", aval="{" + "'w': float32[10], " * 9 + "}") for n in range(15))
    lines = paragraphs(arguments=arguments)[1].splitlines()
    assert lines[:2] == [
        "traced:",
        "    layer0: {'w': float32[10], 'w': float32[10], 'w...t32[10], 'w': float32[10], 'w': float32[10], }",
    ]
    assert (len(lines), lines[-1]) == (14, "    and 3 more")


@pytest.mark.parametrize(
    ("fix", "text"),
    [
        (Fix(text="Use `jnp.where`.", verified=True), "Fix: Use `jnp.where`.\nThis was tried and works."),
        (
            Fix(text="Use `jnp.where`"),
            "Fix: Use `jnp.where`.\nThis was not tried: run the test again after the change.",
        ),
        (
            Fix(text="Write:\n    jnp.where(x)\n", verified=True),
            "Fix: Write:\n    jnp.where(x)\nThis was tried and works.",
        ),
    ],
)
def test_a_fix_says_whether_it_was_tried(fix: Fix, text: str) -> None:
    assert paragraphs(dataclasses.replace(BRANCH, fix=fix))[-3] == text


def test_what_can_not_be_tried_is_not_said_to_be_untried() -> None:
    fix = Fix(text="Return the arrays that it computes.")
    assert paragraphs(dataclasses.replace(DIFFERS, fix=fix))[1] == "Fix: Return the arrays that it computes."


def test_another_way_stands_below_the_verdict() -> None:
    fix = Fix(text="Declare it static.", verified=True, alternative="Or keep it traced: write jnp.where(a, b, c)")
    text = "Fix: Declare it static.\nThis was tried and works.\nOr keep it traced: write jnp.where(a, b, c)."
    assert paragraphs(dataclasses.replace(BRANCH, fix=fix))[-3] == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "result['w'] (value): eager 1.0, compiled 2.0"),
        ({"path": "", "index": (), "size": 1, "mismatched": 1}, "result (value): eager 1.0, compiled 2.0"),
        (
            {"kind": "weak_type", "eager": "weak", "compiled": "strong"},
            "result['w'] (weak type): eager weak, compiled strong",
        ),
        (
            {"size": 2, "mismatched": 1},
            "result['w'] (value): eager 1.0, compiled 2.0\n    1 of 2 elements differs (50 %)",
        ),
        (
            {"max_ulp": 3},
            "result['w'] (value): eager 1.0, compiled 2.0\n    largest difference: 3 ULP",
        ),
        (
            {"eager": "nan", "rtol": 1e-5, "atol": 1e-8},
            (
                "result['w'] (value): eager nan, compiled 2.0\n"
                "    tolerance: rtol=1e-05, atol=1e-08; no tolerance would pass"
            ),
        ),
        (
            {"rtol": 0.0, "atol": 0.0, "passing_atol": 1.0},
            "result['w'] (value): eager 1.0, compiled 2.0\n    tolerance: rtol=0, atol=0; atol=1 would pass",
        ),
    ],
)
def test_of_a_leaf_what_is_known_is_said(fields: dict[str, Any], text: str) -> None:
    assert leaf(**fields) == text


@pytest.mark.parametrize(
    ("mismatched", "size", "share"),
    [
        (1, 3, "33.3 %"),
        (7, 7, "100 %"),
        (99_999, 100_000, "over 99.9 %"),
        (1, 100_000, "under 0.01 %"),
        (1, 1_000, "0.1 %"),
    ],
)
def test_a_share_is_whole_only_if_all_elements_differ(mismatched: int, size: int, share: str) -> None:
    assert leaf(mismatched=mismatched, size=size).endswith(f"({share})")


def test_long_structures_stand_one_under_the_other() -> None:
    eager, compiled = "{'weights': *, " * 5 + "}", "{'weights': *, " * 4 + "}"
    assert leaf(path="", kind="structure", eager=eager, compiled=compiled) == whole(f"""
        result (structure):
            eager    {eager}
            compiled {compiled}
    """)


def test_values_of_several_lines_stay_aligned() -> None:
    assert leaf(eager="[[1 2]\n [3 4]]", compiled="") == whole("""
        result['w'] (value):
            eager    [[1 2]
                      [3 4]]
            compiled """)


def test_an_exception_that_is_not_jaxs_is_named() -> None:
    failure = dataclasses.replace(DIFFERS, exception="ValueError", exception_message="cannot reshape")
    assert paragraphs(failure)[-1] == "The ValueError said:\n    cannot reshape"


def test_a_long_message_of_jax_keeps_its_beginning_and_its_last_line() -> None:
    message = "\n".join(f"line {number}" for number in range(20))
    quoted = paragraphs(dataclasses.replace(BRANCH, exception_message=message))[-1].splitlines()
    assert [line.strip() for line in quoted[1:]] == [
        *(f"line {number}" for number in range(10)),
        "... (9 lines left out)",
        "line 19",
    ]


def test_a_message_of_twelve_lines_is_whole() -> None:
    message = "\n".join(f"line {number}" for number in range(12))
    assert paragraphs(dataclasses.replace(BRANCH, exception_message=message))[-1].count("\n") == 12


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("eager", "flip failed in the eager run, without jax.jit."),
        ("trace", "flip failed while JAX traced the function."),
        ("lower", "flip failed while JAX translated the traced function for the compiler."),
        ("compile", "flip failed in the compiler."),
        ("run", "flip failed while the compiled function ran."),
        ("compare", "flip failed when the eager and the compiled result were compared."),
        (None, "flip failed."),
    ],
)
def test_a_failure_without_a_diagnosis_says_at_which_stage(stage: Stage | None, text: str) -> None:
    assert failure_text(report(None, stage=stage)) == one_line(report(None, stage=stage)) == text


@pytest.mark.parametrize(
    ("path", "message", "line"),
    [
        ("/home/me/flips.py", "Two\nlines.", "Two (flips.py:4)"),
        ("C:\\me\\flips.py", "One line.\n", "One line. (flips.py:4)"),
    ],
)
def test_the_short_reason_is_the_first_line_and_the_place(path: str, message: str, line: str) -> None:
    location = dataclasses.replace(FLIP, path=path)
    assert one_line(report(dataclasses.replace(BRANCH, message=message, location=location))) == line


def test_the_short_reason_without_a_place_is_the_first_line() -> None:
    assert one_line(report()) == "The results differ."


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_type(CheckReport))
def test_there_is_a_text_for_every_report(failed: CheckReport) -> None:
    assert failure_text(failed)
    assert "\n" not in one_line(failed)
