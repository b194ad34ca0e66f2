"""Phase 1: where the task is, and which of the state's tools are offered, hidden or at their limit.

Recovery has run, and the lease is held. It must not change anything.
"""

from __future__ import annotations

from statemachine_agent.chart.chart import Availability, Standing
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.states import CallState, ChooseState, ReconcileState
from statemachine_agent.loop.budget import calls_left
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.phases import Observation, expect
from statemachine_agent.loop.view import answers
from statemachine_agent.records import Checkpoint, Head


def observe(context: Context, checkpoint: Checkpoint) -> Observation:
    """What there is to do; GuardError where a guard cannot say what is offered."""
    expect(checkpoint, Checkpoint, "observe")
    leaves = checkpoint.head.configuration
    context.machine.chart.tree.full(leaves)  # a stored configuration that is none ends here
    state = _next(context, checkpoint)
    if not isinstance(context.machine.state(state), ChooseState):
        return Observation(context, checkpoint, state)
    asked = answers(context, checkpoint)
    found = context.machine.chart.available(leaves, asked, context.machine.call_guards.__contains__, state)
    return Observation(context, checkpoint, state, tuple(_within_limit(context, checkpoint, a) for a in found))


def told(context: Context, head: Head, state: str) -> str | None:
    """What the model that decides in `state` is told about its newest proposal: each region has its own."""
    region = context.machine.definition.nesting.region(state) or ""
    found = (head.observation or {}).get(region, {}).get("text")
    return str(found) if found else None


def _next(context: Context, checkpoint: Checkpoint) -> str:
    """Of the active states the one whose turn it is: what needs no model goes first, those that choose take turns."""
    leaves = checkpoint.head.configuration
    called = [s for s in leaves if isinstance(context.machine.state(s), (CallState, ReconcileState))]
    choosing = context.machine.choosing(leaves)
    return called[0] if called else choosing[checkpoint.head.steps % len(choosing)]


def _within_limit(context: Context, checkpoint: Checkpoint, found: Availability) -> Availability:
    """A tool at its `at_most` is hidden."""
    if found.tool in CONTROLS or calls_left(context, checkpoint.head, found.tool) != 0:
        return found
    times = context.machine.at_most(found.tool)
    return Availability(found.tool, Standing.HIDDEN, f"it may be called {times} times in a task, and was")
