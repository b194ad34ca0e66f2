"""Which evidence is surely there when a state is entered, and guards that read what may be missing.

A must-analysis over the rows: what a path records, and what a passed `has(evidence.T)` shows, holds behind it, until a write
makes it old. It only warns: a guard that reads absent evidence ends the task, and authors forget to ask `has(…)` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from statemachine_agent.definition.catalogue import Catalogue, MachineFile
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.nesting import DONE, holds
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import CallState, ChooseState, ReconcileState, WaitState

Tools = frozenset[str]

_HAS = re.compile(r"has\(\s*evidence\.(\w+)\s*\)")
_READ = re.compile(r"evidence\.(\w+)\s*[.\[]")


def missing_evidence(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    """A warning for each guard that may read a result which is not there, at the guard."""
    machine = file.definition
    present = _at_entry(catalogue, machine)
    warned: set[tuple[str, str]] = set()
    for name in machine.all_states:
        for known, gone, rows in _lists(catalogue, machine, name):
            for guard, tool in _unsure(machine, (present.get(name, frozenset()) - gone) | known, rows):
                if (guard, tool) not in warned and guard not in machine.guard_scopes:
                    warned.add((guard, tool))
                    text = f"`{guard}` reads `evidence.{tool}`, which may not be there yet in `{name}`"
                    advice = f"ask `has(evidence.{tool})` in a row above, or in the guard: `has(…) && …`"
                    yield file.document.fault(("guards", guard), text, advice, key=True, level=Level.WARNING)


def _at_entry(catalogue: Catalogue, machine: MachineDefinition) -> Mapping[str, Tools]:
    """For each state the tools whose results are there on every path to it; unreached states are left out.

    For a state of states it is what is there when that is done: of regions, what all of them brought together.
    """
    nesting = machine.nesting
    present: dict[str, Tools] = {}
    waiting: list[str] = []

    def come(name: str, there: Tools) -> None:
        there -= _old_beside(catalogue, machine, name)
        merged = there if name not in present else present[name] & there
        if present.get(name) != merged:
            present[name] = merged
            waiting.append(name)

    for leaf in nesting.entered(machine.initial):
        come(leaf, frozenset())
    while waiting:
        name = waiting.pop()
        if nesting.is_region(name) and holds(nesting.states[name]):
            regions = (name, *nesting.siblings(name))
            if all(region in present for region in regions):
                together = frozenset().union(*(present[region] for region in regions))
                present[nesting.parents[name]] = together
                waiting.append(nesting.parents[name])
            continue
        for target, there in _edges(catalogue, machine, name, present[name]):
            for one in [nesting.parents.get(name, "")] if target == DONE else nesting.entered(target):
                if one in nesting.states:
                    come(one, there)
    return present


def _edges(catalogue: Catalogue, machine: MachineDefinition, name: str, before: Tools) -> Iterator[tuple[str, Tools]]:
    for known, gone, rows in _lists(catalogue, machine, name):
        there = (before - gone) | known
        for row in rows:
            passed = there | _shown(machine, row.when or ())
            if row.goto:
                yield row.goto, passed
            if row.unless and not (row.goto or row.stay):  # a refusal that did not hold: all of its guards did
                there |= _shown(machine, row.unless)


def _lists(catalogue: Catalogue, machine: MachineDefinition, name: str) -> Iterator[tuple[Tools, Tools, Sequence[Row]]]:
    """The lists of rows of a state, each with the tools whose results are new, and old, when it is judged."""
    none: Tools = frozenset()
    state, scope = machine.all_states[name], machine.scope(name)
    match state:
        case ChooseState():
            for tool, choice in state.choose.items():
                manifest = catalogue.tool(tool)
                if tool == "finish" and scope is not None:  # its answer is evidence where it leads
                    yield none, none, [row for row in choice.rows if row.refuse]
                    yield frozenset({machine.inlined[scope].of.machine}), none, [r for r in choice.rows if r.goto]
                elif tool in CONTROLS or manifest is None or not manifest.is_read:
                    yield none, none, choice.rows
                else:  # a read's refusals are judged before it is called, its targets on its result
                    yield none, none, [row for row in choice.rows if row.refuse]
                    yield frozenset({tool}), none, [row for row in choice.rows if not row.refuse]
            yield none, none, state.then
        case CallState(call=tool) | ReconcileState(reconcile=tool):
            for outcome, rows in state.then.items():
                came = str(outcome) in ("ok", "found")
                yield frozenset({tool} if came else ()), _made_old(catalogue, tool) if came else none, rows
        case WaitState():
            for came_by, rows in state.then.items():
                signal = state.wait.signal if came_by == "received" else None
                yield frozenset({signal} if signal else ()), none, rows
        case _:
            for rows in getattr(state, "then", {}).values():
                yield none, none, rows
            yield none, none, getattr(state, "route", ())


def _made_old(catalogue: Catalogue, tool: str) -> Tools:
    """The reads whose results are old once an effect of `tool` is done; what found the effect came after it."""
    write = catalogue.tool(tool)
    if write is None or write.is_read:
        return frozenset()
    found_by = write.reconciler.tool if write.reconciler else None
    return frozenset(n for n, f in catalogue.tools.items() if write.makes_old(f.manifest) and n != found_by)


def _old_beside(catalogue: Catalogue, machine: MachineDefinition, name: str) -> Tools:
    """The reads whose results may become old at any time, since a region beside this one calls a write."""
    nesting = machine.nesting
    old: set[str] = set()
    for region in (name, *nesting.above(name)):
        for beside in nesting.siblings(region) if nesting.is_region(region) else ():
            for state in (nesting.states[one] for one in nesting.within(beside)):
                old |= _made_old(catalogue, state.call) if isinstance(state, CallState) else set()
    return frozenset(old)


def _unsure(machine: MachineDefinition, there: Tools, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Guards of these rows, with a tool whose result they read and may not find."""
    for row in rows:
        seen = there
        for name in written_out(machine, (*(row.when or ()), *(row.unless or ()))):
            text = machine.guards.get(name)
            if isinstance(text, str):
                own = set(_HAS.findall(text))
                yield from ((name, tool) for tool in _READ.findall(text) if tool not in seen | own)
                seen |= own if row.when or row.unless else frozenset()
        if row.refuse is not None and row.unless:
            there |= _shown(machine, row.unless)


def _shown(machine: MachineDefinition, names: Sequence[str]) -> Tools:
    """The tools whose results are there if all of these guards hold."""
    texts = (machine.guards.get(name) for name in written_out(machine, names))
    return frozenset(t for text in texts if isinstance(text, str) and "||" not in text for t in _HAS.findall(text))
