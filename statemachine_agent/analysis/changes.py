"""What changed in meaning between two versions of a machine: fields, states, ways, tools; not lines, comments or order of keys.

Both are compared as they are compiled, so a short form and its long one are the same. It must not know tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from typing import Any

from statemachine_agent.analysis.values import said, text_of
from statemachine_agent.canonical import canonical
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.definition.nesting import DONE, done_of
from statemachine_agent.definition.states import Inlined

#: of a machine that stands in another one: what is told of the one around it, or of the states that came with it
_TAKEN_UP = frozenset(
    {"machine", "version", "states", "initial", "guards", "signals", "at_most", "model", "parallel_calls"}
)


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
    """Every difference, in the order of the language: the machine's fields, its states, its ways, its tools.

    The version is none. What nobody foresaw is found among all that is compiled, so nothing is left untold.
    """
    found = [*_fields(old, new), *_states(old, new), *_ways(old, new), *_tools(old, new)]
    return found or list(_between("as compiled: ", _compiled(old), _compiled(new)))


def _fields(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    yield from _between("", *(said(one.definition, but={"version", "states"}) for one in (old, new)))


def _states(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    was, now = old.definition.all_states, new.definition.all_states
    for name in _names(was, now):
        kinds = [_kind(one, name) for one in (old, new)]
        if kinds[0] != kinds[1]:
            yield Change(f"state {name}", *kinds)
        else:
            yield from _between(f"{name}.", *(_own(one, name) for one in (old, new)))


def _ways(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    """The rows of each event of a state that both have, or one of them; of a state that is new its kind says enough."""
    was, now = (_rows(one) for one in (old, new))
    both = old.definition.all_states.keys() & new.definition.all_states.keys()
    for place in _names(was, now):
        before, after = was.get(place, ()), now.get(place, ())
        if place[0] not in both or before == after:
            continue
        where = f"{place[0]} [{place[1]}]"
        if sorted(before) == sorted(after):
            yield Change(f"{where}, tried in another order", "; ".join(before), "; ".join(after))
        else:
            yield from _between_rows(where, before, after)


def _between_rows(where: str, before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[Change]:
    """Rows that are not the same, each with its place in the order in which they are tried."""

    def place(number: int, rows: tuple[str, ...]) -> str:
        return f"{where} row {number + 1} of {len(rows)}" if max(len(before), len(after)) > 1 else where

    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "replace" and (a, b) == (c, d):
            yield from (Change(place(i, after), before[i], after[i]) for i in range(a, b))
        elif tag != "equal":
            yield from (Change(place(i, before), before[i], None) for i in range(a, b))
            yield from (Change(place(i, after), None, after[i]) for i in range(c, d))


def _tools(old: CompiledMachine, new: CompiledMachine) -> Iterator[Change]:
    for name in _names(old.tools, new.tools):
        kinds = [one.tools[name].effect if name in one.tools else None for one in (old, new)]
        if None in kinds:
            yield Change(f"tool {name}", *kinds)
        else:
            yield from _between(f"tool {name}: ", *(said(one.tools[name], but={"tool"}) for one in (old, new)))


# ---------------------------------------------------------------- what a machine is, as texts


def _kind(machine: CompiledMachine, name: str) -> str | None:
    state = machine.definition.all_states.get(name)
    return None if state is None else "machine" if isinstance(state, Inlined) else state.kind


def _own(machine: CompiledMachine, name: str) -> dict[str, str]:
    """A state's own values, and where it stands: rows are ways, and what it holds are states."""
    state, nesting = machine.definition.all_states[name], machine.definition.nesting
    found = said(state, but={"states", "of", "ends"})
    if name in nesting.parents:
        found["within"] = nesting.parents[name]
    if nesting.is_parallel(name):  # which of them is served first
        found["regions, in their order"] = text_of(nesting.children[name])
    if isinstance(state, Inlined):
        found["machine"] = f"{state.of.machine}@{state.of.version}"
        found |= said(state.of, "machine", but=_TAKEN_UP)
    return found


def _rows(machine: CompiledMachine) -> dict[tuple[str, str], tuple[str, ...]]:
    """What each event does in each state, as texts, in the order in which it is tried; without what nobody wrote."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    shown = {done_of(name): DONE for name in machine.definition.nesting.children if name}
    for one in machine.chart.transitions:
        if not one.implied:
            place, row = (one.source, one.event), _row(one, shown)
            rows = found.get(place, ())
            found[place] = rows if row in rows else (*rows, row)  # a row is not reached behind its like
    return found


def _row(one: Transition, shown: Mapping[str, str]) -> str:
    asked = " and ".join([*one.when, *([f"not ({' and '.join(one.unless)})"] if one.unless else [])])
    goto = shown.get(one.target or "") or one.target
    to = f"refuse, {text_of(one.refuse)}" if one.refuse is not None else f"goto {goto}" if goto else "stay"
    more = [f"{name} {text}" for name, text in (("reason", one.reason), ("confirms", one.confirms)) if text]
    return (f"when {asked}: " if asked else "") + to + (f" ({', '.join(more)})" if more else "")


def _compiled(machine: CompiledMachine) -> dict[str, str]:
    """All that is compiled, also what follows from the rest."""
    rows: dict[str, dict[str, None]] = {}
    for one in machine.chart.transitions:
        said_of = {f.name: getattr(one, f.name) for f in fields(one) if f.name not in ("index", "source", "event")}
        rows.setdefault(f"{one.source} [{one.event}]", {})[canonical(said_of).decode()] = None
    return {
        **said(machine.definition, but={"version"}),
        **{where: "; ".join(texts) for where, texts in rows.items()},
        **said({"input": machine.masks.input, "evidence": machine.masks.evidence}, "masked"),
    }


# ---------------------------------------------------------------- values by their places


def _between(before: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    old, new = ({p: t for p, t in one.items() if t not in ("{}", "[]") or not _filled(other, p)}
                for one, other in ((old, new), (new, old)))  # fmt: skip
    for path in _names(old, new):
        was, now = old.get(path), new.get(path)
        if was != now:
            yield Change(f"{before}{path}", was, now)


def _filled(values: Mapping[str, str], path: str) -> bool:
    """True where something stands in what is empty on the other side: that is told, and it is enough."""
    return any(one.startswith((f"{path}.", f"{path}[")) for one in values)


def _names(old: Mapping[Any, object], new: Mapping[Any, object]) -> list[Any]:
    """The names of both, in the order of the new one; those that are gone come last."""
    return list(dict.fromkeys([*new, *old]))
