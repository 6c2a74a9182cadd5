"""Figures and texts for a terminal."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from pytest_jitcheck import display


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0.0, "0.00 ns"),
        (1.5e-9, "1.50 ns"),
        (999.4e-9, "999 ns"),
        (999.6e-9, "1.00 µs"),
        (12.34e-6, "12.3 µs"),
        (1.2345e-3, "1.23 ms"),
        (1.0, "1.00  s"),
        (59.96, "60.0  s"),
        (1234.5, "1,234  s"),
    ],
)
def test_a_duration_has_three_digits_and_a_unit_of_two_columns(duration_s: float, text: str) -> None:
    assert display.seconds(duration_s) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0123, "0.0123"), (1.0, "1.00"), (99.96, "100"), (999.4, "999"), (12345.6, "12,346")],
)
def test_a_number_has_three_digits_or_all_before_the_point(number: float, text: str) -> None:
    assert display.significant(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1.00k"), (12_345, "12.3k"), (999_999, "1.00M")]
)
def test_a_count_is_whole_or_has_three_digits(number: int, text: str) -> None:
    assert display.count(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (0.1, "0.1"), (1e-6, "1e-06"), (1.2201e-5, "1.23e-05"), (0.9991, "1"), (math.inf, "inf")],
)
def test_a_tolerance_is_rounded_up(number: float, text: str) -> None:
    assert display.significant_above(number) == text


@given(st.floats(min_value=0))
def test_a_tolerance_as_shown_is_never_too_small(number: float) -> None:
    assert float(display.significant_above(number)) >= number


@pytest.mark.parametrize(("number", "text"), [(0, "0 checks"), (1, "1 check"), (2, "2 checks")])
def test_a_noun_follows_its_number(number: int, text: str) -> None:
    assert display.plural(number, "check") == text


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("µs", 2), ("\udc80", 1)])
def test_characters_take_no_column_or_one_or_two(text: str, width: int) -> None:
    assert display.columns(text) == width


def test_padding_counts_columns() -> None:
    assert (display.left("日本", 6), display.right("日本", 6)) == ("日本  ", "  日本")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("test_norm", 9, "test_norm"),
        ("test_norm[float32]", 14, "test_n...at32]"),
        ("日本語日本語", 9, "日...語"),
        ("test_norm", 3, "..."),
        ("test_norm", 1, "."),
        ("test_norm", 0, ""),
    ],
)
def test_a_long_text_keeps_its_beginning_and_its_end(text: str, width: int, shown: str) -> None:
    assert display.cut(text, width) == shown


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_a_cut_text_fits(text: str, width: int) -> None:
    assert display.columns(display.cut(text, width)) <= width
