"""From an exception to a diagnosis: the rule that fits, the arguments to blame, and the fix that was tried."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from pytest_jitcheck.arguments import Bound, Call, signature_of
from pytest_jitcheck.diagnose import binding
from pytest_jitcheck.diagnose.evidence import Blame, Evidence, Input, is_tracer_error
from pytest_jitcheck.diagnose.impurity import kept_tracer
from pytest_jitcheck.diagnose.phrases import listed, names_tuple, static_advice
from pytest_jitcheck.diagnose.rules import Rule, rule_for, says_tracer
from pytest_jitcheck.diagnose.source import function_line
from pytest_jitcheck.diagnose.trial import Budget, StaticFix, as_static, error_when_traced, static_fix, works_split
from pytest_jitcheck.diagnose.verdicts import eager_only, exception_name, location_of
from pytest_jitcheck.report import Diagnosis, Fix, Location
from pytest_jitcheck.spec import SpecError
from pytest_jitcheck.stages import Clock
from pytest_jitcheck.surroundings import Change

__all__ = ["after_tracing", "bad_statics", "explain", "within_a_transform"]

BUDGET_S = 10.0
"""Seconds that the trials of one explanation may take: the last one is begun only if it should fit."""


def explain(evidence: Evidence, clock: Clock = time.perf_counter) -> Diagnosis:
    """Why a stage of the compiled side raised. Never raises, and compiles nothing."""
    budget = Budget(clock=clock, seconds=BUDGET_S)
    try:
        return _with_exception(_explained(evidence, budget), evidence.error)
    except Exception as bug:  # noqa: BLE001  # an explanation that fails must not hide what it was to explain
        return _with_exception(_unexplained(evidence, bug), evidence.error)


def _explained(evidence: Evidence, budget: Budget) -> Diagnosis:
    for rule in binding.RULES:
        if rule.matches(evidence):
            return rule.explain(evidence, budget)
    return _traced(evidence, rule_for(evidence), budget)


def _traced(evidence: Evidence, rule: Rule, budget: Budget) -> Diagnosis:
    """The diagnosis of an exception that was raised while the user's function was traced."""
    blame = evidence.blame(rule.culprits(evidence))
    fix, statics = _fix(evidence, rule, blame, budget)
    if rule.is_guess and not fix.static_argnames and not says_tracer(evidence):
        blame = Blame()
    site = evidence.site
    return Diagnosis(
        kind=rule.kind,
        rule=rule.id,
        message=rule.message(evidence, _narrowed(blame, statics) if rule.is_ambiguous else blame),
        location=site.location if site is not None else location_of(evidence.root, evidence.call),
        origin=_origin(blame, site.location if site is not None else None),
        # Where bystanders were among the culprits, the fix that works tells them apart.
        arguments=statics.names if statics is not None and (rule.is_ambiguous or rule.is_guess) else blame.names,
        fix=fix,
    )


def _blamed(evidence: Evidence) -> tuple[Bound, ...]:
    """The arguments that an error blames, as its own rule sees it."""
    return evidence.blame(rule_for(evidence).culprits(evidence)).arguments


def _narrowed(blame: Blame, statics: StaticFix | None) -> Blame:
    keys = () if statics is None else {argument.key for argument in statics.arguments}
    kept = tuple(item for item in blame.inputs if item.argument.key in keys)
    return Blame(inputs=kept or blame.inputs, staged=blame.staged)


def _origin(blame: Blame, location: Location | None) -> Location | None:
    first = next(iter(blame.staged), None)
    if first is None or (location is not None and (first.path, first.line) == (location.path, location.line)):
        return None
    return first


def _fix(evidence: Evidence, rule: Rule, blame: Blame, budget: Budget) -> tuple[Fix, StaticFix | None]:
    """The best fix that is known, and the static arguments that it names, if those work."""
    allow_float = rule.statics == "structure"
    rewrite = rule.rewrite(evidence, blame)
    if rule.statics != "never" and blame.inputs:
        statics = static_fix(evidence, _blamed, allow_float=allow_float, budget=budget)
        if statics is not None:
            text = static_advice(statics, evidence.call.name, blame.names)
            # Whether the value changes from call to call, the author alone can know.
            other = (
                f"Or, if it changes from call to call, keep it traced: {_lower(rewrite)}"
                if rule.has_other_way
                else None
            )
            return Fix(text=text, verified=True, static_argnames=statics.names, alternative=other), statics
        split = _split_fix(evidence, blame, allow_float=allow_float, budget=budget)
        if split is not None:
            return split, None
    # What this tries is numpy in place of jnp: it says nothing of other advice.
    is_about_tracers = bool(blame.staged) or says_tracer(evidence)
    is_about_numpy = is_about_tracers and not blame.inputs and rule.id in _NUMPY_ADVICE
    if is_about_tracers and not blame.inputs and not is_about_numpy and _works_with_numpy(evidence, budget):
        text = f"{_STAGED_ADVICE} Or {_lower(rewrite)}"
        return Fix(text=_STAGED_ADVICE, verified=True, alternative=text.removeprefix(_STAGED_ADVICE).strip()), None
    return Fix(text=rewrite, verified=is_about_numpy and _works_with_numpy(evidence, budget)), None


