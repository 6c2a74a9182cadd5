"""One check: trace, run eagerly, lower, compile, run, compare, and report."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pytest_jitcheck import compat, diagnose
from pytest_jitcheck.arguments import Call, function_name, leaves_of
from pytest_jitcheck.causes import Difference, likely_cause
from pytest_jitcheck.compare import Tolerance, compare, lowest_precision, same_bits
from pytest_jitcheck.judge import against_float64
from pytest_jitcheck.leaves import ready
from pytest_jitcheck.report import CheckReport, Device, Diagnosis, Mismatch, Note, Outcome, Stage, Timings
from pytest_jitcheck.spec import CheckSpec, SpecError, Timing, Trust
from pytest_jitcheck.stages import Clock, StageError, Staging, steady, warm_up
from pytest_jitcheck.surroundings import Surroundings
from pytest_jitcheck.trust import Subject, failure_of, notes_on

__all__ = ["CheckResult", "Seams", "check", "environment", "run_check"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """What a check leaves in the process: the report, the eager output and the exception, if there was one."""

    report: CheckReport
    output: Any = None
    """What the plain Python function returned."""
    error: Exception | None = None
    """What the user's function or JAX raised, as it was raised."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seams:
    """What a caller may replace: the clock, and the two judges that plugins can add to."""

    clock: Clock = time.perf_counter
    compare: Callable[[Any, Any, CheckSpec], tuple[Mismatch, ...] | None] = lambda eager, compiled, spec: None
    """Mismatches of a whole result, or ``None`` to leave the comparison to us."""
    diagnose: Callable[[Exception, Diagnosis], Diagnosis | None] = lambda error, diagnosis: None
    """A better explanation of an exception than ours, or ``None``."""


def check(fn: Callable[..., Any], **options: Any) -> Callable[..., CheckReport]:
    """A function that checks one call of `fn` and returns the report; a failed check is reported, never raised.

    Args:
        fn: the function to check, plain or already jitted.
        options: the keywords of `CheckSpec`, named as `jax.jit` and `numpy.testing.assert_allclose` name them.

    Raises:
        SpecError: for an unknown keyword, a wrong type or a value out of range.
    """
    spec = CheckSpec.from_keywords(options)
    return lambda *args, **kwargs: run_check(fn, spec, args, kwargs).report


def run_check(
    fn: Callable[..., Any],
    spec: CheckSpec,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    seams: Seams | None = None,
) -> CheckResult:
    """Check one call. What the function raises is reported; what ends a test or the run, such as a skip, goes through."""
    try:
        call, spec = Call.bind(fn, spec, args, kwargs)
    except SpecError as error:
        report = CheckReport(
            name=function_name(fn), outcome="failed", stage="trace", failure=diagnose.bad_statics(error, fn)
        )
        return CheckResult(report=report, error=error)
    return _Check(call=call, spec=spec, seams=seams or Seams()).run()


_MOST = 0.9
"""Share of the equations that the user's own jitted functions must hold for the reference to run without them."""
_LONGEST_PYTHON_LOOP = 100
"""Steps up to which a loop is run in Python, as `jax.disable_jit` does, for the sake of the reference."""


