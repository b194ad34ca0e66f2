"""The shape of one machine: every state is reached, no circle runs for ever, and success can be reached at all.

Guards are free here: what is proved about them is the study layer's matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from statemachine_agent.definition.document import Document
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import (
    CallState,
    ChooseState,
    CompoundState,
    RouteState,
    State,
    SubMachineState,
    WaitState,
)

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
    """For each state the states that a row leads to, written out to those that hold no others; ends left out."""
    return {name: led(machine, name, rows_of(state)) for name, state in _plain(machine).items()}


def _plain(machine: MachineDefinition) -> dict[str, State]:
    """The states that hold no others."""
    return {name: state for name, state in machine.all_states.items() if not isinstance(state, CompoundState)}


def led(machine: MachineDefinition, name: str, rows: Iterable[Row]) -> set[str]:
    """The states that are entered where rows of `name` lead."""
    found = {leaf for row in rows if row.goto for leaf in machine.nesting.leads(name, row.goto)}
    return found - set(ENDS)


def check_graph(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine's shape."""
    document, machine = file.document, file.definition
    graph = targets(machine)
    whole = _is_whole(document, machine, graph) and not _leads_nowhere(catalogue, machine)
    faults = _reached(document, machine, graph) if whole else []
    routes = {n: {t for t in ts if _is_route(machine, t)} for n, ts in graph.items() if _is_route(machine, n)}
    free = {name: _free_targets(catalogue, machine, name) for name in _plain(machine)}
    route_circles = circles(routes)
    for circle in route_circles:
        one = len(circle) == 1
        message = (
            f"the route {_words(circle)} leads to itself" if one else f"the routes {_words(circle)} lead in a circle"
        )
        faults.append(document.fault(machine.nesting.paths[min(circle)], message, "break the circle", key=True))
    for circle in circles(free):
        if not any(circle >= of_routes for of_routes in route_circles):
            message = f"nothing bounds the circle {_words(circle)}"
            limited = any(_is_limited(catalogue, machine, machine.all_states[name]) for name in circle)
            advice = _LEAD_OUT if limited else "give a tool or a wait in it an `at_most`, or let the model decide in it"
            faults.append(document.fault(machine.nesting.paths[min(circle)], message, advice, key=True))
    return faults


def _is_whole(document: Document, machine: MachineDefinition, graph: dict[str, set[str]]) -> bool:
    """True where every state could be read and every target exists: else a path may be there that is not seen."""
    unread = document.incomplete(("states",)) or document.incomplete(("initial",))
    unread = unread or not machine.all_states.keys().isdisjoint(ENDS)  # a target could mean either
    first = machine.nesting.entered(machine.initial)
    return not unread and set(first) <= graph.keys() and all(ts <= graph.keys() for ts in graph.values())


def _leads_nowhere(catalogue: Catalogue, machine: MachineDefinition) -> bool:
    """True where a write is offered and leads nowhere: that is told there, and what is not reached mostly follows from it."""
    return any(
        tool is not None and not tool.is_read and not any(row.goto for row in choice.rows)
        for state in machine.all_states.values()
        if isinstance(state, ChooseState)
        for tool, choice in ((catalogue.tool(name), choice) for name, choice in state.choose.items())
    )


def _reached(document: Document, machine: MachineDefinition, graph: dict[str, set[str]]) -> list[Fault]:
    faults = []
    reached = _reach(graph, machine.nesting.entered(machine.initial))
    for name in graph:
        if name not in reached and machine.scope(name) is None:  # what another machine holds was checked with it
            message = f"nothing leads to `{name}`"
            path = machine.nesting.paths[name]
            faults.append(document.fault(path, message, "lead to it, or remove it", key=True))
    if not any(row.goto == "SUCCEEDED" for state in machine.all_states.values() for row in rows_of(state)):
        message = "no path leads to SUCCEEDED"
        advice = "let a row `goto: SUCCEEDED`"
        faults.append(document.fault(("states",), message, advice, key=True, level=Level.WARNING))
    return faults


def _is_route(machine: MachineDefinition, name: str) -> bool:
    return isinstance(machine.all_states.get(name), RouteState)


#: outcomes of a call with `at_most` that may come without a call: an answer of the ledger, and what keeps it from being made
_UNSPENT: Mapping[bool, frozenset[str]] = {True: frozenset({"failed"}), False: frozenset({"ok", "blocked"})}


_LEAD_OUT = (
    "let what uses up no `at_most` lead out of it: `failed` of a read, `ok` and `blocked` of a write,"
    " `exhausted` of a wait"
)


def _is_limited(catalogue: Catalogue, machine: MachineDefinition, state: State) -> bool:
    """True where some way out of the state spends something of which there is only so much."""
    match state:
        case WaitState():
            return state.wait.at_most is not None
        case CallState():
            tool = catalogue.tool(state.call)
            return state.call in machine.at_most or tool is None or tool.at_most is not None
        case _:
            return isinstance(state, ChooseState)


def _free_targets(catalogue: Catalogue, machine: MachineDefinition, name: str) -> set[str]:
    """The states to which a row leads that spends nothing of which there is only so much: a step, a call, an entry of a wait."""
    state = machine.all_states[name]
    tool = catalogue.tool(state.call) if isinstance(state, CallState) else None
    rows: Iterable[Row]
    match state:
        case ChooseState() | SubMachineState():  # what goes on in another machine is not known here
            return set()
        case WaitState() if _is_limited(catalogue, machine, state):
            rows = state.then.get("exhausted", ())
        case CallState() if _is_limited(catalogue, machine, state):
            free = _UNSPENT[tool.is_read] if tool is not None else frozenset()
            rows = [row for outcome, targets in state.then.items() if outcome in free for row in targets]
        case _:
            rows = rows_of(state)
    return led(machine, name, rows)


def _reach(graph: dict[str, set[str]], start: Iterable[str]) -> set[str]:
    reached, waiting = set(), [*start]
    while waiting:
        name = waiting.pop()
        if name in graph and name not in reached:
            reached.add(name)
            waiting += graph[name]
    return reached


def circles(graph: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """The sets of states that lead to each other, in linear time (Tarjan's components, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[frozenset[str]] = []
    for root in graph:
        if root in number:
            continue
        waiting = [(root, iter(sorted(graph[root])))]
        while waiting:
            name, rest = waiting[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                stack.append(name)
                on_stack.add(name)
            for target in rest:
                if target in graph and target not in number:
                    waiting.append((target, iter(sorted(graph[target]))))
                    break
                if target in on_stack:
                    lowest[name] = min(lowest[name], lowest[target])
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == number[name]:
                    cut = stack.index(name)
                    component = frozenset(stack[cut:])
                    del stack[cut:]
                    on_stack -= component
                    if len(component) > 1 or name in graph[name]:
                        found.append(component)
    return sorted(found, key=sorted)


_SHOWN = 6


def _words(names: frozenset[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(f"`{n}`" for n in shown[:_SHOWN]) + more
