"""Going back: a new task from a past version. In a simulated world, on a real store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.errors import RefusedError, UnknownTaskError, UsageError
from statemachine_agent.loop.inherit import _TAKEN
from statemachine_agent.records import ApprovalStatus, Checkpoint, EffectStatus, Status
from statemachine_agent.tools.outcome import LostError, RefusedByServiceError
from support.playing import play, swap
from support.world import ACT, ANN, BOB, DONE, EVE, FIND, LOOK, LOOK_STEP, MACHINE, NONE, World, act_step

BIG = (LOOK_STEP, act_step(200))
KEY = "act:box:200"


async def finished(here: World) -> Checkpoint:
    """A task whose write was approved and made."""
    waiting = await here.run()
    await here.runtime.approve(waiting.approvals[0].id, BOB)
    return await here.runtime.resume(waiting.task.id)


async def reason_of(attempt: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        await attempt
    return refused.value.reason


# ---------------------------------------------------------------- what a fork is


def test_people_are_asked_again_and_the_ledger_answers(tmp_path: Path) -> None:
    """Ask F8: a yes does not go back with the task; what was done after the version is not done again, and the fork knows it."""

    async def body(here: World) -> None:
        end = await finished(here)
        assert (end.head.status, len(here.tools["act"].calls)) == (Status.SUCCEEDED, 1)
        made = await here.runtime.fork(end.task.id, 2, ANN)
        (asked,), (answered,) = made.approvals, end.approvals
        assert made.head.status is Status.AWAITING_APPROVAL and made.task.id != end.task.id
        assert (asked.status, asked.answers, asked.id == answered.id) == (ApprovalStatus.OPEN, (), False)
        assert (await here.runtime.resume(made.task.id)).head.status is Status.AWAITING_APPROVAL
        await here.runtime.approve(asked.id, BOB)
        again = await here.runtime.resume(made.task.id)
        assert (again.head.status, again.head.reason) == (Status.SUCCEEDED, "completed")
        assert len(here.tools["act"].calls) == 1
        (effect,) = again.effects
        assert (effect.key, effect.status, effect.inherited, effect.receipt) == (KEY, EffectStatus.EXECUTED, True, DONE)
        assert await here.runtime.status(end.task.id) == end

    play(tmp_path, body, *BIG)


def test_it_stands_as_the_other_stood(tmp_path: Path) -> None:
    """At each version that can be gone back to: what it knows, has spent and may do is what the other did, and no more."""

    async def body(here: World) -> None:
        end = await finished(here)
        was = {}
        for version in range(end.head.version):
            past = await here.store.as_of(end.task.id, version)
            was[version] = past.head.status
            if version in (3, 4):
                continue
            made = await here.runtime.fork(end.task.id, version, ANN)
            assert made == await here.runtime.status(made.task.id)
            assert {n: getattr(made.head, n) for n in _TAKEN} == {n: getattr(past.head, n) for n in _TAKEN}
            assert made.head.version == 0
            assert made.evidence == tuple(replace(e, inherited=True) for e in past.evidence)
            assert [e.name for e in made.evidence] == ["ev-1"][: len(past.evidence)]
            assert not any(e.inherited for e in past.evidence)
        assert was == {0: "RUNNING", 1: "RUNNING", 2: "AWAITING_APPROVAL", 3: "RUNNING", 4: "RUNNING"}

    play(tmp_path, body, *BIG)


def test_what_happened_by_then_is_known_to_its_guards(tmp_path: Path) -> None:
    """An effect that was made before the version counts in the fork as well; it is marked as another task's."""
    machine = swap(MACHINE, ("then: {ok: SUCCEEDED, failed", "then: {ok: LOOKING, failed"))
    steps = (LOOK_STEP, act_step(10), {"call": "finish", "with": {"answer": "done"}})

    async def body(here: World) -> None:
        end = await here.run()
        assert (end.head.status, end.head.version) == (Status.SUCCEEDED, 5)
        made = await here.runtime.fork(end.task.id, 4, ANN)
        (effect,) = made.effects
        assert (effect.status, effect.inherited, effect.receipt) == (EffectStatus.EXECUTED, True, DONE)
        again = await here.runtime.resume(made.task.id)
        assert (again.head.status, again.head.reason) == (Status.SUCCEEDED, "completed")
        assert len(here.tools["act"].calls) == 1
        assert not await here.store.effects(only_open=True)

    play(tmp_path, body, *steps, machine=machine)


