"""Answers that do not count: each refused with its own reason, nothing runs, and the history says who tried."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Identity, SimulatedEnvironment
from statemachine_agent.canonical import canonical
from statemachine_agent.errors import RefusedError, StoreError
from statemachine_agent.records import Checkpoint
from support.world import ACT, ANN, BOB, CEO, EVE, FIND, LOOK, LOOK_STEP, MACHINE, World, act_step, simulated, world

NOBODY = Identity("mallory", "asserted")


def waiting_world(tmp_path: Path, body: Callable[[World, Checkpoint], Awaitable[Any]], amount: int = 200) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with world(tmp_path, LOOK_STEP, act_step(amount), environment=environment) as here:
            waiting = await here.run()
            assert waiting.head.status == "AWAITING_APPROVAL"
            return await body(here, waiting)

    return environment.run(main())


async def refused(here: World, waiting: Checkpoint, who: Identity, reason: str, *, yes: bool = True) -> None:
    """The answer is refused with that reason, nothing was sent, and the history says who tried."""
    request = waiting.approvals[0].id
    with pytest.raises(RefusedError) as problem:
        if yes:
            await here.runtime.approve(request, who)
        else:
            await here.runtime.reject(request, who, why="no")
    assert problem.value.reason == reason
    assert problem.value.exit_code == 1
    rows = await here.rows(waiting, "approval_event")
    assert (rows[-1]["event"], rows[-1]["by"], rows[-1]["reason"]) == ("refused", who.id, reason)


def change_payload(tmp_path: Path, find: Callable[[Any], bool], change: Callable[[Any], Any], *, rehash: bool) -> None:
    """Edit the store's file, as somebody with an editor would; with `rehash` the payload's own hash is made to fit."""
    connection = sqlite3.connect(tmp_path / "tasks.db")
    for row_id, key, compressed, body in connection.execute(
        "SELECT id, hash, compressed, body FROM payload"
    ).fetchall():
        value = json.loads(zlib.decompress(body) if compressed else body)
        if find(value):
            text = canonical(change(value))
            digest = sha256(text).digest() if rehash else key
            connection.execute(
                "UPDATE payload SET hash = ?, compressed = 0, body = ? WHERE id = ?", (digest, text, row_id)
            )
            if rehash:
                connection.execute("UPDATE task SET proposal_hash = ? WHERE proposal_hash = ?", (digest, key))
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("who", "reason"),
    [(EVE, "wrong_role"), (NOBODY, "unknown_person"), (ANN, "own_task")],
    ids=["wrong role", "unknown person", "the starter"],
)
@pytest.mark.parametrize("yes", [True, False], ids=["approve", "reject"])
def test_not_entitled(tmp_path: Path, who: Identity, reason: str, yes: bool) -> None:
    """Neither a yes nor a no of somebody who may not answer counts."""

    async def body(here: World, waiting: Checkpoint) -> None:
        await refused(here, waiting, who, reason, yes=yes)
        assert (await here.runtime.status(waiting.task.id)).head.status == "AWAITING_APPROVAL"
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body)


def test_twice(tmp_path: Path) -> None:
    """An answer is final: a second yes, and a no after a yes, are refused; the effect runs once."""

    async def body(here: World, waiting: Checkpoint) -> None:
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        await refused(here, waiting, BOB, "already_answered")
        await refused(here, waiting, CEO, "already_answered", yes=False)
        end = await here.runtime.resume(waiting.task.id)
        assert end.head.status == "SUCCEEDED"
        await refused(here, waiting, BOB, "already_answered")
        assert len(here.tools["act"].calls) == 1

    waiting_world(tmp_path, body)


def test_after_expiry(tmp_path: Path) -> None:
    """At the very moment it is too late."""

    async def body(here: World, waiting: Checkpoint) -> None:
        here.environment.advance(3600)
        await refused(here, waiting, BOB, "too_late")
        end = await here.runtime.resume(waiting.task.id)
        assert end.head.reason == "expired"
        await refused(here, waiting, BOB, "too_late")
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body)


def test_expires_between_the_yes_and_the_call(tmp_path: Path) -> None:
    """Approved in time, resumed too late: blocked before anything is sent."""

    async def body(here: World, waiting: Checkpoint) -> None:
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        here.environment.advance(3600)
        end = await here.runtime.resume(waiting.task.id)
        assert (end.head.status, end.head.reason) == ("FAILED", "approval_expired")
        assert not here.tools["act"].calls
        assert [e.status for e in end.effects] == ["abandoned"]

    waiting_world(tmp_path, body)


def test_an_unknown_request(tmp_path: Path) -> None:
    """There is no such id."""

    async def body(here: World, _waiting: Checkpoint) -> None:
        with pytest.raises(RefusedError) as problem:
            await here.runtime.approve("apr-00000000", BOB)
        assert problem.value.reason == "unknown_approval"

    waiting_world(tmp_path, body)


@pytest.mark.parametrize("expiry", ["soon", "", "2999-01-01T00:00:00", "2999-13-01T00:00:00Z"])
def test_a_malformed_expiry_in_the_store_fails_closed(tmp_path: Path, expiry: str) -> None:
    """What cannot be read, or names no zone, has passed."""

    async def body(here: World, waiting: Checkpoint) -> None:
        connection = sqlite3.connect(tmp_path / "tasks.db")
        connection.execute("UPDATE approval SET expires_at = ?", (expiry,))
        connection.commit()
        connection.close()
        await refused(here, waiting, BOB, "too_late")
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body)


def is_proposal(value: Any) -> bool:
    return isinstance(value, dict) and "action_hash" in value and "call_id" in value


def bigger(value: dict) -> dict:
    return {**value, "args": {**value["args"], "amount": 999}}


def test_a_stored_amount_changed_before_the_answer(tmp_path: Path) -> None:
    """The payload no longer fits its hash: the store refuses to read it."""

    async def body(here: World, waiting: Checkpoint) -> None:
        change_payload(tmp_path, is_proposal, bigger, rehash=False)
        with pytest.raises(StoreError) as problem:
            await here.runtime.approve(waiting.approvals[0].id, BOB)
        assert problem.value.reason == "payload_altered"
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body)


def test_a_stored_amount_changed_carefully_before_the_answer(tmp_path: Path) -> None:
    """Hash and all: the action is not the one that approval was asked for."""

    async def body(here: World, waiting: Checkpoint) -> None:
        change_payload(tmp_path, is_proposal, bigger, rehash=True)
        await refused(here, waiting, BOB, "action_changed")
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body)


def test_a_stored_amount_changed_after_the_answer(tmp_path: Path) -> None:
    """Approved 200, stored 999: blocked before anything is sent, both hashes in the open."""

    async def body(here: World, waiting: Checkpoint) -> None:
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        change_payload(tmp_path, is_proposal, bigger, rehash=True)
        end = await here.runtime.resume(waiting.task.id)
        assert (end.head.status, end.head.reason) == ("FAILED", "action_changed")
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body)


def test_two_roles_need_two_people(tmp_path: Path) -> None:
    """The chief holds both roles and still counts once; either order works."""

    async def body(here: World, waiting: Checkpoint) -> None:
        assert waiting.approvals[0].roles == ("boss", "chief")
        half = await here.runtime.approve(waiting.approvals[0].id, CEO)
        assert half.head.status == "AWAITING_APPROVAL"
        await refused(here, waiting, CEO, "already_answered")
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert end.head.status == "SUCCEEDED"

    waiting_world(tmp_path, body, amount=600)


def test_one_no_is_enough(tmp_path: Path) -> None:
    """After one of two said yes, the other's no ends it."""

    async def body(here: World, waiting: Checkpoint) -> None:
        await here.runtime.approve(waiting.approvals[0].id, CEO)
        end = await here.runtime.reject(waiting.approvals[0].id, BOB, why="no")
        assert (end.head.status, end.head.reason) == ("DENIED", "rejected")
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body, amount=600)


