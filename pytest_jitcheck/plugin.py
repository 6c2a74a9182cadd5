"""pytest's hooks and the `jitcheck` fixture. Nothing here imports jax before a check runs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeGuard, TypeVar, Unpack

import pytest

from pytest_jitcheck import document, examples, hookspec, mark, summary
from pytest_jitcheck.options import Settings, add_options, explained
from pytest_jitcheck.report import CheckReport, JitCheckError, Note
from pytest_jitcheck.spec import CheckSpec, Options, SpecError

if TYPE_CHECKING:
    from pytest_jitcheck.engine import Seams

__all__: list[str] = []

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SETTINGS = pytest.StashKey[Settings]()
_RECORD = pytest.StashKey["_Record"]()


@dataclasses.dataclass(kw_only=True, slots=True)
class _Record:
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


# --- start-up ----------------------------------------------------------------------------------------------------------


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspec)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    return explained(config)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER_HELP)
    settings = config.stash[_SETTINGS] = Settings.from_config(config)
    if hasattr(config, "workerinput"):
        return
    if settings.json is not None:
        try:
            document.check_writable(settings.json)
        except document.DocumentError as error:
            raise pytest.UsageError(f"{settings.json_source}: {error}") from None
    config.pluginmanager.register(Collector(config, settings), "jitcheck-collector")


_MARKER_HELP = (
    "jitcheck(static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None, rtol=None, atol=None, "
    "equal_nan=True, check_dtype=True, check_weak_type=False, raises=None, jit=jax.jit, constant=False, trust='standard', "
    "strict_allclose=False, timing='quick', rounds=None): "
    "run the test function eagerly and under jax.jit and assert that both return the same. Fixtures and parameters are its "
    "arguments; what it returns is compared, so return the result instead of asserting on it. Static and donated arguments "
    "are declared as for jax.jit, tolerances as for numpy.testing.assert_allclose. raises= names the exception of a known "
    "incompatibility: the test passes only while jit fails with it. jit= takes another transform, such as "
    "equinox.filter_jit. constant=True allows a result that depends on no argument. trust, strict_allclose, timing, rounds, "
    "rtol and atol have defaults in the options of the same names (pytest --help). To check other functions inside a test, "
    "and to assert on their results, use the jitcheck fixture."
)


# --- collection --------------------------------------------------------------------------------------------------------


def pytest_itemcollected(item: pytest.Item) -> None:
    # A test that asks for the fixture is one of ours: `-m jitcheck` selects it.
    if isinstance(item, pytest.Function) and "jitcheck" in item.fixturenames:
        _mark_by_fixture(item)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = list(metafunc.definition.iter_markers(mark.MARKER))
    if marks or "jitcheck" in metafunc.fixturenames:
        problem = mark.problem_with(metafunc.definition.obj, marks)
        if problem is not None:
            pytest.fail(f"{metafunc.definition.nodeid}: {problem}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> Generator[None, Any, Any]:
    collected = yield
    if not collected:
        module = collector.getparent(pytest.Module)
        problem = mark.uncollected(name, obj, None if module is None else module.obj.__name__)
        if problem is not None:
            pytest.fail(f"{collector.nodeid}::{name}: {problem}", pytrace=False)
    return collected


# --- running -----------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # A test that is run again, as pytest-rerunfailures does, starts anew.
    if _RECORD in item.stash:
        item.stash[_RECORD] = _Record(by_fixture=_record(item).by_fixture)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    __tracebackhide__ = True
    if not _is_checked_itself(pyfuncitem):
        return None
    # Once more, for marks of parameters and those that other plugins add: collection can't see them.
    _refuse(mark.problem_with(pyfuncitem.obj, _marks(pyfuncitem)))
    spec = mark.spec_of(_marks(pyfuncitem), pyfuncitem.config.stash[_SETTINGS].spec)
    test, (args, kwargs) = pyfuncitem.obj, _arguments(pyfuncitem)
    if not examples.are_given_to(test):
        _run(pyfuncitem, spec, test, args, kwargs)
        return True
    with examples.each(test, functools.partial(_run, pyfuncitem, spec)):
        test(*args, **kwargs)
    return True


def _refuse(problem: str | None) -> None:
    # No hidden frame: of a failure without a visible one pytest says that all its frames are hidden.
    if problem is not None:
        pytest.fail(problem, pytrace=False)


def _run(
    item: pytest.Function, spec: CheckSpec, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """The eager output: of a check that passed or, with ``--no-jitcheck``, of a plain call."""
    __tracebackhide__ = True
    return _checked(item, fn, spec, args, kwargs) if item.config.stash[_SETTINGS].enabled else fn(*args, **kwargs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    __tracebackhide__ = True
    if not _is_ours(item):
        return (yield)
    if not examples.are_given_to(item.obj):
        returned = yield
    else:
        failed = True
        try:
            with examples.without_deadline(item.obj):
                returned = yield
            failed = False
        finally:
            record = _record(item)
            record.reports[record.sent :] = examples.representatives(record.reports[record.sent :], failed=failed)
    if item.config.stash[_SETTINGS].enabled and not _record(item).reports:
        from pytest_jitcheck.raising import nothing_checked

        _fail(item, *nothing_checked(item.name, uses_fixture=not _is_checked_itself(item)))
    return returned


def _is_ours(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.get_closest_marker(mark.MARKER) is not None


def _is_checked_itself(item: pytest.Function) -> bool:
    """Whether the test's body is what is checked, rather than what the test calls through the fixture."""
    return _is_ours(item) and not _record(item).by_fixture and not mark.asks_for_fixture(item.obj)


