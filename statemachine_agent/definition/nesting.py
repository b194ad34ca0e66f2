"""States within states: who holds whom, what a row may lead to, and what is entered with a state.

It must not know what a state does; of all verbs it knows `states`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from statemachine_agent.definition.document import Path_

S = TypeVar("S")

#: what a row inside a state of states leads to when that is done
DONE = "done"


def done_of(name: str) -> str:
    """The chart's own state for `name` being done; no author's name looks like it."""
    return f"{name}_{DONE}"


@dataclass(frozen=True)
class Nesting:
    """All states of a machine, each before those that it holds."""

    states: Mapping[str, Any]
    #: the state that holds it; the top ones have none
    parents: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, Path_] = field(default_factory=dict)
    #: places of names that another state has already
    twice: tuple[Path_, ...] = ()

    @classmethod
    def of(cls, top: Mapping[str, Any]) -> Nesting:
        """The nesting of a machine's states."""
        states: dict[str, Any] = {}
        parents: dict[str, str] = {}
        paths: dict[str, Path_] = {}
        twice: list[Path_] = []
        waiting: list[tuple[str, Path_, Any, str]] = [(n, ("states", n), s, "") for n, s in [*top.items()][::-1]]
        while waiting:
            name, path, state, parent = waiting.pop()
            if name in states:
                twice.append(path)
                continue
            states[name], paths[name] = state, path
            if parent:
                parents[name] = parent
            held = [*getattr(state, "states", {}).items()]
            written = {branch: ("then", end) for end, branch in getattr(state, "ends", {}).items()}
            waiting += [(n, (*path, *written.get(n, ("states", n))), s, name) for n, s in held[::-1]]
        return cls(states, parents, paths, tuple(twice))

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """For each state that holds others, and for the machine (the empty name): what it holds, in order."""
        found: dict[str, list[str]] = {"": []}
        for name, state in self.states.items():
            found.setdefault(self.parents.get(name, ""), []).append(name)
            if holds(state):
                found.setdefault(name, [])
        return {name: tuple(held) for name, held in found.items()}

    def above(self, name: str) -> Iterator[str]:
        """The states that hold `name`, the nearest first."""
        while name in self.parents:
            name = self.parents[name]
            yield name

    def is_parallel(self, name: str) -> bool:
        """True where what `name` holds goes on side by side."""
        return bool(getattr(self.states.get(name), "parallel", False))

    def can_be_done(self, name: str) -> bool:
        """True for a state of states that ends by being done; another machine ends by one of its ends."""
        return holds(self.states[name]) and not hasattr(self.states[name], "ends")

    def is_region(self, name: str) -> bool:
        """True where `name` goes on beside others."""
        return self.is_parallel(self.parents.get(name, ""))

    def region(self, name: str) -> str | None:
        """The innermost region that `name` is or lies in."""
        return next((n for n in (name, *self.above(name)) if self.is_region(n)), None)

    def siblings(self, region: str) -> tuple[str, ...]:
        """The regions beside a region."""
        return tuple(n for n in self.children[self.parents[region]] if n != region)

    def within(self, name: str) -> Iterator[str]:
        """`name`, and all that it holds."""
        yield name
        for child in self.children.get(name, ()):
            yield from self.within(child)

    def visible(self, name: str) -> tuple[str, ...]:
        """The states that a row of `name` may lead to: those beside it, and beside what holds it, up to a region's border."""
        found: list[str] = []
        for one in (name, *self.above(name)):
            if self.is_region(one):
                break  # regions are entered and left together
            found += self.children[self.parents.get(one, "")]
        return tuple(found)

    def done_by(self, name: str) -> str | None:
        """The state of states that is done where a row of `name` leads to `done`; another machine's end speaks for its place."""
        holder = self.parents.get(name)
        if holder is not None and name in getattr(self.states[holder], "ends", {}).values():
            holder = self.parents.get(holder)
        return holder

    def entered(self, name: str) -> tuple[str, ...]:
        """The leaves that are entered with `name`."""
        state = self.states.get(name)
        if state is None or not holds(state):
            return (name,)
        into = self.children[name] if self.is_parallel(name) else (state.initial,)
        return tuple(leaf for one in into if one in self.states for leaf in self.entered(one))

    def leads(self, source: str, target: str) -> tuple[str, ...]:
        """The leaves that a `goto` in `source` may lead to in the end; `done` is followed, and ends are themselves."""
        if target != DONE:
            return self.entered(target)
        holder = self.done_by(source)
        while holder is not None and self.is_region(holder):
            holder = self.parents.get(holder)
        if holder is None:
            return ()
        rows = self.states[holder].then.get(DONE, ())
        return tuple(leaf for row in rows if row.goto for leaf in self.leads(holder, row.goto))


def holds(state: Any) -> bool:
    """True where a state is made of others."""
    return getattr(state, "kind", None) == "states"
