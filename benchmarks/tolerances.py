"""Measures how far sound functions differ, eager against compiled: where the default tolerances come from.

    python benchmarks/tolerances.py                        # every dtype, one process each: about half an hour
    python benchmarks/tolerances.py --every 4              # a quarter of the cases: about eight minutes
    python benchmarks/tolerances.py --dtypes float32       # one dtype
    python benchmarks/tolerances.py --filter softmax -v    # a few functions, a line each

Each case of `tolerance_cases.py` runs on several draws of its arguments, as it stands and under `jax.jit`. For every leaf the
script computes the smallest rtol that would pass under each of `RULES`, and prints the distribution and the cases beyond
the defaults. A case beyond them runs twice more: in float64, to see how wrong the eager result itself is, and with its
arguments moved by a unit in the last place, to see how much such rounding changes it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Floor = Callable[[np.ndarray], float]

RTOL: dict[str, float] = {
    "float8_e5m2": 5e-1,
    "float8_e4m3fn": 2.5e-1,
    "bfloat16": 5e-2,
    "float16": 5e-3,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float64": 1e-12,
    "complex128": 1e-12,
}
"""The defaults under test, lowest precision first."""

RULES: dict[str, Floor] = {
    "no floor": lambda size: 0.0,
    "max/100": lambda size: 0.01 * _largest(size),
    "max/10": lambda size: 0.1 * _largest(size),
    "max": lambda size: _largest(size),
    "rms/10": lambda size: 0.1 * _rms(size),
    "rms": lambda size: _rms(size),
}
"""Name to floor: a leaf passes if |eager - compiled| <= r * (|eager| + floor(|eager|)) in every element."""

DEFAULT_RULE = "max/10"
DEFAULT_DTYPES = ("float32", "bfloat16", "float16", "complex64", "float64", "float8_e4m3fn")
ACQUITTAL = 3.0
"""A difference is rounding if compiled is at most so many times as far from float64 as eager: torch's rule for its compiler."""
COMPLEX = {"float32": "complex64", "float64": "complex128"}
FACTORS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
"""Candidate tolerances, in units of the dtype's machine epsilon."""


def _largest(size: np.ndarray) -> float:
    return float(size.max(initial=0.0))


def _rms(size: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(size)))) if size.size else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How far two results of one function are apart, in the worst leaf and element."""

    passing: dict[str, float]
    """For each rule the smallest rtol that passes."""
    discrete: int = 0
    """Integer and bool elements that differ."""
    misplaced: int = 0
    """Elements that are NaN or infinite on one side only."""

    def worse(self, other: Difference) -> Difference:
        """The worse of both under every rule."""
        return Difference(
            passing={rule: max(self.passing[rule], other.passing[rule]) for rule in RULES},
            discrete=max(self.discrete, other.discrete),
            misplaced=max(self.misplaced, other.misplaced),
        )

    @property
    def bitwise(self) -> bool:
        """Whether nothing differs."""
        return not (self.discrete or self.misplaced or any(self.passing.values()))


NOTHING = Difference(passing=dict.fromkeys(RULES, 0.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What one case gave in one dtype."""

    name: str
    dtype: str
    """The dtype of its arguments."""
    graded: str
    """The dtype of lowest precision among arguments, intermediate values and results: its tolerance applies."""
    went_in: str
    """The same among arguments and results only."""
    difference: Difference
    blind: dict[str, float]
    """For each rule the share of nonzero elements that could be zeroed unnoticed at the default rtol."""
    seconds: float
    reference: tuple[float, float] | None = None
    """Root mean square error against float64, of eager and of compiled, in a case beyond the default: the worst leaf's."""
    moved: float | None = None
    """Smallest passing rtol of eager against eager with arguments moved by a unit in the last place (of `graded`)."""

    @property
    def beyond(self) -> bool:
        """Whether the defaults would fail it."""
        apart = self.difference
        return bool(apart.passing[DEFAULT_RULE] > RTOL[self.graded] or apart.discrete or apart.misplaced)

    @property
    def is_acquitted(self) -> bool:
        """Whether a float64 reference shows that compiling is not what makes the difference."""
        return self.reference is not None and self.reference[1] <= ACQUITTAL * self.reference[0]

    @property
    def is_ill_conditioned(self) -> bool:
        """Whether rounding of the arguments alone changes the eager result about as much as compiling does."""
        return self.moved is not None and self.moved >= self.difference.passing[DEFAULT_RULE] / 4

    @property
    def cause(self) -> str:
        """In one phrase, where a difference beyond the default comes from."""
        from tolerance_cases import REASONS

        if known := next((why for start, why in REASONS.items() if self.name.startswith(start)), None):
            return known
        if self.difference.discrete:
            return "a near tie"
        if self.difference.misplaced:
            return "NaN or infinity on one side"
        if self.is_acquitted:
            return "rounding: compiled is no farther from float64 than eager"
        if self.is_ill_conditioned:
            return "ill-conditioned: an ulp of the arguments moves it as far"
        return "not explained"