def _mark_by_fixture(item: pytest.Function) -> None:
    if item.get_closest_marker(mark.MARKER) is None:
        item.add_marker(mark.MARKER)
        _record(item).by_fixture = True


def _marks(item: pytest.Function) -> list[pytest.Mark]:
    """The jitcheck marks of a test, the closest first: those of its parameters are closer than those of its function."""
    of_parameters = getattr(getattr(item, "callspec", None), "marks", ())
    return sorted(item.iter_markers(mark.MARKER), key=lambda one: one not in of_parameters)


def _arguments(item: pytest.Function) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The fixtures and parameters that the test function takes, as it would be called from Python."""
    parameters = inspect.signature(item.obj).parameters.values()
    given = {p.name: item.funcargs[p.name] for p in parameters if p.name in item.funcargs and p.default is p.empty}
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    # By position, so that numbers mean what they say; unless a decorator such as mock.patch fills some in.
    if all(p.name in given for p in needed):
        by_position = [p.name for p in needed if p.kind is p.POSITIONAL_OR_KEYWORD]
        return tuple(given.pop(name) for name in by_position), given
    return (), given


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

    record = _record(item)
    if record.is_checking:
        raise RuntimeError(_NESTED)
    record.is_checking = True
    try:
        result = engine.run_check(fn, spec, args, kwargs, _seams(item.config))
    finally:
        record.is_checking = False
    report = dataclasses.replace(result.report, nodeid=item.nodeid, index=len(record.reports))
    record.reports.append(report)
    if report.passed:
        return result.output
    error = raising.exception_of(result)
    record.failure = error, report
    raise error


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


def _record(item: pytest.Item) -> _Record:
    return item.stash.setdefault(_RECORD, _Record())


def _fail(item: pytest.Item, report: CheckReport, error: BaseException) -> None:
    __tracebackhide__ = True
    record = _record(item)
    report = dataclasses.replace(report, nodeid=item.nodeid, index=len(record.reports))
    record.reports.append(report)
    record.failure = error, report
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
        settings = self._item.config.stash[_SETTINGS]
        wider = mark.spec_of(_marks(self._item), settings.spec)
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


@pytest.fixture
def jitcheck(request: pytest.FixtureRequest) -> JitCheck:
    """Check other functions inside a test: ``out = jitcheck(fn)(x, y)`` runs fn(x, y) eagerly and under jax.jit, fails the
    test if the results differ, and returns the eager output for ordinary asserts. Options come before the call and are
    those of the jitcheck marker (pytest --markers): ``jitcheck(fn, static_argnames="n", rtol=1e-5)(x, n=3)``.
    """  # noqa: D205, D402  # pytest --fixtures shows the first paragraph: it has to be the whole story
    item: pytest.Function = request.node
    # Known already, unless it comes from request.getfixturevalue.
    _mark_by_fixture(item)
    return JitCheck(item)


# --- reporting ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if _is_ours(item):
        _attach(item, call, report)
    return report


def _attach(item: pytest.Function, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put what the checks of this phase found on pytest's own report, as plain values that xdist carries to the controller."""
    record = _record(item)
    if report.skipped and not record.reports:
        record.reports.append(CheckReport(name=item.function.__qualname__, outcome="skipped", nodeid=item.nodeid))
    reports = [_as_pytest_sees_it(one, report) for one in record.reports[record.sent :]]
    record.sent += len(reports)
    carrier: Any = report
    carrier.jitcheck = [one.to_json() for one in reports]
    carrier.jitcheck_disabled = (
        report.when == "call" and not item.config.stash[_SETTINGS].enabled and not record.reports
    )
    if any(one.device is not None or one.failure is not None for one in reports):
        from pytest_jitcheck.engine import environment

        carrier.jitcheck_environment = environment()
    if record.failure is not None and call.excinfo is not None and report.failed:
        error, failed_check = record.failure
        if call.excinfo.value is error:
            _show_explanation(item, call.excinfo, report, failed_check)


