"""What the guards of a task can see, each name of it, and what an end says of the way there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError, NotSentError
from support.playing import play, swap, to_its_end
from support.world import BOB, DONE, LOOK_STEP, MACHINE, World, act_step

LOST = LostError("the line went dead", reason="timeout")


def ending(task: Checkpoint) -> tuple[str, str | None]:
    return str(task.head.status), task.head.reason


@pytest.mark.parametrize(
    "text",
    [
        'results.look.size() == 2 && results.look[0].asked.thing == "box" && results.look[1].asked.thing == "bag"',
        'results.look[0].result.note == "one" && results.look[1].result.note == "two"',
        'timestamp(results.look[0].at) == timestamp("2026-10-28T11:17:45Z")',
        'asked.look.thing == "bag" && evidence.look.note == "two"',
        "usage.steps == 3 && usage.tool_calls == 2",
        "usage.tokens == 150 && usage.cost_usd > 0.29 && usage.cost_usd < 0.31",
        "usage.active_seconds >= 4.0 && usage.active_seconds < 5.0",
        "visits.LOOKING == 1 && visits.ASKING == 1 && visits.FINDING == 0",
        'actor.id == "ann" && actor.tenant == "default" && "things:write" in actor.scopes && actor.roles.size() == 0',
        'approval.tool == "act" && approval.status == "approved" && approval.id.startsWith("apr-")',
        'timestamp(approval.expires_at) == timestamp("2026-10-28T12:17:47Z")',
        'effects.size() == 1 && effects[0].tool == "act" && effects[0].key == "act:box:200"',
        'effects[0].status == "approved"',
        'proposal.tool == "act" && proposal.args.amount == 200',
        'input.thing == "box"',
        'now == timestamp("2026-10-28T11:17:47Z")',
    ],
)
def test_a_guard_sees_the_task_as_it_is_recorded(tmp_path: Path, text: str) -> None:
    """Asked behind a yes, where everything that there is has been recorded."""
    machine = swap(
        MACHINE,
        ("guards:\n", f"guards:\n  seen: '{text}'\n"),
        (
            "then: {approved: ACTING,",
            "then: {approved: [{when: seen, goto: ACTING}, {goto: DENIED, reason: not_seen}],",
        ),
    )

    async def body(here: World) -> Checkpoint:
        async def two_seconds(_request: object) -> dict[str, Any]:
            await here.environment.sleep(2)
            return {"good": True, "note": ("one", "two")[len(here.tools["look"].calls) - 1]}

        here.tools["look"].plays[:] = [two_seconds]
        waiting = await here.run()
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        return await here.runtime.resume(waiting.task.id)

    cost = {"tokens": {"input": 30, "output": 20}, "cost_usd": 0.1}
    other = {"call": "look", "with": {"thing": "bag"}}
    end = play(tmp_path, body, *({**s, **cost} for s in (LOOK_STEP, other, act_step(200))), machine=machine)
    assert ending(end) == ("SUCCEEDED", "completed"), end.head.output


def test_an_exit_that_had_to_wait_still_says_why(tmp_path: Path) -> None:
    """Two reads fail while an effect is in doubt: the end names the read and its error."""
    machine = swap(MACHINE, ("absent: ACTING, failed: FAILED}", "absent: ACTING, failed: LOOKING}"))
    gone = NotSentError("no route", reason="unavailable")
    steps = [LOOK_STEP, act_step(), *({"call": "look", "with": {"thing": t}} for t in ("a", "b", "c"))]
    end = play(
        tmp_path,
        to_its_end,
        *steps,
        machine=machine,
        look=[{"good": True}, gone],
        act=[LOST],
        find=[{"items": [DONE] * 2}],
    )
    assert ending(end) == ("FAILED", "dependency_failed")
    assert end.head.output == "`look` failed (unavailable): no route"
    assert [e.status for e in end.effects] == ["unknown"]


def test_a_success_does_not_speak_of_what_failed_on_the_way(tmp_path: Path) -> None:
    """A last read fails, and the machine says that it does not matter: no error stands beside SUCCEEDED."""
    machine = swap(MACHINE, ("then: {ok: SUCCEEDED", "then: {ok: READING"))
    machine += "  READING: {call: look, with: {thing: input.thing}, then: {ok: SUCCEEDED, failed: SUCCEEDED}}\n"
    look = [{"good": True}, NotSentError("no route", reason="unavailable")]
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(), machine=machine, look=look)
    assert (end.head.status, end.head.output) == ("SUCCEEDED", None)
