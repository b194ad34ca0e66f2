"""All machines and manifests of a project, read together, with everybody's faults in one report.

Later layers (guards, chart) add their own faults to the same report. It must not run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statemachine_agent import files
from statemachine_agent.canonical import digest
from statemachine_agent.definition import node
from statemachine_agent.definition.crosscheck import crosscheck
from statemachine_agent.definition.document import Document, Source
from statemachine_agent.definition.faults import Fault, FaultyDefinitionError, Mark, Report
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.names import CONTROLS, LOWER
from statemachine_agent.definition.people import People
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.definition.states import CallState, ChooseState, ReconcileState
from statemachine_agent.errors import UsageError
from statemachine_agent.text import did_you_mean


@dataclass(frozen=True)
class MachineFile:
    """A machine and the file that it was read from."""

    document: Document
    definition: MachineDefinition


@dataclass(frozen=True)
class ToolFile:
    """A manifest and the file that it was read from."""

    document: Document
    manifest: ToolManifest


@dataclass
class Catalogue:
    """What there is to run. Build it with `read` (from files) or `build` (from texts)."""

    machines: dict[str, MachineFile] = field(default_factory=dict)
    tools: dict[str, ToolFile] = field(default_factory=dict)
    #: None where people are not known, and roles are not checked
    people: People | None = None
    report: Report = field(default_factory=Report)
    #: names that `${…}` may use; None where the settings are not known, and nothing is checked
    variables: frozenset[str] | None = None
    #: names that `oauth2` may use, with the same None
    token_sources: frozenset[str] | None = None
    #: names that `model` may use, with the same None
    models: frozenset[str] | None = None
    #: tools whose files have faults of form: they exist, and nothing can be said about them
    doubtful: set[str] = field(default_factory=set)
    #: whether its expressions have been checked, too, a layer above
    is_checked: bool = False
    #: machines with faults, which no other can hold
    faulty: set[str] = field(default_factory=set)
    #: the files that define (`machine` or `tool`, name), also those that could not be read
    _files: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    people_file: str | None = None
    #: where people were read from, to be read again when it changes; None where they were given
    people_path: Path | None = None
    #: what later checks found out of a machine, so that each of them need not do it again
    notes: dict[tuple[str, str], list[Any]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(
        cls,
        machines: Iterable[Path],
        tools: Iterable[Path],
        people: Path | None = None,
        variables: frozenset[str] | None = None,
        token_sources: frozenset[str] | None = None,
        models: frozenset[str] | None = None,
    ) -> Catalogue:
        """Read files and folders (a folder stands for its `*.yaml` files)."""
        sources: list[list[Source]] = [[], []]
        faults: list[Fault] = []
        for found, places in zip(sources, (machines, tools), strict=True):
            for path in files_at(places, faults):
                source, problems = read_text(path)
                faults += problems
                if not problems:
                    found.append(source)
        who: Source | None = None
        if people is not None:
            who, problems = read_text(people)
            faults += problems
            who = None if problems else who
        catalogue = cls.build(sources[0], sources[1], who, variables, token_sources, models)
        catalogue.people_path = people
        catalogue.people_file = str(people) if people is not None else None
        catalogue.report.add(faults)
        return catalogue

    @classmethod
    def build(
        cls,
        machines: Iterable[Source],
        tools: Iterable[Source],
        people: Source | People | None = None,
        variables: frozenset[str] | None = None,
        token_sources: frozenset[str] | None = None,
        models: frozenset[str] | None = None,
    ) -> Catalogue:
        """The same from texts."""
        catalogue = cls(variables=variables, token_sources=token_sources, models=models)
        if isinstance(people, People):
            catalogue.people = people
        elif people is not None:
            document = read(people)
            found = node.validate(document, People)
            catalogue.people = None if document.faults else found
            catalogue.report.add(document.faults)
            catalogue.people_file = people.name
        for source in tools:
            catalogue._add_tool(read(source))
        for source in machines:
            catalogue._add_machine(read(source))
        catalogue.report.add(crosscheck(catalogue))
        return catalogue

    def _add_machine(self, document: Document) -> None:
        machine = node.validate(document, MachineDefinition)
        self._claim(document, "machine")
        if machine is not None and machine.machine in self.machines:
            self._twice(document, "machine", machine.machine, self.machines[machine.machine].document)
        elif machine is not None:
            self.machines[machine.machine] = MachineFile(document, machine)
        self.report.add(document.faults)

    def _add_tool(self, document: Document) -> None:
        manifest = node.validate(document, ToolManifest)
        names = self._claim(document, "tool")
        if document.faults:
            self.doubtful |= names
        if manifest is not None and manifest.tool in self.tools:
            self._twice(document, "tool", manifest.tool, self.tools[manifest.tool].document)
        elif manifest is not None:
            self.tools[manifest.tool] = ToolFile(document, manifest)
        self.report.add(document.faults)

    def _claim(self, document: Document, kind: str) -> set[str]:
        """The name that a file stands for; one that cannot be read has most likely that of its file."""
        named = document.at((kind,))
        is_name = isinstance(named, str) and LOWER.fullmatch(named)
        names = {str(named)} if is_name else {Path(document.source.name).stem}
        for name in names:
            self._files.setdefault((kind, name), set()).add(document.source.name)
        return names

    @staticmethod
    def _twice(document: Document, kind: str, name: str, first: Document) -> None:
        advice = f"rename one; the first is in {first.source.name}"
        document.faults.append(document.fault((kind,), f"the {kind} `{name}` is there already", advice))

    def lacks_role(self, role: str) -> bool:
        """True where it is known that nobody has `role`."""
        return self.people is not None and role not in self.people.roles

    def knows_tool(self, name: str) -> bool:
        """True where there is a manifest of `name`, even one with faults."""
        return name in self.tools or name in self.doubtful

    def knows_machine(self, name: str) -> bool:
        """True where some file defines the machine `name`, even one that cannot be read."""
        return ("machine", name) in self._files

    def tool(self, name: str) -> ToolManifest | None:
        """The manifest of `name`; None where there is none, or one of which not all could be read."""
        found = self.tools.get(name)
        return found.manifest if found and name not in self.doubtful else None

    def machine(self, name: str) -> MachineFile:
        """The machine `name`; UsageError where there is none, FaultyDefinitionError where anything it needs has faults."""
        files = set(self._files.get(("machine", name), ()))
        if not files:
            raise UsageError(f"there is no machine `{name}`", hint=_advice(name, self.machines))
        if name in self.machines:
            for tool in self.used_tools(self.machines[name].definition):
                files |= self._files.get(("tool", tool), set())
            for held in held_machines(self.machines[name].definition):
                files |= self._files.get(("machine", held), set())
        if self.people_file is not None:
            files.add(self.people_file)
        report = Report()
        report.add(f for f in self.report.errors if f.file in files)
        if report.errors or name not in self.machines:
            raise FaultyDefinitionError(report)
        return self.machines[name]

    def readable_tools(self, machine: MachineDefinition) -> list[str]:
        """The tools whose results a guard may read: all it uses; any tool where one of those, or a state, cannot be read."""
        used = self.used_tools(machine)
        any_tool = self.unread_states(machine) or self.doubtful.intersection(used)
        return [*used, *(t for t in self.tools if t not in used)] if any_tool else used

    def unread_states(self, machine: MachineDefinition) -> bool:
        """True where the file has states of the machine, or parts of them, that could not be read."""
        file = self.machines.get(machine.machine)
        return file is not None and file.document.incomplete(("states",))

    def used_tools(self, machine: MachineDefinition) -> list[str]:
        """Every tool that the machine can cause to be called, with those that look up and check its effects."""
        names = list(named_tools(machine))
        for name in names:  # grows while it is walked
            if name not in self.tools:
                continue
            manifest = self.tools[name].manifest
            behind = [manifest.reconciler.tool] if manifest.reconciler else []
            behind += [manifest.precondition.tool] if manifest.precondition else []
            names += [b for b in behind if b not in names]
        return names

    def definition_hash(self, name: str) -> str:
        """The hash that a task pins: the machine's text, those of machines in it, and the texts of all tools it uses."""
        machine = self.machines[name]
        used, held = self.used_tools(machine.definition), held_machines(machine.definition)
        machines = {name: self.machines[name].document.source.hash for name in sorted(held)}
        return digest(
            {
                "machine": machine.document.source.hash,
                "tools": {tool: self.tools[tool].document.source.hash for tool in sorted(used) if tool in self.tools},
                **({"machines": machines} if machines else {}),
            }
        )


