"""pytest's hooks and the `jitcheck` fixture. Nothing here imports jax before a check runs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

import pytest

from pytest_jitcheck import document, hookspec, mark, summary
from pytest_jitcheck.options import Settings, add_options
from pytest_jitcheck.report import CheckReport, Note
from pytest_jitcheck.spec import CheckSpec, Options, SpecError

if TYPE_CHECKING:
    from pytest_jitcheck.engine import CheckResult, Seams

__all__: list[str] = []

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SETTINGS = pytest.StashKey[Settings]()
_RECORD = pytest.StashKey["_Record"]()


@dataclasses.dataclass(kw_only=True, slots=True)
class _Record:
    """What the checks of one test left behind."""

    reports: list[CheckReport] = dataclasses.field(default_factory=list)
    failure: BaseException | None = None
    """What was raised for a failed check, whose text is the explanation."""


# --- start-up ----------------------------------------------------------------------------------------------------------


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspec)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER_HELP)
    settings = config.stash[_SETTINGS] = Settings.from_config(config)
    if hasattr(config, "workerinput"):
        return
    if settings.json is not None:
        try:
            document.check_writable(settings.json)
        except document.DocumentError as error:
            raise pytest.UsageError(f"--jitcheck-json: {error}") from None
    config.pluginmanager.register(Collector(config, settings), "jitcheck-collector")


_MARKER_HELP = (
    "jitcheck(static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None, rtol=None, atol=None, "
    "equal_nan=True, check_dtype=True, check_weak_type=False, raises=None, jit=jax.jit, constant=False, timing='quick', "
    "rounds=None): "
    "run the test function eagerly and under jax.jit and assert that both return the same. Fixtures and parameters are its "
    "arguments; what it returns is compared, so return the result instead of asserting on it. Static and donated arguments "
    "are declared as for jax.jit, tolerances as for numpy.testing.assert_allclose. raises= names the exception of a known "
    "incompatibility; jit= takes another transform, such as equinox.filter_jit. To check other functions inside a test, "
    "and to assert on their results, use the jitcheck fixture."
)


# --- collection --------------------------------------------------------------------------------------------------------


def pytest_itemcollected(item: pytest.Item) -> None:
    # A test that asks for the fixture is one of ours: `-m jitcheck` selects it.
    if "jitcheck" in getattr(item, "fixturenames", ()) and item.get_closest_marker(mark.MARKER) is None:
        item.add_marker(mark.MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = list(metafunc.definition.iter_markers(mark.MARKER))
    if marks or "jitcheck" in metafunc.fixturenames:
        uses_fixture = "jitcheck" in metafunc.fixturenames
        problem = mark.problem_with(metafunc.definition.obj, marks, uses_fixture=uses_fixture)
        if problem is not None:
            pytest.fail(f"{metafunc.definition.nodeid}: {problem}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> Generator[None, Any, Any]:
    collected = yield
    if not collected:
        problem = mark.uncollected(name, obj, getattr(getattr(collector, "obj", None), "__name__", None))
        if problem is not None:
            pytest.fail(f"{collector.nodeid}::{name}: {problem}", pytrace=False)
    return collected


# --- running -----------------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    __tracebackhide__ = True
    if pyfuncitem.get_closest_marker(mark.MARKER) is None or "jitcheck" in pyfuncitem.fixturenames:
        return None
    args, kwargs = _arguments(pyfuncitem)
    if not pyfuncitem.config.stash[_SETTINGS].enabled:
        pyfuncitem.obj(*args, **kwargs)
        return True
    spec = mark.spec_of(pyfuncitem.iter_markers(mark.MARKER), pyfuncitem.config.stash[_SETTINGS].spec)
    _checked(pyfuncitem, pyfuncitem.obj, spec, args, kwargs)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    __tracebackhide__ = True
    returned = yield
    is_ours = isinstance(item, pytest.Function) and item.get_closest_marker(mark.MARKER) is not None
    if is_ours and item.config.stash[_SETTINGS].enabled and not _record(item).reports:
        from pytest_jitcheck.raising import nothing_checked

        _fail(item, *nothing_checked(item.name, uses_fixture="jitcheck" in item.fixturenames))  # type: ignore[attr-defined]
    return returned


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

    result = engine.run_check(fn, spec, args, kwargs, _seams(item.config))
    record = _record(item)
    record.reports.append(dataclasses.replace(result.report, nodeid=item.nodeid, index=len(record.reports)))
    if not result.report.passed:
        record.failure = raising.exception_of(result)
        raise record.failure
    return result.output


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
    record.reports.append(dataclasses.replace(report, nodeid=item.nodeid, index=len(record.reports)))
    record.failure = error
    raise error


class JitCheck:
    """The `jitcheck` fixture: has the shape of `jax.jit`, options first, then the call."""

    def __init__(self, item: pytest.Function) -> None:
        self._item = item

    def __call__(self, fn: Callable[_P, _R], **options: Unpack[Options]) -> Callable[_P, _R]:
        """A function that checks one call of `fn` and returns the eager output; a failed check fails the test.

        Args:
            fn: the function to check, plain or already jitted.
            options: the keywords of the marker; those that are not given come from the test's marker, then from the
                command line and the ini file.

        Raises:
            SpecError: for an unknown keyword, a wrong type or a value out of range.
        """
        settings = self._item.config.stash[_SETTINGS]
        wider = mark.spec_of(self._item.iter_markers(mark.MARKER), settings.spec)
        spec = CheckSpec.from_keywords(options).over(wider)

        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            __tracebackhide__ = True
            if not settings.enabled:
                return fn(*args, **kwargs)
            output: _R = _checked(self._item, fn, spec, args, kwargs)
            return output

        return checked


@pytest.fixture
def jitcheck(request: pytest.FixtureRequest) -> JitCheck:
    """Check functions inside a test: ``out = jitcheck(fn, **options)(*args, **kwargs)``.

    Runs `fn` eagerly and under jax.jit, fails the test if they differ, and returns the eager output for ordinary asserts.
    Options are those of the jitcheck marker: static_argnames="n", rtol=1e-5, jit=equinox.filter_jit, ...
    """
    return JitCheck(request.node)


# --- reporting ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if isinstance(item, pytest.Function) and item.get_closest_marker(mark.MARKER) is not None:
        _attach(item, call, report)
    return report


def _attach(item: pytest.Function, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put what the checks found on pytest's own report, as plain values that xdist carries to the controller."""
    record = _record(item)
    if report.skipped and not record.reports:
        record.reports.append(CheckReport(name=item.function.__qualname__, outcome="skipped", nodeid=item.nodeid))
    elif call.when != "call":
        return
    reports = [_as_pytest_sees_it(one, report) for one in record.reports]
    carrier: Any = report
    carrier.jitcheck_disabled = not item.config.stash[_SETTINGS].enabled and not reports
    carrier.jitcheck = [one.to_json() for one in reports]
    if any(one.device is not None for one in reports):
        from pytest_jitcheck.engine import environment

        carrier.jitcheck_environment = environment()
    if record.failure is not None and call.excinfo is not None and call.excinfo.value is record.failure and report.failed:
        _show_explanation(item, call.excinfo, report, record.reports[-1])


