"""The user's source: which frames of a traceback are theirs, and the expression that was running in one."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from pytest_jitcheck.report import Location

__all__ = [
    "Frame",
    "Ownership",
    "Site",
    "frames_of",
    "function_line",
    "innermost_site",
    "plain_traceback",
    "site_of",
    "syntax_at",
    "users_traceback",
    "writing_statement",
]

_OURS = str(Path(__file__).resolve().parent.parent) + os.sep


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One entry of a traceback."""

    frame: FrameType
    lasti: int
    line: int

    @property
    def path(self) -> str:
        """File name of the code."""
        return self.frame.f_code.co_filename


@dataclass(frozen=True, kw_only=True, slots=True)
class Ownership:
    """Tells the user's files from those of Python and of installed libraries."""

    root: str | None = None
    """Directory of the checked function's package: the user's even where it is installed beside the libraries."""

    @classmethod
    def of(cls, fn: Callable[..., Any] | None) -> Ownership:
        """The ownership as seen from the checked function."""
        code = _code_of(fn)
        if code is None or not _is_installed(code.co_filename):
            return cls()
        package = str(getattr(fn, "__module__", "") or "").partition(".")[0]
        marker = f"{os.sep}{package}{os.sep}"
        before, found, _ = code.co_filename.rpartition(marker)
        return cls(root=before + found if found else code.co_filename)

    def is_users(self, path: str) -> bool:
        """Whether the file is the user's."""
        if path.startswith(_OURS):
            return False
        if self.root is not None and path.startswith(self.root):
            return True
        return not _is_installed(path)


@functools.cache
def _library_roots() -> tuple[str, ...]:
    paths = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return tuple({os.path.realpath(path) + os.sep for path in paths} | {path + os.sep for path in paths})


@functools.cache
def _is_installed(path: str) -> bool:
    if path.startswith("<") and not path.startswith("<ipython"):
        return True
    real = os.path.realpath(path)
    inside = real.startswith(_library_roots()) or path.startswith(_library_roots())
    return inside or f"{os.sep}site-packages{os.sep}" in real or f"{os.sep}dist-packages{os.sep}" in real


def frames_of(start: TracebackType | None) -> list[Frame]:
    """The frames of a traceback, the outermost first."""
    found: list[Frame] = []
    while start is not None:
        found.append(Frame(frame=start.tb_frame, lasti=start.tb_lasti, line=start.tb_lineno))
        start = start.tb_next
    return found


@dataclass(frozen=True, kw_only=True)
class Site:
    """A place in the user's code where something was running, with the expression there."""

    frame: Frame
    path_to_node: tuple[ast.AST, ...] = field(repr=False)
    """From the module down to the smallest expression that covers what was running; empty without source."""
    location: Location

    @property
    def node(self) -> ast.AST | None:
        """The expression that was running."""
        return self.path_to_node[-1] if self.path_to_node else None

    def enclosing(self, *kinds: type[ast.AST]) -> ast.AST | None:
        """The innermost enclosing syntax of one of these kinds, within the same statement."""
        for node in reversed(self.path_to_node):
            if isinstance(node, kinds):
                return node
            if isinstance(node, ast.stmt):
                return None
        return None

    @property
    def statement(self) -> ast.stmt | None:
        """The statement that was running."""
        return next((node for node in reversed(self.path_to_node) if isinstance(node, ast.stmt)), None)

    @property
    def function(self) -> ast.FunctionDef | ast.Lambda | None:
        """The innermost function around it."""
        kinds = (ast.FunctionDef, ast.Lambda)
        return next((node for node in reversed(self.path_to_node) if isinstance(node, kinds)), None)

    def text(self, node: ast.AST | None) -> str:
        """The source of a part of the statement, on one line."""
        return "" if node is None else ast.unparse(node)


def innermost_site(frames: list[Frame], ownership: Ownership) -> Site | None:
    """The innermost place in the user's own code, or where there is none, in a library's."""
    for is_wanted in (ownership.is_users, lambda path: not path.startswith(_OURS) and not _is_jax(path)):
        for frame in reversed(frames):
            if is_wanted(frame.path):
                return site_of(frame)
    return None


def _is_jax(path: str) -> bool:
    parts = Path(path).parts
    return path.startswith("<") or any(name in parts for name in ("jax", "jaxlib", "numpy")) or not _is_package(path)


def _is_package(path: str) -> bool:
    return "site-packages" in path or "dist-packages" in path


def site_of(frame: Frame) -> Site:
    """The expression that is running in a frame."""
    code = frame.frame.f_code
    line, end_line, start, end = _positions(code, frame)
    path = _path_to(code.co_filename, line, end_line, start, end)
    if path and isinstance(path[-1], (ast.IfExp, ast.Assert)):
        # Python 3.11 gives the jump of a conditional expression, and of an assert, the place of the whole.
        test = path[-1].test
        path = (*path, test)
        line, end_line, start, end = test.lineno, test.end_lineno, test.col_offset, test.end_col_offset
    source = linecache.getline(code.co_filename, line).rstrip("\n")
    last = linecache.getline(code.co_filename, end_line or line)
    location = Location(
        path=code.co_filename,
        line=line,
        end_line=end_line,
        column=_characters(source, start),
        end_column=_characters(last, end),
        source=source,
        function=code.co_qualname,
    )
    return Site(frame=frame, path_to_node=path, location=location)


