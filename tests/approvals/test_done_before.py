"""An action that was done, proposed and answered once more: whatever people say to it, it is not done again, nor undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.records import Checkpoint, EffectStatus
from statemachine_agent.tools.outcome import LostError
from support.playing import play, swap
from support.world import BOB, CEO, LOOK_STEP, MACHINE, World, act_step

GONE = LostError("gone", reason="unavailable")
AGAIN = swap(
    MACHINE, ("then: {ok: SUCCEEDED, failed", "then: {ok: LOOKING, failed"), ("rejected: DENIED", "rejected: LOOKING")
)
STEPS = (LOOK_STEP, act_step(200), act_step(200), {"call": "finish", "with": {"answer": "done"}})


async def done(here: World) -> Checkpoint:
    """A task whose action was approved and done, and is proposed a second time."""
    first = await here.run()
    await here.runtime.approve(first.approvals[0].id, BOB)
    again = await here.runtime.resume(first.task.id)
    assert (again.head.status, len(here.tools["act"].calls)) == ("AWAITING_APPROVAL", 1)
    return again


async def ended(here: World, waiting: Checkpoint) -> Checkpoint:
    end = await here.runtime.resume(waiting.task.id)
    assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
    assert len(here.tools["act"].calls) == 1
    (effect,) = end.effects
    assert (effect.status, effect.receipt) == (EffectStatus.EXECUTED, {"id": "a1"})
    return end


def test_a_second_yes_does_not_do_it_again(tmp_path: Path) -> None:
    """The ledger answers with the receipt of the first time."""

    async def body(here: World) -> None:
        waiting = await done(here)
        after = await here.runtime.approve(waiting.approvals[0].id, BOB)
        assert [e.status for e in after.effects] == [EffectStatus.EXECUTED]
        end = await ended(here, waiting)
        assert [e.purpose for e in end.evidence] == ["step", "call", "reconcile"]

    play(tmp_path, body, *STEPS, machine=AGAIN)


def test_a_late_no_does_not_undo_it(tmp_path: Path) -> None:
    """What happened has happened: guards and people still see it."""

    async def body(here: World) -> None:
        waiting = await done(here)
        after = await here.runtime.reject(waiting.approvals[0].id, BOB, why="enough")
        assert [e.status for e in after.effects] == [EffectStatus.EXECUTED]
        await ended(here, waiting)

    play(tmp_path, body, *STEPS, machine=AGAIN)


def test_what_is_forbidden_by_now_happened_all_the_same(tmp_path: Path) -> None:
    """The yes has expired when it is to run again: blocked, and the first time stays on record."""

    async def body(here: World) -> None:
        waiting = await done(here)
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        await here.environment.sleep(3700)
        end = await here.runtime.resume(waiting.task.id)
        assert [e.status for e in end.effects] == [EffectStatus.EXECUTED]
        assert len(here.tools["act"].calls) == 1

    play(tmp_path, body, *STEPS, machine=AGAIN)


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_of_what_may_have_happened_people_say_nothing_anew(tmp_path: Path, answer: str) -> None:
    """Nobody knows what became of the first time: an answer to a second proposal does not make it known, or unsent."""
    lost = swap(AGAIN, ("absent: ACTING, failed: FAILED", "absent: ACTING, failed: LOOKING"))

    async def body(here: World) -> Any:
        first = await here.run()
        await here.runtime.approve(first.approvals[0].id, BOB)
        waiting = await here.runtime.resume(first.task.id)
        assert waiting.head.status == "AWAITING_APPROVAL"
        if answer == "yes":
            await here.runtime.approve(waiting.approvals[0].id, CEO)
        else:
            await here.runtime.reject(waiting.approvals[0].id, CEO, why="no")
        end = await here.runtime.resume(first.task.id)
        assert len(here.tools["act"].calls) == 1
        assert [e.status for e in end.effects] == [EffectStatus.UNKNOWN]

    play(tmp_path, body, *STEPS, machine=lost, act=[GONE], find=[GONE])