def _as_pytest_sees_it(check: CheckReport, report: pytest.TestReport) -> CheckReport:
    """The report of a check; one whose failure its test expects counts as pytest counts an expected failure, skipped."""
    if check.outcome != "failed" or report.failed:
        return check
    reason = getattr(report, "wasxfail", None)
    text = "the test caught the failure and passed" if reason is None else f"xfail: {reason}".removesuffix(": ")
    note = Note(rule="expected-failure", text=f"Expected to fail ({text}).")
    return dataclasses.replace(check, outcome="skipped", notes=(*check.notes, note))


def _show_explanation(
    item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport, check: CheckReport
) -> None:
    if check.failure is not None and check.failure.kind == "eager_error":
        is_explained = check.failure.rule != "fails-eagerly"
        report.sections.append(("jitcheck", summary.failure_text(check) if is_explained else summary.one_line(check)))
        return
    longrepr: Any = report.longrepr
    if _is_enough(excinfo, item):
        text = summary.failure_text(check)
        # Others add to it as Python's notes: Hypothesis its failing example.
        notes = [note for note in getattr(excinfo.value, "__notes__", ()) if note != text]
        paragraphs = [summary.one_line(check)] if item.config.getoption("tbstyle") == "line" else [text, *notes]
        explanation = JitCheckError("\n\n".join(paragraphs), check).with_traceback(excinfo.tb)
        longrepr = pytest.ExceptionInfo.from_exception(explanation).getrepr(style="value", chain=False)
        report.longrepr = longrepr
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = f"{type(excinfo.value).__name__}: {summary.one_line(check)}"
        place = None if check.failure is None else check.failure.location
        start = (item.location[1] or 0) + 1
        crash.path, crash.lineno = (str(item.path), start) if place is None else (place.path, place.line)


def _is_enough(excinfo: pytest.ExceptionInfo[BaseException], item: pytest.Item) -> bool:
    """Whether the explanation stands alone: it has the user's line, and pytest's view of the frames would bury it."""
    style = item.config.getoption("tbstyle")
    if item.config.getoption("fulltrace") or style not in ("auto", "short", "line", "long"):
        return False
    # Of a traceback without a frame to show, pytest says no more than that.
    return style != "long" or not any(entry.path == item.path for entry in excinfo.traceback)


class Collector:
    """Gathers the reports of all checks, from this process or from workers, and says at the end what they add up to."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._reports: dict[str, dict[int, CheckReport]] = {}
        self._environment: Mapping[str, Any] | None = None
        self._disabled: set[str] = set()
        self._trouble = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            # A test that is run again, as pytest-rerunfailures does, replaces its reports.
            self._reports.pop(report.nodeid, None)
        if getattr(report, "jitcheck_disabled", False):
            self._disabled.add(report.nodeid)
        self._environment = getattr(report, "jitcheck_environment", self._environment)
        for carried in getattr(report, "jitcheck", ()):
            check = CheckReport.from_json(carried)
            self._reports.setdefault(check.nodeid, {})[check.index] = check
            self._config.hook.pytest_jitcheck_report(config=self._config, report=check)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._settings.json is None or self._config.getoption("collectonly"):
            return
        try:
            document.write(
                self._settings.json, document.build(self._all(), self._environment, created=datetime.now(UTC))
            )
        except document.DocumentError as error:
            self._trouble = f"{self._settings.json_source}: {error}"
            # A gate that reads the document must not take a missing one for a good one.
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = list(
            summary.render(
                self._all(),
                environment=self._environment,
                width=self._config.get_terminal_writer().fullwidth,
                verbose=self._config.get_verbosity() > 0,
                durations=self._settings.durations,
                disabled=len(self._disabled),
            )
        )
        if self._trouble:
            lines.append(summary.Line(text=self._trouble, markup={"red": True}))
        if lines:
            terminalreporter.section("jitcheck")
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)

    def _all(self) -> Sequence[CheckReport]:
        return [check for checks in self._reports.values() for check in checks.values()]