_NUMPY_ADVICE = ("shape-from-value", "python-integer", "python-number", "structural-argument", "trace-error")
"""Rules whose own advice is numpy in place of jnp, where no argument is to blame."""
_STAGED_ADVICE = "Compute it with numpy instead of jnp: plain numbers stay plain numbers then, under jit too."


def _split_fix(evidence: Evidence, blame: Blame, *, allow_float: bool, budget: Budget) -> Fix | None:
    """For plain numbers that sit in a container of arrays: make them arguments of their own, which can be static."""
    inside = [item for item in blame.inputs if item.key]
    values = [_leaf(item) for item in inside]
    if len(inside) != len(blame.inputs) or not all(as_static(value, allow_float=allow_float)[0] for value in values):
        return None
    splits: dict[int | str, set[int]] = {}
    for item in inside:
        splits.setdefault(item.argument.key, set()).add(item.number)
    with budget.trial():
        works = works_split(evidence.call, splits)
    names = tuple(dict.fromkeys(item.key if item.key.isidentifier() else item.argument.name for item in inside))
    texts = listed([item.text for item in inside])
    text = (
        f"Pass {texts} as an argument of its own, and declare that static: static_argnames={names_tuple(names)}. The "
        f"container {listed(blame.names)} holds arrays too, so that as a whole it can't be static."
    )
    return Fix(text=text, verified=True, static_argnames=names) if works else None


def _leaf(item: Input) -> Any:
    return jax.tree_util.tree_leaves(item.argument.value)[item.number]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _works_with_numpy(evidence: Evidence, budget: Budget) -> bool:
    """Whether the function traces once JAX operations on plain numbers are computed at once, as numpy would."""
    if not budget.allows_another:
        return False
    statics = {argument.key: argument.value for argument in evidence.call.bound() if argument.static}
    with budget.trial():
        return error_when_traced(evidence.call, statics, concrete_constants=True) is None


def _unexplained(evidence: Evidence, bug: Exception) -> Diagnosis:
    return Diagnosis(
        kind=binding.kind_of(evidence),
        rule="trace-error",
        message=(
            f"{evidence.call.name} fails under jit and works in plain Python. (Explaining it failed too, with "
            f"{type(bug).__name__}: {bug}; please report that to pytest-jitcheck.)"
        ),
        location=location_of(evidence.root, evidence.call),
        fix=Fix(text="See JAX's own message below."),
    )


def _with_exception(diagnosis: Diagnosis, error: Exception) -> Diagnosis:
    return dataclasses.replace(diagnosis, exception=exception_name(error), exception_message=str(error))


def within_a_transform(evidence: Evidence, eager_error: Exception) -> Diagnosis | None:
    """Why the plain function fails too, where it meets a tracer of its own making, or ``None`` where it meets none.

    `jax.lax` loops and branches, `jax.vmap`, `jax.grad` and inner jits trace what they are given in plain Python as well.
    """
    met = dataclasses.replace(evidence, error=eager_error)
    if type(eager_error) is not type(evidence.error) or not (is_tracer_error(eager_error) or says_tracer(met)):
        return None
    diagnosis = explain(evidence)
    prefix = f"{evidence.call.name} fails without jit too, since a JAX transform inside it traces as jit does: this is no jit problem."
    return dataclasses.replace(diagnosis, kind="eager_error", message=f"{prefix} {diagnosis.message}")


def after_tracing(error: Exception, call: Call, changes: Sequence[Change] = ()) -> Diagnosis:
    """Why the plain function fails although it traced.

    Args:
        error: what the plain run raised.
        call: the call.
        changes: what the function changed around itself while it was traced.
    """
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return kept_tracer(error, call, changes)
    return eager_only(error, call)


def bad_statics(error: SpecError, fn: Callable[..., Any]) -> Diagnosis:
    """A static or donated argument that the function does not have."""
    signature = signature_of(fn)
    names = [] if signature is None else list(signature.parameters)
    near = error.nearest or (names[-1] if names else "...")
    return Diagnosis(
        kind="static_argument",
        rule="static-not-there",
        message=str(error),
        exception=exception_name(error),
        location=function_line(fn),
        fix=Fix(
            text=f'Write static_argnames=("{near}",).'
            if error.nearest
            else "Positions are counted from 0, without the self of a bound method. Names are safer, such as "
            f'static_argnames=("{near}",).'
        ),
    )
