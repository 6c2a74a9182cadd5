"""What all tests share."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

# First, and here: pytester runs pytest in this process and afterwards forgets the modules that were imported meanwhile.
# A jax that is imported for the second time aborts the interpreter.
import jax  # noqa: F401
import pytest

import pytest_jitcheck.engine  # noqa: F401  # forgotten and imported again, it would cost each of those tests its time

__all__: list[str] = []

pytest_plugins = ["pytester"]

_HEADER = """\
import jax, jax.numpy as jnp, numpy as np, pytest
from pytest_jitcheck import jitcheck

@pytest.fixture
def x():
    return jnp.arange(6.0) - 2.5
"""
_INI_FILES = ("pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml")


@pytest.fixture(autouse=True)
def _at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where these are set, pytest leaves lines whole that it cuts elsewhere.
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)


@pytest.fixture(autouse=True)
def _no_stale_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two suites of one test that have one name and one length, written within a second, are one and the same to pytest's
    # cache of bytecode: the second would run as the first.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs pytest, in this process, on a suite of this source, with the usual imports and a fixture `x` before it."""

    def run_suite(source: str, *arguments: str) -> pytest.RunResult:
        if not any((pytester.path / name).exists() for name in _INI_FILES):
            # Whatever configures a directory above this one is none of the suite's.
            (pytester.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        pytester.makepyfile(test_suite=_HEADER + textwrap.dedent(source))
        # Its summary hook imports Hypothesis, which takes a second each time.
        without = () if "hypothesis" in source else ("-p", "no:hypothesispytest")
        # Nor is there a need to collect garbage five times at the end of each, which the run around it does once.
        every = ("-p", "no:cacheprovider", "-p", "no:unraisableexception", *without, "--jitcheck-timing=off")
        return pytester.runpytest_inprocess(*every, *arguments, no_reraise_ctrlc=True)

    return run_suite