# -- comparing -----------------------------------------------------------------------------------------------------------------


def leaf_difference(eager: Any, compiled: Any) -> Difference:
    """The difference of one leaf."""
    e, c = np.asarray(eager), np.asarray(compiled)
    if e.dtype.kind in "biu":
        return dataclasses.replace(NOTHING, discrete=int(np.sum(e != c)))
    wide = np.complex128 if e.dtype.kind == "c" else np.float64
    e, c = e.astype(wide), c.astype(wide)
    same = (e == c) | (np.isnan(e) & np.isnan(c))
    finite = np.isfinite(e) & np.isfinite(c)
    size, error = np.abs(e[finite]), np.abs(e[finite] - c[finite])
    return Difference(
        passing={rule: smallest_rtol(error, size, floor(size)) for rule, floor in RULES.items()},
        misplaced=int(np.sum(~finite & ~same)),
    )


def smallest_rtol(error: np.ndarray, size: np.ndarray, floor: float) -> float:
    """The smallest r with error <= r * (size + floor) everywhere; infinity where an exact zero is missed and there is no floor."""
    wrong = error > 0
    with np.errstate(divide="ignore"):
        return _largest(error[wrong] / (size[wrong] + floor))


def tree_difference(eager: Any, compiled: Any) -> Difference:
    """The worst difference over all leaves."""
    import jax

    worst = NOTHING
    for e, c in zip(jax.tree.leaves(eager), jax.tree.leaves(compiled), strict=True):
        worst = worst.worse(leaf_difference(key_data(e), key_data(c)))
    return worst


def key_data(leaf: Any) -> Any:
    """The bits of a PRNG key, and anything else as it is."""
    import jax

    is_key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def blind_shares(results: Any, rtol: float) -> dict[str, float]:
    """For each rule the share of nonzero float elements so small that zero in their place would pass."""
    import jax
    import jax.numpy as jnp

    leaves = [leaf for leaf in jax.tree.leaves(results) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)]
    unseen, total = dict.fromkeys(RULES, 0), 0
    for leaf in leaves:
        array = np.asarray(leaf)
        size = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
        size = size[np.isfinite(size) & (size > 0)]
        total += size.size
        for rule, floor in RULES.items():
            unseen[rule] += int(np.sum(size <= rtol * (size + floor(size))))
    return {rule: count / max(total, 1) for rule, count in unseen.items()}


# -- precision -----------------------------------------------------------------------------------------------------------------


def lowest_precision(dtypes: Iterable[Any], default: str) -> str:
    """The name of the inexact dtype with the largest epsilon."""
    import jax.numpy as jnp

    inexact = {np.dtype(d).name for d in dtypes if jnp.issubdtype(d, jnp.inexact)}
    return max(inexact, key=lambda name: float(jnp.finfo(name).eps), default=default)


def dtypes_inside(jaxpr: Any) -> Iterator[Any]:
    """The dtypes of every value that a jaxpr computes, nested jaxprs included."""
    for equation in jaxpr.eqns:
        yield from (v.aval.dtype for v in equation.outvars if hasattr(v.aval, "dtype"))
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                if hasattr(inner := getattr(inner, "jaxpr", inner), "eqns"):
                    yield from dtypes_inside(inner)


# -- measuring -----------------------------------------------------------------------------------------------------------------


def measure(case: Any, dtype: str, draws: int) -> Record:
    """Runs a case on `draws` sets of arguments, eager and compiled; raises what the function raises."""
    import jax
    from tolerance_cases import Data

    start = time.perf_counter()
    compiled_fn = jax.jit(lambda *args: case.fn(*args))
    runs = []
    for seed in range(draws):
        args = case.arguments(Data(dtype, seed))
        pair = case.fn(*args), compiled_fn(*args)
        runs.append((tree_difference(*pair), args, pair))
    _, worst_args, worst_pair = max(runs, key=lambda run: run[0].passing[DEFAULT_RULE])
    worst = functools.reduce(Difference.worse, (run[0] for run in runs))
    ends = [leaf.dtype for leaf in jax.tree.leaves((worst_args, worst_pair[0])) if hasattr(leaf, "dtype")]
    jaxpr = jax.make_jaxpr(lambda *args: case.fn(*args))(*worst_args)
    graded = lowest_precision([*ends, *dtypes_inside(jaxpr.jaxpr)], dtype)
    record = Record(
        name=case.name,
        dtype=dtype,
        went_in=lowest_precision(ends, dtype),
        graded=graded,
        difference=worst,
        blind=blind_shares(worst_pair[0], RTOL[graded]),
        seconds=time.perf_counter() - start,
    )
    return explain(record, case, worst_args, worst_pair) if record.beyond else record


