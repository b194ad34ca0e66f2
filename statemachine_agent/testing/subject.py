"""A machine under test: compiled from its files, with everybody in it that a test may need.

Besides the project's own people there is `tester`, who has every scope that the machine's tools ask for, and for each role
three people who hold it (`support_lead-1` …). It must not know what a test does with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from statemachine_agent.chart.compile import CompiledMachine, checked_catalogue, compile_machine
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.people import People, Person
from statemachine_agent.definition.settings import load_project
from statemachine_agent.definition.source import Source
from statemachine_agent.definition.states import ApprovalState
from statemachine_agent.errors import UsageError
from statemachine_agent.policy.identity import Identity
from statemachine_agent.runtime.project import reach_of
from statemachine_agent.text import did_you_mean
from statemachine_agent.tools.request import Reach

#: who acts where a test names nobody
TESTER = "tester"
_OF_A_ROLE = 3


@dataclass(frozen=True)
class Subject:
    """A machine under test; get one with `load_machine` or `machine_from_texts`."""

    compiled: CompiledMachine
    #: the machine's catalogue, with the people that a test may need
    catalogue: Catalogue
    #: what its own tools may use, where a test lets them
    reach: Reach
    #: where its files lie; None where it was made from texts
    folder: Path | None = None

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.compiled.name

    @property
    def people(self) -> People:
        """Everybody there is, those included that were made up."""
        return self.catalogue.people or People(people={})

    def identity(self, person: str | None = None) -> Identity:
        """Somebody there is (`tester` where nobody is named); UsageError for anybody else."""
        name = person or TESTER
        if name not in self.people.people:
            raise UsageError(f"nobody is called `{name}`", hint=did_you_mean(name, self.people.people))
        return Identity(name, "asserted")


#: how a test names a machine: by its name in the project of the current folder, or as loaded
Machine: TypeAlias = Subject | str


def load_machine(name: str, folder: Path | str | None = None) -> Subject:
    """The machine `name` of the project in `folder` (the current one), as its settings say where things lie.

    UsageError where there is no such machine; FaultyDefinitionError, with every fault, where it does not load.
    """
    project = load_project(Path(folder).absolute() if folder is not None else None)
    catalogue = checked_catalogue(Catalogue.read(project.machines, project.tools, project.people, *project.listed))
    return subject_of(catalogue, name, reach_of(project), project.folder)


def machine_from_texts(machine: str, *tools: str, held: Iterable[str] = (), people: People | None = None) -> Subject:
    """A machine from YAML texts, for a test that stands in one file; errors as for `load_machine`.

    `held` are the machines that stand in it.
    """
    sources = [Source(f"tool{number}.yaml", text) for number, text in enumerate(tools, 1)]
    machines = [Source("machine.yaml", machine), *(Source(f"machine{n}.yaml", text) for n, text in enumerate(held, 1))]
    catalogue = checked_catalogue(Catalogue.build(machines, sources, people))
    names = list(catalogue.machines)
    return subject_of(catalogue, names[0] if names else "machine", Reach(), None)


def subject_of(catalogue: Catalogue, name: str, reach: Reach | None = None, folder: Path | None = None) -> Subject:
    """The machine `name` of a catalogue that was read and checked before."""
    compiled = compile_machine(catalogue, name)
    peopled = replace(catalogue, people=_peopled(catalogue.people, compiled), people_path=None)
    return Subject(compiled, peopled, reach or Reach(), folder)


def as_subject(machine: Machine) -> Subject:
    """`machine` as loaded."""
    return load_machine(machine) if isinstance(machine, str) else machine


def _peopled(people: People | None, machine: CompiledMachine) -> People:
    known = dict(people.people) if people is not None else {}
    scopes = sorted({scope for tool in machine.tools.values() for scope in tool.scopes})
    made_up = {TESTER: Person(scopes=tuple(scopes))}
    for role in sorted({*roles_of(machine), *(people.roles if people is not None else ())}):
        made_up |= {f"{role}-{number}": Person(roles=(role,)) for number in range(1, _OF_A_ROLE + 1)}
    return People(people={**made_up, **known})


def roles_of(machine: CompiledMachine) -> Iterable[str]:
    """Every role that may be asked for a yes."""
    for tool in machine.tools.values():
        for rule in tool.approval or ():
            yield from rule.by
    for state in machine.definition.all_states.values():
        if isinstance(state, ApprovalState):
            yield from state.approval.by or ()
