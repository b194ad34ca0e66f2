"""The shape of one machine: every state is reached, no circle runs for ever, and success can be reached at all.

Guards are free here: what is proved about them is the study layer's matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import (
    CallState,
    ChooseState,
    MachineDefinition,
    RouteState,
    State,
    WaitState,
)
from statemachine_agent.definition.names import ENDS
from statemachine_agent.definition.rows import Row

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile


def rows_of(state: State) -> Iterator[Row]:
    """All rows of a state, whatever leads to them."""
    match state:
        case ChooseState():
            for choice in state.choose.values():
                yield from choice.rows
            yield from state.then
        case RouteState():
            yield from state.route
        case _:
            for rows in state.then.values():
                yield from rows


def targets(machine: MachineDefinition) -> dict[str, set[str]]:
    """For each state the states that a row leads to; ends left out."""
    return {
        name: {row.goto for row in rows_of(state) if row.goto and row.goto not in ENDS}
        for name, state in machine.states.items()
    }


def check_graph(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine's shape."""
    document, machine = file.document, file.definition
    graph = targets(machine)
    faults = []
    reached = _reach(graph, machine.initial)
    for name in machine.states:
        if name not in reached:
            message = f"nothing leads to `{name}`"
            faults.append(document.fault(("states", name), message, "lead to it, or remove it", key=True))
    if not any(row.goto == "SUCCEEDED" for name in reached for row in rows_of(machine.states[name])):
        message = "no path leads to SUCCEEDED"
        faults.append(
            document.fault(("states",), message, "let a row `goto: SUCCEEDED`", key=True, level=Level.WARNING)
        )
    routes = {n: {t for t in ts if _is_route(machine, t)} for n, ts in graph.items() if _is_route(machine, n)}
    bounded = {name for name in machine.states if _bounded(catalogue, machine, name)}
    free = {n: ts - bounded for n, ts in graph.items() if n not in bounded}
    route_circles = list(_circles(routes))
    for circle in route_circles:
        message = f"the routes {_words(circle)} lead back to themselves"
        faults.append(document.fault(("states", min(circle)), message, "break the circle", key=True))
    for circle in _circles(free):
        if circle not in route_circles:
            message = f"nothing bounds the circle {_words(circle)}"
            advice = "give a tool or a wait in it an `at_most`, or let the model decide in it"
            faults.append(document.fault(("states", min(circle)), message, advice, key=True))
    return faults


def _is_route(machine: MachineDefinition, name: str) -> bool:
    return isinstance(machine.states.get(name), RouteState)


def _bounded(catalogue: Catalogue, machine: MachineDefinition, name: str) -> bool:
    """True where each visit spends something of which there is only so much: a step, a call, an entry of a wait."""
    state = machine.states[name]
    match state:
        case ChooseState():
            return True
        case WaitState():
            return state.wait.at_most is not None
        case CallState():
            tool = catalogue.tool(state.call)
            return state.call in machine.at_most or bool(tool and tool.at_most)
        case _:
            return False


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    reached, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in graph and name not in reached:
            reached.add(name)
            waiting += graph[name]
    return reached


def _circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The sets of states that lead to each other."""
    reach = {name: _reach(graph, name) for name in graph}
    after = {name: set().union(*(reach.get(t, set()) for t in graph[name])) for name in graph}
    found = {frozenset(m for m in after[name] if name in after.get(m, ())) for name in graph if name in after[name]}
    return sorted(found, key=sorted)


def _words(names: frozenset[str]) -> str:
    return ", ".join(f"`{n}`" for n in sorted(names))
