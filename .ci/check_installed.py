"""Checks that what is installed here is whole, and that pytest finds it."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest_jitcheck

CHECKOUT = Path(__file__).resolve().parent.parent

package = Path(pytest_jitcheck.__file__).parent
if package.is_relative_to(CHECKOUT / "pytest_jitcheck"):
    sys.exit(f"{package} is the checkout, not an installed package")

files = {path.name for path in importlib.metadata.files("pytest-jitcheck") or ()}
missing = {
    "py.typed",
    "errors.md",
    "LICENSE",
    *(path.name for path in (CHECKOUT / "pytest_jitcheck").rglob("*.py")),
} - files
if missing:
    sys.exit(f"not installed: {', '.join(sorted(missing))}")

markers = subprocess.run(
    [sys.executable, "-m", "pytest", "--markers"], check=True, capture_output=True, text=True
).stdout
if "@pytest.mark.jitcheck(" not in markers:
    sys.exit(f"`pytest --markers` does not know the marker:\n{markers}")

print(f"{importlib.metadata.version('pytest-jitcheck')} is installed whole in {package}")
