"""Machines that hold others, put together: which are meant, in which order, and what keeps one from standing in another.

It must not know tools beyond whether a machine calls writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from statemachine_agent.definition.check_graph import circles
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.inlining import ends_of, inlined, unfilled, with_inlined
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import LOWER, UPPER
from statemachine_agent.definition.states import CallState, CompoundState, Inlined, State, SubMachineState, named_in
from statemachine_agent.text import did_you_mean, nearest

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile

#: states of a machine together with all that it holds; machines in machines multiply
MOST_STATES = 5_000


def in_order(catalogue: Catalogue) -> list[str]:
    """The names of all machines, those that others hold before them; where there is a circle, in any order."""
    found: dict[str, None] = {}
    opened: set[str] = set()
    waiting = [*catalogue.machines][::-1]
    while waiting:
        name = waiting[-1]
        held = [n for n in _held(catalogue, name) if n not in opened] if name not in opened else []
        opened.add(name)
        if held:
            waiting += held[::-1]
        else:
            found[waiting.pop()] = None
    return list(found)


def _held(catalogue: Catalogue, name: str) -> set[str]:
    """The machines that the states of one name."""
    file = catalogue.machines.get(name)
    return {state.name for _, state in _places(file.definition)} & catalogue.machines.keys() if file else set()


def _places(machine: MachineDefinition) -> list[tuple[str, SubMachineState]]:
    return [(name, state) for name, state in machine.all_states.items() if isinstance(state, SubMachineState)]


def in_circles(catalogue: Catalogue) -> list[frozenset[str]]:
    """The machines that are made of each other."""
    return circles({name: _held(catalogue, name) for name in catalogue.machines})


def put_together(catalogue: Catalogue, name: str, rings: list[frozenset[str]]) -> list[Fault]:
    """Put the machines that `name` holds in their places; where one cannot be, all stay out and the faults say why."""
    file = catalogue.machines[name]
    places = _places(file.definition)
    if not places:
        return []
    faults = [fault for place, state in places for fault in _unfit(catalogue, file, rings, place, state)]
    if not faults and _is_whole(catalogue, file, places):
        faults = _too_many(catalogue, file, places) or _clashes(catalogue, file, places)
    if not faults and _is_whole(catalogue, file, places):
        meant = {place: catalogue.machines[state.name].definition for place, state in places}
        states = _placed(catalogue, file.definition.states, meant)
        catalogue.machines[name] = replace(file, definition=with_inlined(file.definition, states))
    return faults


def _is_whole(catalogue: Catalogue, file: MachineFile, places: list[tuple[str, SubMachineState]]) -> bool:
    """True where all that is needed could be read: else that is told already, and nothing can be put anywhere."""
    wanted = (_ends_of(catalogue, state.name) <= state.then.keys() for _, state in places)
    filled = (not unfilled(catalogue.machines[state.name].definition, state.given) for _, state in places)
    return not file.definition.nesting.twice and all(wanted) and all(filled)


def _ends_of(catalogue: Catalogue, name: str) -> set[str]:
    held = catalogue.machines[name].definition
    return set(ends_of(held, writes=writes(catalogue, held)))


def _placed(
    catalogue: Catalogue, states: Mapping[str, State], meant: Mapping[str, MachineDefinition]
) -> dict[str, State]:
    """`states` with the machines that are `meant` for some of them."""
    found: dict[str, State] = {}
    for name, state in states.items():
        if isinstance(state, SubMachineState):
            found[name] = inlined(name, state, meant[name], writes=writes(catalogue, meant[name]))
        elif isinstance(state, CompoundState) and not isinstance(state, Inlined):
            found[name] = state.model_copy(update={"states": _placed(catalogue, state.states, meant)})
        else:
            found[name] = state
    return found


def writes(catalogue: Catalogue, machine: MachineDefinition) -> bool:
    """True where a state of `machine` calls a write."""
    called = [catalogue.tool(state.call) for state in machine.all_states.values() if isinstance(state, CallState)]
    return any(tool is not None and not tool.is_read for tool in called)


# ---------------------------------------------------------------- what keeps a machine out


def _unfit(
    catalogue: Catalogue, file: MachineFile, rings: list[frozenset[str]], place: str, state: SubMachineState
) -> Iterator[Fault]:
    """Why the machine that a state names cannot stand there by itself."""
    here: Path_ = (*file.definition.nesting.paths[place], "machine")
    name, document = state.name, file.document
    held = catalogue.machines.get(name)
    if held is None and not catalogue.knows_machine(name):
        yield document.fault(here, f"there is no machine `{name}`", did_you_mean(name, catalogue.machines))
    elif any({name, file.definition.machine} <= ring for ring in rings):
        yield document.fault(here, f"`{file.definition.machine}` is made of itself", "break the circle")
    elif held is None or name in catalogue.faulty:
        yield document.fault(here, f"the machine `{name}` has faults of its own", "mend them first")
    elif held.definition.version != state.version:
        message = f"the machine `{name}` is at version {held.definition.version}, and this names {state.version}"
        yield document.fault(here, message, f"read what changed, and write `{name}@{held.definition.version}`")
    else:
        ends = ends_of(held.definition, writes=writes(catalogue, held.definition))
        then: Path_ = (*here[:-1], "then")
        for end in ends:
            if end not in state.then and end not in document.left_out(then):
                yield document.fault(then, f"`then` lacks `{end}`", f"add `{end}:`; {_ends(name, ends)}", key=True)
        for end in state.then:
            if end not in ends:
                yield document.fault(
                    (*then, end), f"`{name}` never ends {end}", f"remove it; {_ends(name, ends)}", key=True
                )
        slips = {nearest(n, held.definition.input.keys() - state.given.keys()) for n in state.given}
        for text in unfilled(held.definition, state.given):
            if text.split(".")[1] in slips:
                continue  # what was meant is told of
            message = f"`{name}` refers to `{text}`, and nothing fills it"
            advice = f"fill it under `with`: `{text.split('.')[1]}: …`"
            yield document.fault((*here[:-1], "with"), message, advice, key=True)


def _ends(name: str, ends: tuple[str, ...]) -> str:
    return f"`{name}` ends {', '.join(ends)}"


def _too_many(catalogue: Catalogue, file: MachineFile, places: list[tuple[str, SubMachineState]]) -> list[Fault]:
    sizes = [len(catalogue.machines[state.name].definition.all_states) for _, state in places]
    if len(file.definition.all_states) + sum(sizes) <= MOST_STATES:
        return []
    message = f"with the machines that it holds, this has more than {MOST_STATES:,} states"
    return [file.document.fault(("states",), message, "let it hold fewer", key=True)]


def _clashes(catalogue: Catalogue, file: MachineFile, places: list[tuple[str, SubMachineState]]) -> list[Fault]:
    """Names that would stand for two things, or be longer than a name may be."""
    faults = []
    signals = dict(file.definition.signals)
    taken: dict[str, object] = {**file.definition.all_states, **file.definition.guards}
    for place, state in places:
        held = catalogue.machines[state.name].definition
        here = file.definition.nesting.paths[place]
        states = [named_in(place, n) for n in (*held.all_states, *_ends_of(catalogue, state.name))]
        guards = [named_in(place.lower(), n) for n in held.guards]
        named = [(n, UPPER) for n in states] + [(n, LOWER) for n in guards]
        long = next((n for n, form in named if not form.fullmatch(n)), None)
        if long is not None:
            message = f"`{long}` would be longer than a name may be"
            faults.append(file.document.fault(here, message, f"choose a shorter name for `{place}`", key=True))
        twice = next((n for n in (*states, *guards) if n in taken), None)
        if twice is not None:
            message = f"something of `{held.machine}` would be called `{twice}` here, and there is one"
            faults.append(
                file.document.fault(here, message, f"choose another name for `{place}`, or for that", key=True)
            )
        taken |= dict.fromkeys((*states, *guards))
        for signal, payload in held.signals.items():
            if signals.setdefault(signal, payload) != payload:
                message = f"the signal `{signal}` of `{held.machine}` holds something else than that of this machine"
                faults.append(file.document.fault(here, message, "describe both alike, or rename one", key=True))
    return faults
