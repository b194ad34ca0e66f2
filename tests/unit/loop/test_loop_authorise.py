"""The policy's word on a call: rules without an answer, calls that no model proposed, and a store that was edited."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.loop.context import Event
from statemachine_agent.policy.ruling import Allow, Deny, RequireApproval
from statemachine_agent.records import Checkpoint
from statemachine_agent.runtime.trace import trace_of
from support.playing import play, swap, to_its_end
from support.world import ACT, BOB, EVE, FIND, LOOK, LOOK_STEP, MACHINE, World, act_step

#: a rule that reads an argument which may be left out
NOTED = swap(
    ACT,
    ("args:\n", "args:\n  note: {type: string, optional: true}\n"),
    ("{when: args.amount > 100,", "{when: 'args.note == \"x\"',"),
)
#: behind the look the machine acts by itself
BY_ITSELF = swap(
    MACHINE,
    ("      look: stay\n", "      look: {rows: [{goto: ACTING}]}\n"),
    ("with: proposal", "with: {thing: input.thing, amount: 200}"),
)


def ending(task: Checkpoint) -> tuple[str, str | None]:
    return str(task.head.status), task.head.reason


def test_a_rule_without_an_answer_is_no_permission(tmp_path: Path) -> None:
    """It is neither met nor not met: the task ends at once, naming rule and field, and nothing is sent."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert not here.tools["act"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), texts=(LOOK, NOTED, FIND))
    assert ending(end) == ("FAILED", "guard_error")
    assert "`act.approval[0]`" in (end.head.output or "") and "there is no `args.note`" in (end.head.output or "")
    assert end.effects == ()


def test_a_rule_without_an_answer_blocks_a_call_that_no_model_proposed(tmp_path: Path) -> None:
    """The machine's own way out of `blocked` is taken."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert not here.tools["act"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, machine=BY_ITSELF, texts=(LOOK, NOTED, FIND))
    assert ending(end) == ("FAILED", "guard_error")
    assert "`act.approval[0]`" in (end.head.output or "")


def test_a_state_needs_the_same_yes_as_a_model(tmp_path: Path) -> None:
    """What a machine does by itself is ruled on as well: without the approval that the rules ask for it is blocked."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert not here.tools["act"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, machine=BY_ITSELF)
    assert ending(end) == ("FAILED", "approval_required")
    assert (end.head.output or "").startswith("no valid approval covers this action (")


def test_a_state_needs_the_same_scopes_as_a_model(tmp_path: Path) -> None:
    """Who may not act may not let the machine act."""
    look = LOOK.replace("scopes: [things:read]\n", "")

    async def body(here: World) -> Checkpoint:
        end = await here.run(EVE)
        assert not here.tools["act"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, machine=BY_ITSELF, texts=(look, ACT, FIND))
    assert ending(end) == ("FAILED", "missing_scope")
    assert end.head.output == "`eve` lacks the scope things:write, which `act` needs"


def test_a_proposal_that_the_policy_denies_names_the_scope_in_its_end_and_in_its_trace(tmp_path: Path) -> None:
    """`policy` alone says nothing to whoever grants scopes."""
    look = LOOK.replace("scopes: [things:read]\n", "")

    async def body(here: World) -> tuple[Checkpoint, list[str]]:
        end = await here.run(EVE)
        lines = trace_of(await here.store.history(end.task.id))
        return end, [str(line["feedback"]) for line in lines if line["kind"] == "step"]

    end, told = play(tmp_path, body, LOOK_STEP, act_step(), texts=(look, ACT, FIND))
    assert ending(end) == ("DENIED", "policy")
    assert end.head.output == "`eve` lacks the scope things:write, which `act` needs"
    assert told == ["None", end.head.output]


#: no way leads through the state that asks, which is there or not
PAST = swap(
    MACHINE,
    ("{when: approval_required, goto: ASKING}", "{when: approval_required, goto: ACTING}"),
    ("goto: DENIED, reason: bad_thing", "goto: ASKING"),
)
NOT_ASKED = swap(
    MACHINE,
    ("      - {when: approval_required, goto: ASKING}\n", "      - {when: approval_required, goto: ACTING}\n"),
    ("  ASKING:\n    approval: {of: act, by: boss, expires: 1h}\n", ""),
    ("    then: {approved: ACTING, rejected: DENIED, expired: NEEDS_INPUT}\n", ""),
)


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (PAST, "the way here does not lead through `ASKING`"),
        (NOT_ASKED, "no `approval` state asks for it"),
    ],
    ids=["past it", "not there"],
)
def test_a_yes_that_nobody_was_asked_for_is_told_with_its_rule(tmp_path: Path, machine: str, why: str) -> None:
    """The author learns which rule it was, and what the machine lacks."""
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(amount=200), machine=machine)
    assert ending(end) == ("FAILED", "approval_required")
    assert (end.head.output or "").endswith(f": `act` needs the yes of boss (rule 1), and {why}")


def test_a_small_amount_needs_nobody(tmp_path: Path) -> None:
    """The same state below the rule's limit: it runs, once."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert [c.args for c in here.tools["act"].calls] == [{"thing": "box", "amount": 20}]
        return end

    end = play(tmp_path, body, LOOK_STEP, machine=swap(BY_ITSELF, ("amount: 200", "amount: 20")))
    assert ending(end) == ("SUCCEEDED", "completed")


def test_the_effect_on_record_must_be_the_one_that_was_approved(tmp_path: Path) -> None:
    """Somebody edits the ledger between the yes and the call: blocked."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
            connection.execute("UPDATE effect SET action_hash = ?", ("0" * 64,))
            connection.commit()
        end = await here.runtime.resume(waiting.task.id)
        assert not here.tools["act"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(200))
    assert ending(end) == ("FAILED", "action_changed")


@pytest.mark.parametrize(
    ("amount", "ruled"),
    [
        (10, [("look", Allow(), False), ("act", Allow(), False), ("act", Allow(), True)]),
        (
            600,
            [
                ("look", Allow(), False),
                ("act", RequireApproval(("boss", "chief"), ("rule 1", "rule 2")), False),
            ],
        ),
    ],
    ids=["allowed", "asked for"],
)
def test_who_looks_on_is_told_each_ruling(tmp_path: Path, amount: int, ruled: list[Any]) -> None:
    """Which tool, what the policy said, and whether the write that is about to run is covered."""
    events: list[Event] = []

    async def body(here: World) -> Checkpoint:
        here.runtime.watch(events.append)
        return await here.run()

    task = play(tmp_path, body, LOOK_STEP, act_step(amount))
    told = [e for e in events if e.kind == "ruled"]
    assert [(e.data["tool"], e.data["ruling"], e.data["covered"]) for e in told] == ruled
    assert {e.task_id for e in told} == {task.task.id}
    assert [e.data["state"] for e in told] == ["LOOKING", "LOOKING", "ACTING"][: len(told)]


def test_a_denied_read_is_told_too(tmp_path: Path) -> None:
    """Denied with the scope that is missing; the end says the same."""
    events: list[Event] = []

    async def body(here: World) -> Checkpoint:
        here.runtime.watch(events.append)
        return await here.run(EVE)

    end = play(tmp_path, body, LOOK_STEP)
    (told,) = [e.data["ruling"] for e in events if e.kind == "ruled"]
    assert told == Deny("missing_scope", "`eve` lacks the scope things:read, which `look` needs")
    assert (ending(end), end.head.output) == (("DENIED", "missing_scope"), told.detail)
