"""All machines and manifests of a project, read together, with everybody's faults in one report.

Later layers (guards, chart) add their own faults to the same report. It must not run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from statemachine_agent.canonical import digest
from statemachine_agent.definition import node
from statemachine_agent.definition.crosscheck import crosscheck
from statemachine_agent.definition.faults import Fault, FaultyDefinitionError, Mark, Report
from statemachine_agent.definition.machine import CallState, ChooseState, MachineDefinition, ReconcileState
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.people import People
from statemachine_agent.definition.source import Document, Source, read, read_text
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
    #: file names of machines that did not load, by the name they probably have
    broken: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        machines: Iterable[Path],
        tools: Iterable[Path],
        people: Path | None = None,
        variables: frozenset[str] | None = None,
    ) -> Catalogue:
        """Read files and folders (a folder stands for its `*.yaml` files)."""
        sources: list[list[Source]] = [[], []]
        faults: list[Fault] = []
        for found, places in zip(sources, (machines, tools), strict=True):
            for path in _files(places, faults):
                source, problems = read_text(path)
                faults += problems
                if not problems:
                    found.append(source)
        who: Source | None = None
        if people is not None:
            who, problems = read_text(people)
            faults += problems
            who = None if problems else who
        catalogue = cls.build(sources[0], sources[1], who, variables)
        catalogue.report.add(faults)
        return catalogue

    @classmethod
    def build(
        cls,
        machines: Iterable[Source],
        tools: Iterable[Source],
        people: Source | People | None = None,
        variables: frozenset[str] | None = None,
    ) -> Catalogue:
        """The same from texts."""
        catalogue = cls(variables=variables)
        if isinstance(people, People):
            catalogue.people = people
        elif people is not None:
            document = read(people)
            found = node.validate(document, People)
            catalogue.people = found or People(people={})
            catalogue.report.add(document.faults)
        for source in tools:
            catalogue._add_tool(read(source))
        for source in machines:
            catalogue._add_machine(read(source))
        catalogue.report.add(crosscheck(catalogue))
        return catalogue

    def _add_machine(self, document: Document) -> None:
        machine = node.validate(document, MachineDefinition)
        if machine is None:
            named = document.at(("machine",))
            self.broken[named if isinstance(named, str) else Path(document.source.name).stem] = document.source.name
        elif machine.machine in self.machines:
            first = self.machines[machine.machine].document.source.name
            document.faults.append(
                document.fault(("machine",), f"the machine `{machine.machine}` is there already", f"see {first}")
            )
        else:
            self.machines[machine.machine] = MachineFile(document, machine)
        self.report.add(document.faults)

    def _add_tool(self, document: Document) -> None:
        manifest = node.validate(document, ToolManifest)
        if manifest is not None and manifest.tool in self.tools:
            first = self.tools[manifest.tool].document.source.name
            document.faults.append(
                document.fault(("tool",), f"the tool `{manifest.tool}` is there already", f"see {first}")
            )
        elif manifest is not None:
            self.tools[manifest.tool] = ToolFile(document, manifest)
        self.report.add(document.faults)

    def lacks_role(self, role: str) -> bool:
        """True where it is known that nobody has `role`."""
        return self.people is not None and role not in self.people.roles

    def tool(self, name: str) -> ToolManifest | None:
        """The manifest of `name`, or None."""
        found = self.tools.get(name)
        return found.manifest if found else None

    def machine(self, name: str) -> MachineFile:
        """The machine `name`; UsageError where there is none, FaultyDefinitionError where it has faults."""
        if name in self.broken and name not in self.machines:
            raise FaultyDefinitionError(self._report_of({self.broken[name]}))
        if name not in self.machines:
            raise UsageError(f"there is no machine `{name}`", hint=did_you_mean(name, self.machines))
        found = self.machines[name]
        files = {found.document.source.name} | {
            self.tools[tool].document.source.name for tool in self.used_tools(found.definition) if tool in self.tools
        }
        report = self._report_of(files)
        if report.errors:
            raise FaultyDefinitionError(report)
        return found

    def _report_of(self, files: set[str]) -> Report:
        report = Report()
        report.add(f for f in self.report.errors if f.file in files)
        return report

    def used_tools(self, machine: MachineDefinition) -> list[str]:
        """Every tool that the machine can cause to be called, with those that look up and check its effects."""
        names = list(named_tools(machine))
        for name in names:  # grows while it is walked
            manifest = self.tool(name)
            if manifest is None:
                continue
            behind = [manifest.reconciler.tool] if manifest.reconciler else []
            behind += [manifest.precondition.tool] if manifest.precondition else []
            names += [b for b in behind if b not in names]
        return names

    def definition_hash(self, name: str) -> str:
        """The hash that a task pins: the machine's text and the texts of all tools it uses."""
        machine = self.machines[name]
        used = self.used_tools(machine.definition)
        return digest(
            {
                "machine": machine.document.source.hash,
                "tools": {tool: self.tools[tool].document.source.hash for tool in sorted(used) if tool in self.tools},
            }
        )


def named_tools(machine: MachineDefinition) -> Mapping[str, None]:
    """The tools that the states of a machine name, each once, in the order of the file."""
    names: dict[str, None] = {}
    for state in machine.states.values():
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


def _files(places: Iterable[Path], faults: list[Fault]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            found += sorted(p for p in place.rglob("*.y*ml") if p.suffix in (".yaml", ".yml") and p.is_file())
        elif place.exists():
            found.append(place)
        else:
            faults.append(Fault(str(place), Mark(), "is not there", "name a file or folder that exists"))
    return found
