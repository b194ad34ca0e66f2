"""Definitions at paths that a person named, with what they need of the settings. It must not know what is done with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemachine_agent import files
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.cli.options import catalogue_of
from statemachine_agent.definition.catalogue import Catalogue, files_at
from statemachine_agent.definition.faults import Fault, FaultyDefinitionError, Report
from statemachine_agent.definition.settings import Project
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.errors import UsageError
from statemachine_agent.text import did_you_mean, one_line


@dataclass(frozen=True)
class _File:
    path: Path
    #: `machine` or `tool`
    kind: str
    data: Any

    @property
    def name(self) -> str | None:
        """What it defines; None where it does not say, and then it has no name in common with any other."""
        found = self.data.get(self.kind) if isinstance(self.data, dict) else None
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Named:
    """What stands at paths: a catalogue with it, the names that it defines, and its files."""

    catalogue: Catalogue
    machines: tuple[str, ...]
    tools: tuple[str, ...]
    files: frozenset[str]


def catalogue_at(project: Project, places: Iterable[str], *, instead: bool = False) -> Named:
    """The files at `places`.

    The settings' manifests are in the catalogue too, and those of the settings' machines that stand in these. With
    `instead`, a file at `places` takes the place of the settings' file of the same name.
    """
    paths = list(map(Path, places))
    for place in paths:
        kind, reason = files.look(place)
        if kind in (files.Kind.NOTHING, files.Kind.OTHER):
            raise UsageError(f"{place} {reason}", hint="name a file or folder")
    faults: list[Fault] = []
    given = [f for f in _read(files_at(paths, faults)) if not (instead and _is_script(f.data))]
    resolved = {file.path.resolve() for file in given}
    more = [p for p in files_at([*project.tools, *project.machines], faults) if p.resolve() not in resolved]
    names = {(file.kind, file.name) for file in given if file.name is not None}
    others = [f for f in _read(more) if not (instead and (f.kind, f.name) in names)]
    held = _held(given, [f for f in others if f.kind == "machine"])
    machines = [f.path for f in given if f.kind == "machine"] + [f.path for f in held]
    tools = [f.path for f in (*given, *others) if f.kind == "tool"]
    catalogue = Catalogue.read(machines, tools, project.people, *project.listed)
    catalogue.report.add(faults)
    defined = {kind: tuple(f.name for f in given if f.kind == kind and f.name) for kind in ("machine", "tool")}
    return Named(catalogue, defined["machine"], defined["tool"], frozenset(str(f.path) for f in given))


@dataclass(frozen=True)
class Meant:
    """The machines that a text stands for."""

    catalogue: Catalogue
    names: tuple[str, ...]
    #: only manifests were named, and these are the machines that use them
    by_tools: bool = False


def machines_at(project: Project, text: str) -> Meant:
    """The machines that `text` stands for: a file or folder of machines and manifests, or a machine of the settings.

    A manifest stands for the machines that use its tool. FaultyDefinitionError where any file that is named has a fault:
    what cannot be read may be what is looked for.
    """
    kind, reason = files.look(Path(text)) if text else (files.Kind.NOTHING, "")
    if kind is files.Kind.NOTHING:
        return Meant(checked_catalogue(_with(project, text, reason)), (text,))
    named = catalogue_at(project, (text,), instead=True)
    _refuse_faults(checked_catalogue(named.catalogue), named.files)
    if named.machines:
        return Meant(named.catalogue, named.machines)
    # manifests alone: what they mean, they mean in the machines that use them
    found = checked_catalogue(catalogue_at(project, (text, *map(str, project.machines)), instead=True).catalogue)
    names = tuple(name for name in found.machines if not set(named.tools).isdisjoint(_used(found, name)))
    if not names:
        raise UsageError(
            f"no machine is in {one_line(text)}, and none uses what is", hint="name a machine's file, or its folder"
        )
    return Meant(found, names, by_tools=True)


def _with(project: Project, name: str, reason: str) -> Catalogue:
    """The settings' catalogue, which has the machine."""
    catalogue = catalogue_of(project)
    if not catalogue.knows_machine(name):
        what = f"`{one_line(name, 200)}` " + (
            "is neither a file nor a machine" if reason in ("", files.ABSENT) else reason
        )
        raise UsageError(what, hint=did_you_mean(name, catalogue.machines))
    return catalogue


def _refuse_faults(catalogue: Catalogue, named: frozenset[str]) -> None:
    report = Report()
    report.add(fault for fault in catalogue.report.errors if fault.file in named)
    if report.faults:
        raise FaultyDefinitionError(report)


def _used(catalogue: Catalogue, machine: str) -> list[str]:
    return catalogue.used_tools(catalogue.machines[machine].definition)


def _read(paths: Iterable[Path]) -> Iterator[_File]:
    """The files among `paths` that are machines and manifests, or may have been meant to be one."""
    for path in paths:
        source, _ = read_text(path)
        data = read(source).data
        is_tool = isinstance(data, dict) and "tool" in data and "machine" not in data
        is_people = isinstance(data, dict) and "people" in data and len(data) == 1
        if not is_people:
            yield _File(path, "tool" if is_tool else "machine", data)


def _is_script(data: Any) -> bool:
    """True for the steps of a scripted model, which lie beside machines often."""
    return isinstance(data, dict) and data.keys() <= {"script", "steps"}


def _held(given: list[_File], others: list[_File]) -> list[_File]:
    """Those of `others` that stand in the given machines, or in one another."""
    found: list[_File] = []
    waiting = [f for f in given if f.kind == "machine"]
    while waiting:
        data = waiting.pop().data
        names = set(_names(data.get("states"))) if isinstance(data, dict) else set()
        new = [f for f in others if f.name in names and f not in found]
        found += new
        waiting += new
    return found


def _names(data: Any) -> Iterator[str]:
    """The machines that some of these states names, however deep it stands."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "machine" and isinstance(value, str):
                yield value.partition("@")[0]
            yield from _names(value)
