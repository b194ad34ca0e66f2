"""The picture of a machine as data: what every output draws, each transition in exactly one place of it.

It must not know how a picture is made, nor DOT, Mermaid or Markdown. Texts are the author's own: each output escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from statemachine_agent.chart.transitions import Transition
from statemachine_agent.definition.nesting import done_of


@dataclass(frozen=True)
class Line:
    """One transition in words."""

    transition: Transition
    #: what happened: `ok`, `send_letter proposed`
    on: str
    #: `when a and b`, `otherwise`, or nothing
    condition: str = ""
    #: its place among rows of which the first that holds is taken; None where the order says nothing
    order: int | None = None
    #: `reason policy`, `confirms send_letter`
    notes: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """True for what the author did not write."""
        return self.transition.implied

    @property
    def exit(self) -> bool:
        """True for a way out that many states have."""
        return is_exit(self.transition)


def is_exit(transition: Transition) -> bool:
    """True for a universal exit: the note tells of it, and no arrow."""
    return transition.implied and transition.event.startswith("exit.")


def is_done(place: str) -> bool:
    """True for the chart's own state of a holder being done."""
    return place.endswith(done_of(""))


@dataclass(frozen=True)
class Tool:
    """A tool or control choice of a state, and the rows that lead nowhere else."""

    name: str
    #: `read`, `write`, `irreversible`; `control` for what is no tool
    effect: str
    #: arguments that the machine fills, with what it fills in
    pinned: tuple[tuple[str, str], ...] = ()
    #: what the state does with it, in a word or two
    use: str = ""
    lines: tuple[Line, ...] = ()
    #: transitions that only say "stay", told by `use`
    stays: tuple[Transition, ...] = ()


@dataclass(frozen=True)
class Node:
    """A working state that holds no others."""

    name: str
    kind: str
    #: the kind for people: who decides here, or what happens
    word: str
    #: roles, expiry, duration, checks: short texts
    facts: tuple[str, ...] = ()
    brief: str = ""
    tools: tuple[Tool, ...] = ()
    #: rows that lead nowhere else and belong to no tool
    lines: tuple[Line, ...] = ()
    #: `start` of a task, `first` of what holds it, or nothing
    mark: str = ""
    current: bool = False
    #: on the way that the author's first rows take to SUCCEEDED
    main: bool = False

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """The transitions that are shown inside."""
        own = [line.transition for line in self.lines]
        return tuple(own + [t for tool in self.tools for t in (*tool.stays, *(line.transition for line in tool.lines))])


@dataclass(frozen=True)
class Holder:
    """A state that holds others; that it is done is a place of its own, which its rows leave from."""

    name: str
    #: `compound`, `parallel`, `region`; `machine` where another machine stands in its place
    kind: str
    #: the kind for people: how what it holds goes on
    word: str
    #: which of what it holds is entered with it: one, or all regions
    first: tuple[str, ...]
    #: `start` of a task, `first` of what holds it, or nothing
    mark: str = ""
    #: it is done, and what lies beside it is not
    current: bool = False
    main: bool = False

    @property
    def parallel(self) -> bool:
        """True where all that it holds goes on at once."""
        return self.kind == "parallel"

    @property
    def can_be_done(self) -> bool:
        """True where its being done is a place; another machine comes to one of its ends."""
        return self.kind != "machine"


@dataclass(frozen=True)
class End:
    """A built-in end."""

    name: str
    facts: tuple[str, ...] = ()
    current: bool = False


@dataclass(frozen=True)
class Edge:
    """All transitions that are drawn from one state to another."""

    source: str
    target: str
    lines: tuple[Line, ...]
    #: on the main way
    main: bool = False
    #: how often the task of a trail went this way
    visits: int = 0

    @property
    def quiet(self) -> bool:
        """True where the author wrote none of it."""
        return all(line.quiet for line in self.lines)


@dataclass(frozen=True)
class Exit:
    """One way out that many states have: an event, and where it leads."""

    word: str
    target: str
    transitions: tuple[Transition, ...]


@dataclass(frozen=True)
class Exits:
    """The exits of one set of states."""

    where: str
    exits: tuple[Exit, ...]


@dataclass(frozen=True)
class Picture:
    """All that a machine can do."""

    name: str
    version: int
    summary: str
    limits: tuple[str, ...]
    #: each guard's name, with its text
    guards: tuple[tuple[str, str], ...]
    nodes: tuple[Node, ...]
    ends: tuple[End, ...]
    edges: tuple[Edge, ...]
    exits: tuple[Exits, ...]
    #: the states that hold others, each before those that it holds
    holders: tuple[Holder, ...] = ()
    #: what each holder holds, and the machine (the empty name), in the order of the file
    holds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """The holder of each state that has one."""
        return {name: holder for holder, held in self.holds.items() for name in held if holder}

    def within(self, holder: str) -> Iterator[Node | Holder]:
        """What lies directly in `holder`, in the order of the file; in the machine for the empty name."""
        return (self._states[name] for name in self.holds[holder])

    def entry(self, name: str) -> str:
        """Where an arrow to `name` arrives: at the state that is entered with it, or at the holder of regions."""
        state = self._states.get(name)
        while isinstance(state, Holder) and not state.parallel:
            name = state.first[0]
            state = self._states.get(name)
        return name

    def leaving(self, edge: Edge) -> str:
        """What an arrow leaves: a state, or that its holder is done."""
        return done_of(edge.source) if self.is_holder(edge.source) else edge.source

    def is_holder(self, name: str) -> bool:
        """True for a state that holds others."""
        return isinstance(self._states.get(name), Holder)

    def anew(self, edge: Edge) -> bool:
        """True where an arrow enters again what it comes from within."""
        name = edge.source
        while name and name != edge.target:
            name = self.parents.get(name, "")
        return self.is_holder(name)

    @cached_property
    def _states(self) -> Mapping[str, Node | Holder]:
        states: list[Node | Holder] = [*self.nodes, *self.holders]
        return {state.name: state for state in states}

    def transitions(self) -> Iterator[Transition]:
        """Every transition as often as it is shown."""
        for node in self.nodes:
            yield from node.transitions
        for edge in self.edges:
            yield from (line.transition for line in edge.lines)
        for group in self.exits:
            for one in group.exits:
                yield from one.transitions
