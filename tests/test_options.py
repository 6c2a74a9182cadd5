"""The table of options: both spellings of each row, which one wins, what is refused, and where the document goes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_jitcheck.options import OPTIONS, Option, Settings
from pytest_jitcheck.spec import CheckSpec

Run = Callable[..., pytest.RunResult]

DIFFERENT = {
    "jitcheck": ("false", False),
    "jitcheck_rtol": ("0.5", 0.5),
    "jitcheck_atol": ("0.25", 0.25),
    "jitcheck_trust": ("off", "off"),
    "jitcheck_strict_allclose": ("true", True),
    "jitcheck_timing": ("full", "full"),
    "jitcheck_rounds": ("7", 7),
    "jitcheck_durations": ("3", 3),
    "jitcheck_json": ("there.json", "there.json"),
}
"""A value of each row that is not its default, as text and as itself."""
OTHER = {
    "jitcheck": ("true", True),
    "jitcheck_rtol": ("0", 0.0),
    "jitcheck_atol": ("0", 0.0),
    "jitcheck_trust": ("full", "full"),
    "jitcheck_strict_allclose": ("false", False),
    "jitcheck_timing": ("off", "off"),
    "jitcheck_rounds": ("1", 1),
    "jitcheck_durations": ("0", 0),
    "jitcheck_json": ("here.json", "here.json"),
}
"""Another one, where possible the one that is false, so that nothing asks for truth where it should ask for None."""

rows = pytest.mark.parametrize("option", OPTIONS, ids=[option.name for option in OPTIONS])


def on_the_command_line(option: Option, text: str) -> str:
    if option.metavar is None:
        return option.flag if text == "true" else option.flag.replace("--", "--no-", 1)
    return f"{option.flag}={text}"


@pytest.fixture
def value(pytester: pytest.Pytester) -> Callable[..., Any]:
    """What a row is worth under a command line and an ini file."""

    def value_of(option: Option, *, said: str | None = None, ini: str | None = None) -> Any:
        pytester.makeini("[pytest]\n" + ("" if ini is None else f"{option.name} = {ini}\n"))
        arguments = [] if said is None else [on_the_command_line(option, said)]
        config = pytester.parseconfig("-p", "no:hypothesispytest", *arguments)
        return option.value(config)

    return value_of


@rows
def test_a_row_has_its_default(value: Callable[..., Any], option: Option) -> None:
    assert value(option) == option.default


@rows
def test_a_row_is_a_command_line_option(value: Callable[..., Any], option: Option) -> None:
    assert value(option, said=DIFFERENT[option.name][0]) == DIFFERENT[option.name][1]


@rows
def test_a_row_is_an_ini_option(value: Callable[..., Any], option: Option) -> None:
    assert value(option, ini=DIFFERENT[option.name][0]) == DIFFERENT[option.name][1]


@rows
@pytest.mark.parametrize(("first", "second"), [(DIFFERENT, OTHER), (OTHER, DIFFERENT)], ids=["there", "back"])
def test_the_command_line_beats_the_ini_file(
    value: Callable[..., Any], option: Option, first: dict[str, tuple[str, Any]], second: dict[str, tuple[str, Any]]
) -> None:
    assert value(option, said=first[option.name][0], ini=second[option.name][0]) == first[option.name][1]


@pytest.mark.parametrize("name", ["rtol", "atol", "trust", "strict_allclose", "timing", "rounds"])
def test_a_marker_beats_the_command_line(pytester: pytest.Pytester, name: str) -> None:
    row = next(option for option in OPTIONS if option.name == f"jitcheck_{name}")
    config = pytester.parseconfig(on_the_command_line(row, DIFFERENT[row.name][0]))
    marker = CheckSpec.from_keywords({name: OTHER[row.name][1]})
    assert getattr(marker.over(Settings.from_config(config).spec), name) == OTHER[row.name][1]


def test_every_keyword_that_is_an_option_reaches_the_checks(pytester: pytest.Pytester) -> None:
    arguments = [on_the_command_line(option, DIFFERENT[option.name][0]) for option in OPTIONS]
    settings = Settings.from_config(pytester.parseconfig(*arguments))
    named = {option.name.removeprefix("jitcheck_") for option in OPTIONS}
    assert set(settings.spec.said()) == named - {"jitcheck", "durations", "json"}
    assert (settings.enabled, settings.durations, settings.json) == (False, 3, pytester.path / "there.json")


def test_the_rows_have_names_that_follow_the_rule() -> None:
    names = [option.name for option in OPTIONS]
    assert len(set(names)) == len(names)
    assert [option.flag for option in OPTIONS] == [f"--{name.replace('_', '-')}" for name in names]
    assert all(re.fullmatch("jitcheck(_[a-z]+)*", name) for name in names)
    assert set(DIFFERENT) == set(OTHER) == set(names)


# --- end to end ---------------------------------------------------------------------------------------------------------

OFF = "jnp.where(isinstance(x, jax.core.Tracer), x + 0.01 * jnp.abs(x), x)"
"""A body that is wrong by a hundredth when compiled."""


@pytest.mark.parametrize(
    ("said", "ini", "marker", "outcome"),
    [
        (None, None, "", "failed"),
        (None, "0.5", "", "passed"),
        ("0.5", "1e-6", "", "passed"),
        ("1e-6", "0.5", "", "failed"),
        ("0", "0.5", "", "failed"),
        ("1e-6", "1e-6", "rtol=0.5", "passed"),
        ("0.5", "0.5", "rtol=1e-6", "failed"),
        ("0.5", "0.5", "rtol=0", "failed"),
        ("0.5", "0.5", "rtol=None", "passed"),
    ],
)
def test_the_closest_one_decides(
    run: Run, pytester: pytest.Pytester, said: str | None, ini: str | None, marker: str, outcome: str
) -> None:
    pytester.makeini("[pytest]\n" + ("" if ini is None else f"jitcheck_rtol = {ini}\n"))
    arguments = ["--jitcheck-trust=off", *([] if said is None else [f"--jitcheck-rtol={said}"])]
    result = run(f"@pytest.mark.jitcheck({marker})\ndef test_it(x): return {OFF}", *arguments)
    result.assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("pytest.ini", "[pytest]\njitcheck_rtol = 0.5\n"),
        ("tox.ini", "[pytest]\njitcheck_rtol = 0.5\n"),
        ("setup.cfg", "[tool:pytest]\njitcheck_rtol = 0.5\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\njitcheck_rtol = 0.5\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\njitcheck_rtol = '0.5'\n"),
    ],
)
def test_every_ini_file_of_pytest_will_do(run: Run, pytester: pytest.Pytester, file: str, content: str) -> None:
    (pytester.path / file).write_text(content, encoding="utf-8")
    result = run(f"@jitcheck\ndef test_it(x): return {OFF}", "--jitcheck-trust=off")
    result.assert_outcomes(passed=1)


def test_a_run_without_checks_says_nothing(run: Run) -> None:
    result = run("def test_it(): pass")
    result.stdout.no_fnmatch_line("*jitcheck =*")


# --- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("--jitcheck-rtol=loose", "--jitcheck-rtol: 'loose' must be a number such as 1e-5."),
        ("--jitcheck-rtol=-1e-3", "--jitcheck-rtol: -0.001 must be zero or a positive finite number."),
        ("--jitcheck-atol=nan", "--jitcheck-atol: nan must be zero or a positive finite number."),
        ("--jitcheck-atol=inf", "--jitcheck-atol: inf must be zero or a positive finite number."),
        (
            "--jitcheck-timing=quik",
            "--jitcheck-timing: 'quik' must be one of 'off', 'quick', 'full' (did you mean 'quick'?).",
        ),
        ("--jitcheck-timing=1", "--jitcheck-timing: '1' must be one of 'off', 'quick', 'full'."),
        (
            "--jitcheck-trust=ful",
            "--jitcheck-trust: 'ful' must be one of 'off', 'standard', 'full' (did you mean 'full'?).",
        ),
        ("--jitcheck-rounds=1.5", "--jitcheck-rounds: '1.5' must be a whole number."),
        ("--jitcheck-rounds=0", "--jitcheck-rounds: 0 must be at least 1."),
        ("--jitcheck-durations=-1", "--jitcheck-durations: '-1' must be a whole number: 0 shows all, N the N slowest."),
        ("--jitcheck-json=.", "--jitcheck-json: {here} can't be written: it is a directory."),
        (
            "--jitcheck-json=test_suite.py/checks.json",
            (
                "--jitcheck-json: {here}/test_suite.py/checks.json can't be written: "
                "{here}/test_suite.py is not a directory."
            ),
        ),
        ("-ojitcheck_json=.", "ini option jitcheck_json: {here} can't be written: it is a directory."),
        ("-ojitcheck_rtol=loose", "ini option jitcheck_rtol: 'loose' must be a number such as 1e-5."),
        ("-ojitcheck=flase", "ini option jitcheck: 'flase' must be true or false (did you mean 'false'?)."),
        (
            "-ojitcheck_strict_allclose=maybe",
            "ini option jitcheck_strict_allclose: 'maybe' must be true or false.",
        ),
    ],
)
def test_a_bad_value_is_a_usage_error(run: Run, pytester: pytest.Pytester, argument: str, text: str) -> None:
    result = run("def test_it(): pytest.exit('it ran')", argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [f"ERROR: {text.format(here=pytester.path)}"]
    assert "it ran" not in result.stdout.str()


# --- the document -------------------------------------------------------------------------------------------------------


def document(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.fixture
def outcomes(run: Run, pytester: pytest.Pytester) -> Callable[..., list[tuple[str, str]]]:
    """The tests that the document of a run lists, with their outcomes."""

    def outcomes_of(source: str, *arguments: str) -> list[tuple[str, str]]:
        run(source, "--jitcheck-json=checks.json", *arguments)
        checks = document(pytester.path / "checks.json")["checks"]
        return [(check["nodeid"].removeprefix("test_suite.py::"), check["outcome"]) for check in checks]

    return outcomes_of


FOUR = """
@jitcheck
def test_good(x): return x

