"""Values of `with` that refer to something optional: where it is absent, the tool is not called.

It only warns: an author may know that it is there. A guard that asks `has(…)` of it says that it was thought of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statemachine_agent.definition import references
from statemachine_agent.definition.catalogue import Catalogue, MachineFile, ToolFile
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.schema import Property
from statemachine_agent.definition.states import CallState, ChooseState
from statemachine_agent.guards import contexts


def absent_in_machine(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    """A warning for each reference of a machine that may lead to nothing, at the reference."""
    roots = contexts.machine_roots(catalogue, file.definition)
    asked = "".join("".join(g.split()) for g in file.definition.guards.values() if isinstance(g, str))
    for path, tool, given in _filled(file.definition):
        for name, reference in _optional(given, references.MACHINE_ROOTS, roots):
            if f"has({reference.text})" not in asked:
                text = f"`{reference.text}` may be absent, and then `{tool}` is not called"
                advice = f"make it required, or ask `has({reference.text})` in a row before"
                yield file.document.fault((*path, name), text, advice, level=Level.WARNING)


def absent_in_tool(catalogue: Catalogue, file: ToolFile) -> Iterator[Fault]:
    """The same for what a write looks up: without an answer it is blocked, or stays in doubt."""
    tool = file.manifest
    for path, what in ((("idempotency", "reconcile"), tool.reconciler), (("precondition",), tool.precondition)):
        lookup = catalogue.tool(what.tool) if what else None
        if what is None or lookup is None:
            continue
        for name, reference in _optional(what.given, references.MANIFEST_ROOTS, contexts.lookup_roots(tool, lookup)):
            text = f"`{reference.text}` may be absent, and then `{what.tool}` is not asked"
            advice = "make the argument required, or ask by another"
            yield file.document.fault((*path, "with", name), text, advice, level=Level.WARNING)


def _filled(machine: MachineDefinition) -> Iterator[tuple[Path_, str, Mapping[str, Any]]]:
    """Every `with` of a machine: its path, the tool, its values."""
    for name, state in machine.all_states.items():
        if machine.scope(name) is not None:
            continue  # told where that machine is defined
        match state:
            case ChooseState():
                for tool, choice in state.choose.items():
                    yield ("states", name, "choose", tool, "with"), tool, choice.pinned
            case CallState(given=given) if not isinstance(given, str):
                yield ("states", name, "with"), state.call, given
            case _:
                pass


def _optional(
    given: Mapping[str, Any], named: frozenset[str], roots: contexts.Roots
) -> Iterator[tuple[str, references.Reference]]:
    for name, value in given.items():
        parsed = references.parse(value, named)
        if isinstance(parsed, references.Reference) and _may_be_absent(parsed, roots.get(parsed.root)):
            yield name, parsed


def _may_be_absent(reference: references.Reference, root: object) -> bool:
    """True where something on the way is declared optional; an element beyond the end of a list is the author's to ask."""
    within: object = root
    for step in reference.steps:
        if isinstance(step, int):
            found = within.items if isinstance(within, Property) else None
        else:
            properties = within.properties if isinstance(within, Property) else within
            found = properties.get(step) if isinstance(properties, Mapping) else None
        if not isinstance(found, Property):
            return False
        if found.optional:
            return True
        within = found
    return False
