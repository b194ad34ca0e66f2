"""Going back in a world that does not: what happened after the version counts in the fork, under whatever definition."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.errors import RefusedError, UsageError
from statemachine_agent.records import Checkpoint, EffectStatus
from support.playing import play, swap
from support.world import ACT, ANN, BOB, DONE, FIND, LOOK, LOOK_STEP, MACHINE, World, act_step

BACK = swap(MACHINE, ("then: {ok: SUCCEEDED, failed", "then: {ok: LOOKING, failed"))
STEPS = (LOOK_STEP, act_step(10), {"call": "finish", "with": {"answer": "done"}})


def forked(
    folder: Path,
    *steps: Mapping[str, Any],
    at: int,
    machine: str = BACK,
    other: str | None = None,
    texts: tuple[str, ...] = (),
    others: tuple[str, ...] = (),
    look: Mapping[str, Any] | None = None,
) -> tuple[str | Checkpoint, int]:
    """A task that ended, and its fork: what became of it, or why it is none; and how often was acted from then on."""
    environment = SimulatedEnvironment()
    looks = [look or {"good": True}]

    async def first(here: World) -> Checkpoint:
        return await here.run()

    async def then(here: World) -> tuple[str | Checkpoint, int]:
        try:
            made = await here.runtime.fork(end.task.id, at, ANN, machine="tiny" if other or others else None)
        except RefusedError as problem:
            assert len(await here.store.tasks()) == 1
            return f"{problem.reason}: {problem.message}", 0
        return await here.runtime.resume(made.task.id), len(here.tools["act"].calls)

    end = play(folder, first, *STEPS, machine=machine, texts=texts, environment=environment, look=looks)
    found: tuple[str | Checkpoint, int] = play(
        folder,
        then,
        *(steps or STEPS),
        machine=other or machine,
        texts=others or texts,
        environment=environment,
        look=looks,
    )
    return found


def test_a_guard_sees_what_was_done_after_the_version(tmp_path: Path) -> None:
    """A second payment that the task itself could not make is not made by its fork, either."""
    row = "        - {unless: looked, refuse"
    once = swap(BACK, (row, f"        - {{when: acted, refuse: it was done}}\n{row}"))
    end, calls = forked(tmp_path, LOOK_STEP, act_step(20), *STEPS[2:], at=1, machine=once)
    assert isinstance(end, Checkpoint) and (end.head.status, calls) == ("SUCCEEDED", 0)
    assert [(e.key, e.status, e.inherited) for e in end.effects] == [("act:box:10", EffectStatus.EXECUTED, True)]


def test_calls_that_were_made_after_the_version_count(tmp_path: Path) -> None:
    """`at_most` of a write is used up by what was written, wherever: it is not offered any more."""
    once = (LOOK, swap(ACT, ("at_most: 3", "at_most: 1")), FIND)
    end, calls = forked(tmp_path, LOOK_STEP, act_step(20), *STEPS[2:], at=1, texts=once)
    assert isinstance(end, Checkpoint) and (end.head.reason, calls) == ("completed", 0)
    assert end.head.calls == {"look": 1, "act": 1}


def test_what_it_touched_was_read_before(tmp_path: Path) -> None:
    """A result from before a write that touches what it tells of is old in the fork, too: it is read again."""
    texts = (
        LOOK.replace("source: things", "source: things\ntouches: {reads: [things]}"),
        ACT.replace("source: things", "source: things\ntouches: {writes: [things]}"),
        FIND,
    )
    end, calls = forked(tmp_path, LOOK_STEP, act_step(20), *STEPS[2:], at=1, texts=texts)
    assert isinstance(end, Checkpoint)
    assert (end.evidence[0].name, end.evidence[0].old) == ("ev-1", True)
    assert calls == 0, "without a new look the row does not accept"


def test_the_same_action_is_answered(tmp_path: Path) -> None:
    """By the receipt, at once; nothing is sent."""
    end, calls = forked(tmp_path, at=1)
    assert isinstance(end, Checkpoint) and (end.head.status, calls) == ("SUCCEEDED", 0)
    assert [e.receipt for e in end.effects] == [DONE]


@pytest.mark.parametrize("at", [1, 4])
def test_another_key_is_no_way_to_do_it_again(tmp_path: Path, at: int) -> None:
    """At no version: what happened would not be found under it."""
    keyed = (LOOK, swap(ACT, ("key: act:{thing}:{amount}", "key: again:{thing}:{amount}")), FIND)
    told, _ = forked(tmp_path, at=at, other=BACK, others=keyed)
    assert "misfit" in str(told) and "`act:box:10`, which happened, would not be found" in str(told)


@pytest.mark.parametrize("at", [1, 4])
def test_another_name_is_no_way_to_do_it_again(tmp_path: Path, at: int) -> None:
    """A tool in the place of the one that did it would not know."""
    renamed = (LOOK, ACT.replace("tool: act", "tool: deed"), FIND)
    other = (
        BACK.replace("      act:\n", "      deed:\n").replace("of: act", "of: deed").replace("call: act", "call: deed")
    )
    other = other.replace("reconcile: act", "reconcile: deed").replace('e.tool == "act"', 'e.tool == "deed"')
    told, _ = forked(tmp_path, at=at, other=other, others=renamed)
    assert "misfit" in str(told) and "`act` did `act:box:10`, and is none of its tools any more" in str(told)


GLANCE = LOOK.replace("tool: look", "tool: glance")


@pytest.mark.parametrize(
    ("at", "machine", "texts", "told"),
    [
        (1, BACK.replace("      look: stay", "      glance: stay").replace("evidence.look", "evidence.glance"),
         (GLANCE, ACT, FIND), "ev-1, of `look`, is nothing that it knows any more"),
        (1, BACK, (LOOK, swap(ACT, ("source: things", "source: things\ntouches: {writes: [things]}")), FIND),
         "`act` touches something else now"),
        (1, BACK, (LOOK, swap(ACT, ("  thing: {type: string}", "  thing: {type: string, maxLength: 50}")), FIND),
         "`act` takes other arguments now"),
        (4, BACK.replace("PROPOSED", "JUDGED"), (LOOK, ACT, FIND), "it was in `PROPOSED`, which is no state any more"),
    ],
    ids=["a veto under another name", "touches", "the kind of an argument", "visits"],
)  # fmt: skip
def test_what_would_be_forgotten_does_not_fit(
    tmp_path: Path, at: int, machine: str, texts: tuple[str, ...], told: str
) -> None:
    """Guards, limits and the ledger must see in the fork what they would have seen."""
    found, _ = forked(tmp_path, at=at, other=machine, others=texts)
    assert "misfit" in str(found) and told in str(found)


# ---------------------------------------------------------------- masks

NOTED = {"good": True, "note": "blocked"}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("redact: [input.thing]\n", ""),
        ("", "redact: [input.thing]\n"),
        ("redact: [evidence.look.note]\n", ""),
        ("", "redact: [evidence.look.note]\n"),
        ("retain: {evidence: {look: [good]}}\n", ""),
        ("", "retain: {evidence: {look: [good]}}\n"),
    ],
)
def test_both_mask_the_same(tmp_path: Path, was: str, now: str) -> None:
    """A guard that reads a mask decides on nothing; what is to be masked is not written a second time."""
    free = swap(BACK, ("[good, same_thing]", "good"), ("limits:", "#limits:"))
    machines = [free.replace("#limits:", f"{text}limits:") for text in (was, now)]
    told, _ = forked(tmp_path, at=1, machine=machines[0], other=machines[1], look=NOTED)
    assert told == "misfit: the task cannot go on under tiny 1: another part of what it knows is masked now"


def test_masks_of_a_manifest(tmp_path: Path) -> None:
    """As those of a machine; the same mask in the other place is the same."""
    masking = (LOOK + "redact: [note]\n", ACT, FIND)
    told, _ = forked(tmp_path / "a", at=1, texts=masking, other=BACK, others=(LOOK, ACT, FIND), look=NOTED)
    assert "is masked now" in str(told)


# ---------------------------------------------------------------- what was heard


def test_a_signal_that_is_another_now(tmp_path: Path) -> None:
    """What somebody said must be what the machine takes for it."""
    hearing = """
