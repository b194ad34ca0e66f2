"""Masked fields that something reads: a guard, a condition or a reference would see the mask and take it for the value.

It must not know how a field is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from statemachine_agent.definition import references
from statemachine_agent.definition.catalogue import Catalogue, MachineFile
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.machine import CallState, ChooseState
from statemachine_agent.guards.check import Checked, checked_guards

_RESULT = re.compile(r"(?:evidence\.(?P<one>\w+)|results\.(?P<all>\w+)\[\]\.result)\.(?P<path>.+)")


def read_masks(catalogue: Catalogue) -> Iterator[Fault]:
    """A fault for each guard and each reference that reads a masked field."""
    masks = {name: file.manifest.redact for name, file in catalogue.tools.items() if file.manifest.redact}
    for machine in catalogue.machines.values() if masks else ():
        told: set[Path_] = set()
        for tool, path, place, reader in (*_by_guards(catalogue, machine), *_by_references(machine)):
            if path in masks.get(tool, ()) and place not in told:
                told.add(place)
                message = f"{reader} reads `{path}` of `{tool}`, which is masked"
                yield machine.document.fault(place, message, "decide on another field, or do not mask it", key=True)


def fields_read(checked: Checked) -> Iterator[tuple[str, str]]:
    """The tools and paths of the results that an expression reads."""
    for message, name in sorted(checked.syntax.fields):
        where, _ = checked.types.known.get(message, ("", {}))
        found = _RESULT.fullmatch(f"{where}.{name}")
        if found:
            path = found["path"]
            yield found["one"] or found["all"], path
            yield found["one"] or found["all"], f"{path}[]"  # a list that is read is read with what it holds


def _by_guards(catalogue: Catalogue, machine: MachineFile) -> Iterator[tuple[str, str, Path_, str]]:
    for name, _, checked, _ in checked_guards(catalogue, machine):
        for tool, path in fields_read(checked) if checked is not None else ():
            yield tool, path, ("guards", name), f"`{name}`"


def _by_references(machine: MachineFile) -> Iterator[tuple[str, str, Path_, str]]:
    for name, state in machine.definition.all_states.items():
        given: list[Mapping[str, Any]] = []
        if isinstance(state, ChooseState):
            given = [choice.pinned for choice in state.choose.values()]
        elif isinstance(state, CallState) and isinstance(state.given, Mapping):
            given = [state.given]
        for values in given:
            for value in values.values():
                parsed = references.parse(value, references.MACHINE_ROOTS)
                if isinstance(parsed, references.Reference) and parsed.root == "evidence" and len(parsed.steps) > 1:
                    tool, *steps = parsed.steps
                    path = "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
                    yield str(tool), path, machine.definition.nesting.paths[name], f"a `with` of `{name}`"