def test_both_histories_say_where_it_came_from(tmp_path: Path) -> None:
    """Whoever reads either history finds the other task, and who went back."""

    async def body(here: World) -> None:
        end = await finished(here)
        made = await here.runtime.fork(end.task.id, 1, ANN)
        (came,) = await here.rows(made, "note")
        (went,) = await here.rows(end, "note")
        assert (came["event"], came["by"], came["why"]) == ("forked_from", "ann", f"{end.task.id} version 1")
        assert (went["event"], went["by"], went["why"]) == ("forked", "ann", f"version 1 as {made.task.id}")
        assert [row["cause"] for row in await here.rows(made, "checkpoint")] == ["fork"]

    play(tmp_path, body, *BIG)


def test_a_fork_of_a_fork(tmp_path: Path) -> None:
    """One can go back further and further; names of results go on where they were."""

    async def body(here: World) -> None:
        first = await here.run()
        second = await here.runtime.fork(first.task.id, 1, ANN)
        third = await here.runtime.fork(second.task.id, 0, ANN)
        end = await here.runtime.resume(third.task.id)
        assert (end.head.status, end.head.steps) == (Status.AWAITING_APPROVAL, 2)
        assert [e.name for e in end.evidence] == ["ev-1"]

    play(tmp_path, body, *BIG)


def test_a_wait_begins_anew(tmp_path: Path) -> None:
    """A request that has expired in the other task has its whole time again in the fork."""
    environment = SimulatedEnvironment()

    async def body(here: World) -> None:
        waiting = await here.run()
        await environment.sleep(3601)
        end = await here.runtime.resume(waiting.task.id)
        assert end.head.status is Status.NEEDS_INPUT
        made = await here.runtime.fork(end.task.id, 2, ANN)
        (timer,) = made.timers
        assert timer.due_at == environment.now() + timedelta(hours=1)
        assert (await here.runtime.resume(made.task.id)).head.status is Status.AWAITING_APPROVAL

    play(tmp_path, body, *BIG, environment=environment)


# ---------------------------------------------------------------- refusals


def test_who_may_not_and_what_cannot(tmp_path: Path) -> None:
    """Each with its own reason, and nothing is stored."""

    async def body(here: World) -> None:
        end = await finished(here)
        fork, task = here.runtime.fork, end.task.id
        found = {
            "another": await reason_of(fork(task, 1, BOB)),
            "a stranger": await reason_of(fork(task, 1, replace(ANN, id="nobody"))),
            "approved": await reason_of(fork(task, 3, ANN)),
            "intended": await reason_of(fork(task, 4, ANN)),
            "ended": await reason_of(fork(task, 5, ANN)),
            "later": await reason_of(fork(task, 6, ANN)),
            "before": await reason_of(fork(task, -1, ANN)),
            "past 64 bits": await reason_of(fork(task, 1 << 70, ANN)),
        }
        assert found == {
            "another": "not_yours", "a stranger": "unknown_person", "approved": "under_way",
            "intended": "under_way", "ended": "ended", "later": "unknown_version", "before": "unknown_version",
            "past 64 bits": "unknown_version",
        }  # fmt: skip
        with pytest.raises(UnknownTaskError):
            await fork("01a2", 1, ANN)
        assert len(await here.store.tasks()) == 1
        own = await here.runtime.start("tiny", {"thing": "box"}, BOB)
        assert await reason_of(fork(own.task.id, 0, BOB, limits={"steps": "12"})) == "limits"

    play(tmp_path, body, *BIG)


