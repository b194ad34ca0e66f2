"""Where a task is and the way it went, checked against the chart that it is drawn on.

It must not know stores or tasks: it is told places and numbers, nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from statemachine_agent.chart.configuration import Leaves, Tree
from statemachine_agent.chart.transitions import WORKING, Transition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.definition.nesting import done_of
from statemachine_agent.errors import IllegalConfigurationError, UsageError

_HINT = "draw a task with the machine version that it pinned"


@dataclass(frozen=True)
class Trail:
    """Where a task is, and the way it went."""

    #: the active states
    current: tuple[str, ...]
    #: how often it went from one state to another
    moves: Mapping[tuple[str, str], int] = field(default_factory=dict)


def fitting(trail: Trail, tree: Tree, transitions: Iterable[Transition]) -> Trail:
    """`trail` between states of this chart; UsageError where the chart has no such state or transition."""
    chart = list(transitions)
    known = {name for held in tree.children.values() for name in held}
    for name in trail.current:
        if name not in known or name in tree.children:
            raise UsageError(f"the task is in `{name}`, which is no state of the machine", hint=_HINT)
    for source, target in trail.moves:
        if source not in known or not between(source, target, chart):
            raise UsageError(f"the task went from `{source}` to `{target}`: no transition leads there", hint=_HINT)
    return replace(trail, moves=_from_states(trail.moves, tree))


def between(source: str, target: str, transitions: Iterable[Transition]) -> list[Transition]:
    """All transitions from `source` to `target`, exits of all states among them."""
    return [t for t in transitions if t.source in (source, WORKING) and t.target == target]


def _from_states(moves: Mapping[tuple[str, str], int], tree: Tree) -> dict[tuple[str, str], int]:
    """The moves, an exit that all states share leaving from each state that the task was in.

    A task leaves each state as often as it enters it, but for those that it left by such an exit.
    """
    balance = Counter(tree.entered())
    for (source, target), count in moves.items():
        for leaf in tree.entered(target):
            balance[leaf] += count
        for leaf in _left(source, tree):
            balance[leaf] -= count
    found = {way: count for way, count in moves.items() if way[0] != WORKING}
    for leaf in _standing(balance, tree):
        for (source, target), count in moves.items():
            if source == WORKING:
                found[leaf, target] = found.get((leaf, target), 0) + count
    return found


def _left(source: str, tree: Tree) -> Leaves:
    """The leaves that a transition of `source` leaves: rows of a state that holds others are taken when it is done."""
    if source in tree.parallel:
        return tuple(done_of(region) for region in tree.children[source])
    return (done_of(source),) if source in tree.first and source != WORKING else (source,)


def _standing(balance: Mapping[str, int], tree: Tree) -> Leaves:
    """Where a task stood before an exit, if what is known of its way tells."""
    left = tuple(state for state, count in balance.items() if count > 0 and state not in ENDS)
    try:
        tree.full(left)
    except IllegalConfigurationError:
        return ()
    return left
