"""Where a task is and the way it went, checked against the chart that it is drawn on.

It must not know stores or tasks: it is told places and numbers, nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from statemachine_agent.chart.transitions import WORKING, Transition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.errors import UsageError

_HINT = "draw a task with the machine version that it pinned"


@dataclass(frozen=True)
class Trail:
    """Where a task is, and the way it went."""

    #: the active states
    current: tuple[str, ...]
    #: how often it went from one state to another
    moves: Mapping[tuple[str, str], int] = field(default_factory=dict)


def fitting(trail: Trail, states: Iterable[str], initial: str, transitions: Iterable[Transition]) -> Trail:
    """`trail` between states of this chart; UsageError where the chart has no such state or transition."""
    known, chart = set(states), list(transitions)
    for name in trail.current:
        if name not in known and name not in ENDS:
            raise UsageError(f"the task is in `{name}`, which is no state of the machine", hint=_HINT)
    for source, target in trail.moves:
        if source not in {*known, WORKING} or not between(source, target, chart):
            raise UsageError(f"the task went from `{source}` to `{target}`: no transition leads there", hint=_HINT)
    return replace(trail, moves=_from_states(trail.moves, initial))


def between(source: str, target: str, transitions: Iterable[Transition]) -> list[Transition]:
    """All transitions from `source` to `target`, exits of all states among them."""
    return [t for t in transitions if t.source in (source, WORKING) and t.target == target]


def _from_states(moves: Mapping[tuple[str, str], int], initial: str) -> dict[tuple[str, str], int]:
    """The moves, an exit that all states share leaving from the state that the task was in.

    A task leaves each state as often as it enters it, but for the one that it left by such an exit.
    """
    balance = Counter({initial: 1})
    for (source, target), count in moves.items():
        balance[target] += count
        balance[source] -= count
    left = [state for state, count in balance.items() if count > 0 and state not in ENDS]
    found = {way: count for way, count in moves.items() if way[0] != WORKING}
    if len(left) == 1:
        for (source, target), count in moves.items():
            if source == WORKING:
                found[left[0], target] = found.get((left[0], target), 0) + count
    return found
