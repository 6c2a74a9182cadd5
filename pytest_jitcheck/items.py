"""What a test is to us: whether its body is checked, with which options and arguments, and what its checks left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeGuard, TypeVar, Unpack

import pytest

from pytest_jitcheck import examples, mark
from pytest_jitcheck.options import Settings
from pytest_jitcheck.spec import CheckSpec, Options, SpecError

if TYPE_CHECKING:
    from pytest_jitcheck.engine import Seams
    from pytest_jitcheck.report import CheckReport

__all__ = [
    "SETTINGS",
    "JitCheck",
    "Record",
    "check_body",
    "forget",
    "is_checked_itself",
    "is_ours",
    "mark_by_fixture",
    "marks_of",
    "one_report_for_all_examples",
    "record_of",
    "require_a_check",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

SETTINGS = pytest.StashKey[Settings]()
"""Where `pytest.Config` keeps what the run was asked to do."""
_RECORD = pytest.StashKey["Record"]()


@dataclasses.dataclass(kw_only=True, slots=True)
class Record:
    """What the checks of one test left behind."""

    reports: list[CheckReport] = dataclasses.field(default_factory=list)
    sent: int = 0
    """How many of the reports pytest's own reports have carried away."""
    failure: tuple[BaseException, CheckReport] | None = None
    """What was raised for the last check that failed, and its report, which has the explanation."""
    is_checking: bool = False
    """Whether a check is under way, inside of which there can be no other."""
    by_fixture: bool = False
    """Whether the test has its marker because it gets at the fixture, rather than to be checked itself."""


def record_of(item: pytest.Item) -> Record:
    """What the checks of this test left behind so far."""
    return item.stash.setdefault(_RECORD, Record())


def forget(item: pytest.Item) -> None:
    """Let the test start anew, with nothing left behind."""
    if _RECORD in item.stash:
        item.stash[_RECORD] = Record(by_fixture=record_of(item).by_fixture)


