"""pytest's hooks and the `jitcheck` fixture. Nothing here imports jax before a check runs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_jitcheck import hookspec, items, mark
from pytest_jitcheck.collector import Collector
from pytest_jitcheck.items import JitCheck
from pytest_jitcheck.options import Settings, add_options, explained

__all__: list[str] = []

# --- start-up ----------------------------------------------------------------------------------------------------------


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspec)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    return explained(config)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", mark.HELP)
    settings = config.stash[items.SETTINGS] = Settings.from_config(config)
    if hasattr(config, "workerinput"):
        return
    if settings.json is not None:
        from pytest_jitcheck import document

        try:
            document.check_writable(settings.json)
        except document.DocumentError as error:
            raise pytest.UsageError(f"{settings.json_source}: {error}") from None
    config.pluginmanager.register(Collector(config, settings), "jitcheck-collector")


# --- collection --------------------------------------------------------------------------------------------------------


def pytest_itemcollected(item: pytest.Item) -> None:
    # A test that asks for the fixture is one of ours: `-m jitcheck` selects it.
    if isinstance(item, pytest.Function) and "jitcheck" in item.fixturenames:
        items.mark_by_fixture(item)


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
    # For plugins that run a test again, such as pytest-rerunfailures.
    items.forget(item)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    __tracebackhide__ = True
    if not items.is_checked_itself(pyfuncitem):
        return None
    items.check_body(pyfuncitem)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    __tracebackhide__ = True
    if not items.is_ours(item):
        return (yield)
    with items.one_report_for_all_examples(item):
        returned = yield
    items.require_a_check(item)
    return returned


@pytest.fixture
def jitcheck(request: pytest.FixtureRequest) -> JitCheck:
    """Check other functions inside a test: ``out = jitcheck(fn)(x, y)`` runs fn(x, y) eagerly and under jax.jit, fails the
    test if the results differ, and returns the eager output for ordinary asserts. Options come before the call and are
    those of the jitcheck marker (pytest --markers): ``jitcheck(fn, static_argnames="n", rtol=1e-5)(x, n=3)``.
    """  # noqa: D205, D402  # pytest --fixtures shows the first paragraph: it has to be the whole story
    item: pytest.Function = request.node
    # Known already, unless it comes from request.getfixturevalue.
    items.mark_by_fixture(item)
    return JitCheck(item)


# --- reporting ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if items.is_ours(item):
        from pytest_jitcheck import reporting

        reporting.attach(item, call, report)
    return report
