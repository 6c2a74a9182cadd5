"""Who may import what, read off the source; and that a suite without checks never imports jax."""

from __future__ import annotations

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

import pytest_jitcheck

# --- the rules ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """Modules that may import the same things when they are imported themselves."""

    name: str
    modules: frozenset[str]
    libraries: frozenset[str]
    """What they may import beside the standard library."""
    layers: frozenset[str]
    """Whose modules they may import."""


LAYERS = (
    Layer(
        name="values",
        modules=frozenset(
            {"__init__", "spec", "report", "gates", "display", "failure", "summary", "document", "manual"}
        ),
        libraries=frozenset(),
        layers=frozenset({"values"}),
    ),
    Layer(
        name="engine",
        modules=frozenset(
            {"arguments", "causes", "compare", "compat", "diagnose", "engine", "judge", "leaves", "raising", "stages"}
            | {"surroundings", "trust"}
        ),
        libraries=frozenset({"jax", "numpy"}),
        layers=frozenset({"values", "engine"}),
    ),
    Layer(
        name="plugin",
        modules=frozenset({"options", "mark", "examples", "items", "reporting", "collector", "hookspec", "plugin"}),
        libraries=frozenset({"pytest", "pluggy"}),
        layers=frozenset({"values", "plugin"}),
    ),
)

UNPUBLISHED = ("jax._src", "jax.core", "jax.extend", "jax.interpreters", "jaxlib")
"""What JAX does not promise to keep: `compat` alone touches it."""


def faults(module: str, tree: ast.Module) -> Iterator[str]:
    """What the module imports against the rules."""
    layer = layer_of(module)
    if layer is None:
        yield f"{module} belongs to no layer: say in LAYERS which"
        return
    for found in imports(tree):
        root, _, rest = found.name.partition(".")
        other = layer_of(rest) if root == "pytest_jitcheck" else None
        if other is not None:
            allowed = other.name in layer.layers
        else:
            allowed = root in sys.stdlib_module_names | layer.libraries | {"pytest_jitcheck"}
        if found.when == "imported" and not allowed:
            yield f"{module} imports {found.name}, which {layer.name} modules must not do"
        if found.when != "never" and found.name.startswith("pytest_jitcheck.plugin"):
            yield f"{module} imports {found.name}, which nothing may do"
    for name in sorted({found.name for found in imports(tree)} | attributes(tree)):
        if is_within(name, "_pytest") or (module != "compat" and any(is_within(name, part) for part in UNPUBLISHED)):
            yield f"{module} touches {name}, which is not published"


def layer_of(module: str) -> Layer | None:
    """The layer of a module of this package, or of a name in one."""
    return next((layer for layer in LAYERS if module.partition(".")[0] in layer.modules), None)


# --- the source ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """One imported name: `from a import b` is `a.b`, whether that is a module or not."""

    name: str
    when: Literal["imported", "called", "never"]
    """The import runs when its module is imported, when a function is called, or is for type checkers only."""


def imports(node: ast.AST, when: Literal["imported", "called", "never"] = "imported") -> Iterator[Import]:
    match node:
        case ast.Import():
            yield from (Import(name=alias.name, when=when) for alias in node.names)
        case ast.ImportFrom():
            yield from (Import(name=f"{node.module}.{alias.name}", when=when) for alias in node.names)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            when = "never"
        case ast.FunctionDef() | ast.AsyncFunctionDef() if when != "never":
            when = "called"
    for child in ast.iter_child_nodes(node):
        yield from imports(child, when)


def attributes(tree: ast.Module) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def is_within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


@pytest.fixture(scope="module")
def package() -> dict[str, ast.Module]:
    """The modules of the package, by their names within it."""
    root = Path(pytest_jitcheck.__file__).parent
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_bytes())
        for path in sorted(root.rglob("*.py"))
    }