def _positions(code: CodeType, frame: Frame) -> tuple[int, int | None, int | None, int | None]:
    at = next(itertools.islice(code.co_positions(), frame.lasti // 2, None), (None, None, None, None))
    line, end_line, start, end = at
    return (frame.line, None, None, None) if line is None else (line, end_line, start, end)


def _characters(line: str, offset: int | None) -> int | None:
    """A column in characters; Python counts bytes of UTF-8."""
    return None if offset is None else len(line.encode()[:offset].decode(errors="replace"))


def syntax_at(path: str, line: int) -> tuple[ast.AST, ...]:
    """From the module down to the innermost statement of a line; empty without source."""
    tree = _tree("".join(linecache.getlines(path)))
    return () if tree is None else _statement_path(tree, line)


def _path_to(path: str, line: int, end_line: int | None, start: int | None, end: int | None) -> tuple[ast.AST, ...]:
    tree = _tree("".join(linecache.getlines(path)))
    if tree is None:
        return ()
    if start is None or end is None or end_line is None:
        return _statement_path(tree, line)
    return _descend((tree,), (line, start), (end_line, end))


@functools.lru_cache(maxsize=32)
def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _descend(path: tuple[ast.AST, ...], start: tuple[int, int], end: tuple[int, int]) -> tuple[ast.AST, ...]:
    for child in ast.iter_child_nodes(path[-1]):
        span = _span(child)
        if span is None:
            # Arguments, comprehensions and the like have no place of their own, but their children have.
            deeper = _descend((*path, child), start, end)
            if len(deeper) > len(path) + 1:
                return deeper
        elif span[0] <= start and end <= span[1]:
            return _descend((*path, child), start, end)
    return path


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]] | None:
    if not hasattr(node, "lineno"):
        return None
    place: Any = node
    first = min([place.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    column = place.col_offset if first == place.lineno else 0
    return (first, column), (place.end_lineno, place.end_col_offset)


def _statement_path(tree: ast.Module, line: int) -> tuple[ast.AST, ...]:
    path: tuple[ast.AST, ...] = (tree,)
    while True:
        bodies = (child for child in ast.walk(path[-1]) if child is not path[-1] and isinstance(child, ast.stmt))
        around = [node for node in bodies if node.lineno <= line <= (node.end_lineno or node.lineno)]
        if not around:
            return path
        path = (*path, around[0])


def function_line(fn: Callable[..., Any]) -> Location | None:
    """The line that defines a function, or ``None`` where it has no source."""
    code = _code_of(fn)
    if code is None:
        return None
    first = code.co_firstlineno
    lines = (linecache.getline(code.co_filename, number) for number in range(first, first + 50))
    # A decorated function's code begins at its first decorator.
    offset, source = next(
        (
            (number, text)
            for number, text in enumerate(lines)
            if text.lstrip().startswith(("def ", "async def ", "lambda"))
        ),
        (0, linecache.getline(code.co_filename, first)),
    )
    if not source:
        return None
    return Location(path=code.co_filename, line=first + offset, source=source.rstrip("\n"), function=code.co_qualname)


def writing_statement(fn: Callable[..., Any], name: str) -> tuple[Location, str] | None:
    """The statement of `fn` that changes the array `name` in place, and how to write it with a new array."""
    code = _code_of(fn)
    if code is None:
        return None
    tree = _tree("".join(linecache.getlines(code.co_filename)))
    functions = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    own = [node for node in functions if _span_of_lines(node, code.co_firstlineno)]
    for statement in (inner for node in own for inner in ast.walk(node) if isinstance(inner, ast.stmt)):
        rewritten = _without_writing(statement, name)
        if rewritten is not None:
            text = linecache.getline(code.co_filename, statement.lineno).rstrip("\n")
            return Location(
                path=code.co_filename, line=statement.lineno, source=text, function=code.co_qualname
            ), rewritten
    return None


def _span_of_lines(node: ast.FunctionDef, first: int) -> bool:
    return first in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))


def _without_writing(statement: ast.stmt, name: str) -> str | None:
    """The statement with a new array, if it writes into the one called `name`."""
    target: ast.expr | None = statement.target if isinstance(statement, ast.AugAssign) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    if isinstance(target, ast.Name) and isinstance(statement, ast.AugAssign) and target.id == name:
        changed = ast.BinOp(left=ast.Name(id=name), op=statement.op, right=statement.value)
        return f"{name} = {ast.unparse(changed)}"
    if isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
        return f"{name} = jnp.asarray({name}).at[...].set(...) for `{ast.unparse(statement)}`"
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == name:
        return f"{name} = jnp.{call.func.attr}({name}) for `{ast.unparse(statement)}`"
    return None


def _code_of(fn: Any) -> CodeType | None:
    for _ in range(20):  # wrappers upon wrappers, and no way to go round in circles
        if fn is None or hasattr(fn, "__code__"):
            break
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "func", None) or getattr(fn, "__func__", None)
        fn = inner if inner is not None else vars(type(fn)).get("__call__")
    return getattr(fn, "__code__", None)


def users_traceback(error: BaseException, ownership: Ownership) -> TracebackType | None:
    """The traceback with the user's own frames alone, or ``None`` where there are none."""
    return _only(error, ownership.is_users)


def plain_traceback(error: BaseException) -> TracebackType | None:
    """The traceback without JAX's frames and ours, which say nothing of the user's mistake; ``None`` where no other is left."""
    return _only(error, lambda path: not path.startswith(_OURS) and not {"jax", "jaxlib"} & set(Path(path).parts))


def _only(error: BaseException, is_kept: Callable[[str], bool]) -> TracebackType | None:
    kept: TracebackType | None = None
    for entry in reversed(list(_entries(error.__traceback__))):
        if is_kept(entry.tb_frame.f_code.co_filename):
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _entries(start: TracebackType | None) -> Iterator[TracebackType]:
    while start is not None:
        yield start
        start = start.tb_next
