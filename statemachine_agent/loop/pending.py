"""The proposal that waits, judged again by its tool's whole list of rows, on the evidence as it was accepted on.

It must not know what follows from the answer.
"""

from __future__ import annotations

from statemachine_agent.loop.context import Context
from statemachine_agent.loop.view import answers
from statemachine_agent.records import Checkpoint


def unaccepted(context: Context, checkpoint: Checkpoint) -> str | None:
    """Why the row that accepted the proposal would not accept it now; None where it would, or nothing waits.

    GuardError where a guard of its rows has no answer.
    """
    pending = checkpoint.head.proposal
    if pending is None:
        return None
    chart = context.machine.chart
    call = {"tool": pending["tool"], "args": pending["args"]}
    move = chart.fire(
        chart.tree.around(pending["state"]), f"call.{pending['tool']}", answers(context, checkpoint, call, again=True)
    )
    if [t.index for t in move.taken] == [pending["row"]]:
        return None
    return move.refusal or "another row than the one that accepted it holds now"
