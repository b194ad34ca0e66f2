"""Machines that stand in two places of one holder, or are entered again: effects are the task's, so one use sees the other's.

It only warns, and only where the machine writes and its `success` reads effects without its input. It must not refuse anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statemachine_agent.definition.catalogue import Catalogue, MachineFile
from statemachine_agent.definition.check_graph import targets
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.states import CallState, named_in
from statemachine_agent.guards.check import Checked

_ADVICE = "let it compare the effect's `key` with its `input`"


def succeeds_by_another(catalogue: Catalogue, file: MachineFile, guards: Mapping[str, Checked]) -> Iterator[Fault]:
    """A warning at each later place of such a machine, and at one that can be entered again."""
    machine = file.definition
    graph = targets(machine) if machine.inlined else {}
    first: dict[str, str] = {}
    for name, state in machine.inlined.items():
        called = state.of.machine
        guard = _asks_effects(machine, name, guards) if _writes(catalogue, machine, name) else None
        if guard is None:
            continue
        before = first.setdefault(called, name)
        if before != name:
            where = f"in `{before}` too"
        elif _again(machine, graph, name):
            where = "where it can be entered again"
        else:
            continue
        text = f"`{called}` stands {where}, and its `{guard}` can hold by what it did before: effects are the task's"
        own = [n for n in (name, *machine.nesting.above(name)) if machine.scope(n) is None]
        yield file.document.fault(machine.nesting.paths[own[0]], text, _ADVICE, key=True, level=Level.WARNING)


def _writes(catalogue: Catalogue, machine: MachineDefinition, name: str) -> bool:
    states = (machine.all_states[n] for n in machine.nesting.within(name))
    tools = [catalogue.tool(s.call) for s in states if isinstance(s, CallState)]
    return any(tool is not None and not tool.is_read for tool in tools)


def _asks_effects(machine: MachineDefinition, name: str, guards: Mapping[str, Checked]) -> str | None:
    """The guard of its `success`, by its own name, that reads effects and nothing of its own by which to tell them apart."""
    own: dict[str, str] = {named_in(name.lower(), guard): guard for guard in machine.inlined[name].of.guards}
    for asked in written_out(machine, (named_in(name.lower(), g) for g in machine.inlined[name].of.success)):
        roots = {path[0] for path in guards[asked].syntax.paths} if asked in guards else set()
        if "effects" in roots and "input" not in roots:
            return own.get(asked, asked)
    return None


def _again(machine: MachineDefinition, graph: Mapping[str, set[str]], name: str) -> bool:
    """True where a way from one of its ends leads into it."""
    ends = set(machine.inlined[name].ends.values())
    within = set(machine.nesting.within(name)) - ends
    reached, waiting = set(ends), [*ends]
    while waiting:
        more = graph.get(waiting.pop(), set()) - reached
        if more & within:
            return True
        reached |= more
        waiting += more
    return False