@jitcheck
def test_bad(x): return -x if x[0] < 0 else x

{stop}

@jitcheck
def test_late(x): return x
"""


def test_the_document_holds_every_check(outcomes: Callable[..., list[tuple[str, str]]]) -> None:
    expected = [("test_good", "passed"), ("test_bad", "failed"), ("test_late", "passed")]
    assert outcomes(FOUR.format(stop="")) == expected


def test_the_document_is_written_after_the_first_failure_under_x(
    outcomes: Callable[..., list[tuple[str, str]]],
) -> None:
    assert outcomes(FOUR.format(stop=""), "-x") == [("test_good", "passed"), ("test_bad", "failed")]


@pytest.mark.parametrize("stop", ["raise KeyboardInterrupt", "pytest.exit('enough')"])
def test_the_document_is_written_when_the_run_is_interrupted(
    outcomes: Callable[..., list[tuple[str, str]]], stop: str
) -> None:
    source = FOUR.format(stop=f"def test_stop(): {stop}")
    assert outcomes(source) == [("test_good", "passed"), ("test_bad", "failed")]


def test_an_interrupt_inside_of_a_check_ends_the_run(outcomes: Callable[..., list[tuple[str, str]]]) -> None:
    source = FOUR.format(stop="@jitcheck\ndef test_stop(x): raise KeyboardInterrupt")
    assert outcomes(source) == [("test_good", "passed"), ("test_bad", "failed")]


def test_the_document_of_a_run_without_checks_is_empty(outcomes: Callable[..., list[tuple[str, str]]]) -> None:
    assert outcomes("def test_it(): pass") == []


def test_the_document_goes_into_new_directories(run: Run, pytester: pytest.Pytester) -> None:
    run("@jitcheck\ndef test_it(x): return x", "--jitcheck-json=new/one/checks.json")
    assert document(pytester.path / "new" / "one" / "checks.json")["summary"] == {
        "passed": 1,
        "failed": 0,
        "skipped": 0,
    }


def test_the_document_may_go_home(run: Run, pytester: pytest.Pytester) -> None:
    run("def test_it(): pass", "--jitcheck-json=~/home.json")
    assert (Path.home() / "home.json").exists()  # pytester's own home


def test_collecting_leaves_the_document_alone(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "checks.json").write_text("the last run", encoding="utf-8")
    run("@jitcheck\ndef test_it(x): return x", "--jitcheck-json=checks.json", "--collect-only")
    assert (pytester.path / "checks.json").read_text(encoding="utf-8") == "the last run"


TROUBLE = """
from pathlib import Path

