"""The JSON document of one test run: made from reports, written whole or not at all, and read with care."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, get_args

from pytest_jitcheck.report import CheckReport, Outcome

__all__ = ["SCHEMA_VERSION", "DocumentError", "build", "check_writable", "read", "write"]

SCHEMA_VERSION = 1
"""Field names are stable within one version."""


class DocumentError(ValueError):
    """A document that can't be written, or a file that holds none; the text is one line and names the file."""


def build(
    reports: Sequence[CheckReport],
    environment: Mapping[str, Any] | None,
    *,
    created: datetime,
    violations: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The document of a run, as JSON values.

    Args:
        reports: one a check.
        environment: versions and devices, or ``None`` where no check ran, so that JAX was never asked.
        created: when the run ended; a time without a zone is local time.
        violations: limits that were exceeded.
    """
    outcomes = Counter(report.outcome for report in reports)
    return {
        "schema_version": SCHEMA_VERSION,
        "created": created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "environment": {} if environment is None else dict(environment),
        "checks": [report.to_json() for report in reports],
        "summary": {outcome: outcomes[outcome] for outcome in get_args(Outcome)},
        "violations": [dict(violation) for violation in violations],
    }


def write(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Puts the document at `path`, with its directories; whatever fails, a file that was there stays as it was.

    Raises:
        DocumentError: if the file can't be written.
        ValueError: if the document holds what JSON has no word for, such as NaN.
    """
    # ASCII with escapes: a node id may hold half a surrogate pair, which no encoding takes.
    content = json.dumps(document, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
    with _refusing(path, "can't be written"):
        target = _target(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(target.parent) as temporary:
            _write_through(temporary, content)
            Path(temporary).replace(target)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Returns if `write` can be expected to work there; makes no directory and leaves no file.

    Raises:
        DocumentError: if it can't.
    """
    with _refusing(path, "can't be written"):
        target = _target(path)
        existing = next(parent for parent in target.parents if parent.exists())
        if not existing.is_dir():
            raise NotADirectoryError(f"{existing} is not a directory")
        # Only trying tells: permission bits say nothing of read-only and network file systems.
        with _temporary(existing) as temporary:
            _write_through(temporary, "")


def read(path: str | os.PathLike[str]) -> tuple[tuple[CheckReport, ...], dict[str, Any]]:
    """The reports of a document, and the document itself.

    Raises:
        DocumentError: if the file can't be read, is damaged, is no report or comes from a newer version.
    """
    with _refusing(path, "can't be read"):
        content = Path(path).read_bytes()
    document = _parse(path, content)
    _refuse_foreign(path, document)
    return tuple(_reports(path, document)), document


def _target(path: str | os.PathLike[str]) -> Path:
    """The file that is meant: a link is followed, so that it stays one; anything but a file is refused."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError("it is a directory")
    if target.exists() and not target.is_file():
        # Replacing /dev/null by a file would be the end of it.
        raise OSError("it is not a regular file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError("the file that is there is read-only")
    return target


@contextlib.contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    # Not tempfile: its files are for their owner only, and a report is for whoever may read the directory.
    temporary = directory / f".jitcheck-{uuid.uuid4().hex}.tmp"
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _write_through(path: Path, content: str) -> None:
    with path.open("x", encoding="ascii") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def _refusing(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        # An OSError of the system has a strerror, and a text that would name a temporary file.
        reason = getattr(error, "strerror", None) or str(error)
        _refuse(path, f"{what}: {reason}", error)


def _refuse(path: str | os.PathLike[str], reason: str, cause: Exception | None = None) -> NoReturn:
    raise DocumentError(f"{os.fspath(path)} {reason}.") from cause


def _parse(path: str | os.PathLike[str], content: bytes) -> Any:
    if not content.strip():
        _refuse(path, "is empty")
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if _is_cut_off(error.doc.strip(), rest=error.doc[error.pos :].strip()):
            _refuse(path, f"is cut off: it ends in the middle, at line {error.doc.count(chr(10)) + 1}", error)
        _refuse(path, f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}", error)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"is not JSON: {error}", error)


def _is_cut_off(text: str, *, rest: str) -> bool:
    return text.startswith("{") and not (text.endswith("}") and rest)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _refuse_foreign(path: str | os.PathLike[str], document: Any) -> None:
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        _refuse(path, "is JSON, but not a report of pytest-jitcheck: it has no schema_version")
    if version > SCHEMA_VERSION:
        known = f"this pytest-jitcheck reads versions up to {SCHEMA_VERSION}"
        _refuse(path, f"has schema_version {version}, and {known}: update pytest-jitcheck")
    if not isinstance(document.get("checks"), list):
        _refuse(path, "is damaged: it has no list of checks")


def _reports(path: str | os.PathLike[str], document: Mapping[str, Any]) -> Iterator[CheckReport]:
    for number, check in enumerate(document["checks"]):
        try:
            yield CheckReport.from_json(check)
        except (ValueError, OverflowError) as error:
            _refuse(path, f"is damaged: checks[{number}]{str(error).removeprefix('check')}", error)
