"""Configurations: which sets of states can be active together, written as leaves in document order.

Only leaves are stored; their ancestors follow from the tree. It must not know the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from statemachine_agent.chart.transitions import WORKING
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.definition.nesting import done_of
from statemachine_agent.errors import IllegalConfigurationError
from statemachine_agent.text import did_you_mean

Leaves = tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """The states of a chart: children in document order, by parent; the root is the empty name."""

    children: Mapping[str, tuple[str, ...]]
    parallel: frozenset[str] = frozenset()
    #: for each state that holds others one at a time, the one that is entered with it
    first: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, machine: MachineDefinition, ends: Iterable[str] = ENDS) -> Tree:
        """The tree of `machine`: the ends beside one implicit parent of all working states; what holds states can be done."""
        nesting = machine.nesting
        parallel = frozenset(n for n in nesting.states if nesting.is_parallel(n))
        children = {"": (WORKING, *ends), WORKING: nesting.children[""]}
        first = {WORKING: machine.initial}
        for name, held in nesting.children.items():
            if name:
                ending = () if name in parallel or not nesting.can_be_done(name) else (done_of(name),)
                children[name] = (*held, *ending)
                if name not in parallel:
                    first[name] = nesting.states[name].initial
        return cls(children, parallel, first)

    def entered(self, name: str = WORKING) -> Leaves:
        """The leaves that are entered with a state."""
        if name not in self.children:
            return (name,)
        into = self.children[name] if name in self.parallel else (self.first[name],)
        return tuple(leaf for one in into for leaf in self.entered(one))

    def around(self, name: str) -> Leaves:
        """A configuration in which `name` is active; regions beside it stand at their first states."""
        line = self.line(name)
        beside = (r for holder in line if holder in self.parallel for r in self.children[holder] if r not in line)
        found = {*self.entered(name), *(leaf for region in beside for leaf in self.entered(region))}
        return tuple(s for s in self._order("") if s in found)

    def full(self, leaves: Leaves) -> tuple[str, ...]:
        """All active states in document order; IllegalConfigurationError where the leaves are no configuration."""
        known = {c for children in self.children.values() for c in children}
        for name in leaves:
            if name not in known:
                hint = did_you_mean(name, known - {WORKING})
                raise IllegalConfigurationError(f"the stored state `{name}` is no state of this machine", hint=hint)
        wanted = set(leaves)
        found = tuple(self._down("", wanted))
        if wanted:
            raise IllegalConfigurationError(f"the stored state `{min(wanted)}` is active beside what excludes it")
        return found

    def _down(self, parent: str, wanted: set[str]) -> list[str]:
        active: list[str] = []
        chosen = 0
        for child in self.children.get(parent, ()):
            below = self._down(child, wanted) if child in self.children else []
            if below or child in wanted:
                if child in self.children and not below:
                    raise IllegalConfigurationError(f"`{child}` is active without any of its states")
                wanted.discard(child)
                chosen += 1
                active += [child, *below]
        of = len(self.children.get(parent, ()))
        if chosen and parent in self.parallel and chosen != of:
            raise IllegalConfigurationError(f"`{parent}` is active with {chosen} of its {of} regions")
        if chosen > 1 and parent not in self.parallel:
            raise IllegalConfigurationError(f"two states of `{parent or 'the machine'}` are active at once")
        if not chosen and not parent:
            raise IllegalConfigurationError("no state is active")
        return active

    def leaves(self, configuration: Iterable[str]) -> Leaves:
        """The leaves of a full configuration, in document order, after checking that it is legal."""
        active = set(configuration)
        found = tuple(s for s in self._order("") if s in active and s not in self.children)
        if set(self.full(found)) != active:
            raise IllegalConfigurationError(f"{', '.join(sorted(active)) or 'nothing'} is no configuration")
        return found

    def line(self, name: str) -> tuple[str, ...]:
        """`name`, and the states that hold it, the nearest first."""
        found = [name]
        while found[-1] in self._parents:
            found.append(self._parents[found[-1]])
        return tuple(found)

    @cached_property
    def _parents(self) -> Mapping[str, str]:
        return {child: parent for parent, held in self.children.items() for child in held if parent}

    def _order(self, parent: str) -> list[str]:
        return [s for child in self.children.get(parent, ()) for s in (child, *self._order(child))]