@dataclass(kw_only=True, slots=True)
class _Check:
    """One check under way: what each step found, until `_result` sums it up."""

    call: Call
    spec: CheckSpec
    seams: Seams
    staging: Staging = field(init=False)
    notes: list[Note] = field(default_factory=list)
    eager_output: Any = None
    eager_error: Exception | None = None
    eager_first_s: float | None = None
    before: Surroundings = field(init=False)
    is_judged_elsewhere: bool = False
    """Whether a plugin compared the results: its word is final."""
    without_jits: bool = False
    """Whether the reference is made under `jax.disable_jit`, since the function only calls one that is jitted already."""

    def __post_init__(self) -> None:
        self.before = Surroundings() if self.trust == "off" else Surroundings.of(self.call.fn)
        self.staging = Staging(call=self.call.copied(), spec=self.spec, clock=self.seams.clock)

    @property
    def timing(self) -> Timing:
        return self.spec.timing or "quick"

    @property
    def trust(self) -> Trust:
        return self.spec.trust or "standard"

    def run(self) -> CheckResult:
        if self.timing != "off":
            warm_up()
        before = compat.configuration()
        try:
            return self._run(before)
        finally:
            # Later runs, for trust and for times, change it again.
            compat.restore_configuration(before)

    def _run(self, before: Mapping[str, Any]) -> CheckResult:
        stopped = _stop_of(self.staging.trace)
        self._restore(before)
        self._choose_reference()
        # Traced first: a function that keeps a tracer for later, in a cache or in a global, shows it here.
        written = self._run_eagerly()
        self._restore(before)
        if stopped is None and (self.eager_error is None or self.staging.traced is None):
            stopped = _stop_of(self.staging.lower, self.staging.compile, self.staging.first_run)
        self.notes.extend(self.staging.notes)
        if stopped is not None:
            return self._stopped(stopped)
        if self.eager_error is not None:
            return self._failed(
                diagnose.after_tracing(self.eager_error, self.call, self.before.changes(self.call.fn)),
                "eager",
                error=self.eager_error,
            )
        return self._judged(self.staging.output, written)

    def _restore(self, before: Mapping[str, Any]) -> None:
        """Set JAX's settings back, and note which ones the function changed."""
        for name, value in compat.restore_configuration(before).items():
            text = f"The function sets {name} to {value!r}, for all code that runs after it: it was set back to {before[name]!r}."
            if all(note.text != text for note in self.notes):
                self.notes.append(Note(rule="changed-setting", text=text))

    def _judged(self, compiled_output: Any, written: list[str]) -> CheckResult:
        if self.spec.raises is not None:
            return self._failed(diagnose.did_not_raise(_names(self.spec.raises), self.call), "run")
        caught = diagnose.swallowed(self.staging.tracer_errors, self.call) if self.trust != "off" else None
        mismatches = self._compare(compiled_output)
        if caught is not None and (mismatches or caught.is_broad):
            return self._failed(caught.diagnosis(self.call), "trace", mismatches=mismatches)
        if caught is not None:
            self.notes.append(Note(rule="swallowed-tracer-error", text=caught.diagnosis(self.call).message))
        if mismatches and (failure := self._disagreement(mismatches, compiled_output)) is not None:
            # Of a function that differs from itself, a tolerance that would pass says nothing.
            shown = () if failure.kind == "nondeterministic" else mismatches
            return self._failed(failure, "compare", mismatches=shown)
        if written:
            return self._failed(diagnose.writes(written, self.call), "eager")
        if (vacuous := self._vacuous()) is not None:
            return self._failed(vacuous, "compare")
        subject = Subject(
            call=self.call,
            staging=self.staging,
            eager=self.eager_output,
            tolerance=self.tolerance,
            before=self.before,
            eager_run=self._run_plain,
        )
        untrusted = failure_of(subject, self.trust)
        self.notes.extend(notes_on(subject, self.trust))
        return self._result("passed") if untrusted is None else self._failed(untrusted, "compare")

    def _disagreement(self, mismatches: tuple[Mismatch, ...], compiled_output: Any) -> Diagnosis | None:
        """Why the results differ, or ``None`` where compiled is no worse than eager."""
        if self.trust == "off" or self.is_judged_elsewhere:
            return diagnose.mismatch(mismatches, self.call)
        if not self._is_repeatable():
            return diagnose.nondeterministic(self.call, changes=self.before.changes(self.call.fn))
        verdict = against_float64(
            self.call, self.eager_output, compiled_output, mismatches, self.tolerance, self._run_plain
        )
        is_strict = self.spec.strict_allclose or not self.tolerance.equal_nan
        if verdict.is_acquitted and not is_strict:
            text = f"The results differ by more than the tolerance, but compiled is no worse than eager. {verdict.text}"
            self.notes.append(Note(rule="no-worse-than-eager", text=text))
            return None
        if not is_strict and self._is_rounding_inside(compiled_output):
            text = (
                "The results differ by more than the precision of the inputs allows, and by less than that of what the "
                "function computes on its way, which is lower. Operation by operation the traced program gives the eager result."
            )
            self.notes.append(Note(rule="lower-precision-inside", text=text))
            return None
        is_about_values = all(mismatch.kind == "value" for mismatch in mismatches)
        traced = self.staging.traced if is_about_values else None
        difference = Difference(
            call=self.call,
            eager=self.eager_output,
            compiled=compiled_output,
            traced=traced,
            tolerance=self.tolerance,
            run=self._run_plain,
        )
        cause = likely_cause(difference)
        return diagnose.mismatch(mismatches, self.call, cause, "" if is_strict else verdict.text)

    def _is_rounding_inside(self, compiled_output: Any) -> bool:
        """Whether a step in lower precision than the inputs explains the difference, and the trace means what eager means."""
        traced = self.staging.traced
        if traced is None or self.spec.rtol is not None:
            return False
        lowest = lowest_precision([*compat.dtypes_inside(traced), *self._dtypes_that_went_in()])
        coarser = dataclasses.replace(self.tolerance, precision=lowest)
        if lowest == self.tolerance.precision or compare(self.eager_output, compiled_output, coarser):
            return False
        flat = [jax.numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves(self.call.dynamic())]
        one_by_one = compat.run_program(traced, flat)
        return not compare(jax.tree_util.tree_leaves(self.eager_output), one_by_one, self.tolerance)

    def _is_repeatable(self) -> bool:
        try:
            return same_bits(self.eager_output, ready(self._run_plain(self.call.copied())))
        except Exception:  # noqa: BLE001  # it worked a moment ago: that is a difference too
            return False

    def _choose_reference(self) -> None:
        """Compare with a run without the user's own jit, where the function only calls something that is jitted."""
        traced = self.staging.traced
        if traced is None or self.trust == "off":
            return
        ownership = diagnose.Ownership.of(self.call.fn)
        jitted = [one for one in compat.jitted_inside(traced) if ownership.is_users(one[1])]
        if sum(share for _, _, share in jitted) < _MOST:
            return
        names = " and ".join(dict.fromkeys(name for name, _, _ in jitted))
        self.without_jits = compat.longest_loop(traced) <= _LONGEST_PYTHON_LOOP
        text = (
            f"The function calls {names}, which is jitted already: the eager result was made under jax.disable_jit()."
            if self.without_jits
            else f"The function calls {names}, which is jitted already and has a long loop: the eager result was made with that "
            "jit, so that the two were hardly compared. Check the function without its own jit."
        )
        self.notes.append(Note(rule="jitted-reference", text=text))

    def _run_plain(self, call: Call) -> Any:
        with jax.disable_jit() if self.without_jits else contextlib.nullcontext():
            return call.run()

    def _run_eagerly(self) -> list[str]:
        """Run the plain function on its own copies, and give the names of the arguments that it wrote into."""
        call = self.call.copied()
        started = self.seams.clock()
        try:
            self.eager_output = self._run_plain(call)
            # What JAX can't flatten, such as a dict with keys that have no order, it can't wait for; tracing says so.
            with contextlib.suppress(ValueError):
                ready(self.eager_output)
        except Exception as error:  # noqa: BLE001  # whatever the user's function raises is part of the verdict
            self.eager_error = error
        self.eager_first_s = self.seams.clock() - started
        pairs = zip(call.bound(), self.call.bound(), strict=True)
        return [ours.name for ours, theirs in pairs if _was_written(ours.value, theirs.value)]

    def _stopped(self, failed: StageError) -> CheckResult:
        """The result of a check whose compiled side raised."""
        evidence = diagnose.Evidence(error=failed.error, stage=failed.stage, call=self.call, spec=self.spec)
        if self.eager_error is not None:
            inside = diagnose.within_a_transform(evidence, self.eager_error)
            diagnosis = inside or diagnose.eager_error(self.eager_error, self.call)
            return self._failed(diagnosis, "eager", error=self.eager_error)
        if self.spec.raises is not None and isinstance(failed.error, self.spec.raises):
            text = f"jit fails with {type(failed.error).__name__}, as raises= declares."
            self.notes.append(Note(rule="declared-failure", text=text))
            return self._result("passed")
        diagnosis = diagnose.explain(evidence)
        diagnosis = self.seams.diagnose(failed.error, diagnosis) or diagnosis
        return self._failed(diagnosis, failed.stage, error=failed.error)

    def _compare(self, compiled_output: Any) -> tuple[Mismatch, ...]:
        found = self.seams.compare(self.eager_output, compiled_output, self.spec)
        if found is not None:
            self.is_judged_elsewhere = True
            return found
        traced = self.staging.traced
        return compare(
            self.eager_output,
            compiled_output,
            self.tolerance,
            check_dtype=self.spec.check_dtype is not False,
            check_weak_type=self.spec.check_weak_type is True,
            depends=None if traced is None else compat.dependent_outputs(traced),
        )

    def _dtypes_that_went_in(self) -> list[Any]:
        traced = self.staging.traced
        held = () if traced is None else compat.constants(traced)
        leaves = (*jax.tree_util.tree_leaves(self.call.dynamic()), *held)
        return [leaf.dtype for leaf in leaves if hasattr(leaf, "dtype")]

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(
            rtol=self.spec.rtol,
            atol=self.spec.atol,
            equal_nan=self.spec.equal_nan is not False,
            precision=lowest_precision(self._dtypes_that_went_in()),
        )

    def _vacuous(self) -> Diagnosis | None:
        if self.spec.constant:
            return None
        if not jax.tree_util.tree_leaves(self.eager_output):
            return diagnose.nothing_returned(self.call)
        traced = self.staging.traced
        if traced is None or any(compat.dependent_outputs(traced)):
            return None
        if not jax.tree_util.tree_leaves(self.call.dynamic()):
            self.notes.append(
                Note(rule="no-traced-argument", text="The call has no traced argument: one input was compared.")
            )
            return None
        return diagnose.unused_arguments(self.call)

    def _failed(
        self,
        failure: Diagnosis,
        stage: Stage,
        *,
        mismatches: tuple[Mismatch, ...] = (),
        error: Exception | None = None,
    ) -> CheckResult:
        return self._result("failed", failure=failure, stage=stage, mismatches=mismatches, error=error)

    def _result(
        self,
        outcome: Outcome,
        *,
        failure: Diagnosis | None = None,
        stage: Stage | None = None,
        mismatches: tuple[Mismatch, ...] = (),
        error: Exception | None = None,
    ) -> CheckResult:
        report = CheckReport(
            name=self.call.name,
            outcome=outcome,
            stage=stage,
            device=current_device(),
            x64=compat.x64_is_on(),
            arguments=self.call.describe(),
            failure=failure,
            mismatches=mismatches,
            # Timings first: they may add a note.
            timings=self._timings(),
            notes=tuple(self.notes),
            counts=self.staging.counts(),
            cost=self.staging.cost(),
        )
        return CheckResult(report=report, output=self.eager_output, error=error)

    def _timings(self) -> Timings:
        timings = dataclasses.replace(self.staging.timings(), eager_first_s=self.eager_first_s)
        if self.timing == "off" or self.eager_error is not None or timings.first_run_s is None:
            return timings
        call, run_compiled = self.call.copied(), self.staging.runner()
        run_eagerly = functools.partial(self._run_plain, call)
        make_compiled = self.staging.runner if self.staging.donates else lambda: run_compiled
        try:
            eager = steady(lambda: run_eagerly, self.timing, self.spec.rounds, self.seams.clock)
            compiled = steady(make_compiled, self.timing, self.spec.rounds, self.seams.clock)
        except Exception as error:  # noqa: BLE001  # the verdict stands; that a later call raises is worth a note
            text = f"Not timed: called again with the same arguments, it raised {type(error).__name__}: {error}"
            self.notes.append(Note(rule="not-timed", text=text))
            return timings
        return dataclasses.replace(
            timings,
            eager_s=eager.median_s,
            run_s=compiled.median_s,
            run_iqr_s=compiled.iqr_s,
            rounds=len(compiled.seconds),
        )


