"""While nobody knows whether an effect happened, the task neither succeeds nor sends the next one of that tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError
from support.world import ANN, BOB, DONE, LOOK_STEP, MACHINE, NONE, ONE, World, act_step, world

LOST = LostError("the line went dead", reason="timeout")
IN_DOUBT = {"items": [DONE, DONE]}  # neither found nor absent
FINISH = {"call": "finish", "with": {"answer": "done"}}
GIVE_UP = {"call": "cannot_continue", "with": {"reason": "in doubt"}}

#: in doubt the model is asked again, and nothing but the runtime itself asks for a settled ledger
IN_DOUBT_GOES_ON = MACHINE.replace(
    "then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}",
    "then: {found: SUCCEEDED, absent: ACTING, failed: LOOKING}",
).replace("success: [acted]", "success: [looked]")


def play(tmp_path: Path, body: Callable[[World], Awaitable[Any]], *steps: Any, **how: Any) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with world(tmp_path, *steps, environment=environment, **how) as here:
            assert not here.runtime.catalogue.report.errors, str(here.runtime.catalogue.report)
            return await body(here)

    return environment.run(main())


def test_finish_is_refused_while_an_effect_is_open(tmp_path: Path) -> None:
    """The machine's own conditions hold: what is missing is that somebody knows what became of the effect."""

    async def body(here: World) -> tuple[Checkpoint, list[str]]:
        end = await here.run()
        return end, await here.told(end)

    end, told = play(
        tmp_path, body, LOOK_STEP, act_step(), FINISH, GIVE_UP, machine=IN_DOUBT_GOES_ON, act=[LOST], find=[IN_DOUBT]
    )
    assert (end.head.status, end.head.reason) == ("FAILED", "no_action")
    assert "completion rejected: not all of looked, effects_settled hold" in told[-1]
    assert [e.status for e in end.effects] == ["unknown"]


def test_a_row_to_success_fails_while_an_effect_is_open(tmp_path: Path) -> None:
    """Wherever the machine leads to SUCCEEDED: with an effect in doubt it ends as not verified."""
    machine = IN_DOUBT_GOES_ON.replace("failed: LOOKING", "failed: SUCCEEDED")

    async def body(here: World) -> Checkpoint:
        return await here.run()

    end = play(tmp_path, body, LOOK_STEP, act_step(), machine=machine, act=[LOST], find=[IN_DOUBT])
    assert (end.head.status, end.head.reason) == ("FAILED", "not_verified")
    assert [e.status for e in end.effects] == ["unknown"]


def test_no_second_effect_of_a_tool_is_sent_while_one_is_open(tmp_path: Path) -> None:
    """Another amount, another key, approved by the same rules: it is blocked, naming the one that stands in the way."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert [c.key for c in here.tools["act"].calls] == ["act:box:10"]
        return end

    end = play(
        tmp_path, body, LOOK_STEP, act_step(10), act_step(20), machine=IN_DOUBT_GOES_ON, act=[LOST], find=[IN_DOUBT]
    )
    assert (end.head.status, end.head.reason) == ("FAILED", "effect_open")
    assert end.head.output == "the effect `act:box:10` is still unknown"
    assert {e.key: str(e.status) for e in end.effects} == {"act:box:10": "unknown", "act:box:20": "abandoned"}


def test_what_is_settled_stands_in_nobodys_way(tmp_path: Path) -> None:
    """The same two proposals, the first of them found absent by the service in between, and then sent: both happen."""
    machine = IN_DOUBT_GOES_ON.replace(
        "then: {ok: SUCCEEDED, failed: FAILED, blocked", "then: {ok: LOOKING, failed: FAILED, blocked"
    )

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert [c.key for c in here.tools["act"].calls] == ["act:box:10", "act:box:10", "act:box:20"]
        return end

    end = play(
        tmp_path, body, LOOK_STEP, act_step(10), act_step(20), FINISH, machine=machine, act=[LOST, DONE], find=[NONE]
    )
    assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
    assert [e.status for e in end.effects] == ["executed", "executed"]


def test_the_open_effect_is_reconciled_and_not_the_newest(tmp_path: Path) -> None:
    """A proposal that waits behind one in doubt is newer: the service is asked for the one that was sent."""
    machine = IN_DOUBT_GOES_ON.replace(
        "        - {goto: PROPOSED}", "        - {when: in_doubt, goto: FINDING}\n        - {goto: PROPOSED}"
    ).replace("success:", '  in_doubt: effects.exists(e, e.status == "unknown")\nsuccess:')

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert [c.args["key"] for c in here.tools["find"].calls] == ["act:box:10", "act:box:10"]
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(10), act_step(20), machine=machine, act=[LOST], find=[IN_DOUBT, ONE])
    assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
    assert {e.key: str(e.status) for e in end.effects} == {"act:box:10": "executed", "act:box:20": "abandoned"}


@pytest.mark.parametrize(
    ("more", "decisions", "reason"),
    [
        ([FINISH] * 60, 6, "max_steps"),
        ([{**FINISH, "tokens": {"input": 20_000, "output": 0}}] * 60, 3, "max_tokens"),
        ([{**FINISH, "cost_usd": 2.0}] * 60, 3, "max_cost"),
    ],
    ids=["steps", "tokens", "money"],
)
def test_a_budget_holds_although_an_effect_is_open(
    tmp_path: Path, more: list[Any], decisions: int, reason: str
) -> None:
    """No decision follows a budget that is used up, whatever is in doubt; what is open is left to a person."""

    async def body(here: World) -> Checkpoint:
        task = await here.run()
        assert len(await here.rows(task, "decision")) == decisions
        settled = await here.runtime.resolve(task.task.id, "act:box:10", BOB, found=None, why="nothing arrived")
        assert [e.status for e in settled.effects] == ["abandoned"]
        return task

    task = play(tmp_path, body, LOOK_STEP, act_step(), *more, machine=IN_DOUBT_GOES_ON, act=[LOST], find=[IN_DOUBT])
    assert (task.head.status, task.head.reason) == ("BUDGET_EXHAUSTED", reason)
    assert [e.status for e in task.effects] == ["unknown"]


def test_a_model_that_fails_while_an_effect_is_open_is_not_asked_for_ever(tmp_path: Path) -> None:
    """The task ends as it would with nothing open, and the effect stays for a person."""

    async def body(here: World) -> Checkpoint:
        return await here.run()

    steps = (LOOK_STEP, act_step(), {**FINISH, "fail": 100})
    end = play(tmp_path, body, *steps, machine=IN_DOUBT_GOES_ON, act=[LOST], find=[IN_DOUBT])
    assert (end.head.status, end.head.reason) == ("FAILED", "model_failed")
    assert [e.status for e in end.effects] == ["unknown"]


def test_a_cancel_waits_for_what_is_open_until_a_model_would_decide(tmp_path: Path) -> None:
    """Asked for while the call is under way: the service is asked first, and no decision follows."""

    async def body(here: World) -> Checkpoint:
        async def cancelled(_request: object) -> None:
            (task,) = await here.store.tasks()
            await here.runtime.cancel(task["id"], ANN)
            raise LOST

        here.tools["act"].plays[:] = [cancelled]
        end = await here.run()
        assert len(here.tools["find"].calls) == 1
        assert len(await here.rows(end, "decision")) == 2
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), FINISH, machine=IN_DOUBT_GOES_ON, find=[IN_DOUBT])
    assert (end.head.status, end.head.reason) == ("CANCELLED", "cancelled")
    assert [e.status for e in end.effects] == ["unknown"]
