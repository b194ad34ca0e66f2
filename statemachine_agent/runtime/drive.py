"""One task, step after step, until it ends, waits, or is told to stop; each step is committed before the next begins.

It must not know how the task came to be run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from statemachine_agent.definition.states import ChooseState
from statemachine_agent.errors import ConflictError, GuardError, SmaError
from statemachine_agent.loop import step
from statemachine_agent.loop.context import LEASE, Context, Event
from statemachine_agent.loop.draft import Draft
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import Verdict
from statemachine_agent.loop.terminate import leave_if_due
from statemachine_agent.records import Checkpoint, Status, Transaction


class StoppedError(SmaError):
    """The worker was told to stop; the task goes on when it is resumed."""

    exit_code = 130
    reason = "stopped"


class Stop:
    """Asks the workers of a process to stop; they may run on several event loops."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self._asked = False
        self._waiting: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Ask; from any thread."""
        self._asked = True
        for waiter in list(self._waiting):
            waiter.get_loop().call_soon_threadsafe(_release, waiter)

    def is_set(self) -> bool:
        """Whether somebody has asked."""
        return self._asked

    async def wait(self) -> None:
        """Until somebody asks."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            if not self._asked:
                await waiter
        finally:
            self._waiting.discard(waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def drive(context: Context, checkpoint: Checkpoint, stop: Stop) -> Checkpoint:
    """Run the task until it rests; the lease is held meanwhile."""
    heart = asyncio.ensure_future(_heartbeat(context))
    try:
        while checkpoint.head.status is Status.RUNNING:
            if stop.is_set():
                raise StoppedError
            checkpoint = await _turn(context.renewed(), checkpoint, stop)
        if checkpoint.head.status.is_end:
            return checkpoint
        # a request that came in while the last step was being taken
        return await _cancelled(context, checkpoint) or checkpoint
    finally:
        heart.cancel()
        with suppress(asyncio.CancelledError, ConflictError):
            await heart


async def _turn(context: Context, checkpoint: Checkpoint, stop: Stop) -> Checkpoint:
    """One exit that is due, or one step."""
    left = await _leave(context, checkpoint)
    if left is not None:
        return left
    try:
        observation = observe(context, checkpoint)
    except GuardError as problem:
        after = await _exit(context, checkpoint, "exit.guard_error", "guard_error", problem.message, at_once=True)
        return after or checkpoint
    chooses = isinstance(context.machine.state(observation.state), ChooseState)
    work = step.step(context, checkpoint) if chooses else step.call(context, checkpoint)
    may_end = chooses or not _is_write(context, observation.state)
    verdict = await _unless_told_to_end(work, context, checkpoint, stop, may_end=may_end)
    if verdict is None:
        return checkpoint
    await commit(context, verdict.transaction, verdict.checkpoint)
    return verdict.checkpoint


def _is_write(context: Context, state: str) -> bool:
    tool = getattr(context.machine.state(state), "call", None)
    return tool is not None and not context.machine.tools[tool].is_read


#: seconds between looks at whether somebody asked for the task to be cancelled, while a step takes long
_GLANCE = 1.0


async def _unless_told_to_end(
    work: Coroutine[Any, Any, Verdict], context: Context, checkpoint: Checkpoint, stop: Stop, *, may_end: bool
) -> Verdict | None:
    """Wait for the step. Told to end, a write that was begun is waited for; anything else ends now.

    A step that was cut short may still have something to record: reads of a batch that are over are kept. None where there
    is nothing, and the step would be done again.
    """
    task = asyncio.ensure_future(work)
    told = asyncio.ensure_future(_told_to_end(context, checkpoint, stop))
    try:
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and may_end:
            task.cancel()
            with suppress(asyncio.CancelledError):
                return await task
            return None
        return await task
    finally:
        told.cancel()
        if not task.done():
            task.cancel()


async def _told_to_end(context: Context, checkpoint: Checkpoint, stop: Stop) -> None:
    """Until the worker is stopped, or the task is to be cancelled."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stopping.done():
            await asyncio.wait({stopping}, timeout=_GLANCE)
            with suppress(SmaError):  # a store in trouble is told of by the commit
                if await context.store.cancel_requested(checkpoint.task.no):
                    return
    finally:
        stopping.cancel()


async def _leave(context: Context, checkpoint: Checkpoint) -> Checkpoint | None:
    """Take an exit that is due before the next step: a cancel request, a remembered exit, a used-up budget."""
    cancelled = await _cancelled(context, checkpoint)
    if cancelled is not None:
        return cancelled
    draft = Draft(context, checkpoint, "exit")
    leave_if_due(draft)
    if not draft.rows:
        return None
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


async def _cancelled(context: Context, checkpoint: Checkpoint) -> Checkpoint | None:
    if not await context.store.cancel_requested(checkpoint.task.no):
        return None
    return await _exit(context, checkpoint, "exit.cancel", "cancelled", None)


async def _exit(
    context: Context, checkpoint: Checkpoint, event: str, reason: str, detail: str | None, *, at_once: bool = False
) -> Checkpoint | None:
    """Take one exit, or remember it; None where it was remembered before."""
    draft = Draft(context, checkpoint, "exit")
    draft.leave(event, reason, detail=detail, at_once=at_once)
    if draft.checkpoint == checkpoint:
        return None
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


async def commit(context: Context, transaction: Transaction, after: Checkpoint) -> None:
    """Write one transaction, and tell those who watch."""
    assert context.lease is not None  # noqa: S101  whoever drives holds it
    await context.store.commit(transaction, context.lease)
    context.emit(Event("committed", after.task.id, {"transaction": transaction, "checkpoint": after}))


async def _heartbeat(context: Context) -> None:
    """Keep the lease while a step takes long; one that is lost is noticed by the next commit."""
    assert context.lease is not None  # noqa: S101
    while True:
        await context.environment.sleep(LEASE / 3)
        await context.store.heartbeat(context.lease, LEASE)
