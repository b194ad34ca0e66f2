"""What tests have exercised: states entered, rows taken, answers of guards, illegal proposals; machine by machine.

Kept by the hash of the definition, so that nothing counts for a machine that was changed. It must not judge what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from statemachine_agent.chart.chart import is_end
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.errors import GuardError
from statemachine_agent.loop.context import Context, Event
from statemachine_agent.loop.view import answers
from statemachine_agent.records import Checkpoint, DecisionRow, Status, Transaction, TransitionRow
from statemachine_agent.text import one_line


@dataclass
class Exercised:
    """What was exercised of one machine."""

    states: set[str] = field(default_factory=set)
    #: numbers of transitions of the chart
    rows: set[int] = field(default_factory=set)
    #: guards with the answers that they gave
    guards: set[tuple[str, bool]] = field(default_factory=set)
    #: illegal proposals that were tried, and not let through: state and tool
    illegal: set[tuple[str, str]] = field(default_factory=set)

    def add(self, other: Exercised) -> None:
        """Count what `other` has, too."""
        self.states |= other.states
        self.rows |= other.rows
        self.guards |= other.guards
        self.illegal |= other.illegal

    def as_json(self) -> dict[str, Any]:
        """The same as plain data, to be sent between processes."""
        return {
            "states": sorted(self.states),
            "rows": sorted(self.rows),
            "guards": sorted([name, answer] for name, answer in self.guards),
            "illegal": sorted(map(list, self.illegal)),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exercised:
        """What `as_json` gave."""
        return cls(
            set(data["states"]),
            set(data["rows"]),
            {(name, answer) for name, answer in data["guards"]},
            {(state, tool) for state, tool in data["illegal"]},
        )


#: definition hash → what the tests of this process exercised
RECORD: dict[str, Exercised] = {}


def of(machine: CompiledMachine) -> Exercised:
    """What was exercised of `machine` so far; add to it."""
    return RECORD.setdefault(machine.hash, Exercised())


def asked(machine: CompiledMachine, given: Mapping[str, bool]) -> None:
    """Guards answered; a list of guards answers for its parts by itself."""
    of(machine).guards |= set(given.items())


def hidden(machine: CompiledMachine, state: str, tool: str, text: str) -> None:
    """The row of `state` that hides `tool` with `text`, which a test claimed: proposing it would be refused by that row."""
    of(machine).rows |= set(refusing_rows(machine, state, tool, one_line(f"refused: {text}.")))


class Recorder:
    """Watches a runtime, and records what every commit of one machine shows."""

    def __init__(self, context: Context) -> None:
        """`context` is asked what the loop asks when it makes the list of what is offered."""
        self._context = context
        self._machine = context.machine

    def __call__(self, event: Event) -> None:
        """One event of the runtime."""
        if event.kind == "committed" and event.data["checkpoint"].task.definition_hash == self._machine.hash:
            self._committed(event.data["transaction"], event.data["checkpoint"])

    def _committed(self, transaction: Transaction, after: Checkpoint) -> None:
        found = of(self._machine)
        leaves = after.head.configuration
        found.states |= set(self._machine.chart.tree.full(leaves))
        for row in transaction.rows:
            if isinstance(row, TransitionRow):
                found.rows.add(row.row_no)
                found.guards |= set(row.asked.items())
                found.states |= {s for s in (row.source, row.target) if s}
            elif isinstance(row, DecisionRow):
                found.rows |= set(_refusing(self._machine, row))
                found.illegal |= set(_illegal(row))
        if after.head.status is Status.RUNNING and not is_end(leaves):
            offered(self._context, after)


def offered(context: Context, checkpoint: Checkpoint) -> None:
    """The guards that say what is offered here: the loop asks them, over the same data."""
    machine, ask = context.machine, answers(context, checkpoint)
    try:
        machine.chart.available(checkpoint.head.configuration, ask, machine.call_guards.__contains__)
    except GuardError:
        pass
    finally:
        asked(machine, ask.given)


def _refusing(machine: CompiledMachine, row: DecisionRow) -> Iterable[int]:
    if row.result == "refused" and row.feedback:
        for tool in _tools(row):
            yield from refusing_rows(machine, row.state, tool, row.feedback)


def refusing_rows(machine: CompiledMachine, state: str, tool: str, told: str) -> Iterable[int]:
    """The row that hides a tool which was proposed all the same: its text is what the model is told."""
    for one in machine.chart.rows(machine.chart.tree.around(state), f"call.{tool}"):
        if one.refuse is not None and told.startswith(one_line(f"refused: {one.refuse}.")):
            yield one.index
            return


def _illegal(row: DecisionRow) -> Iterable[tuple[str, str]]:
    if row.result == "invalid" and row.error_class == "illegal_tool":
        yield from ((row.state, tool) for tool in _tools(row))


def _tools(row: DecisionRow) -> list[str]:
    return [str(call["name"]) for call in (row.response or {}).get("calls", ())]
