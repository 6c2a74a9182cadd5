"""One table of options: each row is a command line option and an ini option of the same name."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_jitcheck.spec import CheckSpec, SpecError, nearest

__all__ = ["OPTIONS", "Option", "Settings", "add_options", "explained"]

_EXPLAIN = "--jitcheck-explain"
_WIDEST = 100
"""Columns of a line that is still easy to read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One row of the table."""

    name: str
    """Name of the ini option; on the command line ``--`` and dashes."""
    parse: Callable[[str], Any]
    """Text to value; raises ValueError with what is accepted."""
    default: Any
    """Value where nobody says anything; ``None`` leaves it to the check."""
    help: str
    """What ``--help`` says."""
    metavar: str | None = None
    """What stands for the value in ``--help``; none for a switch, which has a ``--no-`` form."""

    @property
    def flag(self) -> str:
        """The command line option."""
        return "--" + self.name.replace("_", "-")

    def value(self, config: pytest.Config) -> Any:
        """What was asked for: the command line before the ini file before the default.

        Raises:
            pytest.UsageError: with where it was written and what is accepted.
        """
        text, source = self.said(config)
        if not isinstance(text, str):
            return text
        try:
            return self.parse(text.strip())
        except ValueError as error:
            raise pytest.UsageError(f"{source}: {error}") from None

    def said(self, config: pytest.Config) -> tuple[Any, str]:
        """What was written, or the default, and where, in the words of an error message."""
        written = (
            (config.getoption(self.name), self.flag),
            (config.getini(self.name), f"ini option {self.name}"),
        )
        return next((one for one in written if one[0] not in (None, "")), (self.default, "default"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a run was asked to do."""

    spec: CheckSpec
    """What checks do unless their marker or call says otherwise."""
    enabled: bool
    """Whether marked tests are checked, or only run eagerly."""
    durations: int
    """Number of slowest compiles that a long summary shows; 0 for all."""
    json: Path | None
    """Where the document goes."""
    json_source: str
    """Where that was written, for messages."""

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """The settings of this run.

        Raises:
            pytest.UsageError: for a value that an option does not take.
        """
        values = {option.name.removeprefix("jitcheck_"): option.value(config) for option in OPTIONS}
        path = values["json"]
        return cls(
            spec=CheckSpec(
                **{name: values[name] for name in ("rtol", "atol", "trust", "strict_allclose", "timing", "rounds")}
            ),
            enabled=values["jitcheck"],
            durations=values["durations"],
            # A shell leaves the ~ of --option=~/path alone.
            json=None if path is None else config.invocation_params.dir / Path(path).expanduser(),
            json_source=next(option for option in OPTIONS if option.name == "jitcheck_json").said(config)[1],
        )


def add_options(parser: pytest.Parser) -> None:
    """Give pytest every row of the table."""
    group = parser.getgroup("jitcheck", "checks under jax.jit (pytest-jitcheck)")
    for option in OPTIONS:
        shape: dict[str, Any] = {"metavar": option.metavar}
        if option.metavar is None:
            shape = {"action": argparse.BooleanOptionalAction}
        group.addoption(option.flag, dest=option.name, default=None, help=option.help, **shape)
        parser.addini(option.name, option.help, default=None)
    # No row of the table: it is something to do, and no setting that an ini file could hold.
    group.addoption(
        _EXPLAIN, metavar="RULE", help="Print what a failure's rule means, such as boolean-mask, and run nothing."
    )


def explained(config: pytest.Config) -> pytest.ExitCode | None:
    """Print the section of the rule that was asked for; ``None`` where none was.

    Raises:
        pytest.UsageError: with the nearest rule and all others, if there is none of that name.
    """
    rule = config.getoption("jitcheck_explain")
    if rule is None:
        return None
    from pytest_jitcheck import manual

    try:
        sys.stdout.write(manual.section(rule, width=min(shutil.get_terminal_size().columns, _WIDEST)))
    except manual.UnknownRuleError as error:
        raise pytest.UsageError(f"{_EXPLAIN}: {error}") from None
    return pytest.ExitCode.OK


def _keyword(name: str, number: Callable[[str], Any], kind: str = "") -> Callable[[str], Any]:
    """A parser for an option that is a keyword of the marker too, with the marker's own checks."""

    def parse(text: str) -> Any:
        try:
            value = number(text)
        except ValueError:
            raise ValueError(f"{text!r} must be {kind}.") from None
        try:
            return getattr(CheckSpec.from_keywords({name: value}), name)
        except SpecError as error:
            # The keyword's name is the option's, which the usage error names already.
            raise ValueError(str(error).removeprefix(f"{name}=")) from None

    return parse


def _switch(text: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.lower() not in known:
        raise ValueError(f"{text!r} must be true or false{nearest(text.lower(), known)}.")
    return known[text.lower()]


def _number_of_rows(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} must be a whole number: 0 shows all, N the N slowest.")
    return int(text)


OPTIONS: tuple[Option, ...] = (
    Option(
        name="jitcheck",
        parse=_switch,
        default=True,
        help="Check tests marked with jitcheck (the default); with --no-jitcheck they run eagerly only, and the summary says so.",
    ),
    Option(
        name="jitcheck_rtol",
        parse=_keyword("rtol", float, "a number such as 1e-5"),
        default=None,
        metavar="FLOAT",
        help="Relative tolerance of all checks that name none themselves. By default it follows the lowest precision that "
        "goes in, such as 1e-5 for float32.",
    ),
    Option(
        name="jitcheck_atol",
        parse=_keyword("atol", float, "a number such as 1e-5"),
        default=None,
        metavar="FLOAT",
        help="Absolute tolerance of all checks that name none themselves. By default a tenth of rtol times the leaf's "
        "largest magnitude.",
    ),
    Option(
        name="jitcheck_trust",
        parse=_keyword("trust", str),
        default=None,
        metavar="{off,standard,full}",
        help="How much is done to make a pass mean something: 'standard' (the default) runs and traces each function a second "
        "time, to find random draws, kept tracers, stale values and side effects; 'full' also tries more values and compiles "
        "a second time; 'off' only compares.",
    ),
    Option(
        name="jitcheck_strict_allclose",
        parse=_switch,
        default=None,
        help="Fail every difference beyond the tolerance, also where the compiled result is no further from a float64 "
        "reference than the eager one.",
    ),
    Option(
        name="jitcheck_timing",
        parse=_keyword("timing", str),
        default=None,
        metavar="{off,quick,full}",
        help="How much time goes into run times: 'off' for none, 'quick' (the default) for some 20 ms a check, 'full' for a "
        "second.",
    ),
    Option(
        name="jitcheck_rounds",
        parse=_keyword("rounds", int, "a whole number"),
        default=None,
        metavar="N",
        help="Number of timed rounds, whatever time they take. By default jitcheck_timing decides.",
    ),
    Option(
        name="jitcheck_durations",
        parse=_number_of_rows,
        default=10,
        metavar="N",
        help="In a long summary, show the N slowest compiles beside all failures (default: 10; 0 shows all, and so does -v).",
    ),
    Option(
        name="jitcheck_json",
        parse=str,
        default=None,
        metavar="PATH",
        help="Write what was checked and measured to this JSON file, also when the run is interrupted.",
    ),
)
