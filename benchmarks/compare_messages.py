"""Writes docs/compared.md: what JAX alone, chex's variants and pytest-jitcheck print for the same ten failures.

Usage: python benchmarks/compare_messages.py > docs/compared.md
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_IMPORTS = "import functools\n\nimport chex\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\n\n"
_LONGEST_LINE = 110
_LONGEST_OUTPUT = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A function that fails under jit, or is not the same there."""

    title: str
    source: str
    function: str
    arguments: str

    @property
    def test(self) -> str:
        """The name of its test."""
        return f"test_{self.function}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A way to run a function under jit in a test."""

    name: str
    test: str
    """The test of a case, with its fields in braces."""


TOOLS = (
    Tool(name="JAX alone", test="def {test}():\n    jax.jit({function})({arguments})\n"),
    Tool(
        name="chex's variants",
        test=(
            "class Test_{function}(chex.TestCase):\n"
            "    @chex.variants(with_jit=True, without_jit=True)\n"
            "    def {test}(self):\n"
            "        self.variant({function})({arguments})\n"
        ),
    ),
    Tool(name="pytest-jitcheck", test="def {test}(jitcheck):\n    jitcheck({function})({arguments})\n"),
)

CASES = (
    Case(
        title="A branch on a flag",
        source="def signed(x, negative):\n    return -x if negative else x\n",
        function="signed",
        arguments="jnp.arange(3.0), True",
    ),
    Case(
        title="A loop and a branch, one behind the other",
        source="""\
            def smoothed(x, times, circular):
                for _ in range(times):
                    x = (x[1:] + x[:-1]) / 2
                return jnp.roll(x, 1) if circular else x
            """,
        function="smoothed",
        arguments="jnp.arange(8.0), 2, False",
    ),
    Case(
        title="An axis",
        source="def total(x, axis):\n    return jnp.sum(x, axis=axis)\n",
        function="total",
        arguments="jnp.ones((2, 3)), 1",
    ),
    Case(
        title="A boolean mask",
        source="def mean_of_valid(x, valid):\n    return x[valid].mean()\n",
        function="mean_of_valid",
        arguments="jnp.arange(3.0), jnp.array([True, False, True])",
    ),
    Case(
        title="A shape computed with jnp",
        source="def flatten(x):\n    return x.reshape(jnp.prod(jnp.array(x.shape)))\n",
        function="flatten",
        arguments="jnp.ones((2, 3))",
    ),
    Case(
        title="A window that moves",
        source="def window(x, start):\n    return x[start : start + 3]\n",
        function="window",
        arguments="jnp.arange(8.0), 2",
    ),
    Case(
        title="A string",
        source='def reduced(x, how):\n    return jnp.mean(x) if how == "mean" else jnp.sum(x)\n',
        function="reduced",
        arguments='jnp.arange(3.0), "mean"',
    ),
    Case(
        title="A cache that keeps a traced value",
        source="""\
            @functools.cache
            def weights(n):
                return jnp.linspace(0.0, 1.0, n)


            def weighted(x):
                return jnp.sum(x * weights(x.size))
            """,
        function="weighted",
        arguments="jnp.arange(5.0)",
    ),
    Case(
        title="A random number from NumPy",
        source="def noisy(x):\n    return x + np.random.normal(size=x.shape)\n",
        function="noisy",
        arguments="jnp.zeros(3)",
    ),
    Case(
        title="An integer that grows",
        source="def seconds(days):\n    return days * 24 * 3600\n",
        function="seconds",
        arguments="50_000",
    ),
)


def outputs(tool: Tool) -> dict[str, list[str]]:
    """What pytest prints of each case's failure under this tool; nothing for a test that passes."""
    source = _IMPORTS
    for case in CASES:
        fields = {"test": case.test, "function": case.function, "arguments": case.arguments}
        source += f"\n{textwrap.dedent(case.source)}\n\n{tool.test.format(**fields)}\n"
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "test_cases.py").write_text(source, encoding="utf-8")
        environ = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "JAX_PLATFORMS": "cpu"}
        # The short style, which leaves more of the screen to the message than pytest's own choice.
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "test_cases.py"]
        done = subprocess.run(command, cwd=directory, env=environ, check=False, capture_output=True, text=True)
    stdout = _anywhere(done.stdout, directory)
    # Sections have a line of equal signs before them, failures one of underscores with the test's name.
    failures = re.split(r"^=+ (?!FAILURES).*=+$", stdout.partition("= FAILURES =")[2], flags=re.MULTILINE)[0]
    parts = re.split(r"^_+ (?:\w+\.)?(test_\w+?)(?:__with(?:out)?_jit)? _+$", failures, flags=re.MULTILINE)[1:]
    # Where both of chex's variants fail, the first one is shown.
    printed: dict[str, list[str]] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        printed.setdefault(name, text.strip("\n").splitlines())
    return {case.test: printed.get(case.test, []) for case in CASES}


def _anywhere(text: str, directory: str) -> str:
    """The text without what differs from machine to machine and from run to run."""
    text = re.sub(r"[\w/.-]+/site-packages/", ".../", text.replace(f"{directory}{os.sep}", ""))
    text = text.replace(f"{Path(__file__).parent.parent}{os.sep}", ".../")
    return re.sub(r"0x[0-9a-f]+", "0x...", text)


def page(printed: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    versions = {name: importlib.metadata.version(name) for name in ("jax", "chex")}
    yield "# Compared"
    yield (
        "Ten functions that fail under jit, or that are not the same there, and what is printed of them: by a\n"
        "test that calls `jax.jit(f)(x)`, by one with [chex](https://github.com/google-deepmind/chex)'s\n"
        "`variants(with_jit=True, without_jit=True)`, and by one with the `jitcheck` fixture. Made with\n"
        f"JAX {versions['jax']} and chex {versions['chex']} by `benchmarks/compare_messages.py`, which cuts long lines and\n"
        "long outputs where it says `...`. Where nothing is printed the test passes:\n"
        "JAX and chex leave it to the test's own asserts to compare anything."
    )
    heading = f"| | {' | '.join(tool.name for tool in TOOLS)} |"
    rows = [
        f"| {case.title} | {' | '.join(first(printed[tool.name][case.test]) for tool in TOOLS)} |" for case in CASES
    ]
    yield "\n".join([heading, "|---" * (len(TOOLS) + 1) + "|", *rows])
    for case in CASES:
        yield f"## {case.title}"
        yield f"```py\n{textwrap.dedent(case.source)}\n\n{case.function}({case.arguments})\n```"
        for tool in TOOLS:
            yield f"{tool.name}:"
            lines = printed[tool.name][case.test]
            yield "\n".join(["```text", *trimmed(lines), "```"]) if lines else "*Nothing: the test passes.*"


def first(lines: list[str]) -> str:
    """The message without where it was raised: an exception's first line, or our first paragraph."""
    raised = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    if not lines:
        return "nothing: the test passes"
    text = raised[0] if raised else " ".join(lines[: lines.index("")])
    return text.replace("|", "\\|")


def trimmed(lines: list[str]) -> Iterator[str]:
    shown = lines if len(lines) <= _LONGEST_OUTPUT else [*lines[: _LONGEST_OUTPUT - 6], "...", *lines[-5:]]
    for line in shown:
        yield line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 4]} ..."


if __name__ == "__main__":
    print("\n\n".join(page({tool.name: outputs(tool) for tool in TOOLS})))
