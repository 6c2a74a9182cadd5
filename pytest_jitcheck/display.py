"""Text as people read it: figures with three digits, and what fits into so many columns of a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

__all__ = ["columns", "count", "cut", "left", "plural", "right", "seconds", "significant", "significant_above"]

_SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_COUNTS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"))
_ELLIPSIS = "..."


def significant(number: float) -> str:
    """The number with three significant digits, and with all of its digits before the point from 1,000 on."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:#.3g}".rstrip(".")


def significant_above(number: float) -> str:
    """Three significant digits that are not below the number: a tolerance that was rounded down would not pass."""
    exact = Decimal(repr(number))
    if not exact or not exact.is_finite():
        return f"{number:g}"
    step = Decimal(1).scaleb(exact.adjusted() - 2)
    return f"{float(exact.quantize(step, rounding=ROUND_CEILING)):.3g}"


def seconds(duration_s: float) -> str:
    """The duration in the unit that suits it; units are two columns wide, so that figures align in a table."""
    number, unit = _scaled(duration_s, _SECONDS)
    return f"{number} {unit:>2}"


def count(number: float) -> str:
    """A whole number below 1,000, and three digits with ``k``, ``M`` or ``G`` from there on."""
    return f"{number:.0f}" if number < 1000 else "".join(_scaled(number, _COUNTS))


def plural(number: int, noun: str) -> str:
    """The number with its noun: ``1 check``, ``2 checks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def columns(text: str) -> int:
    """Number of terminal columns that the text takes."""
    # Nearly every text is ASCII, and a table asks for each of its cells.
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def left(text: str, width: int) -> str:
    """The text with spaces after it, up to `width` columns."""
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    """The text with spaces before it, up to `width` columns."""
    return " " * (width - columns(text)) + text


def cut(text: str, width: int) -> str:
    """The text if it fits into `width` columns, or else its beginning and its end with ``...`` between them."""
    if columns(text) <= width:
        return text
    room = max(width - len(_ELLIPSIS), 0)
    end = room // 2
    return f"{_start(text, room - end)}{_ELLIPSIS}{_start(reversed(text), end)[::-1]}"[: max(width, 0)]


def _start(characters: Iterable[str], width: int) -> str:
    taken = ""
    for character in characters:
        if columns(taken) + _columns_of(character) > width:
            break
        taken += character
    return taken


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _scaled(number: float, units: Sequence[tuple[float, str]]) -> tuple[str, str]:
    # 999.5, not 1000: what would round up to four digits belongs to the next unit.
    factor, unit = next((row for row in units if number / row[0] < 999.5), units[-1])
    return significant(number / factor), unit
