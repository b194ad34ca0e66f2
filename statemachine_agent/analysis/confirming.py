"""Rows that ask for what only they themselves would bring about: `confirms` takes effect once its row is taken.

It only warns, and only where no other row could have confirmed the effect before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statemachine_agent.definition.catalogue import MachineFile
from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.names import ENDS
from statemachine_agent.guards.check import Checked


def confirmed_too_late(file: MachineFile, guards: Mapping[str, Checked]) -> Iterator[Fault]:
    """A warning for each guard that a row asks, or `success` behind it, and that only its own `confirms` would make true."""
    machine = file.definition
    confirming = [row for state in machine.all_states.values() for row in rows_of(state) if row.confirms and row.goto]
    for row in confirming:
        if any(o is not row and o.confirms == row.confirms and o.goto not in ENDS for o in confirming):
            continue
        behind = machine.success if row.goto == "SUCCEEDED" else ()
        for name in written_out(machine, (*(row.when or ()), *behind)):
            if name in guards and _wants_verified(guards[name], str(row.confirms)):
                text = f"`{name}` asks whether `{row.confirms}` is verified, and is read before the row's `confirms`"
                advice = 'ask for `status in ["executed", "verified"]`, or confirm it in a row before'
                yield file.document.fault(("guards", name), text, advice, key=True, level=Level.WARNING)


def _wants_verified(checked: Checked, tool: str) -> bool:
    """True where the guard cannot hold before the effect is `verified`; what it denies is not looked into."""
    compared: dict[str, set[object]] = {}
    for one in checked.syntax.comparisons:
        if checked.types.known.get(one.message, ("", {}))[0] == "effects[]":
            compared.setdefault(one.field, set()).update(literal for literal, _ in one.literals)
    statuses, tools = compared.get("status", set()), compared.get("tool", {tool})
    return "verified" in statuses and "executed" not in statuses and tool in tools and "!" not in checked.compiled.text