def named_tools(machine: MachineDefinition) -> Mapping[str, None]:
    """The tools that the states of a machine name, each once, in the order of the file."""
    names: dict[str, None] = {}
    for state in machine.all_states.values():
        match state:
            case ChooseState():
                names.update(dict.fromkeys(t for t in state.choose if t not in CONTROLS))
            case CallState():
                names[state.call] = None
            case ReconcileState():
                names[state.reconcile] = None
            case _:
                pass
    return names


def held_machines(machine: MachineDefinition) -> set[str]:
    """The machines that stand in this one, also those within others."""
    return {state.of.machine for state in machine.inlined.values()}


_NOT_THERE = "make it, or name another file or folder in the settings"


def _advice(name: str, machines: Iterable[str]) -> str:
    return did_you_mean(name, machines) if machines else "no machine is defined here; `sma check` says what is there"


def files_at(places: Iterable[Path], faults: list[Fault]) -> list[Path]:
    """The files that `places` stand for, each once; a folder stands for its YAML files, and a fault for what is not there."""
    found: dict[Path, Path] = {}
    for place in places:
        kind, reason = files.look(place)
        if kind is files.Kind.FOLDER:
            inside = files.below(place, (".yaml", ".yml"))
        elif kind is files.Kind.NOTHING:
            inside = []
            faults.append(Fault(str(place), Mark(), reason, _NOT_THERE))
        else:
            inside = [place]
        for path in inside:
            found.setdefault(path.resolve(), path)  # a file named twice is one file
    return list(found.values())