def test_not_while_an_effect_is_open(tmp_path: Path) -> None:
    """What may have happened could happen twice: it must be settled first."""

    async def body(here: World) -> None:
        end = await here.run()
        assert end.head.status is Status.FAILED and end.open_effects
        assert await reason_of(here.runtime.fork(end.task.id, 1, ANN)) == "effect_open"
        await here.runtime.resolve(end.task.id, end.open_effects[0].key, BOB, found=None, why="not there")
        made = await here.runtime.fork(end.task.id, 1, ANN)
        assert made.head.status is Status.RUNNING

    play(tmp_path, body, LOOK_STEP, act_step(), act=[LostError("gone")], find=[LostError("gone")])


def test_what_was_not_kept_is_said(tmp_path: Path) -> None:
    """A version whose head is not in the store cannot be gone back to; nothing is guessed."""

    async def body(here: World) -> None:
        end = await finished(here)
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
            connection.execute("DELETE FROM payload WHERE hash IN (SELECT head FROM checkpoint WHERE version = 1)")
            connection.commit()
        assert await reason_of(here.runtime.fork(end.task.id, 1, ANN)) == "unknown_version"

    play(tmp_path, body, *BIG)


# ---------------------------------------------------------------- other budgets


def test_a_budget_that_ran_out_can_be_raised(tmp_path: Path) -> None:
    """The ended task stays ended; the fork has the new budget for good, whoever works on it."""
    short = swap(MACHINE, ("steps: 6", "steps: 2"))
    environment = SimulatedEnvironment()

    async def run_out(here: World) -> tuple[Checkpoint, Checkpoint]:
        end = await here.run()
        assert end.head.status is Status.BUDGET_EXHAUSTED
        same = await here.runtime.resume((await here.runtime.fork(end.task.id, 1, ANN)).task.id)
        assert same.head.status is Status.BUDGET_EXHAUSTED
        made = await here.runtime.fork(end.task.id, 1, ANN, limits={"steps": "3", "cost_usd": "2.50"})
        assert made.task.definition_hash != end.task.definition_hash
        (note,) = await here.rows(made, "note")
        assert (note["by"], note["why"]) == ("ann", f"{end.task.id} version 1, steps 3, cost_usd 2.50")
        return end, made

    async def go_on(here: World) -> None:
        ended = await here.runtime.resume(made.task.id)
        assert (ended.head.status, ended.head.steps) == (Status.SUCCEEDED, 3)
        machine = await here.runtime._machine_of(ended.task)
        assert (machine.definition.limits.steps, machine.definition.limits.cost_usd) == (3, Decimal("2.50"))
        assert machine.definition.limits.tokens == 10_000
        assert await here.runtime.status(end.task.id) == end

    steps, how = (LOOK_STEP, LOOK_STEP, act_step()), {"machine": short, "environment": environment}
    end, made = play(tmp_path, run_out, *steps, **how)
    play(tmp_path, go_on, *steps, **how)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("step", "12", "there is no limit `step`"),
        ("steps", "many", "`many` is no limit of `steps`"),
        ("steps", "0", "`0` is no limit of `steps`"),
        ("steps", "12\ntokens: 9999999", "is no limit of `steps`"),
        ("tokens", "5 # of many", "is no limit of `tokens`"),
        ("tokens", "20_000", "is no limit of `tokens`"),
        ("tokens", "9000", None),
        ("tokens", "", "is no limit of `tokens`"),
        ("tokens", "{a: 1}", "is no limit of `tokens`"),
        ("active_time", "-5m", "is no limit of `active_time`"),
        ("cost_usd", "nan", "is no limit of `cost_usd`"),
    ],
)
def test_a_limit_is_written_as_in_a_machine(tmp_path: Path, name: str, text: str, told: str | None) -> None:
    """One value in the words of a machine file, and nothing besides."""

    async def body(here: World) -> None:
        task = (await here.run()).task.id
        if told is None:
            await here.runtime.fork(task, 1, ANN, limits={name: text})
            return
        with pytest.raises(UsageError) as refused:
            await here.runtime.fork(task, 1, ANN, limits={name: text})
        assert told in refused.value.message and refused.value.hint

    play(tmp_path, body, LOOK_STEP, act_step())