def test_trouble():
    Path("new").write_text("in the way", encoding="utf-8")
"""


def test_a_document_that_can_not_be_written_fails_the_run(run: Run, pytester: pytest.Pytester) -> None:
    result = run(TROUBLE, "--jitcheck-json=new/checks.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = f"--jitcheck-json: {pytester.path / 'new' / 'checks.json'} can't be written: "
    assert any(line.startswith(text) for line in result.outlines)


def test_trouble_with_the_document_hides_no_other_exit_code(run: Run) -> None:
    result = run(TROUBLE + "    raise KeyboardInterrupt", "--jitcheck-json=new/checks.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED


# --- what pytest says of it ---------------------------------------------------------------------------------------------


def said(run: Run, argument: str) -> str:
    """What pytest prints, as one line."""
    return " ".join(run("", argument).stdout.str().split())


@rows
def test_help_describes_every_row(run: Run, option: Option) -> None:
    text = said(run, "--help")
    assert text.count(" ".join(option.help.split())) == 2  # on the command line and in ini files
    assert f"{option.name} (string):" in text


def test_help_has_the_key_sentences(run: Run) -> None:
    text = said(run, "--help")
    assert "checks under jax.jit (pytest-jitcheck):" in text
    assert "with --no-jitcheck they run eagerly only, and the summary says so." in text
    assert "--jitcheck-timing={off,quick,full}" in text
    assert "Write what was checked and measured to this JSON file, also when the run is interrupted." in text


def test_markers_describe_the_marker(run: Run) -> None:
    text = said(run, "--markers")
    start = text.index("@pytest.mark.jitcheck(")
    assert "run the test function eagerly and under jax.jit and assert that both return the same." in text[start:]
    assert "what it returns is compared, so return the result instead of asserting on it." in text[start:]
    assert "To check other functions inside a test, and to assert on their results, use the jitcheck fixture." in text


def test_markers_name_every_keyword(run: Run) -> None:
    text = said(run, "--markers")
    signature = text[text.index("@pytest.mark.jitcheck(") :].partition("):")[0]
    assert re.findall(r"(\w+)=", signature) == list(CheckSpec.__dataclass_fields__)


def test_fixtures_describe_the_fixture(run: Run) -> None:
    text = said(run, "--fixtures")
    assert "Check other functions inside a test: ``out = jitcheck(fn)(x, y)`` runs fn(x, y) eagerly and under" in text
    assert "returns the eager output for ordinary asserts." in text