def is_ours(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Whether the test has the marker, which one that asks for the fixture gets by itself."""
    return isinstance(item, pytest.Function) and item.get_closest_marker(mark.MARKER) is not None


def is_checked_itself(item: pytest.Function) -> bool:
    """Whether the test's body is what is checked, rather than what the test calls through the fixture."""
    return is_ours(item) and not record_of(item).by_fixture and not mark.asks_for_fixture(item.obj)


def mark_by_fixture(item: pytest.Function) -> None:
    """Give the marker to a test that asks for the fixture."""
    if item.get_closest_marker(mark.MARKER) is None:
        item.add_marker(mark.MARKER)
        record_of(item).by_fixture = True


def marks_of(item: pytest.Function) -> list[pytest.Mark]:
    """The jitcheck marks of a test, the closest first: those of its parameters are closer than those of its function."""
    of_parameters = getattr(getattr(item, "callspec", None), "marks", ())
    return sorted(item.iter_markers(mark.MARKER), key=lambda one: one not in of_parameters)


def _arguments_of(item: pytest.Function) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The fixtures and parameters that the test function takes, as it would be called from Python."""
    parameters = inspect.signature(item.obj).parameters.values()
    given = {p.name: item.funcargs[p.name] for p in parameters if p.name in item.funcargs and p.default is p.empty}
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    # By position, so that numbers mean what they say; unless a decorator such as mock.patch fills some in.
    if all(p.name in given for p in needed):
        by_position = [p.name for p in needed if p.kind is p.POSITIONAL_OR_KEYWORD]
        return tuple(given.pop(name) for name in by_position), given
    return (), given


def check_body(item: pytest.Function) -> None:
    """Check what a marked test returns; with ``--no-jitcheck``, run it as it is."""
    __tracebackhide__ = True
    # Once more, for marks of parameters and those that other plugins add: collection can't see them.
    _refuse(mark.problem_with(item.obj, marks_of(item)))
    settings = item.config.stash[SETTINGS]
    spec = mark.spec_of(marks_of(item), settings.spec)
    test, (args, kwargs) = item.obj, _arguments_of(item)

    def run(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        if settings.enabled:
            _checked(item, fn, spec, args, kwargs)
        else:
            fn(*args, **kwargs)

    if not examples.are_given_to(test):
        run(test, args, kwargs)
        return
    with examples.each(test, run):
        test(*args, **kwargs)


def _refuse(problem: str | None) -> None:
    # No hidden frame: of a failure without a visible one pytest says that all its frames are hidden.
    if problem is not None:
        pytest.fail(problem, pytrace=False)


def _checked(
    item: pytest.Function,
    fn: Callable[..., Any],
    spec: CheckSpec,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """The eager output of a check that passed; the report is recorded either way."""
    __tracebackhide__ = True
    # The first import of jax: suites without checks must not pay for it.
    from pytest_jitcheck import engine, raising

    record = record_of(item)
    if record.is_checking:
        raise RuntimeError(_NESTED)
    record.is_checking = True
    try:
        result = engine.run_check(fn, spec, args, kwargs, _seams(item.config))
    finally:
        record.is_checking = False
    if result.report.passed:
        _append(item, result.report)
        return result.output
    error = raising.exception_of(result)
    _record_failure(item, result.report, error)
    raise error


def _append(item: pytest.Item, report: CheckReport) -> CheckReport:
    reports = record_of(item).reports
    reports.append(dataclasses.replace(report, nodeid=item.nodeid, index=len(reports)))
    return reports[-1]


def _record_failure(item: pytest.Item, report: CheckReport, error: BaseException) -> None:
    record_of(item).failure = error, _append(item, report)


_NESTED = (
    "the jitcheck fixture was called inside of a check. A test that is marked with jitcheck and does not take the fixture "
    "as an argument is checked itself: remove the marker, or let the test take `jitcheck` as an argument."
)


def _seams(config: pytest.Config) -> Seams:
    from pytest_jitcheck.engine import Seams

    def compare(eager: Any, compiled: Any, spec: CheckSpec) -> Any:
        found = config.hook.pytest_jitcheck_compare(config=config, eager=eager, compiled=compiled, spec=spec)
        return None if found is None else tuple(found)

    def diagnose(error: Exception, diagnosis: Any) -> Any:
        return config.hook.pytest_jitcheck_diagnose(config=config, exception=error, diagnosis=diagnosis)

    return Seams(compare=compare, diagnose=diagnose)


@contextlib.contextmanager
def one_report_for_all_examples(item: pytest.Function) -> Iterator[None]:
    """While this is open, a test under Hypothesis runs without a deadline; afterwards one report stands for its examples."""
    if not examples.are_given_to(item.obj):
        yield
        return
    failed = True
    try:
        with examples.without_deadline(item.obj):
            yield
        failed = False
    finally:
        record = record_of(item)
        record.reports[record.sent :] = examples.representatives(record.reports[record.sent :], failed=failed)


def require_a_check(item: pytest.Function) -> None:
    """Fail a test that is over and has checked nothing."""
    __tracebackhide__ = True
    if not item.config.stash[SETTINGS].enabled or record_of(item).reports:
        return
    from pytest_jitcheck.raising import nothing_checked

    report, error = nothing_checked(item.name, uses_fixture=not is_checked_itself(item))
    _record_failure(item, report, error)
    raise error


class JitCheck:
    """The `jitcheck` fixture: has the shape of `jax.jit`, options first, then the call."""

    def __init__(self, item: pytest.Function) -> None:
        self._item = item

    def __repr__(self) -> str:
        return "jitcheck"

    def __call__(self, fn: Callable[_P, _R], **options: Unpack[Options]) -> Callable[_P, _R]:
        """A function that checks one call of `fn` and returns the eager output; a failed check fails the test.

        Args:
            fn: the function to check, plain or already jitted.
            options: the keywords of the marker; those that are not given come from the test's marker, then from the
                command line and the ini file.

        Raises:
            SpecError: for an unknown keyword, a wrong type or a value out of range.
        """
        __tracebackhide__ = True
        settings = self._item.config.stash[SETTINGS]
        wider = mark.spec_of(marks_of(self._item), settings.spec)
        try:
            spec = CheckSpec.from_keywords(options).over(wider)
        except SpecError as error:
            # From here: pytest's traceback then ends at the call, which is the line to change.
            raise SpecError(f"jitcheck: {error}") from None

        # Under the name of the function, for pytest's account of a failed assert; its other attributes stay its own.
        @functools.wraps(fn, updated=())
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            __tracebackhide__ = True
            if not settings.enabled:
                return fn(*args, **kwargs)
            output: _R = _checked(self._item, fn, spec, args, kwargs)
            return output

        return checked
