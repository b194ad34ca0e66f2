"""What changed in meaning between two versions of a machine: fields, states, ways, tools; not lines, comments or order of keys.

Both are compared as they are compiled, so a short form and its long one are the same. It must not know tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from statemachine_agent.canonical import canonical
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.definition.nesting import DONE, done_of
from statemachine_agent.definition.states import State
from statemachine_agent.times import duration


@dataclass(frozen=True)
class Change:
    """One difference: what stands at a place; None where nothing does."""

    where: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"+ {self.where}: {self.new}"
        if self.new is None:
            return f"- {self.where}: {self.old}"
        return f"~ {self.where}: {self.old} → {self.new}"


def changes(old: CompiledMachine, new: CompiledMachine) -> list[Change]:
    """Every difference, in the order of the language: the machine's fields, its states, its ways, its tools."""
    return [*_fields(old, new), *_states(old, new), *_ways(old, new), *_tools(old, new)]


def _fields(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    held = {"machine", "version", "states"}
    yield from _between("", *(_leaves(one.definition.model_dump(by_alias=True, exclude=held)) for one in (old, new)))


def _states(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    was, now = old.definition.all_states, new.definition.all_states
    for name in _names(was, now):
        kinds = [states[name].kind if name in states else None for states in (was, now)]
        if kinds[0] != kinds[1]:
            yield Change(f"state {name}", *kinds)
        else:
            yield from _between(f"{name}.", *(_leaves(_without_ways(states[name])) for states in (was, now)))


def _ways(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    """The rows of each event of a state that both have, or one of them; of a state that is new its kind says enough."""
    was, now = (_rows(one) for one in (old, new))
    both = old.definition.all_states.keys() & new.definition.all_states.keys()
    for place in _names(was, now):
        if place[0] not in both:
            continue
        before, after = was.get(place, ()), now.get(place, ())
        if before == after:
            continue
        where = f"{place[0]} [{place[1]}]"
        gone, come = ([row for row in one if row not in other] for one, other in ((before, after), (after, before)))
        if not gone and not come:
            yield Change(f"{where}, tried in another order", "; ".join(before), "; ".join(after))
        elif len(gone) == len(come) == 1:
            yield Change(where, gone[0], come[0])
        else:
            yield from (Change(where, row, None) for row in gone)
            yield from (Change(where, None, row) for row in come)


def _tools(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    for name in _names(old.tools, new.tools):
        kinds = [one.tools[name].effect if name in one.tools else None for one in (old, new)]
        if None in kinds:
            yield Change(f"tool {name}", *kinds)
            continue
        dumps = (_leaves(one.tools[name].model_dump(by_alias=True, exclude={"tool"})) for one in (old, new))
        yield from _between(f"tool {name}: ", *dumps)


def _rows(machine: CompiledMachine) -> dict[tuple[str, str], tuple[str, ...]]:
    """What each event does in each state, as texts, in the order in which it is tried; without what nobody wrote."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    shown = {done_of(name): DONE for name in machine.definition.nesting.children if name}
    for one in machine.chart.transitions:
        if not one.implied:
            place = (one.source, one.event)
            found[place] = (*found.get(place, ()), _row(one, shown))
    return found


def _row(one: Transition, shown: Mapping[str, str]) -> str:
    asked = " and ".join([*one.when, *([f"not ({' and '.join(one.unless)})"] if one.unless else [])])
    goto = shown.get(one.target or "") or one.target
    to = f"refuse, {one.refuse}" if one.refuse is not None else f"goto {goto}" if goto else "stay"
    more = [f"{name} {text}" for name, text in (("reason", one.reason), ("confirms", one.confirms)) if text]
    return (f"when {asked}: " if asked else "") + to + (f" ({', '.join(more)})" if more else "")


# ---------------------------------------------------------------- values by their places


def _between(before: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for path in _names(old, new):
        was, now = old.get(path), new.get(path)
        if was != now:
            yield Change(f"{before}{path}", was, now)


def _names(old: Mapping[Any, object], new: Mapping[Any, object]) -> list[Any]:
    """The names of both, in the order of the new one; those that are gone come last."""
    return list(dict.fromkeys([*new, *old]))


def _leaves(value: Any, path: str = "") -> dict[str, str]:
    """Every value that is not left out, by the path to it; a list of plain values is one. What is false is left out."""
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for name, one in value.items():
            found |= _leaves(one, f"{path}.{name}" if path else str(name))
        return found
    if isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(one, Mapping) for one in value):
        found = {}
        for number, one in enumerate(value, 1):
            found |= _leaves(one, f"{path}[{number}]")
        return found
    match value:
        case None | False | [] | ():
            return {}
        case timedelta():
            return {path: duration(value)}
        case str() | Decimal():
            return {path: str(value)}
    return {path: canonical(value).decode()}


def _without_ways(state: State) -> Any:
    """A state's own fields: rows are ways, and what it holds are states."""
    return _bare(state.model_dump(by_alias=True, exclude={"states", "of", "ends"}))


def _bare(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _bare(one) for name, one in value.items() if not _is_rows(one)}
    return value


def _is_rows(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) and "goto" in one for one in value)