# ---------------------------------------------------------------- another definition


ASKED = "    approval: {of: act, by: boss, expires: 1h}\n"
ANSWERED = "    then: {approved: ACTING, rejected: DENIED, expired: NEEDS_INPUT}"


def other(folder: Path, machine: str, *, at: int, texts: tuple[str, ...] = ()) -> str | Checkpoint:
    """What becomes of a task, finished under the usual definition, that is forked under this one: why not, or what it is."""
    environment = SimulatedEnvironment()

    async def body(here: World) -> str | Checkpoint:
        try:
            made = await here.runtime.fork(end.task.id, at, ANN, machine="tiny")
        except RefusedError as refused:
            return f"{refused.reason}: {refused.message.partition(': ')[2]}"
        return await here.runtime.resume(made.task.id)

    end = play(folder, finished, *BIG, environment=environment)
    found: str | Checkpoint = play(folder, body, *BIG, machine=machine, texts=texts, environment=environment)
    return found


def test_it_goes_on_under_the_definition_of_now(tmp_path: Path) -> None:
    """A mended machine is tried on the task that showed its fault."""
    mended = swap(
        MACHINE, ("    brief: Look, then act.", "    brief: Look well, then act."), ("expires: 1h", "expires: 2h")
    )
    made = other(tmp_path, mended, at=2)
    assert isinstance(made, Checkpoint) and made.head.status is Status.AWAITING_APPROVAL
    assert made.timers[0].due_at - made.approvals[0].requested_at == timedelta(hours=2)


@pytest.mark.parametrize(
    ("at", "change", "told"),
    [
        (2, ("ASKING", "HOLDING"), "it stands in `ASKING`, which is no state any more"),
        (
            2,
            (f"{ASKED}{ANSWERED}",
             "    wait: {for: 1h}\n    then: {elapsed: ACTING}"),
            "it stands in `ASKING`, which is a state of another kind now",
        ),
        (1, ("input:\n  thing: {type: string}", "input:\n  thing: {type: string}\n  colour: {type: string}"),
         'its input does not fit: "colour" is a required property'),
        (2, ("refuse: look first", "refuse: look before"), None),
        (2, ("        - {goto: PROPOSED}\n", "        - {when: same_thing, goto: PROPOSED}\n"),
         "its proposal of `act` waits, and the tool, its rules or the row that accepted it are others now"),
        (2, ("of: act, by: boss", "of: act, by: chief"),
         "its proposal of `act` waits, and the tool, its rules or the row that accepted it are others now"),
    ],
)  # fmt: skip
def test_where_a_machine_does_not_fit(tmp_path: Path, at: int, change: tuple[str, str], told: str | None) -> None:
    """What of the task says no, in words; nothing is carried over in part."""
    text = MACHINE.replace(*change) if change[0] == "ASKING" else swap(MACHINE, change)
    found = other(tmp_path, text, at=at)
    assert str(found).startswith(f"misfit: {told}") if told is not None else isinstance(found, Checkpoint)


def test_nobody_is_asked_about_what_would_be_refused(tmp_path: Path) -> None:
    """A guard is another one now, and the proposal that waits does not pass it; before the proposal there is a way."""
    strict = swap(MACHINE, ("same_thing: call.args.thing == input.thing", "same_thing: call.args.amount < 100"))
    found = other(tmp_path, strict, at=2)
    assert found == "misfit: not this thing"
    environment = SimulatedEnvironment()

    async def ask(here: World) -> str:
        return (await here.run()).task.id

    async def judge(here: World) -> None:
        machine = compile_machine(checked_catalogue(here.runtime.catalogue), "tiny")
        (one,) = await here.runtime.verdicts({"tiny": machine})
        assert (one.task, one.verdict, one.earlier) == (task, "stays", 1)
        assert one.why == ("the proposal that waits would be refused now: not this thing",)
        assert len(await here.store.tasks()) == 1

    task = play(tmp_path / "b", ask, *BIG, environment=environment)
    play(tmp_path / "b", judge, *BIG, machine=strict, environment=environment)