machine: tiny
version: 1
summary: Hear, and decide.
input: {thing: {type: string}}
limits: {steps: 3}
signals: {reply: {text: {type: string}}}
success: []
initial: LISTENING
states:
  LISTENING:
    wait: {signal: reply, expires: 1h}
    then: {received: LOOKING, expired: NEEDS_INPUT}
  LOOKING:
    choose: {look: stay, finish: SUCCEEDED}
"""
    asking = swap(hearing, ("text: {type: string}", "text: {type: string}, amount: {type: integer}"))
    environment = SimulatedEnvironment()

    async def first(here: World) -> str:
        task = await here.run()
        await here.runtime.reply(task.task.id, "yes", ANN)
        return task.task.id

    async def then(here: World) -> str:
        with pytest.raises(RefusedError) as problem:
            await here.runtime.fork(task, 1, ANN, machine="tiny")
        return problem.value.message

    task = play(tmp_path, first, machine=hearing, environment=environment)
    told = play(tmp_path, then, machine=asking, environment=environment)
    assert 'ev-1, of `reply`, is no result of it any more: "amount" is a required property' in told


# ---------------------------------------------------------------- budgets, however they are raised


def test_a_machine_with_larger_budgets_takes_the_scope(tmp_path: Path) -> None:
    """Whoever may not raise a limit may not do so with a file; a smaller one needs no scope, and stays with the next fork."""
    environment = SimulatedEnvironment()
    larger = swap(MACHINE, ("steps: 6", "steps: 60"))

    async def first(here: World) -> str:
        task = (await here.runtime.start("tiny", {"thing": "box"}, BOB)).task.id
        made = await here.runtime.fork(task, 0, BOB, limits={"steps": "2"})
        again = await here.runtime.fork(made.task.id, 0, BOB, machine="tiny")
        machine = await here.runtime._machine_of(again.task)
        assert (machine.definition.limits.steps, machine.limits) == (2, {"steps": "2"})
        with pytest.raises(RefusedError) as problem:
            await here.runtime.fork(made.task.id, 0, BOB, limits={"steps": "3"})
        assert "lacks the scope tasks:limits, and steps would be raised" in problem.value.message
        return task

    async def then(here: World) -> None:
        with pytest.raises(RefusedError) as problem:
            await here.runtime.fork(task, 0, BOB, machine="tiny")
        assert problem.value.reason == "limits"

    task = play(tmp_path, first, environment=environment)
    play(tmp_path, then, machine=larger, environment=environment)


# ---------------------------------------------------------------- the rest


def test_a_comment_in_a_manifest_is_no_change(tmp_path: Path) -> None:
    """A proposal that waits goes on where its tool means the same."""
    environment = SimulatedEnvironment()

    async def first(here: World) -> str:
        return (await here.run()).task.id

    async def then(here: World) -> None:
        made = await here.runtime.fork(task, 2, ANN, machine="tiny")
        await here.runtime.approve(made.approvals[0].id, BOB)
        assert (await here.runtime.resume(made.task.id)).head.reason == "completed"

    task = play(tmp_path, first, LOOK_STEP, act_step(200), environment=environment)
    told = (LOOK, f"# of the shop\n{ACT}", FIND)
    play(tmp_path, then, LOOK_STEP, act_step(200), texts=told, environment=environment)


def test_a_task_whose_history_is_full_can_be_forked(tmp_path: Path) -> None:
    """It says so itself; the fork alone then tells of it."""

    async def body(here: World) -> None:
        end = await here.run()
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
            connection.execute("UPDATE task SET row = 1048000")
            connection.commit()
        made = await here.runtime.fork(end.task.id, 1, ANN)
        assert (made.head.status, len(await here.store.tasks())) == ("RUNNING", 2)

    play(tmp_path, body, *STEPS, machine=BACK)


@pytest.mark.parametrize("at", [True, 1.0, "1", None])
def test_a_version_is_a_whole_number(tmp_path: Path, at: Any) -> None:
    async def body(here: World) -> None:
        end = await here.run()
        with pytest.raises(UsageError, match="a version is a whole number"):
            await here.runtime.fork(end.task.id, at, ANN)

    play(tmp_path, body, *STEPS, machine=BACK)
