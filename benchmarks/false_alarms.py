"""Checks several hundred sound functions with the defaults, and names each that does not pass.

    python benchmarks/false_alarms.py [DTYPE ...]

The functions are those of `tolerance_cases.py`: public ones of JAX, optax, flax and equinox, and what users build of them. A
check that fails is a false alarm, unless the function really is another one under jit: `TRULY_DIFFERENT` names those, each
with its reason. Every dtype runs in a process of its own, since 64-bit types are a setting of the process.
"""

from __future__ import annotations

import collections
import subprocess
import sys
import time
import warnings

DTYPES = ("float32", "bfloat16", "float64")

TRULY_DIFFERENT = {
    "jnp.imag [real]": "the imaginary part of real numbers is a constant: nothing of the argument goes into it",
}


def main(dtypes: list[str]) -> int:
    if len(dtypes) == 1:
        return measure(dtypes[0])
    codes = [subprocess.call([sys.executable, __file__, dtype]) for dtype in dtypes or DTYPES]
    return max(codes)


def measure(dtype: str) -> int:
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")
    warnings.simplefilter("ignore")
    from tolerance_cases import Data, cases

    from pytest_jitcheck import check

    outcomes: collections.Counter[str] = collections.Counter()
    acquitted = 0
    started = time.perf_counter()
    for case in cases():
        try:
            arguments = case.arguments(Data(jax.numpy.dtype(dtype), 0))
        except Exception:  # not drawn in this dtype
            outcomes["without arguments"] += 1
            continue
        report = check(case.fn, timing="off")(*arguments)
        failure = report.failure
        acquitted += any(note.rule == "no-worse-than-eager" for note in report.notes)
        if failure is None:
            outcomes["passed"] += 1
        elif failure.kind == "eager_error":
            outcomes["does not take the dtype"] += 1
        elif case.name in TRULY_DIFFERENT:
            outcomes["truly different"] += 1
        else:
            outcomes["FALSE ALARM"] += 1
            print(f"  {case.name}: {failure.kind}, {failure.rule}: {failure.message}")
    figures = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    print(
        f"{dtype}, jax {jax.__version__}: {figures}; {acquitted} of the passes beyond the tolerance and no worse than eager; "
        f"{time.perf_counter() - started:.0f} s"
    )
    return 1 if outcomes["FALSE ALARM"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
