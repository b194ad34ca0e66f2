"""Before anything else: what the last worker left open becomes `unknown`, and timers that are due fire.

An effect that was intended, and of which no outcome was recorded, may have happened; the machine's own `reconcile` state
finds out. It must not call anything.
"""

from __future__ import annotations

from statemachine_agent.loop.context import Context
from statemachine_agent.loop.draft import Draft
from statemachine_agent.records import Checkpoint, EffectStatus
from statemachine_agent.runtime.drive import commit

#: after so many lost leases running, a task is taken to be what brings its workers down
MAX_RECLAIMS = 10


async def recover(context: Context, checkpoint: Checkpoint) -> Checkpoint:
    """The task with nothing left open by a worker that was lost."""
    assert context.lease is not None  # noqa: S101  whoever recovers holds it
    if checkpoint.head.status.is_end:
        return checkpoint
    if context.lease.reclaims >= MAX_RECLAIMS:
        return await _crashed(context, checkpoint)
    for effect in checkpoint.effects:
        if effect.status is EffectStatus.INTENDED:
            checkpoint = await _mark_unknown(context, checkpoint, effect.key, effect.tool)
    return checkpoint


async def _crashed(context: Context, checkpoint: Checkpoint) -> Checkpoint:
    draft = Draft(context, checkpoint, "recovery")
    detail = f"the task lost its worker {context.lease.reclaims if context.lease else 0} times running"
    draft.leave("exit.crashed", "crashing", detail=detail, at_once=True)
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


async def _mark_unknown(context: Context, checkpoint: Checkpoint, key: str, tool: str) -> Checkpoint:
    draft = Draft(context, checkpoint, "recovery")
    draft.move_effect(key, EffectStatus.UNKNOWN, "worker_lost")
    draft.fire_outcome(f"unknown.{tool}", reason="worker_lost")
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


async def fire_timers(context: Context, checkpoint: Checkpoint) -> Checkpoint:
    """Fire the timers that are due, each in a transaction of its own, the earliest first."""
    while not checkpoint.head.status.is_end:
        due = [t for t in checkpoint.timers if t.due_at <= context.environment.now()]
        if not due:
            break
        timer = min(due, key=lambda t: t.due_at)
        draft = Draft(context, checkpoint, "timer")
        draft.fire_outcome(timer.event)
        transaction, checkpoint = draft.finish()
        await commit(context, transaction, checkpoint)
    return checkpoint
