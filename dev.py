"""Runs the tests or the demo in an environment that it makes first. Needs Python 3.11 or newer and nothing else.

Usage:
    python3 dev.py test [pytest's arguments]
    python3 dev.py demo [pytest's arguments]
"""

import sys

# An old interpreter reads the whole file before it gets here: so nothing below has syntax newer than Python 3.6.

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("dev.py needs Python 3.11 or newer; this is Python %d.%d." % sys.version_info[:2])  # noqa: UP031

import ast
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = ENVIRONMENT / "made-by-dev.txt"
"""Says that the environment is ours to make anew and, once it is complete, from what it was made."""

DEMO = ROOT / "demo_project"


def main(argv: Sequence[str]) -> int:
    commands = {"test": run_tests, "demo": run_demo}
    if not argv or argv[0] not in commands:
        print(__doc__)
        return 0 if argv in (["-h"], ["--help"]) else 2
    make_environment()
    return commands[argv[0]](argv[1:])


# --- what is run --------------------------------------------------------------------------------------------------------


def run_tests(arguments: Sequence[str]) -> int:
    # JAX compiles with all the cores it gets: more than four workers only take each other's.
    return pytest("-n", "auto", "--maxprocesses", "4", *arguments, cwd=ROOT)


def run_demo(arguments: Sequence[str]) -> int:
    print("\n=== Part 1 of 2, a suite that passes ===\n", flush=True)
    passing = pytest("tests", *arguments, cwd=DEMO)
    print("\n=== Part 2 of 2, the gallery: every test fails, to show how it is explained ===\n", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        document = Path(directory, "gallery.json")
        exit_code = pytest("gallery", f"--jitcheck-json={document}", *arguments, cwd=DEMO)
        # 1 is the exit code of failed tests; any other leaves no document that is worth reading.
        checks = json.loads(document.read_text(encoding="utf-8"))["checks"] if exit_code == 1 else []
    problems = list(unlike_the_plan(dict(plan()), checks))
    print("\n=== The demo ===\n")
    print(f"Part 1, the passing suite: {'passed' if passing == 0 else 'FAILED, which it should not'}")
    print(f"Part 2, the gallery: {'NOT as planned' if problems else 'failed as planned, test by test'}")
    for problem in problems:
        print(f"  {problem}")
    return 0 if passing == 0 and not problems else 1


def unlike_the_plan(planned: Mapping[str, str], checks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Where the gallery's checks ended otherwise than its tests' own markers say."""
    found = {
        check["nodeid"].rpartition("/")[2].partition("[")[0]: (check["failure"] or {}).get("rule", "no failure")
        for check in checks
    }
    for test in sorted(planned.keys() | found.keys()):
        if planned.get(test) != found.get(test):
            yield f"{test}: planned {planned.get(test, 'nothing')}, got {found.get(test, 'no check')}"


def plan() -> Iterator[tuple[str, str]]:
    """Each test of the gallery with the rule that is to explain its failure: `@pytest.mark.gallery(rule)`."""
    for path in (DEMO / "gallery").glob("test_*.py"):
        tests = (node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.FunctionDef))
        for test in tests:
            for decorator in test.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.gallery":
                    yield f"{path.name}::{test.name}", ast.literal_eval(decorator.args[0])


def pytest(*arguments: str, cwd: Path) -> int:
    return subprocess.run([PYTHON, "-m", "pytest", *arguments], cwd=cwd, check=False).returncode


# --- the environment ----------------------------------------------------------------------------------------------------


def make_environment() -> None:
    """Leaves `.venv` with this checkout and what its tests need, made anew if it is another interpreter's or outdated."""
    project = (ROOT / "pyproject.toml").read_bytes()
    recipe = f"{sys.version}\n{sys.base_prefix}\n{hashlib.sha256(project).hexdigest()}\n"
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == recipe:
        return
    if ENVIRONMENT.exists() and not STAMP.exists():
        sys.exit(f"{ENVIRONMENT} was not made by dev.py, so dev.py leaves it alone. Move it away, and run this again.")
    print(f"Making {ENVIRONMENT} for Python {sys.version.split()[0]}: JAX is downloaded, once.", flush=True)
    venv.create(ENVIRONMENT, clear=True, symlinks=os.name != "nt")
    STAMP.touch()
    install(*group(tomllib.loads(project.decode()), "test"), "--editable", str(ROOT))
    STAMP.write_text(recipe, encoding="utf-8")


def group(project: dict[str, Any], name: str) -> list[str]:
    """The requirements of a dependency group, which pip reads by itself only from version 25.1 on."""
    requirements = []
    for entry in project["dependency-groups"][name]:
        requirements += [entry] if isinstance(entry, str) else group(project, entry["include-group"])
    return requirements


def install(*requirements: str) -> None:
    # A user's own pip settings may ask for --user, which a virtual environment refuses.
    environ = os.environ | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if subprocess.run([*installer(), *requirements], cwd=ROOT, env=environ, check=False).returncode != 0:
        sys.exit("dev.py: the installation failed, for the reason above. Running this again starts it anew.")


def installer() -> list[str]:
    """The command that installs into the environment.

    Debian and Ubuntu keep ensurepip in a package of its own, so the environment may have to do without a pip: then the
    one outside of it, or uv, installs into it.
    """
    if succeeds(PYTHON, "-m", "ensurepip"):
        return [str(PYTHON), "-m", "pip", "install"]
    if succeeds(sys.executable, "-m", "pip", "--python", PYTHON, "--version"):
        return [sys.executable, "-m", "pip", "--python", str(PYTHON), "install"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", str(PYTHON)]
    sys.exit(
        "dev.py: this Python has neither ensurepip nor pip 22.3 or newer, and uv is not installed either.\n"
        "On Debian and Ubuntu, `sudo apt install python3-venv` provides it; then run this again."
    )


def succeeds(*command: str | Path) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