def explain(record: Record, case: Any, args: Any, pair: tuple[Any, Any]) -> Record:
    """The record with how far both results are from float64, and how far rounding of the arguments moves the eager one."""
    moved = tree_difference(pair[0], case.fn(*moved_by_an_ulp(args, record.graded))).passing[DEFAULT_RULE]
    if record.dtype == "float64":
        return dataclasses.replace(record, moved=moved)
    with enable_x64():
        exact = case.fn(*in_float64(args))
        return dataclasses.replace(record, moved=moved, reference=reference_errors(exact, pair, RTOL[record.graded]))


def reference_errors(exact: Any, pair: tuple[Any, Any], rtol: float) -> tuple[float, float]:
    """Root mean square errors of eager and compiled, in that leaf beyond `rtol` where compiled does worst against eager."""
    import jax

    errors = [(0.0, 0.0)]
    for wide, eager, compiled in zip(*(jax.tree.leaves(result) for result in (exact, *pair)), strict=True):
        if leaf_difference(eager, compiled).passing[DEFAULT_RULE] > rtol:
            errors.append((rms_error(wide, eager), rms_error(wide, compiled)))
    return max(errors, key=lambda error: error[1] / (error[0] or 1e-300))


def rms_error(exact: Any, result: Any) -> float:
    """The root mean square of a result's error, over that of the exact result unless it is zero."""
    wide, array = (np.asarray(a).astype(np.complex128) for a in (exact, result))
    finite = np.isfinite(wide) & np.isfinite(array)
    return _rms(np.abs(wide - array)[finite]) / (_rms(np.abs(wide[finite])) or 1.0)


def enable_x64() -> contextlib.AbstractContextManager[Any]:
    """64-bit types inside the block, on any version of JAX."""
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)  # noqa: FBT003  # its signature
    from jax.experimental import enable_x64

    return enable_x64()


def map_inexact(fn: Callable[[np.ndarray], np.ndarray], args: Any) -> Any:
    """`args` with `fn` applied to every float or complex array."""
    import jax
    import jax.numpy as jnp

    def convert(leaf: Any) -> Any:
        return jnp.asarray(fn(np.asarray(leaf))) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf

    return jax.tree.map(convert, args)


def in_float64(args: Any) -> Any:
    """`args` in double precision."""
    return map_inexact(lambda a: a.astype(np.complex128 if a.dtype.kind == "c" else np.float64), args)


def moved_by_an_ulp(args: Any, dtype: str) -> Any:
    """`args` with each element multiplied by 1 - eps, 1 or 1 + eps of a dtype, at random."""
    import jax.numpy as jnp

    rng, eps = np.random.default_rng(0), float(jnp.finfo(dtype).eps)

    def move(a: np.ndarray) -> np.ndarray:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        return (a.astype(wide) * (1 + eps * rng.integers(-1, 2, a.shape))).astype(a.dtype)

    return map_inexact(move, args)


def wanted_cases(dtype: str, wanted: str, every: int) -> Iterator[Any]:
    """The cases to measure in a dtype."""
    from tolerance_cases import FLOAT8, cases

    names = FLOAT8 if dtype.startswith("float8") else ("",)
    chosen = (case for case in cases() if wanted in case.name and case.name.startswith(names))
    yield from itertools.islice(chosen, 0, None, every)


