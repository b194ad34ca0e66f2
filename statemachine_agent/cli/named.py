"""Definitions at paths that a person named, with what they need of the settings. It must not know what is done with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemachine_agent import files
from statemachine_agent.definition.catalogue import Catalogue, files_at
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.settings import Project
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.errors import UsageError


@dataclass(frozen=True)
class _File:
    path: Path
    #: `machine` or `tool`
    kind: str
    data: Any

    @property
    def name(self) -> Any:
        """What it defines; files that cannot be read have no name in common."""
        return self.data.get(self.kind) if isinstance(self.data, dict) else None


def catalogue_at(
    project: Project, places: Iterable[str], *, instead: bool = False
) -> tuple[Catalogue, dict[str, list[Any]]]:
    """The files at `places`, by what they are, and the names of the machines and tools in them.

    The settings' manifests are there too, and those of the settings' machines that stand in these. With `instead`, a file at
    `places` takes the place of the settings' file of the same name.
    """
    paths = list(map(Path, places))
    for place in paths:
        kind, reason = files.look(place)
        if kind in (files.Kind.NOTHING, files.Kind.OTHER):
            raise UsageError(f"{place} {reason}", hint="name a file or folder")
    faults: list[Fault] = []
    given = list(_read(files_at(paths, faults)))
    resolved = {file.path.resolve() for file in given}
    more = [p for p in files_at([*project.tools, *project.machines], faults) if p.resolve() not in resolved]
    names = {(file.kind, file.name) for file in given}
    others = [f for f in _read(more) if not (instead and (f.kind, f.name) in names)]
    held = _held(given, [f for f in others if f.kind == "machine"])
    machines = [f.path for f in given if f.kind == "machine"] + [f.path for f in held]
    tools = [f.path for f in (*given, *others) if f.kind == "tool"]
    catalogue = Catalogue.read(machines, tools, project.people, *project.listed)
    catalogue.report.add(faults)
    return catalogue, {kind: [f.name for f in given if f.kind == kind] for kind in ("machine", "tool")}


def _read(paths: Iterable[Path]) -> Iterator[_File]:
    for path in paths:
        source, _ = read_text(path)
        data = read(source).data
        is_tool = isinstance(data, dict) and "tool" in data and "machine" not in data
        is_people = isinstance(data, dict) and "people" in data and len(data) == 1
        if not is_people:
            yield _File(path, "tool" if is_tool else "machine", data)


def _held(given: list[_File], others: list[_File]) -> list[_File]:
    """Those of `others` that stand in the given machines, or in one another."""
    found: list[_File] = []
    waiting = [f for f in given if f.kind == "machine"]
    while waiting:
        names = set(_names(waiting.pop().data))
        new = [f for f in others if f.name in names and f not in found]
        found += new
        waiting += new
    return found


def _names(data: Any) -> Iterator[str]:
    """The machines that some state of a machine file names, however deep it stands."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "machine" and isinstance(value, str):
                yield value.partition("@")[0]
            yield from _names(value)
