"""The JSON document: its shape, that it is written whole or not at all, and what is said of a bad file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pytest_jitcheck import document
from pytest_jitcheck.document import DocumentError
from pytest_jitcheck.report import CheckReport, Outcome

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
ENVIRONMENT = {"jax": "0.12.0", "devices": [{"platform": "cpu", "id": 0, "kind": "cpu"}], "x64": False}


def report(outcome: Outcome = "passed", nodeid: str = "test_a.py::test_a") -> CheckReport:
    return CheckReport(name="norm", nodeid=nodeid, outcome=outcome)


def built(*reports: CheckReport) -> dict[str, Any]:
    return document.build(reports, ENVIRONMENT, created=NOON)


def refusal(action: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(DocumentError) as caught:
        action(*arguments)
    return str(caught.value)


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_a_document_holds_the_run_in_the_promised_shape() -> None:
    violations = [{"gate": "compile_s", "limit": 1.0}]
    assert document.build([report()], ENVIRONMENT, created=NOON, violations=violations) == {
        "schema_version": 1,
        "created": "2025-06-01T12:00:00Z",
        "environment": ENVIRONMENT,
        "checks": [report().to_json()],
        "summary": {"passed": 1, "failed": 0, "skipped": 0},
        "violations": violations,
    }


def test_a_document_counts_outcomes() -> None:
    assert built(report(), report("failed"), report())["summary"] == {"passed": 2, "failed": 1, "skipped": 0}


def test_a_document_of_a_run_without_checks_has_an_empty_environment() -> None:
    assert document.build([], None, created=NOON)["environment"] == {}


def test_the_time_is_given_in_utc() -> None:
    created = NOON.astimezone(timezone(timedelta(hours=-5, minutes=-30)))
    assert document.build([], None, created=created)["created"] == "2025-06-01T12:00:00Z"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.from_type(CheckReport), max_size=3), st.text(st.characters()))
def test_what_was_written_is_read(reports: list[CheckReport], nodeid: str) -> None:
    written = built(*reports, report(nodeid=nodeid))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "report.json")
        document.write(path, written)
        assert document.read(path) == (tuple(map(CheckReport.from_json, written["checks"])), written)


def test_half_a_surrogate_pair_is_written_and_read(tmp_path: Path) -> None:
    document.write(tmp_path / "report.json", built(report(nodeid="test_a.py::test[\udc80]")))
    (read,), _ = document.read(tmp_path / "report.json")
    assert read.nodeid == "test_a.py::test[\udc80]"


def test_a_document_is_ascii_and_ends_its_last_line(tmp_path: Path) -> None:
    document.write(tmp_path / "report.json", built(report(nodeid="tést[µ]")))
    content = (tmp_path / "report.json").read_bytes()
    assert content.isascii()
    assert content.endswith(b"}\n")


def test_writing_makes_the_directories_and_leaves_nothing_else(tmp_path: Path) -> None:
    document.write(tmp_path / "a" / "b" / "report.json", built())
    assert names(tmp_path) == ["a", "a/b", "a/b/report.json"]


def test_writing_replaces_an_earlier_document(tmp_path: Path) -> None:
    document.write(tmp_path / "report.json", built(report("failed")))
    document.write(tmp_path / "report.json", built(report("passed")))
    assert document.read(tmp_path / "report.json")[0] == (report("passed"),)


def test_a_document_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    document.write(tmp_path / "report.json", built())
    (tmp_path / "plain").touch()
    assert (tmp_path / "report.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    document.write(tmp_path / "link.json", built())
    assert (tmp_path / "link.json").is_symlink()
    assert document.read(tmp_path / "report.json")[1] == built()


def test_a_document_that_is_no_json_leaves_the_earlier_one(tmp_path: Path) -> None:
    document.write(tmp_path / "report.json", built(report()))
    with pytest.raises(ValueError, match=r"^Out of range float values are not JSON compliant"):
        document.write(tmp_path / "report.json", built() | {"violations": [float("nan")]})
    assert document.read(tmp_path / "report.json")[0] == (report(),)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(28, "No space left on device"), DocumentError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_failed_write_leaves_the_earlier_document_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, raised: type[BaseException]
) -> None:
    def fail(_descriptor: int) -> None:
        raise error

    document.write(tmp_path / "report.json", built(report()))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised):
        document.write(tmp_path / "report.json", built())
    assert names(tmp_path) == ["report.json"]
    assert document.read(tmp_path / "report.json")[0] == (report(),)


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    path = tmp_path / "report.json"
    assert refusal(document.write, path, built()) == f"{path} can't be written: No space left on device."


def test_a_writable_path_is_found_writable_and_nothing_is_left(tmp_path: Path) -> None:
    document.check_writable(tmp_path / "report.json")
    document.check_writable(tmp_path / "new" / "directory" / "report.json")
    assert names(tmp_path) == []


def test_checking_keeps_the_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("mine", encoding="utf-8")
    document.check_writable(path)
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("action", [document.check_writable, lambda path: document.write(path, built())])
def test_a_directory_is_refused(tmp_path: Path, action: Callable[[Path], None]) -> None:
    assert refusal(action, tmp_path) == f"{tmp_path} can't be written: it is a directory."


@pytest.mark.parametrize("action", [document.check_writable, lambda path: document.write(path, built())])
def test_a_device_is_refused_and_not_replaced(action: Callable[[str], None]) -> None:
    assert refusal(action, os.devnull) == f"{os.devnull} can't be written: it is not a regular file."


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "report.json"
    expected = f"{path} can't be written: {tmp_path / 'file'} is not a directory."
    assert refusal(document.check_writable, path) == expected


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    assert refusal(document.check_writable, path) == f"{path} can't be written: File name too long."


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    path = tmp_path / "report.json"
    assert refusal(document.check_writable, path) == f"{path} can't be written: Permission denied."


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.touch(mode=0o400)
    assert refusal(document.check_writable, path) == f"{path} can't be written: the file that is there is read-only."


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert refusal(document.read, path) == f"{path} can't be read: No such file or directory."


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty."),
        (b" \n", "is empty."),
        (b"hello", "is not JSON: Expecting value at line 1, column 1."),
        (b'{"a": nil}', "is not JSON: Expecting value at line 1, column 7."),
        (b'{"a": NaN}', "is not JSON: NaN is not a JSON value."),
        (b"[]", "is JSON, but not a report of pytest-jitcheck: it has no schema_version."),
        (b'{"schema_version": "1"}', "is JSON, but not a report of pytest-jitcheck: it has no schema_version."),
        (
            b'{"schema_version": 2}',
            "has schema_version 2, and this pytest-jitcheck reads versions up to 1: update pytest-jitcheck.",
        ),
        (b'{"schema_version": 1}', "is damaged: it has no list of checks."),
        (b'{"schema_version": 1, "checks": [3]}', "is damaged: checks[0] is 3, which is no CheckReport."),
        (
            b'{"schema_version": 1, "checks": [{"name": "f", "outcome": "passed", "index": "2"}]}',
            "is damaged: checks[0].index is '2', which is no int.",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    assert refusal(document.read, path) == f"{path} {text}"


@pytest.mark.parametrize("content", [b"\xff\xfe\xfd", b"[" * 100_000, b'{"schema_version": ' + b"9" * 5000 + b"}"])
def test_what_the_json_reader_chokes_on_is_not_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    assert refusal(document.read, path).startswith(f"{path} is not JSON: ")


def test_a_document_that_was_cut_off_anywhere_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    content = json.dumps(built(report(nodeid='test[\udc80"}]'))).encode()
    for length in range(1, len(content) - 1, 7):
        path.write_bytes(content[:length])
        assert refusal(document.read, path) == f"{path} is cut off: it ends in the middle, at line 1."


def test_a_document_that_another_program_saved_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(built(report())), encoding="utf-8-sig")
    assert document.read(tmp_path / "report.json")[0] == (report(),)
