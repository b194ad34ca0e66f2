"""What a machine masks or drops before anything is written (`redact`, `retain`): the paths, and whether they lead anywhere.

Who reads what is masked is checked a layer above. It must not know how a field is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.redaction import Masks, field_at, not_kept, split
from statemachine_agent.definition.schema import Properties
from statemachine_agent.definition.states import SubMachineState
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile


def masks_of(catalogue: Catalogue, machine: MachineDefinition) -> Masks:
    """All that `machine` masks or drops; of machines that stand in it, what they mask in evidence counts too."""
    known = _known(catalogue, machine)
    given: list[str] = []
    evidence: dict[str, dict[str, None]] = {}
    for one in (machine, *(state.of for state in machine.inlined.values())):
        for name, path in map(split, one.redact):
            if name:
                evidence.setdefault(name, {})[path] = None
            elif one is machine:
                given.append(path)
        for name, kept in one.retain.evidence.items():
            evidence.setdefault(name, {}).update(dict.fromkeys(not_kept(known.get(name, {}), kept)))
    if machine.retain.input is not None:
        given += not_kept(machine.input, machine.retain.input)
    return Masks(tuple(dict.fromkeys(given)), {name: tuple(paths) for name, paths in evidence.items() if paths})


def _known(catalogue: Catalogue, machine: MachineDefinition) -> Mapping[str, Properties]:
    tools = {name: catalogue.tool(name) for name in catalogue.used_tools(machine)}
    return {**{name: tool.returns for name, tool in tools.items() if tool is not None}, **machine.outside}


def check_masks(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine's `redact` and `retain`."""
    return [*_redact(catalogue, file), *_retain(catalogue, file)]


def _redact(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    document, machine = file.document, file.definition
    for index, path in enumerate(machine.redact):
        name, rest = split(path)
        here: Path_ = ("redact", index)
        properties = machine.input if not name else _known(catalogue, machine).get(name)
        if properties is None:
            if not _doubtful(catalogue, file, name):
                yield document.fault(here, *_no_evidence(catalogue, machine, name))
            continue
        found = field_at(properties, rest)
        where = f"evidence of `{name}`" if name else "the input"
        if found is None and not document.incomplete(("input",)):
            yield document.fault(here, f"{where} has no `{rest}`", did_you_mean(rest, properties))
        elif found is not None and found.kind != "string":
            message = f"`{path}` is {found.kind}, and only texts are masked"
            yield document.fault(here, message, "leave it out under `retain`, which drops it")


def _retain(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    document, machine = file.document, file.definition
    for index, path in enumerate(machine.retain.input or ()):
        if field_at(machine.input, path) is None and not document.incomplete(("input",)):
            here: Path_ = ("retain", "input", index)
            yield document.fault(here, f"the input has no `{path}`", did_you_mean(path, machine.input))
    for name, paths in machine.retain.evidence.items():
        properties = _known(catalogue, machine).get(name)
        if properties is None:
            if not _doubtful(catalogue, file, name):
                here = ("retain", "evidence", name)
                yield document.fault(here, *_no_evidence(catalogue, machine, name), key=True)
            continue
        for index, path in enumerate(paths):
            if field_at(properties, path) is None:
                here = ("retain", "evidence", name, index)
                yield document.fault(here, f"evidence of `{name}` has no `{path}`", did_you_mean(path, properties))


def _no_evidence(catalogue: Catalogue, machine: MachineDefinition, name: str) -> tuple[str, str]:
    return f"no evidence is called `{name}`", did_you_mean(name, _known(catalogue, machine))


def _doubtful(catalogue: Catalogue, file: MachineFile, name: str) -> bool:
    """True where evidence of that name may come from something that could not be read."""
    unread = any(file.document.incomplete((part,)) for part in ("states", "signals"))
    held = any(isinstance(state, SubMachineState) for state in file.definition.all_states.values())
    return unread or held or name in catalogue.doubtful