def _stop_of(*stages: Callable[[], None]) -> StageError | None:
    """Where the stages stopped, or ``None`` when all of them went through."""
    try:
        for stage in stages:
            stage()
    except StageError as failed:
        return failed
    return None


def current_device() -> Device:
    """The device on which arrays without a place of their own are made."""
    chosen = jax.config.jax_default_device
    device = chosen if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)[0]
    return Device(platform=device.platform, id=device.id, kind=device.device_kind)


def _was_written(after: Any, before: Any) -> bool:
    pairs = zip(leaves_of(after), leaves_of(before), strict=False)
    arrays = ((one, other) for one, other in pairs if isinstance(one, np.ndarray) and isinstance(other, np.ndarray))
    return any(one.tobytes() != other.tobytes() for one, other in arrays)


def _names(exceptions: type[BaseException] | tuple[type[BaseException], ...]) -> str:
    classes = exceptions if isinstance(exceptions, tuple) else (exceptions,)
    return " or ".join(cls.__name__ for cls in classes)


@functools.cache
def _fixed_environment() -> dict[str, Any]:
    return {
        "pytest_jitcheck": _version_of("pytest-jitcheck"),
        "jax": jax.__version__,
        "jaxlib": _version_of("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "commit": _commit(),
    }


def environment() -> dict[str, Any]:
    """Versions, machine and devices of this process, as the document records them."""
    devices = [{"platform": one.platform, "id": one.id, "kind": one.device_kind} for one in jax.local_devices()]
    return {**_fixed_environment(), "devices": devices, "x64": compat.x64_is_on()}


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return None


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """The commit that is checked out here, if git knows one."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)  # noqa: S607  # whichever git the user has
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
