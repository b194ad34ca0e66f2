"""The main line: the way to SUCCEEDED that takes the author's first row wherever it can, through all regions that it enters.

It must not know how it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from statemachine_agent.chart.configuration import Tree
from statemachine_agent.chart.transitions import WORKING, Transition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.definition.nesting import done_of

_SUCCESS = "SUCCEEDED"

#: for each place, the transitions that leave it, in the order of the file
_Ahead = Mapping[str, Sequence[Transition]]


@dataclass(frozen=True)
class MainLine:
    """The states on it, holders being done among them, and the arrows between; empty where no way leads to SUCCEEDED."""

    places: frozenset[str]
    #: source and target of the transitions
    steps: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, tree: Tree, drawn: Iterable[Transition]) -> MainLine:
        """The main line through what is drawn."""
        ahead: dict[str, list[Transition]] = {}
        for t in drawn:
            if not t.implied and (t.target == _SUCCESS or t.target not in ENDS):
                ahead.setdefault(_left(tree, t.source), []).append(t)
        places: set[str] = set()
        steps: set[tuple[str, str]] = set()
        ways = [(WORKING, _SUCCESS)]
        while ways:
            for place, step in _way(tree, ahead, *ways.pop()):
                places.add(place)
                steps |= {(step.source, step.target or "")} if step else set()
                if place in tree.parallel:
                    places.add(done_of(place))
                    ways += [(region, done_of(region)) for region in tree.children[place]]
        return cls(frozenset(places), frozenset(steps))


def _way(tree: Tree, ahead: _Ahead, begin: str, goal: str) -> list[tuple[str, Transition | None]]:
    """The places from the first of `begin` to `goal`, each with what led there; a holder of regions is one place."""
    first = _arrived(tree, begin)
    path: list[tuple[str, Transition | None]] = [(first, None)]
    left, seen = [iter(ahead.get(first, ()))], {first}
    while path and path[-1][0] != goal:
        step = next((t for t in left[-1] if _arrived(tree, t.target or "") not in seen), None)
        if step is None:
            path.pop()
            left.pop()
        else:
            place = _arrived(tree, step.target or "")
            seen.add(place)
            path.append((place, step))
            left.append(iter(ahead.get(place, ())))
    return path


def _arrived(tree: Tree, target: str) -> str:
    """Where a transition to `target` arrives: in the state that is entered with it, or in a holder of regions."""
    while target in tree.first:
        target = tree.first[target]
    return target


def _left(tree: Tree, source: str) -> str:
    """What a transition of `source` leaves: of states that hold one at a time, their being done."""
    return done_of(source) if source in tree.first else source