def test_the_request_shows_the_action_and_not_the_models_words(tmp_path: Path) -> None:
    """Checked arguments, key, rule and evidence with its source."""

    async def body(_here: World, waiting: Checkpoint) -> None:
        shown = waiting.approvals[0].shown
        assert (shown["tool"], shown["args"], shown["key"]) == ("act", {"thing": "box", "amount": 200}, "act:box:200")
        assert shown["because"] == ["rule 1"]
        assert [(e["id"], e["source"]) for e in shown["evidence"]] == [("ev-1", "things")]

    waiting_world(tmp_path, body)


def test_a_model_can_ask_for_more_checks_and_never_for_fewer(tmp_path: Path) -> None:
    """`request_approval` raises the ruling of a call that would need none."""
    environment = SimulatedEnvironment()
    call = {"tool": "act", "args": {"thing": "box", "amount": 5}, "reason": "not sure"}

    async def main() -> None:
        steps = (LOOK_STEP, {"call": "request_approval", "with": call})
        async with world(tmp_path, *steps, environment=environment) as here:
            waiting = await here.run()
            assert waiting.head.status == "AWAITING_APPROVAL"
            assert waiting.approvals[0].shown["because"] == ["the model asked for it"]
            assert waiting.approvals[0].roles == ("boss",)
            await here.runtime.approve(waiting.approvals[0].id, BOB)
            assert (await here.runtime.resume(waiting.task.id)).head.status == "SUCCEEDED"

    environment.run(main())


