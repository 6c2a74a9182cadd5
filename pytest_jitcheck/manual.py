"""What `docs/errors.md` says of each rule, as plain text for a terminal."""

from __future__ import annotations

import importlib.resources
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pytest_jitcheck.spec import nearest

__all__ = ["UnknownRuleError", "section", "sections"]


class UnknownRuleError(ValueError):
    """A rule without a section; the text lists those that have one."""


def sections() -> dict[str, str]:
    """The Markdown under each rule's heading, in the order of the page."""
    parts = re.split(r"^## (.+)\n", _page(), flags=re.MULTILINE)[1:]
    return {rule: text.strip() for rule, text in zip(parts[::2], parts[1::2], strict=True)}


def section(rule: str, *, width: int) -> str:
    """A rule's section as plain text, its code indented.

    Args:
        rule: the id, as the end of a failure's text has it.
        width: columns to wrap the prose at.

    Raises:
        UnknownRuleError: if no section has that name.
    """
    known = sections()
    if rule not in known:
        listed = textwrap.fill(", ".join(known), width, break_on_hyphens=False)
        raise UnknownRuleError(f"no rule is called {rule!r}{nearest(rule, known)}. The rules are:\n{listed}")
    return "\n\n".join([rule, *_paragraphs(known[rule], width)]) + "\n"


def _page() -> str:
    installed = importlib.resources.files("pytest_jitcheck") / "errors.md"
    # The wheel holds a copy; a source tree has the page where it is written.
    page = installed if installed.is_file() else Path(__file__).parents[1] / "docs" / "errors.md"
    return page.read_text(encoding="utf-8")


def _paragraphs(markdown: str, width: int) -> Iterator[str]:
    # What is in the pattern's group comes between the prose: every second part is code.
    for number, part in enumerate(re.split(r"^```\w*\n(.*?)\n```$", markdown, flags=re.MULTILINE | re.DOTALL)):
        if number % 2:
            yield textwrap.indent(part, "    ")
        else:
            prose = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", part)
            yield from (textwrap.fill(one, width, break_on_hyphens=False) for one in prose.strip().split("\n\n") if one)
