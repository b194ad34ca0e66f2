"""Guards that are lists of guards: what they stand for, and how deep they lie in each other.

It must not know what a guard's text says.
"""

from __future__ import annotations

from collections.abc import Iterable

from statemachine_agent.definition.machine import MachineDefinition

#: lists of guards within lists of guards; more than a reader can follow, and a bound for what asks them
MAX_DEPTH = 20


def written_out(machine: MachineDefinition, names: Iterable[str]) -> list[str]:
    """The guards that `names` stand for: each list replaced by its parts, each guard once, in the order of asking."""
    found: dict[str, None] = {}
    opened: set[str] = set()
    waiting = [*names][::-1]
    while waiting:
        name = waiting.pop()
        guard = machine.guards.get(name)
        if not isinstance(guard, tuple):
            found[name] = None
        elif name not in opened:
            opened.add(name)
            waiting += guard[::-1]
    return list(found)


def too_deep(machine: MachineDefinition) -> list[str]:
    """The lists that lie one level deeper than is allowed; those around them are not named again, nor are circles."""
    lists = {name: set(guard) for name, guard in machine.guards.items() if isinstance(guard, tuple)}
    users: dict[str, list[str]] = {}
    for name, parts in lists.items():
        for part in parts & lists.keys():
            users.setdefault(part, []).append(name)
    open_parts = {name: len(parts & lists.keys()) for name, parts in lists.items()}
    depth = {name: 1 for name, count in open_parts.items() if count == 0}
    waiting = list(depth)
    while waiting:
        name = waiting.pop()
        for user in users.get(name, ()):
            open_parts[user] -= 1
            depth[user] = max(depth.get(user, 0), depth[name] + 1)
            if open_parts[user] == 0:
                waiting.append(user)
    return [name for name in lists if depth.get(name) == MAX_DEPTH + 1 and open_parts[name] == 0]