def test_roles_taken_out_of_the_stored_request(tmp_path: Path) -> None:
    """An editor makes one yes enough for two: what rules and machine ask for now decides."""

    async def body(here: World, waiting: Checkpoint) -> None:
        connection = sqlite3.connect(tmp_path / "tasks.db")
        connection.execute("UPDATE approval SET roles = '[\"boss\"]'")
        connection.commit()
        connection.close()
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert (end.head.status, end.head.reason) == ("FAILED", "policy_changed")
        assert not here.tools["act"].calls

    waiting_world(tmp_path, body, amount=600)


def test_nobody_is_asked_about_what_the_policy_denies(tmp_path: Path) -> None:
    """A machine without a `route` before its approval: the actor lacks the scope, and no yes could change that."""
    straight = MACHINE.replace("- {goto: PROPOSED}", "- {goto: ASKING}")
    straight = straight[: straight.index("  PROPOSED:")] + straight[straight.index("  ASKING:") :]

    async def main() -> Checkpoint:
        async with world(
            tmp_path,
            LOOK_STEP,
            act_step(200),
            machine=straight,
            texts=(LOOK.replace("scopes: [things:read]\n", ""), ACT, FIND),
        ) as here:
            return await here.run(EVE)

    end = simulated(main)
    assert (end.head.status, end.head.reason, end.approvals) == ("DENIED", "missing_scope", ())


def test_people_are_asked_so_often_and_no_more(tmp_path: Path) -> None:
    """The third request of a machine that may ask twice is not made: its way out is taken at once, nothing is pending."""
    twice = MACHINE.replace("by: boss, expires: 1h}", "by: boss, expires: 1h, at_most: 2}")
    twice = twice.replace(
        "{approved: ACTING, rejected: DENIED, expired: NEEDS_INPUT}",
        "{approved: ACTING, rejected: LOOKING, expired: NEEDS_INPUT, exhausted: FAILED}",
    )

    async def main() -> tuple[Checkpoint, list[str]]:
        steps = (LOOK_STEP, act_step(200), act_step(201), act_step(202))
        async with world(tmp_path, *steps, machine=twice) as here:
            asked = await here.run()
            for _ in range(2):
                (request,) = (a for a in asked.approvals if a.status == "open")
                await here.runtime.reject(request.id, BOB, why="no")
                asked = await here.runtime.resume(asked.task.id)
            return asked, [r["event"] for r in await here.rows(asked, "approval_event")]

    end, events = simulated(main)
    assert (end.head.status, end.head.reason) == ("FAILED", "exhausted")
    assert events == ["requested", "rejected"] * 2
    assert [e.status for e in end.effects] == ["rejected", "rejected", "abandoned"]
