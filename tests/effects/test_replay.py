"""Sending the same thing again may be what makes it happen: it needs all that the first time needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Runtime, SimulatedEnvironment
from statemachine_agent.definition.people import People
from statemachine_agent.records import Checkpoint
from statemachine_agent.runtime.drive import StoppedError
from statemachine_agent.tools.outcome import LostError, RefusedByServiceError
from support.world import (
    ACT,
    BAD,
    BOB,
    DONE,
    FIND,
    GOOD,
    LOOK,
    LOOK_STEP,
    MACHINE,
    NONE,
    PEOPLE,
    World,
    act_step,
    world,
)

LOST = LostError("the line went dead", reason="timeout")

#: no look-up: the same request once more, and an answer means found
REPLAYED = (
    ACT.split("  reconcile:", maxsplit=1)[0] + "  replay: true\napproval:" + ACT.split("approval:", maxsplit=1)[1]
)
GUARDED = REPLAYED + "precondition: {tool: look, with: {thing: args.thing}, holds: result.good, reason: gone}\n"


def play(tmp_path: Path, body: Callable[[World], Awaitable[Any]], *steps: Any, act_text: str = ACT, **how: Any) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        texts = (LOOK, act_text, FIND)
        async with world(tmp_path, *steps, texts=texts, environment=environment, **how) as here:
            assert not here.runtime.catalogue.report.errors, str(here.runtime.catalogue.report)
            return await body(here)

    return environment.run(main())


async def lost_and_stopped(here: World, *, approved: bool = False) -> Checkpoint:
    """The answer is lost, and the worker is told to stop: what follows is done by the next one."""

    def lose(_request: object) -> None:
        here.runtime.stop()
        raise LOST

    here.tools["act"].plays[:] = [lose, DONE]
    with pytest.raises(StoppedError):
        task = await here.run()
        if approved:
            await here.runtime.approve(task.approvals[0].id, BOB)
            await here.runtime.resume(task.task.id)
    (task,) = await here.store.tasks()
    after = await here.runtime.status(task["id"])
    assert [e.status for e in after.effects] == ["unknown"]
    return after


async def next_worker(here: World, task: Checkpoint, people: People = PEOPLE) -> Checkpoint:
    catalogue = replace(here.runtime.catalogue, people=people)
    async with Runtime(catalogue, here.store, environment=here.environment, bindings=here.tools) as runtime:
        return await runtime.resume(task.task.id)


def without(person: str) -> People:
    """The people of now: this one has neither roles nor scopes any more."""
    data = PEOPLE.model_dump(mode="json")
    data["people"][person] = {}
    return People.model_validate(data)


def test_a_replay_under_the_rules_of_now_finds_the_effect(tmp_path: Path) -> None:
    """The approval that covered the effect covers it again: the same key, the same arguments, one effect."""

    async def body(here: World) -> Checkpoint:
        task = await lost_and_stopped(here, approved=True)
        end = await next_worker(here, task)
        assert [(c.key, c.args["amount"]) for c in here.tools["act"].calls] == [("act:box:200", 200)] * 2
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(200), act_text=REPLAYED)
    assert (end.head.status, [e.status for e in end.effects]) == ("SUCCEEDED", ["executed"])


@pytest.mark.parametrize(
    ("amount", "person", "reason"),
    [(10, "ann", "missing_scope"), (200, "bob", "approver_not_entitled")],
    ids=["a scope was taken away", "who said yes may not any more"],
)
def test_what_is_denied_by_now_is_not_sent_again(tmp_path: Path, amount: int, person: str, reason: str) -> None:
    """It ends in doubt, with the reason; the effect stays open for a person."""

    async def body(here: World) -> Checkpoint:
        task = await lost_and_stopped(here, approved=amount > 100)
        end = await next_worker(here, task, without(person))
        assert len(here.tools["act"].calls) == 1
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(amount), act_text=REPLAYED)
    assert (end.head.status, end.head.reason) == ("FAILED", reason)
    assert end.head.output is not None and end.head.output.startswith("it was not sent again: ")
    assert [e.status for e in end.effects] == ["unknown"]


def test_an_approval_that_expired_meanwhile_does_not_send_again(tmp_path: Path) -> None:
    """The hour is over when the next worker comes."""

    async def body(here: World) -> Checkpoint:
        task = await lost_and_stopped(here, approved=True)
        here.environment.advance(3600)
        end = await next_worker(here, task)
        assert len(here.tools["act"].calls) == 1
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(200), act_text=REPLAYED)
    assert (end.head.status, end.head.reason) == ("FAILED", "approval_expired")
    assert [e.status for e in end.effects] == ["unknown"]


@pytest.mark.parametrize(
    ("now", "calls", "end"),
    [
        (GOOD, 2, ("SUCCEEDED", "completed", "executed")),
        (BAD, 1, ("FAILED", "gone", "unknown")),
        (LOST, 1, ("FAILED", "precondition_unreadable", "unknown")),
    ],
    ids=["holds", "holds no more", "cannot be read"],
)
def test_the_precondition_is_read_again_before_a_replay(
    tmp_path: Path, now: Any, calls: int, end: tuple[str, str, str]
) -> None:
    """It held for the first request; what counts is whether it holds now. Each read is on record as what it is."""

    async def body(here: World) -> Checkpoint:
        task = await here.run()
        assert len(here.tools["act"].calls) == calls
        rows = await here.rows(task, "call")
        assert [r["purpose"] for r in rows if r["tool"] == "look"][:3] == ["step", "precondition", "precondition"]
        return task

    task = play(tmp_path, body, LOOK_STEP, act_step(), act_text=GUARDED, look=[GOOD, GOOD, now], act=[LOST, DONE])
    assert (task.head.status, task.head.reason, str(task.effects[0].status)) == end


def test_a_used_approval_covers_its_own_effect_until_that_is_settled(tmp_path: Path) -> None:
    """Lost, and not there: the same action is sent again on the yes that it had."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert [c.key for c in here.tools["act"].calls] == ["act:box:200"] * 2
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(200), act=[LOST, DONE], find=[NONE])
    assert (end.head.status, [e.status for e in end.effects]) == ("SUCCEEDED", ["executed"])
    assert [a.status for a in end.approvals] == ["consumed"]


def test_a_used_approval_never_covers_a_second_effect(tmp_path: Path) -> None:
    """The service refused, which settles it. The very same action proposed again is another effect: it needs another yes."""
    machine = (
        MACHINE.replace("failed: FAILED, blocked", "failed: LOOKING, blocked")
        .replace("- {when: approval_required, goto: ASKING}", "- {when: asked_before, goto: ACTING}\n      "
                 "- {when: approval_required, goto: ASKING}")
        .replace("success:", "  asked_before: visits.ASKING > 0\nsuccess:")
    )  # fmt: skip

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert len(here.tools["act"].calls) == 1
        return end

    refused = RefusedByServiceError("not today", reason="rejected")
    end = play(tmp_path, body, LOOK_STEP, act_step(200), act_step(200), machine=machine, act=[refused, DONE])
    assert (end.head.status, end.head.reason) == ("FAILED", "approval_required")
    assert [a.status for a in end.approvals] == ["consumed"]
