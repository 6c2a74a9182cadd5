"""Reports as JSON: they come back as they went, from older and newer versions too, and damage is named."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pytest_jitcheck.report import (
    Argument,
    CheckReport,
    Counts,
    Device,
    Diagnosis,
    Fix,
    JitCheckError,
    Location,
    Mismatch,
    Note,
    Timings,
)

FULL = CheckReport(
    name="flip",
    outcome="failed",
    nodeid="test_flip.py::test_flip[True]",
    index=1,
    device=Device(platform="gpu", id=0, kind="NVIDIA H200"),
    x64=True,
    stage="trace",
    arguments=(Argument(name="x", aval="float32[10]"), Argument(name="neg", value="True", static=True)),
    failure=Diagnosis(
        kind="trace_error",
        rule="python-branch",
        message="`if neg` needs a value.",
        location=Location(path="flip.py", line=3, column=4, source="    if neg:"),
        arguments=("neg",),
        fix=Fix(text="Declare it static.", verified=True, static_argnames=("neg",)),
    ),
    mismatches=(Mismatch(path="[0]", kind="value", eager="1.0", compiled="2.0", index=(0, 3), max_abs=1.0),),
    notes=(Note(rule="shared-cores", text="Other workers ran."),),
    timings=Timings(eager_s=1e-3, rounds=5),
    counts=Counts(traces=1, equations=7),
)


def through_json(report: CheckReport) -> CheckReport:
    return CheckReport.from_json(json.loads(json.dumps(report.to_json(), allow_nan=False)))


def minimal(**fields: Any) -> dict[str, Any]:
    return {"name": "flip", "outcome": "passed", **fields}


def finite(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{field.name: finite(getattr(value, field.name)) for field in dataclasses.fields(value)}
        )
    if isinstance(value, tuple):
        return tuple(map(finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def test_a_report_comes_back_from_json_as_it_was() -> None:
    assert through_json(FULL) == FULL


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_type(CheckReport))
def test_every_report_comes_back_but_for_numbers_that_are_not_finite(report: CheckReport) -> None:
    assert through_json(report) == finite(report)


def test_a_number_that_is_not_finite_becomes_none() -> None:
    assert through_json(CheckReport(name="f", outcome="passed", timings=Timings(run_s=math.inf))).timings == Timings()


def test_a_node_id_with_half_a_surrogate_pair_comes_back() -> None:
    report = dataclasses.replace(FULL, nodeid="test_x.py::test[\udc80]")
    assert through_json(report) == report


def test_fields_that_a_newer_version_added_are_passed_over() -> None:
    document = minimal(colour="red", timings={"run_s": 1.0, "link_s": 2.0})
    assert CheckReport.from_json(document) == CheckReport(name="flip", outcome="passed", timings=Timings(run_s=1.0))


def test_fields_that_an_older_version_lacked_take_their_defaults() -> None:
    assert CheckReport.from_json(minimal()) == CheckReport(name="flip", outcome="passed")


def test_a_whole_number_of_seconds_is_a_duration() -> None:
    assert CheckReport.from_json(minimal(timings={"run_s": 2})).timings.run_s == 2.0


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "check lacks name, outcome"),
        ({"name": "flip"}, "check lacks outcome"),
        (minimal(notes=[{"rule": "a", "text": "b"}, {"rule": "a"}]), "check.notes[1] lacks text"),
        (minimal(name=3), "check.name is 3, which is no str"),
        (minimal(index=True), "check.index is True, which is no int"),
        (minimal(index=1.5), "check.index is 1.5, which is no int"),
        (minimal(x64=1), "check.x64 is 1, which is no bool"),
        (minimal(timings={"run_s": "1"}), "check.timings.run_s is '1', which is no float"),
        (minimal(timings={"run_s": True}), "check.timings.run_s is True, which is no float"),
        (minimal(timings=None), "check.timings is None, which is no Timings"),
        (minimal(device="cpu"), "check.device is 'cpu', which is no Device"),
        (minimal(notes="none"), "check.notes is 'none', which is no tuple"),
        (
            minimal(mismatches=[{"path": "", "kind": "value", "eager": "1", "compiled": "2", "index": [0, "1"]}]),
            "check.mismatches[0].index[1] is '1', which is no int",
        ),
    ],
)
def test_a_damaged_report_names_the_field(document: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        CheckReport.from_json(document)


@pytest.mark.parametrize("document", [minimal(outcome="broken"), minimal(stage="link"), minimal(outcome=["passed"])])
def test_a_word_outside_the_vocabulary_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^check\.(outcome|stage) is "):
        CheckReport.from_json(document)


def test_speed_up_is_eager_by_compiled() -> None:
    assert Timings(eager_s=6.0, run_s=2.0).speedup == 3.0


@pytest.mark.parametrize("timings", [Timings(), Timings(eager_s=1.0), Timings(run_s=1.0), Timings(eager_s=1, run_s=0)])
def test_speed_up_is_unknown_without_both_times(timings: Timings) -> None:
    assert timings.speedup is None


@pytest.mark.parametrize(("eager_s", "calls"), [(3.0, 4), (1.125, 52), (1.0, math.inf), (0.5, math.inf)])
def test_break_even_is_the_number_of_calls_that_repay_the_compile(eager_s: float, calls: float) -> None:
    timings = Timings(eager_s=eager_s, run_s=1.0, trace_s=1.0, lower_s=2.0, compile_s=3.5)
    assert timings.break_even_calls == calls


def test_break_even_is_unknown_where_a_stage_is() -> None:
    assert Timings(eager_s=2.0, run_s=1.0, trace_s=1.0, lower_s=1.0).break_even_calls is None


def test_a_jit_check_error_is_an_assertion_with_its_report() -> None:
    error = JitCheckError("They differ.", FULL)
    assert isinstance(error, AssertionError)
    assert (str(error), error.report) == ("They differ.", FULL)


@pytest.mark.parametrize(("outcome", "passed"), [("passed", True), ("failed", False), ("skipped", False)])
def test_only_a_passed_check_passed(outcome: Any, passed: bool) -> None:
    assert CheckReport(name="f", outcome=outcome).passed is passed