def work(dtype: str, draws: int, wanted: str, every: int) -> dict[str, Any]:
    """Measures every case in one dtype, in this process."""
    warnings.simplefilter("ignore")
    import jax

    records, unsupported = [], {}
    for case in wanted_cases(dtype, wanted, every):
        try:
            records.append(dataclasses.asdict(measure(case, dtype, draws)))
        except Exception as error:
            unsupported[case.name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
    return {"dtype": dtype, "jax": jax.__version__, "records": records, "unsupported": unsupported}


def measure_apart(dtype: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measures every case in one dtype in a process of its own: 64-bit types are a matter of the whole process."""
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_ENABLE_X64": str(int(dtype in ("float64", "complex128")))}
    command = [
        sys.executable,
        __file__,
        "--worker",
        dtype,
        f"--draws={args.draws}",
        f"--filter={args.filter}",
        f"--every={args.every}",
    ]
    finished = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(finished.stdout)


# -- reporting -----------------------------------------------------------------------------------------------------------------


def parse_record(fields: dict[str, Any]) -> Record:
    """A record out of JSON."""
    return Record(**{**fields, "difference": Difference(**fields["difference"])})


def report(result: dict[str, Any], *, verbose: bool) -> Iterator[str]:
    """The lines for one dtype."""
    dtype = result["dtype"]
    records = [parse_record(fields) for fields in result["records"]]
    own = {dtype, COMPLEX.get(dtype, dtype)}
    alike = [record for record in records if record.graded in own]
    yield f"## {dtype} (jax {result['jax']}, python {platform.python_version()})"
    yield (
        f"{len(records)} cases, {len(result['unsupported'])} not supported; "
        f"{sum(r.difference.bitwise for r in records)} bitwise equal; {sum(r.seconds for r in records):.0f} s"
    )
    yield from distribution(alike, dtype) if alike else ()
    yield from lower_inside(records)
    yield from (f"not supported: {name}: {why}" for name, why in result["unsupported"].items() if verbose)
    yield f"beyond rtol={RTOL[dtype]:g} with floor {DEFAULT_RULE}: passing rtol; rms error of eager, compiled; after an ulp; cause"
    yield from (beyond_line(record) for record in sorted(records, key=_passing, reverse=True) if record.beyond)
    beyond = [record for record in records if record.beyond]
    acquitted = sum(record.is_acquitted for record in beyond)
    others = sum(record.is_ill_conditioned and not record.is_acquitted for record in beyond)
    yield f"{len(beyond)} beyond: {acquitted} acquitted by float64, {others} more moved as far by an ulp of the arguments"
    if verbose:
        yield from (beyond_line(record) for record in records if not record.beyond)


def _passing(record: Record) -> float:
    return record.difference.passing[DEFAULT_RULE]


def distribution(records: Sequence[Record], dtype: str) -> Iterator[str]:
    """For each rule: quantiles of the passing rtol, and how many cases each multiple of epsilon would fail."""
    import ml_dtypes

    eps = float(ml_dtypes.finfo(np.dtype(dtype)).eps)
    yield f"eps = {eps:.3g}; blind: share of elements under the floor at the default; cases beyond a multiple of eps:"
    yield (
        f"{'rule':10}"
        + "".join(f"{q:>9}" for q in ("p50", "p90", "p95", "p98", "max", "blind"))
        + "".join(f"{f:>7}" for f in FACTORS)
    )
    for rule in RULES:
        sizes = np.array([record.difference.passing[rule] for record in records])
        quantiles = np.quantile(sizes, [0.5, 0.9, 0.95, 0.98, 1.0], method="lower")
        counts = [int(np.sum(sizes > factor * eps)) for factor in FACTORS]
        blind = np.mean([record.blind[rule] for record in records])
        yield f"{rule:10}" + "".join(f"{q:9.2g}" for q in (*quantiles, blind)) + "".join(f"{n:7}" for n in counts)


def lower_inside(records: Sequence[Record]) -> Iterator[str]:
    """The cases that compute in a lower precision than the dtype under measurement."""
    for record in records:
        if record.graded not in (record.dtype, COMPLEX.get(record.dtype)):
            where = "inside only" if record.graded != record.went_in else "in arguments or results"
            yield f"lower precision {record.graded} {where}: {record.name}: {_passing(record):.2g}"


def beyond_line(record: Record) -> str:
    """One case, with what explains it."""
    reference = "" if record.reference is None else "{:.2g}, {:.2g}".format(*record.reference)
    moved = "" if record.moved is None else f"{record.moved:.2g}"
    counts = f"{record.difference.discrete}/{record.difference.misplaced}"
    cause = record.cause if record.beyond else ""
    return f"  {record.name:58} {_passing(record):8.2g} {reference:>17} {moved:>8} {counts:>5}  {cause}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", default=DEFAULT_DTYPES, choices=RTOL)
    parser.add_argument("--draws", type=int, default=4, help="sets of arguments a case")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line a case, and why a case is not supported")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        print(json.dumps(work(args.worker, args.draws, args.filter, args.every)))
        return
    results = []
    for dtype in args.dtypes:
        results.append(measure_apart(dtype, args))
        print(*report(results[-1], verbose=args.verbose), "", sep="\n", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