def _as_pytest_sees_it(check: CheckReport, report: pytest.TestReport) -> CheckReport:
    """The report of a check; one that failed as its test's xfail says counts as pytest counts it, skipped."""
    reason = getattr(report, "wasxfail", None)
    if reason is None or not report.skipped or check.outcome != "failed":
        return check
    note = Note(rule="expected-failure", text=f"expected to fail (xfail): {reason}".rstrip(": "))
    return dataclasses.replace(check, outcome="skipped", notes=(*check.notes, note))


def _show_explanation(
    item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport, check: CheckReport
) -> None:
    if check.failure is not None and check.failure.kind == "eager_error":
        is_explained = check.failure.rule != "fails-eagerly"
        report.sections.append(("jitcheck", summary.failure_text(check) if is_explained else summary.one_line(check)))
        return
    longrepr: Any = report.longrepr
    if item.config.getoption("tbstyle") in ("auto", "short", "line"):
        # The explanation alone: it has the user's line, and pytest's view of the frames would push it off the screen.
        longrepr = report.longrepr = excinfo.getrepr(style="value", chain=False)
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = f"{type(excinfo.value).__name__}: {summary.one_line(check)}"
        if check.failure is not None and check.failure.location is not None:
            crash.path, crash.lineno = check.failure.location.path, check.failure.location.line


class Collector:
    """Gathers the reports of all checks, from this process or from workers, and says at the end what they add up to."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._reports: dict[tuple[str, int], CheckReport] = {}
        self._environment: Mapping[str, Any] | None = None
        self._disabled = 0
        self._trouble = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._disabled += getattr(report, "jitcheck_disabled", False)
        self._environment = getattr(report, "jitcheck_environment", self._environment)
        for carried in getattr(report, "jitcheck", ()):
            check = CheckReport.from_json(carried)
            # A test that is run again, as pytest-rerunfailures does, replaces its reports.
            self._reports[check.nodeid, check.index] = check
            self._config.hook.pytest_jitcheck_report(config=self._config, report=check)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._settings.json is None:
            return
        try:
            document.write(self._settings.json, document.build(self._all(), self._environment, created=datetime.now(UTC)))
        except document.DocumentError as error:
            self._trouble = f"--jitcheck-json: {error}"
            # A gate that reads the document must not take a missing one for a good one.
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = list(
            summary.render(
                self._all(),
                environment=self._environment,
                width=terminalreporter._tw.fullwidth,
                verbose=self._config.get_verbosity() > 0,
                durations=self._settings.durations,
                disabled=self._disabled,
            )
        )
        if self._trouble:
            lines.append(summary.Line(text=self._trouble, markup={"red": True}))
        if lines:
            terminalreporter.section("jitcheck")
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)

    def _all(self) -> Sequence[CheckReport]:
        return list(self._reports.values())