def test_not_where_it_would_end_at_once(tmp_path: Path) -> None:
    """A limit below what is spent is no way to go on."""

    async def body(here: World) -> None:
        task = (await here.run()).task.id
        assert await reason_of(here.runtime.fork(task, 1, ANN, limits={"steps": "1"})) == "exhausted"
        assert (await here.runtime.fork(task, 0, ANN, limits={"steps": "1"})).head.steps == 0

    play(tmp_path, body, *BIG)


def test_where_tools_do_not_fit(tmp_path: Path) -> None:
    """A result that is none any more; a write that would not find again what it did."""
    colour = swap(LOOK, ("  good: {type: boolean}", "  good: {type: boolean}\n  colour: {type: string}"))
    assert "ev-1, of `look`, is no result of it any more" in str(
        other(tmp_path / "a", MACHINE, at=1, texts=(colour, ACT, FIND))
    )

    machine = swap(MACHINE, ("then: {ok: SUCCEEDED, failed", "then: {ok: LOOKING, failed"))
    keyed = swap(ACT, ("key: act:{thing}:{amount}", "key: act:{thing}"))

    async def first(here: World) -> Checkpoint:
        return await here.run()

    async def then(here: World) -> str:
        with pytest.raises(RefusedError) as refused:
            await here.runtime.fork(end.task.id, 4, ANN, machine="tiny")
        return refused.value.message

    environment = SimulatedEnvironment()
    end = play(
        tmp_path / "b",
        first,
        LOOK_STEP,
        act_step(10),
        {"call": "finish", "with": {"answer": "done"}},
        machine=machine,
        environment=environment,
    )
    told = play(tmp_path / "b", then, machine=machine, texts=(LOOK, keyed, FIND), environment=environment)
    assert "makes its key in another way: `act:box:10`, which happened, would not be found" in told


def test_nobody_else_can_go_back_even_with_every_scope(tmp_path: Path) -> None:
    """A fork acts for the person whose task it is, with what that person may now: another one gets no hold of either."""

    async def body(here: World) -> None:
        end = await finished(here)
        for who in (BOB, EVE):
            assert await reason_of(here.runtime.fork(end.task.id, 2, who)) == "not_yours"

    play(tmp_path, body, *BIG, find=[NONE])


def test_the_order_of_effects_is_that_of_then(tmp_path: Path) -> None:
    """Which effect of a tool is the newest is as it was at the version, whatever was proposed again since."""
    machine = swap(
        MACHINE,
        (
            "then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED",
            "then: {ok: LOOKING, failed: LOOKING, blocked: LOOKING",
        ),
    )
    refused = RefusedByServiceError("not today", reason="rejected")
    steps = (LOOK_STEP, act_step(10), act_step(20), act_step(10))

    async def body(here: World) -> None:
        end = await here.run()
        found = [[e.key for e in (await here.store.as_of(end.task.id, v)).effects] for v in range(end.head.version + 1)]
        ten, twenty = "act:box:10", "act:box:20"
        assert [keys for keys, _ in groupby(found)] == [[], [ten], [ten, twenty], [twenty, ten]]
        for version, keys in enumerate(found):
            past = await here.store.as_of(end.task.id, version)
            if past.head.status.is_end or any(e.status.is_open for e in past.effects):
                continue
            made = await here.runtime.fork(end.task.id, version, ANN)
            assert [e.key for e in made.effects] == keys

    play(tmp_path, body, *steps, machine=machine, act=[refused])
