"""Times the same checks on the same functions, by hand, with chex and with this plugin, side by side in one run.

    python benchmarks/side_by_side.py [--functions 100] [--rounds 2]

Each suite is a pytest run of its own process, cold: nothing is kept from one to the next. The suites take turns, so that a
machine that slows down slows all of them; what counts are the ratios of their medians to the suite that is written by hand.
The functions are the first public ones of `tolerance_cases.py`, in float32. chex's variants run each function both ways, and
compare nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

SHARED = """
import itertools, sys
sys.path.insert(0, {here!r})
import jax.numpy as jnp
from tolerance_cases import Data, cases

CASES = list(itertools.islice((case for case in cases() if case.name not in {skipped!r}), {functions}))

def arguments(case):
    return case.arguments(Data(jnp.dtype("float32"), 0))
"""

BY_HAND = """
import jax, numpy as np, pytest
from shared import CASES, arguments

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_by_hand(case):
    args = arguments(case)
    eager = case.fn(*args)
    compiled = jax.jit(lambda *args: case.fn(*args))(*args)
    jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), eager, compiled)
"""

CHEX = """
import chex
from absl.testing import parameterized
from shared import CASES, arguments

class TestVariants(chex.TestCase):
    @chex.variants(with_jit=True, without_jit=True)
    @parameterized.named_parameters(*((f"case{number}", number) for number in range(len(CASES))))
    def test_variants(self, number):
        case = CASES[number]
        self.variant(lambda *args: case.fn(*args))(*arguments(case))
"""

OURS = """
import pytest
from shared import CASES, arguments

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours(case, jitcheck):
    jitcheck(case.fn, constant=True)(*arguments(case))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """One way to check the functions."""

    name: str
    source: str
    options: tuple[str, ...] = ()


SUITES = (
    Suite(name="by hand", source=BY_HAND),
    Suite(name="chex variants (compares nothing)", source=CHEX),
    Suite(
        name="jitcheck, trust=off timing=off", source=OURS, options=("--jitcheck-trust=off", "--jitcheck-timing=off")
    ),
    Suite(name="jitcheck, trust=off timing=quick", source=OURS, options=("--jitcheck-trust=off",)),
    Suite(name="jitcheck, timing=off", source=OURS, options=("--jitcheck-timing=off",)),
    Suite(name="jitcheck, as it comes", source=OURS),
)

# Their eager run alone takes longer than all the rest: the comparison would be one of these.
SKIPPED: tuple[str, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        shared = SHARED.format(here=str(HERE), functions=options.functions, skipped=SKIPPED)
        Path(directory, "shared.py").write_text(shared, encoding="utf-8")
        seconds: dict[str, list[float]] = {suite.name: [] for suite in SUITES}
        for _ in range(options.rounds):
            for suite in SUITES:
                seconds[suite.name].append(_timed(suite, Path(directory)))
    by_hand = statistics.median(seconds["by hand"])
    print(
        f"\n| {options.functions} functions, cold, median of {options.rounds} | seconds | ratio |\n| --- | --: | --: |"
    )
    for name, samples in seconds.items():
        median = statistics.median(samples)
        print(f"| {name} | {median:.1f} | {median / by_hand:.2f} |")
    print(f"\nImporting the plugin beside pytest takes {_import_ms():.1f} ms.")


def _timed(suite: Suite, directory: Path) -> float:
    path = directory / "test_suite.py"
    path.write_text(suite.source, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *suite.options,
        path.name,
    ]
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, env=os.environ | {"JAX_PLATFORMS": "cpu"}
    )
    passed = time.perf_counter() - started
    print(f"{suite.name}: {passed:.1f} s: {done.stdout.strip().splitlines()[-1]}", flush=True)
    return passed


def _import_ms() -> float:
    code = "import pytest, time; t = time.perf_counter(); import pytest_jitcheck.plugin; print(time.perf_counter() - t)"
    samples = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(9)]
    return 1000 * statistics.median(samples)


if __name__ == "__main__":
    main()
