"""Runs what README.md and docs/ show, block by block, as a reader would who starts in an empty directory.

- A `python` block with `title="name.py"` is a file for the blocks that follow it in its document.
- A `console` or `shell` block runs its commands. Output that a console block shows must be part of the real output, line by
  line and in this order; figures, units of time and the width of lines may differ, and `...` stands for anything.
- A `python` block without a command after it runs by itself, under pytest if there are tests in it.
- A comment before a block may say `<!-- expect: exit 1 -->`, or `<!-- skip: reason -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent

TESTED_ELSEWHERE = {ROOT / "docs" / "errors.md"}
"""By test_errors_page.py, which knows by which rule each example fails."""

# --- blocks -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A fenced block that is run, with what the document says about it."""

    document: str
    line: int
    language: str
    source: str
    title: str | None = None
    comments: dict[str, str]
    """What is said before the block, such as `{"expect": "exit 1"}`."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def is_python(self) -> bool:
        return self.language == "python"

    @property
    def filename(self) -> str:
        return self.title or ("test_example.py" if "def test_" in self.source else "example.py")

    @property
    def script(self) -> str:
        """The shell commands that run the block."""
        if self.is_python:
            return f"{'pytest' if self.filename.startswith('test_') else 'python'} {self.filename}"
        if self.language == "shell":
            return self.source
        return "\n".join(line[2:] for line in self.source.splitlines() if line.startswith(("$ ", "> ")))

    @property
    def output(self) -> list[str]:
        """The lines of output that the block shows."""
        lines = self.source.splitlines() if self.language == "console" else []
        return [line for line in lines if not line.startswith(("$ ", "> "))]

    @property
    def exit_code(self) -> int:
        return int(self.comments.get("expect", "exit 0").removeprefix("exit "))


def blocks_of(document: str, markdown: str) -> Iterator[Block]:
    """The Python and shell blocks of a document.

    Raises:
        ValueError: for a comment before a block that says nothing known, or that skips it without a reason.
    """
    comments: dict[str, str] = {}
    for token in MarkdownIt().parse(markdown):
        language, _, attributes = token.info.partition(" ")
        if token.type == "fence" and language in {"python", "console", "shell"}:
            title = re.search(r'title="(.+?)"', attributes)
            line = token.map[0] + 1 if token.map else 0
            yield Block(
                document=document,
                line=line,
                language=language,
                source=token.content,
                title=title[1] if title else None,
                comments=comments,
            )
        comments = comments_of(token.content) if token.type == "html_block" else {}


def comments_of(html: str) -> dict[str, str]:
    """What the comments in a piece of HTML say: those of the form `<!-- word: text -->`."""
    comments: dict[str, str] = {}
    for word, text in re.findall(r"<!-- *(\w+): *(.*?) *-->", html):
        if not re.fullmatch(r"expect: exit \d+|skip: .+", f"{word}: {text}"):
            raise ValueError(f"<!-- {word}: {text} --> is neither <!-- expect: exit 1 --> nor <!-- skip: reason -->")
        comments[word] = text
    return comments


def runs() -> Iterator[tuple[Sequence[Block], Block]]:
    """Each block that is run by itself, after the files that its document shows before it."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.exists() and path not in TESTED_ELSEWHERE:
            yield from runs_of(list(blocks_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))))


def runs_of(blocks: Sequence[Block]) -> Iterator[tuple[Sequence[Block], Block]]:
    for index, block in enumerate(blocks):
        is_run_by_the_next = block.title and index + 1 < len(blocks) and not blocks[index + 1].is_python
        if not is_run_by_the_next:
            yield [file for file in blocks[:index] if file.title], block


# --- running ------------------------------------------------------------------------------------------------------------


def run(files: Sequence[Block], block: Block, directory: Path) -> None:
    """Run the block in the directory, and fail if its exit code or its output is not what the document says."""
    for file in [*files, block]:
        if file.is_python:
            (directory / file.filename).write_text(file.source, encoding="utf-8")
    if "install " in block.script:
        pytest.fail(f"{block}: no test installs anything: say <!-- skip: reason --> before the block", pytrace=False)
    command = ["sh", "-e", "-c", block.script]
    done = subprocess.run(
        command, check=False, cwd=directory, env=readers_environment(), capture_output=True, text=True
    )
    printed = f"{done.stdout}{done.stderr}"
    if done.returncode != block.exit_code:
        pytest.fail(f"{block}: exit code {done.returncode}, not {block.exit_code}\n{printed}", pytrace=False)
    missing = first_missing(block.output, done.stdout.splitlines())
    if missing is not None:
        pytest.fail(f"{block}: not printed, or not here: {missing}\n{printed}", pytrace=False)


