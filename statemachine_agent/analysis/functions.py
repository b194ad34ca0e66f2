"""Python tools whose function is not in the file that would be imported: the file is read, and nothing of it runs.

Only what lies below the project's folder is looked at, and nothing is said where the file does not tell: names may also be
made while a module runs. It must not import anything.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from statemachine_agent import files
from statemachine_agent.definition.catalogue import Catalogue, ToolFile
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.text import did_you_mean

_MOST = 1_000_000
#: names with which a module makes others while it runs
_MAKERS = frozenset({"globals", "vars", "locals", "setattr", "exec", "eval", "__getattr__", "__path__", "modules"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)


def functions_of(catalogue: Catalogue, packages: Collection[str], folder: Path) -> Iterator[Fault]:
    """A warning for each Python binding of an allowed package whose module or function is surely not there."""
    read: dict[Path, frozenset[str] | None] = {}
    for tool in catalogue.tools.values():
        module, _, function = (tool.manifest.binding.python or "").partition(":")
        if module and any(module == p or module.startswith(f"{p}.") for p in packages):
            yield from _binding(tool, folder, module, function, read)


def _binding(
    tool: ToolFile, folder: Path, module: str, function: str, read: dict[Path, frozenset[str] | None]
) -> Iterator[Fault]:
    place, parts = folder, module.split(".")
    for number, part in enumerate(parts):
        before = _file(place.parent, place.name) if number else None
        found = _file(place, part)
        if found is None and (place / part).is_dir() and _is_ours(folder, parts[0]):
            place = place / part  # a folder without `__init__.py` is a package too
            continue
        if found is None:
            if number and _is_whole(place, before, part, read):
                text = f"there is no module `{module}` in {_shown(folder, place)}"
                advice = did_you_mean(part, _modules(place))
                yield tool.document.fault(("binding", "python"), text, advice, level=Level.WARNING)
            return
        place = place / part
    source = _file(place.parent, place.name)
    names = _names(source, read) if source is not None else None
    if source is not None and names is not None and function not in names:
        text = f"{_shown(folder, source)} has no function `{function}`"
        advice = did_you_mean(function, [name for name in names if not name.startswith("_")])
        yield tool.document.fault(("binding", "python"), text, advice, level=Level.WARNING)


def _file(place: Path, name: str) -> Path | None:
    """The file of a module or package directly in `place`; a package goes before a module."""
    for path in (place / name / "__init__.py", place / f"{name}.py"):
        if files.look(path)[0] is files.Kind.FILE:
            return path
    return None


def _is_ours(folder: Path, package: str) -> bool:
    """True where a folder without `__init__.py` is the only one of that name: it may be one part of several."""
    found = PathFinder.find_spec(package)
    return found is None or [*map(Path, found.submodule_search_locations or ())] == [folder / package]


def _is_whole(place: Path, package: Path | None, part: str, read: dict[Path, frozenset[str] | None]) -> bool:
    """True where a module without a file in `place` is not there: none is compiled, and the package looks nowhere else."""
    try:
        there = {path.name.partition(".")[0] for path in place.iterdir()}
    except OSError:
        return False
    return part not in there and (package is None or _names(package, read) is not None)


def _modules(place: Path) -> list[str]:
    return [path.stem for path in place.glob("*.py") if path.stem != "__init__"]


def _shown(folder: Path, path: Path) -> str:
    return f"`{path.relative_to(folder)}`"


def _names(source: Path, read: dict[Path, frozenset[str] | None]) -> frozenset[str] | None:
    """What a module names at its top level; None where its text does not tell."""
    if source not in read:
        read[source] = _top_level(source)
    return read[source]


def _top_level(source: Path) -> frozenset[str] | None:
    try:
        tree = ast.parse(files.read_bytes(source, _MOST))
    except (files.UnreadableError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        used = node.id if isinstance(node, ast.Name) else getattr(node, "attr", getattr(node, "name", None))
        if used in _MAKERS or isinstance(node, ast.Global):
            return None
    return _bound(tree)


def _bound(tree: ast.Module) -> frozenset[str] | None:
    """The names that statements at the top level bind, those in `if` and `try` included; None with `import *`."""
    names: set[str] = set()
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name="*"):
                return None
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)
    return frozenset(names)