def cycle(package: Mapping[str, ast.Module]) -> list[str] | None:
    """Modules that import each other in a ring, or `None`."""
    graph = {
        module: {known for found in imports(tree) if found.when == "imported" for known in owners(found.name, package)}
        for module, tree in package.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return None


def owners(name: str, package: Mapping[str, ast.Module]) -> Iterator[str]:
    """The module of this package that the name is or is in."""
    within = name.removeprefix("pytest_jitcheck.")
    for module in (within, within.rpartition(".")[0]):
        if within != name and module in package:
            yield module
            return


# --- imports ------------------------------------------------------------------------------------------------------------


def test_every_module_keeps_to_its_layer(package: dict[str, ast.Module]) -> None:
    assert [fault for module, tree in package.items() for fault in faults(module, tree)] == []


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("spec", "import numpy", "spec imports numpy, which values modules must not do"),
        ("report", "if True:\n    import jax", "report imports jax, which values modules must not do"),
        ("summary", "from pytest_jitcheck import engine", "summary imports pytest_jitcheck.engine, which values"),
        ("engine", "import pytest", "engine imports pytest, which engine modules must not do"),
        ("diagnose.rules", "import equinox", "diagnose.rules imports equinox, which engine modules must not do"),
        ("options", "from jax import numpy", "options imports jax.numpy, which plugin modules must not do"),
        ("mark", "from pytest_jitcheck.engine import check", "mark imports pytest_jitcheck.engine.check, which plugin"),
        ("mark", "def f():\n    import pytest_jitcheck.plugin", "mark imports pytest_jitcheck.plugin, which nothing"),
        ("stages", "def f():\n    from jax._src import core", "stages touches jax._src.core, which is not published"),
        ("stages", "import jax\nx = jax.core.Tracer", "stages touches jax.core, which is not published"),
        ("plugin", "from _pytest import nodes", "plugin imports _pytest.nodes, which plugin modules must not do"),
        ("plugin", "def f():\n    from _pytest import nodes", "plugin touches _pytest.nodes, which is not published"),
        ("utils", "", "utils belongs to no layer: say in LAYERS which"),
    ],
)
def test_an_import_against_the_rules_is_seen(module: str, source: str, fault: str) -> None:
    assert next(faults(module, ast.parse(source)), "nothing").startswith(fault)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("plugin", "def f():\n    import jax\n    from pytest_jitcheck import engine"),
        ("plugin", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pytest_jitcheck.engine import check"),
        ("compat", "import jax\nx = jax._src.core"),
        ("engine", "import jax.numpy\nfrom pytest_jitcheck.spec import CheckSpec"),
    ],
)
def test_what_the_rules_allow_is_no_fault(module: str, source: str) -> None:
    assert list(faults(module, ast.parse(source))) == []


def test_no_modules_import_each_other(package: dict[str, ast.Module]) -> None:
    assert cycle(package) is None


def test_a_cycle_is_seen() -> None:
    ring = {
        "spec": "from pytest_jitcheck.report import CheckReport",
        "report": "from pytest_jitcheck.diagnose import rules",
        "diagnose.rules": "import pytest_jitcheck.spec",
    }
    assert set(cycle({module: ast.parse(source) for module, source in ring.items()}) or ()) == set(ring)


# --- start-up -----------------------------------------------------------------------------------------------------------

PROBE = """
import sys
import pytest

exit_code = pytest.main(["-p", "pytest_jitcheck.plugin", *sys.argv[1:]])
print("jax was imported" if "jax" in sys.modules else "jax was not imported")
sys.exit(exit_code)
"""


def imports_of_pytest(directory: Path, *arguments: str) -> str:
    """What a pytest of its own says, as its last line, of jax."""
    # Without the plugins of other packages, which may import what they like.
    environ = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", PROBE, *arguments]
    return subprocess.run(command, cwd=directory, env=environ, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--markers"], []], ids=["help", "markers", "plain suite"])
def test_pytest_without_checks_never_imports_jax(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "test_plain.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n", encoding="utf-8")
    assert imports_of_pytest(tmp_path, *arguments).endswith("\njax was not imported\n")


def test_a_check_imports_jax(tmp_path: Path) -> None:
    source = "import pytest\n\n@pytest.mark.jitcheck\ndef test_sum():\n    return 1 + 1\n"
    (tmp_path / "test_checked.py").write_text(source, encoding="utf-8")
    assert imports_of_pytest(tmp_path).endswith("\njax was imported\n")
