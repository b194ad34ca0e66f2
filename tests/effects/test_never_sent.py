"""A `reconcile` state that is reached with nothing sent: there is nothing to look for, and looking never becomes sending."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemachine_agent.records import Checkpoint, EffectStatus
from support.playing import play, swap
from support.world import ACT, BOB, DONE, FIND, LOOK, LOOK_STEP, MACHINE, ONE, World, act_step

REPLAY = ACT[: ACT.index("  reconcile:")] + "  replay: true\n" + ACT[ACT.index("approval:") :]
TO_FINDING = {
    "rejected": ("rejected: DENIED", "rejected: FINDING"),
    "expired": ("expired: NEEDS_INPUT", "expired: FINDING"),
    "blocked": ("blocked: FAILED", "blocked: FINDING"),
}


async def answered(here: World, way: str) -> Checkpoint:
    """A task of which nothing was sent, on its way to be looked for."""
    task = await here.run()
    request = task.approvals[0].id
    if way == "rejected":
        await here.runtime.reject(request, BOB, why="never")
    if way == "blocked":
        await here.runtime.approve(request, BOB)
    if way != "rejected":
        await here.environment.sleep(3700)
    return await here.runtime.resume(task.task.id)


@pytest.mark.parametrize("write", [REPLAY, ACT], ids=["replay", "look-up"])
@pytest.mark.parametrize("way", TO_FINDING)
def test_nothing_is_sent_whatever_led_there(tmp_path: Path, way: str, write: str) -> None:
    """After a no, after a silence, after a yes that came too late: the task ends in doubt of nothing, and says so."""

    async def body(here: World) -> None:
        end = await answered(here, way)
        assert (end.head.status, end.head.reason) == ("FAILED", "in_doubt")
        assert "nothing was sent that could be looked for" in (end.head.output or "")
        assert not here.tools["act"].calls and not here.tools["find"].calls
        (effect,) = end.effects
        assert effect.status in (EffectStatus.REJECTED, EffectStatus.ABANDONED)
        assert not await here.store.effects(only_open=True)

    machine = swap(MACHINE, TO_FINDING[way], ("absent: ACTING", "absent: FAILED"))
    play(tmp_path, body, LOOK_STEP, act_step(200), machine=machine, texts=(LOOK, write, FIND), find=[ONE])


def test_what_another_task_did_is_not_taken_by_looking(tmp_path: Path) -> None:
    """A task that never sent its action does not take the other's effect, and comes to its end."""
    machine = swap(MACHINE, TO_FINDING["rejected"])

    async def body(here: World) -> None:
        first = await here.run()
        await here.runtime.approve(first.approvals[0].id, BOB)
        assert (await here.runtime.resume(first.task.id)).head.reason == "completed"
        end = await answered(here, "rejected")
        assert (end.head.status, len(here.tools["act"].calls)) == ("FAILED", 1)

    play(tmp_path, body, LOOK_STEP, act_step(200), machine=machine, find=[ONE])


def test_what_was_verified_stays_so(tmp_path: Path) -> None:
    """What is known to have happened is found without being looked for, and that is no step back."""
    machine = swap(
        MACHINE,
        ("  acted:", "  verified: effects.exists(e, e.status == 'verified')\n  acted:"),
        ("success: [acted]", "success: [verified]"),
        ("ok: SUCCEEDED, failed", "ok: [{confirms: act, goto: FINDING}], failed"),
        ("found: SUCCEEDED, absent: ACTING", "found: LOOKING, absent: FAILED"),
    )

    async def body(here: World) -> None:
        end = await here.run()
        assert (end.head.status, len(here.tools["act"].calls)) == ("SUCCEEDED", 1)
        assert [e.status for e in end.effects] == [EffectStatus.VERIFIED]
        assert [e.receipt for e in end.effects] == [DONE]

    steps = (LOOK_STEP, act_step(10), {"call": "finish", "with": {"answer": "done"}})
    play(tmp_path, body, *steps, machine=machine)
