"""What `docs/errors.md` says of each rule, as plain text for a terminal."""

from __future__ import annotations

import importlib.resources
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pytest_jitcheck.spec import nearest

__all__ = ["UnknownRuleError", "section", "sections"]

_LABELS = ("An example:", "Corrected:")
"""What stands before the two pieces of code that every section has."""


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
    prose, *rest = re.split(r"^```python\n(.*?)\n```$", markdown, flags=re.MULTILINE | re.DOTALL)
    yield from _wrapped(prose, width)
    for label, code, prose in zip(_LABELS, rest[::2], rest[1::2], strict=True):
        yield label
        yield textwrap.indent(code, "    ")
        yield from _wrapped(prose, width)


def _wrapped(prose: str, width: int) -> Iterator[str]:
    unlinked = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", prose)
    for paragraph in filter(None, unlinked.strip().split("\n\n")):
        yield textwrap.fill(paragraph, width, break_on_hyphens=False)
