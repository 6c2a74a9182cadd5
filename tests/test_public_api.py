"""What the package gives to others, and that looking at it costs nothing."""

from __future__ import annotations

import subprocess
import sys
import typing

import pytest

import pytest_jitcheck
from pytest_jitcheck import report
from pytest_jitcheck.spec import CheckSpec, Options

PROMISED = {"check", "jitcheck", "CheckReport", "JitCheckError", "SpecError", "JitCheck"}
"""What users call, catch and annotate with; the rest are parts of a `CheckReport`."""


def test_the_package_gives_what_it_promises() -> None:
    parts = set(report.__all__) - {"Outcome", "Stage"}
    assert set(pytest_jitcheck.__all__) == PROMISED | parts


def test_the_names_are_sorted_and_there() -> None:
    assert pytest_jitcheck.__all__ == sorted(pytest_jitcheck.__all__)
    assert all(getattr(pytest_jitcheck, name).__name__ == name for name in pytest_jitcheck.__all__)


def test_dir_lists_every_name() -> None:
    assert set(pytest_jitcheck.__all__) <= set(dir(pytest_jitcheck))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_jitcheck' has no attribute 'chek'"):
        pytest_jitcheck.chek  # noqa: B018


def test_the_typed_keywords_are_those_of_a_check() -> None:
    fields = list(CheckSpec.__dataclass_fields__)
    assert list(typing.get_type_hints(Options)) == fields


PROBE = """
import sys
import pytest_jitcheck
{use}
print(*[name for name in ("jax", "numpy", "pytest", "_pytest") if name in sys.modules])
"""


def imported_by(use: str) -> list[str]:
    """Which of the large packages an interpreter of its own has imported afterwards."""
    command = [sys.executable, "-c", PROBE.format(use=use)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("use", "imported"),
    [
        ("", []),
        ("dir(pytest_jitcheck)", []),
        ("pytest_jitcheck.CheckReport, pytest_jitcheck.JitCheckError, pytest_jitcheck.SpecError", []),
        ("pytest_jitcheck.jitcheck", ["pytest", "_pytest"]),
        ("pytest_jitcheck.check", ["jax", "numpy"]),
    ],
    ids=["import", "dir", "values", "jitcheck", "check"],
)
def test_each_name_imports_what_it_needs(use: str, imported: list[str]) -> None:
    assert imported_by(use) == imported
