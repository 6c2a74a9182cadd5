"""What one check is asked to do: the keywords that the marker, the fixture and `check` share."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

__all__ = ["CheckSpec", "Options", "SpecError", "Statics", "Timing", "Trust", "nearest"]

Timing = Literal["off", "quick", "full"]
Trust = Literal["off", "standard", "full"]


class SpecError(ValueError):
    """A keyword of a check that is unknown, has the wrong type or is out of range."""

    nearest: str | None = None
    """The accepted name that is nearest to what was written, if one is near."""


SpecError.__module__ = "pytest_jitcheck"  # the name by which it can be imported


class Options(TypedDict, total=False):
    """The keywords of a check, as a caller writes them; `CheckSpec` says what each means."""

    static_argnums: int | Sequence[int]
    static_argnames: str | Sequence[str]
    donate_argnums: int | Sequence[int]
    donate_argnames: str | Sequence[str]
    rtol: float
    atol: float
    equal_nan: bool
    check_dtype: bool
    check_weak_type: bool
    raises: type[BaseException] | tuple[type[BaseException], ...]
    jit: Callable[..., Any]
    constant: bool
    trust: Trust
    strict_allclose: bool
    timing: Timing
    rounds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckSpec:
    """The options of one check; ``None`` means that nobody said, so that a wider layer or the default decides."""

    static_argnums: tuple[int, ...] | None = None
    """Positional arguments that are compile-time constants, as for `jax.jit`; negative numbers count from the end."""
    static_argnames: tuple[str, ...] | None = None
    """Arguments that are compile-time constants, by name, as for `jax.jit`."""
    donate_argnums: tuple[int, ...] | None = None
    """Positional arguments whose buffers the compiled function may reuse, as for `jax.jit`."""
    donate_argnames: tuple[str, ...] | None = None
    """Arguments whose buffers the compiled function may reuse, by name, as for `jax.jit`."""
    rtol: float | None = None
    """Relative tolerance; by default it follows the lowest precision among the inputs."""
    atol: float | None = None
    """Absolute tolerance; by default a share of `rtol` times the leaf's largest magnitude."""
    equal_nan: bool | None = None
    """Whether NaN equals NaN in the same place; true by default."""
    check_dtype: bool | None = None
    """Whether both results must have the same dtypes; true by default."""
    check_weak_type: bool | None = None
    """Whether both results must agree in JAX's weak types too; false by default."""
    raises: type[BaseException] | tuple[type[BaseException], ...] | None = None
    """A known incompatibility: the check passes only while the compiled side fails with this exception."""
    jit: Callable[..., Any] | None = None
    """Another transform with the calling shape of `jax.jit`, such as `equinox.filter_jit`."""
    constant: bool | None = None
    """Whether an output that depends on no argument, or no output at all, is meant; false by default."""
    trust: Trust | None = None
    """How much is done to make a pass mean something: ``off``, ``standard`` (the default) or ``full``."""
    strict_allclose: bool | None = None
    """Whether a difference beyond tolerance fails even where compiled is no worse than eager; false by default."""
    timing: Timing | None = None
    """How much time goes into run times: ``off``, ``quick`` (the default) or ``full``."""
    rounds: int | None = None
    """Number of timed rounds of the eager and of the compiled function; by default `timing` decides."""

    @classmethod
    def from_keywords(cls, keywords: Mapping[str, Any]) -> CheckSpec:
        """The spec that these keywords ask for.

        Raises:
            SpecError: for an unknown keyword, a wrong type or a value out of range; the text lists what is accepted.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in keywords:
            if name not in known:
                raise SpecError(f"unknown keyword {name!r}{nearest(name, known)}. Known keywords: {', '.join(known)}.")
        return cls(**{name: _PARSERS[name](name, value) for name, value in keywords.items() if value is not None})

    def over(self, wider: CheckSpec) -> CheckSpec:
        """The same spec, with `wider` deciding what it leaves unsaid."""
        return dataclasses.replace(wider, **self.said())

    def said(self) -> dict[str, Any]:
        """The keywords that somebody gave, with their values."""
        pairs = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Statics:
    """Arguments chosen by number and by name, with what `jax.jit` infers of the one from the other."""

    argnums: tuple[int, ...] = ()
    argnames: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        signature: inspect.Signature | None,
        argnums: tuple[int, ...] | None,
        argnames: tuple[str, ...] | None,
        *,
        keyword: str = "static",
    ) -> Statics:
        """What these two keywords choose, for a function with this signature, by the rules of `jax.jit`.

        Args:
            signature: the function's, or ``None`` where Python knows none: then nothing is inferred or refused.
            argnums: the numbers that were given.
            argnames: the names that were given.
            keyword: ``static`` or ``donate``, for the error's words.

        Raises:
            SpecError: for a name that the function lacks or a number out of range; the text lists what it has.
        """
        if signature is None:
            return cls(argnums=argnums or (), argnames=argnames or ())
        parameters = signature.parameters
        _refuse_unknown_names(parameters, argnames or (), keyword)
        _refuse_numbers_out_of_range(parameters, argnums or (), keyword)
        # jax.jit infers only while the other keyword is not given at all, and only for what can be passed both ways.
        both_ways = [
            (number, name)
            for number, (name, parameter) in enumerate(parameters.items())
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        if argnames is None and argnums is not None:
            positions = {number % len(parameters) for number in argnums} if parameters else set()
            argnames = tuple(name for number, name in both_ways if number in positions)
        elif argnums is None and argnames is not None:
            argnums = tuple(number for number, name in both_ways if name in argnames)
        return cls(argnums=argnums or (), argnames=argnames or ())

    def positions(self, number_of_args: int) -> frozenset[int]:
        """The chosen ones among so many positional arguments, counted from 0."""
        return frozenset(
            number % number_of_args for number in self.argnums if -number_of_args <= number < number_of_args
        )


_Parameters = Mapping[str, inspect.Parameter]


def _refuse_unknown_names(parameters: _Parameters, argnames: tuple[str, ...], keyword: str) -> None:
    by_name = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    never_by_name = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in argnames:
        if name in parameters and parameters[name].kind in never_by_name:
            raise SpecError(
                f"{keyword}_argnames={argnames!r}: {name!r} is positional-only or a *parameter; use {keyword}_argnums."
            )
        if name not in by_name and not takes_any:
            takes = ", ".join(by_name) or "no arguments by name"
            error = SpecError(
                f"{keyword}_argnames={argnames!r}: the function has no argument "
                f"{name!r}{nearest(name, by_name)}. It takes: {takes}."
            )
            error.nearest = _nearest(name, by_name)
            raise error


def _refuse_numbers_out_of_range(parameters: _Parameters, argnums: tuple[int, ...], keyword: str) -> None:
    kinds = [parameter.kind for parameter in parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    for number in argnums:
        if not -len(positional) <= number < len(positional):
            takes = ", ".join(f"{index}: {name}" for index, name in enumerate(positional)) or "none"
            raise SpecError(
                f"{keyword}_argnums={argnums!r}: {number} is out of range. "
                f"The function's positional arguments, counted from 0, are {takes}."
            )


def nearest(name: str, known: Iterable[str]) -> str:
    """The words that point from a misspelt name to the nearest known one, or nothing."""
    match = _nearest(name, known)
    return "" if match is None else f" (did you mean {match!r}?)"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib  # some 5 ms that only a mistake should cost

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SpecError(f"{name}={value!r} must be True or False, not {_kind(value)}.")
    return value


def _tolerance(name: str, value: Any) -> float:
    # NumPy's scalars are welcome too: they have __float__, and so has nothing else that is a plausible tolerance.
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise SpecError(f"{name}={value!r} must be a number such as 1e-5, not {_kind(value)}.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise SpecError(f"{name}={value!r} must be a number such as 1e-5, not {_kind(value)}.") from None
    if not number >= 0 or number == float("inf"):
        raise SpecError(f"{name}={value!r} must be zero or a positive finite number.")
    return number


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(f"{name}={value!r} must be a whole number, not {_kind(value)}.")
    if value < 1:
        raise SpecError(f"{name}={value!r} must be at least 1.")
    return value


def _argnums(name: str, value: Any) -> tuple[int, ...]:
    numbers = tuple(value) if isinstance(value, (tuple, list, set, frozenset, range)) else (value,)
    for number in numbers:
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise SpecError(
                f"{name}={value!r} must be a number or a tuple of numbers, not {_kind_within(value, number)}."
            )
    return tuple(number.__index__() for number in numbers)


def _argnames(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        # The spelling of pytest.mark.parametrize, "a, b", is a name that no function has: take it for what it means.
        return tuple(part.strip() for part in value.split(",") if part.strip())
    names = tuple(value) if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    for item in names:
        if not isinstance(item, str):
            raise SpecError(f"{name}={value!r} must be a name or a tuple of names, not {_kind_within(value, item)}.")
    return names


def _exceptions(name: str, value: Any) -> type[BaseException] | tuple[type[BaseException], ...]:
    classes = value if isinstance(value, tuple) else (value,)
    if not classes:
        raise SpecError(f"{name}={value!r} names no exception class: such a check could never pass.")
    for item in classes:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise SpecError(
                f"{name}={value!r} must be an exception class or a tuple of them, not {_kind_within(value, item)}."
            )
    return value  # type: ignore[no-any-return]  # narrowed by the loop, which mypy can't follow through the tuple


def _transform(name: str, value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise SpecError(f"{name}={value!r} must be a transform with the calling shape of jax.jit, not {_kind(value)}.")
    return value  # type: ignore[no-any-return]


def _one_of(known: tuple[str, ...]) -> Callable[[str, Any], str]:
    def parse(name: str, value: Any) -> str:
        if value not in known:
            near = nearest(value, known) if isinstance(value, str) else ""
            raise SpecError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}{near}.")
        return str(value)

    return parse


def _kind(value: Any) -> str:
    return type(value).__name__


def _kind_within(value: Any, item: Any) -> str:
    if item is value:
        return _kind(value)
    article = "an" if _kind(item)[0].lower() in "aeiou" else "a"
    return f"something with {article} {_kind(item)} in it"


_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "static_argnums": _argnums,
    "static_argnames": _argnames,
    "donate_argnums": _argnums,
    "donate_argnames": _argnames,
    "rtol": _tolerance,
    "atol": _tolerance,
    "equal_nan": _flag,
    "check_dtype": _flag,
    "check_weak_type": _flag,
    "raises": _exceptions,
    "jit": _transform,
    "constant": _flag,
    "trust": _one_of(get_args(Trust)),
    "strict_allclose": _flag,
    "timing": _one_of(get_args(Timing)),
    "rounds": _count,
}
