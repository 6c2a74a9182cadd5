"""The keywords of a check: what is accepted, what is refused and in which words, and which layer decides."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pytest_jitcheck.spec import CheckSpec, SpecError, Statics, nearest

KNOWN = (
    "static_argnums, static_argnames, donate_argnums, donate_argnames, rtol, atol, equal_nan, check_dtype, "
    "check_weak_type, raises, jit, constant, trust, strict_allclose, timing, rounds"
)


def spec(**keywords: Any) -> CheckSpec:
    return CheckSpec.from_keywords(keywords)


def refusal(**keywords: Any) -> str:
    with pytest.raises(SpecError) as caught:
        spec(**keywords)
    return str(caught.value)


class Sized:
    """An integer of another library, as NumPy's are."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __float__(self) -> float:
        return float(self.number)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"static_argname": "n"}, "unknown keyword 'static_argname' (did you mean 'static_argnames'?)."),
        ({"speed": 1}, "unknown keyword 'speed'."),
    ],
)
def test_an_unknown_keyword_is_refused_with_the_nearest_and_every_known_one(
    keywords: dict[str, Any], text: str
) -> None:
    assert refusal(**keywords) == f"{text} Known keywords: {KNOWN}."


@pytest.mark.parametrize(
    ("keyword", "value", "text"),
    [
        ("equal_nan", 1, "equal_nan=1 must be True or False, not int."),
        ("check_dtype", "yes", "check_dtype='yes' must be True or False, not str."),
        ("check_weak_type", 0, "check_weak_type=0 must be True or False, not int."),
        ("constant", [], "constant=[] must be True or False, not list."),
        ("rtol", "1e-5", "rtol='1e-5' must be a number such as 1e-5, not str."),
        ("rtol", True, "rtol=True must be a number such as 1e-5, not bool."),
        ("atol", [1], "atol=[1] must be a number such as 1e-5, not list."),
        ("atol", 1j, "atol=1j must be a number such as 1e-5, not complex."),
        ("rtol", -1e-5, "rtol=-1e-05 must be zero or a positive finite number."),
        ("rtol", float("nan"), "rtol=nan must be zero or a positive finite number."),
        ("atol", float("inf"), "atol=inf must be zero or a positive finite number."),
        ("rounds", 2.0, "rounds=2.0 must be a whole number, not float."),
        ("rounds", True, "rounds=True must be a whole number, not bool."),
        ("rounds", 0, "rounds=0 must be at least 1."),
        ("static_argnums", "n", "static_argnums='n' must be a number or a tuple of numbers, not str."),
        ("static_argnums", True, "static_argnums=True must be a number or a tuple of numbers, not bool."),
        (
            "donate_argnums",
            (0, "n"),
            "donate_argnums=(0, 'n') must be a number or a tuple of numbers, not something with a str in it.",
        ),
        ("static_argnames", 1, "static_argnames=1 must be a name or a tuple of names, not int."),
        (
            "donate_argnames",
            ["a", 1.5],
            "donate_argnames=['a', 1.5] must be a name or a tuple of names, not something with a float in it.",
        ),
        ("raises", "TypeError", "raises='TypeError' must be an exception class or a tuple of them, not str."),
        ("raises", KeyError("a"), "raises=KeyError('a') must be an exception class or a tuple of them, not KeyError."),
        (
            "raises",
            (KeyError, "TypeError"),
            (
                "raises=(<class 'KeyError'>, 'TypeError') must be an exception class or a tuple of them, "
                "not something with a str in it."
            ),
        ),
        ("jit", "jax.jit", "jit='jax.jit' must be a transform with the calling shape of jax.jit, not str."),
        ("timing", "quik", "timing='quik' must be one of 'off', 'quick', 'full' (did you mean 'quick'?)."),
        ("timing", False, "timing=False must be one of 'off', 'quick', 'full'."),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_accepted(keyword: str, value: Any, text: str) -> None:
    assert refusal(**{keyword: value}) == text


@pytest.mark.parametrize(
    ("keyword", "value", "parsed"),
    [
        ("static_argnums", 1, (1,)),
        ("static_argnums", [0, -1], (0, -1)),
        ("static_argnums", range(2), (0, 1)),
        ("donate_argnums", Sized(2), (2,)),
        ("static_argnames", "neg", ("neg",)),
        ("static_argnames", "neg, axis", ("neg", "axis")),
        ("donate_argnames", ["x"], ("x",)),
        ("rtol", 1, 1.0),
        ("atol", Sized(2), 2.0),
        ("equal_nan", False, False),
        ("raises", KeyError, KeyError),
        ("raises", (KeyError, TypeError), (KeyError, TypeError)),
        ("timing", "full", "full"),
        ("rounds", 3, 3),
    ],
)
def test_a_keyword_takes_every_spelling_that_jax_takes(keyword: str, value: Any, parsed: Any) -> None:
    assert spec(**{keyword: value}).said() == {keyword: parsed}


def test_a_transform_is_taken_as_it_is() -> None:
    def filter_jit(fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    assert spec(jit=filter_jit).jit is filter_jit


def test_a_keyword_that_is_none_was_not_said() -> None:
    assert spec(rtol=None, timing=None).said() == {}


def test_the_narrower_layer_decides_what_it_says_and_the_wider_one_the_rest() -> None:
    marker, command_line, ini = spec(rtol=0.5), spec(rtol=0.1, atol=0.2), spec(atol=0.3, rounds=7)
    assert marker.over(command_line).over(ini) == spec(rtol=0.5, atol=0.2, rounds=7)


@pytest.mark.parametrize(
    ("keyword", "narrow", "wide"),
    [("rtol", 0, 1e-5), ("atol", 0.0, 1.0), ("equal_nan", False, True), ("static_argnums", (), 0)],
)
def test_zero_false_and_empty_are_said(keyword: str, narrow: Any, wide: Any) -> None:
    assert spec(**{keyword: narrow}).over(spec(**{keyword: wide})) == spec(**{keyword: narrow})


def test_a_spec_that_says_nothing_changes_nothing() -> None:
    wide = spec(rtol=0.1, static_argnames="neg")
    assert CheckSpec().over(wide) == wide == wide.over(CheckSpec())


@pytest.mark.parametrize(("name", "words"), [("rtoll", " (did you mean 'rtol'?)"), ("zzz", "")])
def test_the_nearest_name_is_named_if_one_is_near(name: str, words: str) -> None:
    assert nearest(name, ["rtol", "atol"]) == words


def flip(x: int, n: int, *, neg: bool) -> None: ...


def first(x: int, /, *rest: int) -> None: ...


def gather(x: int, **named: int) -> None: ...


def nothing() -> None: ...


def statics(
    fn: Callable[..., None], argnums: tuple[int, ...] | None = None, argnames: tuple[str, ...] | None = None
) -> Statics:
    return Statics.of(inspect.signature(fn), argnums, argnames)


@pytest.mark.parametrize(
    ("fn", "argnums", "argnames", "text"),
    [
        (
            flip,
            None,
            ("ngr",),
            "static_argnames=('ngr',): the function has no argument 'ngr' (did you mean 'neg'?). It takes: x, n, neg.",
        ),
        (flip, None, ("x", "q"), "static_argnames=('x', 'q'): the function has no argument 'q'. It takes: x, n, neg."),
        (
            nothing,
            None,
            ("x",),
            "static_argnames=('x',): the function has no argument 'x'. It takes: no arguments by name.",
        ),
        (
            first,
            None,
            ("x",),
            "static_argnames=('x',): 'x' is positional-only or a *parameter; use static_argnums.",
        ),
        (
            first,
            None,
            ("rest",),
            "static_argnames=('rest',): 'rest' is positional-only or a *parameter; use static_argnums.",
        ),
        (
            flip,
            (2,),
            None,
            (
                "static_argnums=(2,): 2 is out of range. "
                "The function's positional arguments, counted from 0, are 0: x, 1: n."
            ),
        ),
        (
            flip,
            (0, -3),
            None,
            (
                "static_argnums=(0, -3): -3 is out of range. "
                "The function's positional arguments, counted from 0, are 0: x, 1: n."
            ),
        ),
        (
            nothing,
            (0,),
            None,
            "static_argnums=(0,): 0 is out of range. The function's positional arguments, counted from 0, are none.",
        ),
    ],
)
def test_an_argument_that_the_function_lacks_is_refused_with_those_it_has(
    fn: Callable[..., None], argnums: tuple[int, ...] | None, argnames: tuple[str, ...] | None, text: str
) -> None:
    with pytest.raises(SpecError) as caught:
        statics(fn, argnums, argnames)
    assert str(caught.value) == text


def test_a_refusal_of_a_donated_argument_says_donate() -> None:
    with pytest.raises(SpecError) as caught:
        Statics.of(inspect.signature(gather), (1,), None, keyword="donate")
    assert str(caught.value) == (
        "donate_argnums=(1,): 1 is out of range. The function's positional arguments, counted from 0, are 0: x."
    )


@pytest.mark.parametrize(
    ("fn", "argnums", "argnames", "expected"),
    [
        (flip, (1,), None, Statics(argnums=(1,), argnames=("n",))),
        (flip, None, ("n", "neg"), Statics(argnums=(1,), argnames=("n", "neg"))),
        (flip, (0,), ("n",), Statics(argnums=(0,), argnames=("n",))),
        (first, (0, 5), None, Statics(argnums=(0, 5))),
        (gather, None, ("anything",), Statics(argnames=("anything",))),
        (flip, None, None, Statics()),
    ],
)
def test_numbers_and_names_follow_from_each_other_as_in_jax(
    fn: Callable[..., None],
    argnums: tuple[int, ...] | None,
    argnames: tuple[str, ...] | None,
    expected: Statics,
) -> None:
    assert statics(fn, argnums, argnames) == expected


def test_without_a_signature_nothing_is_inferred_or_refused() -> None:
    assert Statics.of(None, (7,), ("q",)) == Statics(argnums=(7,), argnames=("q",))


def test_negative_numbers_count_from_the_end_of_the_call() -> None:
    assert Statics(argnums=(0, -1, 5, -9)).positions(3) == {0, 2}
