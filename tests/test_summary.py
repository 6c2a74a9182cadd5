"""The terminal section, whole, from reports made by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pytest_jitcheck import failure, summary
from pytest_jitcheck.display import columns
from pytest_jitcheck.report import CheckReport, Device, Diagnosis, Location, Outcome, Timings

CPU = Device(platform="cpu", id=0, kind="cpu")
GPU = Device(platform="gpu", id=0, kind="NVIDIA H200")
ENVIRONMENT = {"jax": "0.12.0", "devices": [{"platform": "cpu", "id": 0, "kind": "cpu"}], "x64": False}
FULL = Timings(eager_s=212e-6, trace_s=1.2e-3, lower_s=4.5e-3, compile_s=38.12e-3, run_s=43.1e-6)
SLOW = Timings(eager_s=12.3e-3, trace_s=0.102, lower_s=64.5e-3, compile_s=1.234, run_s=13.1e-3)


def report(nodeid: str, outcome: Outcome = "passed", timings: Timings = FULL, **fields: Any) -> CheckReport:
    return CheckReport(**{"name": "norm", "device": CPU, **fields}, nodeid=nodeid, outcome=outcome, timings=timings)


MIXED = [
    report("tests/test_core.py::test_norm"),
    report("tests/test_core.py::test_flip[True]", "failed", Timings(eager_s=12e-6)),
    report("tests/test_train.py::test_step[adamw-bfloat16]", timings=SLOW),
    report("tests/test_train.py::test_absent", "skipped", Timings(), device=None),
]


def lines(
    reports: Sequence[CheckReport],
    *,
    environment: Mapping[str, Any] | None = ENVIRONMENT,
    width: int = 80,
    verbose: bool = False,
    durations: int = 10,
    disabled: int = 0,
) -> list[summary.Line]:
    return list(
        summary.render(
            reports, environment=environment, width=width, verbose=verbose, durations=durations, disabled=disabled
        )
    )


def text(reports: Sequence[CheckReport], **options: Any) -> str:
    return "\n".join(line.text for line in lines(reports, **options))


def rows(reports: Sequence[CheckReport], **options: Any) -> list[str]:
    return [line.split()[1] for line in text(reports, **options).splitlines()[2:]]


def suite(size: int) -> list[CheckReport]:
    """Checks of which each compiles longer than the one before, and number 3 fails."""
    return [
        report(f"test_a.py::test[{number}]", "failed" if number == 3 else "passed", Timings(compile_s=float(number)))
        for number in range(size)
    ]


def whole(block: str) -> str:
    return textwrap.dedent(block).strip("\n")


def test_a_table_of_80_columns_leaves_out_trace_and_lower() -> None:
    assert text(MIXED) == whole("""
        cpu, jax 0.12.0, x64 off: 4 checks, 2 passed, 1 failed, 1 skipped
                 check                     eager  compile      run  speed-up  break-even
        failed   test_flip[True]         12.0 µs        -        -         -           -
        passed   test_norm                212 µs  38.1 ms  43.1 µs     4.92x   260 calls
        skipped  test_absent                   -        -        -         -           -
        passed   test_step[...bfloat16]  12.3 ms  1.23  s  13.1 ms    0.939x       never
    """)


def test_a_table_of_100_columns_shows_every_figure() -> None:
    assert text(MIXED, width=100) == whole("""
        cpu, jax 0.12.0, x64 off: 4 checks, 2 passed, 1 failed, 1 skipped
                 check                       eager    trace    lower  compile      run  speed-up  break-even
        failed   test_flip[True]           12.0 µs        -        -        -        -         -           -
        passed   test_norm                  212 µs  1.20 ms  4.50 ms  38.1 ms  43.1 µs     4.92x   260 calls
        skipped  test_absent                     -        -        -        -        -         -           -
        passed   test_step[a...-bfloat16]  12.3 ms   102 ms  64.5 ms  1.23  s  13.1 ms    0.939x       never
    """)


def test_a_table_shows_whole_node_ids_where_they_fit_and_is_no_wider() -> None:
    assert text(MIXED[:2], width=200) == whole("""
        cpu, jax 0.12.0, x64 off: 2 checks, 1 passed, 1 failed
                check                                  eager    trace    lower  compile      run  speed-up  break-even
        failed  tests/test_core.py::test_flip[True]  12.0 µs        -        -        -        -         -           -
        passed  tests/test_core.py::test_norm         212 µs  1.20 ms  4.50 ms  38.1 ms  43.1 µs     4.92x   260 calls
    """)


def test_a_narrow_table_keeps_compile_and_speed_up_longest() -> None:
    assert text(MIXED, width=50) == whole("""
        cpu, jax 0.12.0, x64 off: 4 checks, 2 passed, 1 failed, 1 skipped
                 check                   compile  speed-up
        failed   test_flip[True]               -         -
        passed   test_norm               38.1 ms     4.92x
        skipped  test_absent                   -         -
        passed   test_step[...bfloat16]  1.23  s    0.939x
    """)


def test_figures_that_no_check_has_are_left_out() -> None:
    counted = [report("test_a.py::test_norm", timings=Timings(trace_s=1e-3, lower_s=2e-3, compile_s=3e-3))]
    assert text(counted) == whole("""
        cpu, jax 0.12.0, x64 off: 1 check, 1 passed
                check                   trace    lower  compile
        passed  test_a.py::test_norm  1.00 ms  2.00 ms  3.00 ms
    """)


def test_a_table_without_any_figure_names_the_checks() -> None:
    assert text([report("test_a.py::test_norm", "failed", Timings())]) == whole("""
        cpu, jax 0.12.0, x64 off: 1 check, 1 failed
                check
        failed  test_a.py::test_norm
    """)


def test_a_row_has_the_colour_that_pytest_gives_its_outcome() -> None:
    assert [line.markup for line in lines(MIXED, disabled=1)] == [
        {},
        {"bold": True},
        {"red": True},
        {"green": True},
        {"yellow": True},
        {"green": True},
        {"yellow": True},
    ]


def test_several_checks_of_one_test_are_told_apart() -> None:
    checks = [report("test_a.py::test_both", name=f"test_both.<locals>.{name}", index=i) for i, name in enumerate("fg")]
    assert [line.text[8:34].rstrip() for line in lines([*checks, report("test_a.py::test_one")], width=100)[2:]] == [
        "test_a.py::test_both f #1",
        "test_a.py::test_both g #2",
        "test_a.py::test_one",
    ]


def test_names_keep_their_files_where_those_tell_them_apart() -> None:
    checks = [report("one/test_norm.py::test_of_columns"), report("two/test_rows.py::test_of_columns")]
    assert rows(checks) == ["test_norm.p...of_columns", "test_rows.p...of_columns"]


def test_a_check_outside_pytest_has_the_name_of_its_function() -> None:
    assert rows([report("", name="solver.Solver.norm")]) == ["norm"]


def test_a_wide_name_keeps_the_columns_aligned() -> None:
    checks = [report("test_a.py::test[日本]"), report("test_a.py::test[a]")]
    assert [columns(line.text) for line in lines(checks)[1:]] == [75, 75, 75]


def test_rows_have_the_same_order_however_the_workers_finish() -> None:
    checks = [report(f"test_a.py::test[{number}]") for number in (9, 10, 100)]
    assert text(checks) == text(checks[::-1])
    assert rows(checks[::-1]) == ["test[9]", "test[10]", "test[100]"]


def test_a_compile_from_the_cache_is_marked() -> None:
    cached = [report("test_a.py::test_b", timings=Timings(compile_s=1e-3, cached=True)), report("test_a.py::test_c")]
    assert text(cached, width=64) == whole("""
        cpu, jax 0.12.0, x64 off: 2 checks, 2 passed
                check    eager   compile      run  speed-up  break-even
        passed  test_b       -  *1.00 ms        -         -           -
        passed  test_c  212 µs   38.1 ms  43.1 µs     4.92x   260 calls
        * loaded from JAX's compilation cache: a first compile takes
        longer.
    """)


def test_a_long_suite_shows_failures_and_the_slowest_compiles() -> None:
    assert text(suite(30), durations=2) == whole("""
        cpu, jax 0.12.0, x64 off: 30 checks, 29 passed, 1 failed
                check                compile
        failed  test_a.py::test[3]   3.00  s
        passed  test_a.py::test[29]  29.0  s
        passed  test_a.py::test[28]  28.0  s
        Shown: all failures and the 2 slowest compiles; -v shows 27 more checks.
    """)


@pytest.mark.parametrize(
    ("size", "options"),
    [(30, {"verbose": True, "durations": 2}), (30, {"durations": 0}), (20, {"durations": 2})],
    ids=["-v", "durations=0", "20 checks"],
)
def test_every_check_is_shown_if_asked_for_or_if_there_are_few(size: int, options: dict[str, Any]) -> None:
    assert rows(suite(size), **options) == [f"test_a.py::test[{number}]" for number in range(size)]


def test_nothing_is_said_of_more_checks_where_there_are_none() -> None:
    assert len(rows(suite(21), durations=20)) == 21


@pytest.mark.parametrize(
    ("reports", "durations", "remark"),
    [
        (suite(30)[4:], 1, "Shown: the 1 slowest compile; -v shows 25 more checks."),
        (suite(22), 20, "Shown: all failures and the 20 slowest compiles; -v shows 1 more check."),
        (
            [report(f"test_a.py::test[{number}]", timings=Timings()) for number in range(25)],
            3,
            "Shown: 3 other checks; -v shows 22 more checks.",
        ),
    ],
)
def test_what_is_not_shown_is_counted(reports: list[CheckReport], durations: int, remark: str) -> None:
    assert lines(reports, durations=durations)[-1].text == remark


@pytest.mark.parametrize(
    ("tests", "text"),
    [
        (1, "--no-jitcheck: 1 marked test ran without jax.jit; nothing was compared."),
        (3, "--no-jitcheck: 3 marked tests ran without jax.jit; nothing was compared."),
    ],
)
def test_tests_that_ran_eagerly_only_are_counted(tests: int, text: str) -> None:
    assert lines([], disabled=tests) == [summary.Line(text=text, markup={"yellow": True})]


def test_a_run_without_checks_has_no_section() -> None:
    assert lines([]) == []


@pytest.mark.parametrize(
    ("reports", "environment", "headline"),
    [
        (
            [report("a", device=GPU, x64=True)],
            ENVIRONMENT,
            "gpu (NVIDIA H200), jax 0.12.0, x64 on: 1 check, 1 passed",
        ),
        (
            [report("a", device=GPU, x64=True), report("b")],
            ENVIRONMENT,
            "gpu (NVIDIA H200) and cpu, jax 0.12.0, x64 off and on: 2 checks, 2 passed",
        ),
        ([report("a", "skipped", device=None)], ENVIRONMENT, "cpu, jax 0.12.0, x64 off: 1 check, 1 skipped"),
        ([report("a")], None, "cpu, x64 off: 1 check, 1 passed"),
        ([report("a", device=None)], None, "x64 off: 1 check, 1 passed"),
    ],
)
def test_the_headline_says_on_what_the_checks_ran(
    reports: list[CheckReport], environment: Mapping[str, Any] | None, headline: str
) -> None:
    assert lines(reports, environment=environment)[0].text == headline


def test_a_long_name_of_a_device_is_shortened() -> None:
    xeon = Device(platform="oneapi", id=0, kind="Intel(R) Data Center GPU Max 1550 (Ponte Vecchio)")
    assert lines([report("a", device=xeon)])[0].text == (
        "oneapi (Intel(R) Da...0 (Ponte Vecchio)), jax 0.12.0, x64 off: 1 check, 1 passed"
    )


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.from_type(CheckReport), min_size=1, max_size=30), st.integers(min_value=80, max_value=200))
def test_no_line_is_wider_than_the_terminal(reports: list[CheckReport], width: int) -> None:
    assert max(columns(line.text) for line in lines(reports, width=width, disabled=9)[1:]) <= width


def test_the_texts_of_a_failure_are_here_too() -> None:
    assert (summary.failure_text, summary.one_line) == (failure.failure_text, failure.one_line)


def test_a_failure_without_figures_shows_its_rule_and_line() -> None:
    location = Location(path="/home/me/flips.py", line=4)
    failure = Diagnosis(kind="trace_error", rule="python-branch", message="No value.", location=location)
    failed = report("test_a.py::test_flip", "failed", Timings(), failure=failure)
    assert text([failed, report("test_a.py::test_norm")], width=100).splitlines()[2:] == [
        "failed  test_a.py::test_flip  python-branch flips.py:4",
        "passed  test_a.py::test_norm  212 µs  1.20 ms  4.50 ms  38.1 ms  43.1 µs     4.92x   260 calls",
    ]
