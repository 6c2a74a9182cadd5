"""The sections of docs/errors.md as text for a terminal."""

from __future__ import annotations

import pytest

from pytest_jitcheck import manual

RAN_NO_CHECK = """\
ran-no-check

The test is marked, or asks for the fixture, and ended
without a check. Often the second pair of parentheses is
missing: `jitcheck(f)` only makes the function that checks.

An example:

    import jax.numpy as jnp


    def test_square(jitcheck):
        jitcheck(jnp.square)

Call it on the arguments. If the test has nothing to check,
remove the marker or the fixture.

Corrected:

    import jax.numpy as jnp


    def test_square(jitcheck):
        jitcheck(jnp.square)(jnp.ones(3))
"""


def test_a_section_is_plain_text_with_its_code_indented() -> None:
    assert manual.section("ran-no-check", width=60) == RAN_NO_CHECK


def test_links_are_left_out() -> None:
    text = manual.section("declared-failure", width=200)
    assert "the check fails with did-not-raise, and `raises=` can go." in text


def test_an_unknown_rule_is_answered_with_the_nearest_and_all_others() -> None:
    with pytest.raises(manual.UnknownRuleError) as caught:
        manual.section("boolean_mask", width=60)
    first, *others = str(caught.value).splitlines()
    assert first == "no rule is called 'boolean_mask' (did you mean 'boolean-mask'?). The rules are:"
    assert " ".join(others).split(", ") == list(manual.sections())


@pytest.mark.parametrize("rule", manual.sections())
def test_every_section_fits_into_a_terminal_of_any_encoding(rule: str) -> None:
    text = manual.section(rule, width=100)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 100