def readers_environment() -> dict[str, str]:
    """The environment of somebody who has installed the plugin and runs it in a terminal of 80 columns."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return inherited | {"PATH": programs, "COLUMNS": "80", "NO_COLOR": "1"}


def first_missing(shown: Sequence[str], printed: Sequence[str]) -> str | None:
    """The first line shown that does not follow, among those printed, on the line shown before it."""
    rest = map(outline, printed)
    for line in shown:
        if outline(line) not in {"", "..."} and not any(outline(line) == candidate for candidate in rest):
            return line
    return None


def outline(line: str) -> str:
    """The line without what differs from run to run and from machine to machine."""
    line = re.sub(r"\d+([.,]\d+)*", "1", line)
    line = re.sub(r"\b1[kM]\b", "1", line)
    line = re.sub(r"\b1 ?(ns|us|µs|ms|s|min)\b", "1 s", line)
    line = re.sub(r"([-=_])\1+", r"\1", line)
    return " ".join(line.split())


@pytest.mark.parametrize(("files", "block"), [pytest.param(*each, id=str(each[1])) for each in runs()])
def test_the_documents_show_what_happens(files: Sequence[Block], block: Block, tmp_path: Path) -> None:
    if "skip" in block.comments:
        pytest.skip(block.comments["skip"])
    run(files, block, tmp_path)


# --- the runner itself --------------------------------------------------------------------------------------------------

STORY = """
```python title="negatives.py"
def negatives(x):
    return [n for n in x if n < 0]
```

```python title="test_negatives.py"
from negatives import negatives

def test_negatives():
    assert negatives([1, -2]) == [-2]
```

<!-- expect: exit {exit_code} -->
```console
$ pytest -q --color=no \\
> test_negatives.py
. [100%]
...
{summary} in 0.25s
```

```python
from negatives import negatives

assert negatives([-5]) == [{negative}]
```
"""


def story(*, exit_code: int = 0, summary: str = "1 passed", negative: int = -5) -> list[Block]:
    """A document that is right unless something else is asked for."""
    return list(blocks_of("story.md", STORY.format(exit_code=exit_code, summary=summary, negative=negative)))


def run_all(blocks: Sequence[Block], directory: Path) -> None:
    for files, block in runs_of(blocks):
        run(files, block, directory)


def test_a_document_that_is_right_passes(tmp_path: Path) -> None:
    run_all(story(), tmp_path)


def test_a_python_block_that_raises_is_seen(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^story\.md:23: exit code 1, not 0\n"):
        run_all(story(negative=5), tmp_path)


def test_an_exit_code_other_than_the_expected_one_is_seen(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^story\.md:15: exit code 0, not 1\n"):
        run_all(story(exit_code=1), tmp_path)


def test_output_other_than_the_shown_one_is_seen(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^story\.md:15: not printed, or not here: 1 failed in 0\.25s\n"):
        run_all(story(summary="1 failed"), tmp_path)


def test_a_block_that_installs_something_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"^story\.md:1: no test installs anything: say <!-- skip: reason -->"
    ):
        run_all(list(blocks_of("story.md", "```shell\npip install nothing\n```\n")), tmp_path)


def test_a_file_with_no_command_after_it_runs_by_itself() -> None:
    blocks = story()
    assert [block.line for _, block in runs_of(blocks)] == [2, 15, 23]
    assert [block.script for _, block in runs_of(blocks[:2])] == ["python negatives.py", "pytest test_negatives.py"]


@pytest.mark.parametrize("comment", ["<!-- skip: -->", "<!-- expect: failure -->", "<!-- skpi: needs a network -->"])
def test_a_comment_that_says_nothing_known_is_an_error(comment: str) -> None:
    with pytest.raises(ValueError, match="is neither <!-- expect: exit 1 --> nor <!-- skip: reason -->"):
        list(blocks_of("story.md", f"{comment}\n```python\n```\n"))


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("==== 3 passed in 0.25s ====", "======= 12 passed in 1.50s ======="),
        ("norm  1.5 ms  200 us", "norm    900 us   1.25 ms"),
    ],
)
def test_figures_and_widths_may_differ(shown: str, printed: str) -> None:
    assert first_missing([shown], [printed]) is None


def test_lines_in_another_order_are_seen() -> None:
    assert first_missing(["one", "two"], ["two", "one"]) == "two"
