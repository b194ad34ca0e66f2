"""What people read of a task is all that was written of it: whole rows of the history, whole entries of the lists."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from unit.store.making import (
    STARTED,
    USAGE,
    approval,
    begun,
    call,
    decision,
    effect,
    evidence,
    new_task,
    on_loop,
    step,
)

from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.records import (
    ApprovalRow,
    ApprovalStatus,
    EffectRow,
    EffectStatus,
    EvidenceRow,
    NoteRow,
    Status,
    Timer,
    TransitionRow,
)
from statemachine_agent.store import commits
from statemachine_agent.store.schema import ROW_BITS
from statemachine_agent.store.sqlite import SqliteStore
from statemachine_agent.times import time_text

WHEN = "2026-10-28T11:17:43.000125Z"


async def rows(store: SqliteStore) -> list[dict[str, Any]]:
    """The history without what only a program reads: the chain, and the hash of a head."""
    found = [dict(row) for row in await store.history("task-1")]
    for row in found:
        assert len(bytes.fromhex(row.pop("chain"))) == 32
        assert row["table"] != "checkpoint" or len(bytes.fromhex(row.pop("head"))) == 32
    return found


@on_loop
async def test_every_column_of_a_row_is_read_back(tmp_path: Path) -> None:
    """Each row with something in each of its fields, no two alike."""
    response = {"text": "well", "calls": [], "stop_reason": "end"}
    written = (
        TransitionRow("call.x", "WORKING", "DONE", 3, {"z": True, "a": False}, "why"),
        replace(
            decision(4, attempt=2, schema_version=5, response=response, cost_usd=Decimal("0.10"), stop_reason="end"),
            result="refused", error_class="refused", retryable=True, feedback="told",
        ),
        call(6, attempt=3, purpose="reconcile", outcome="found", error_class="timeout", retryable=True, detail="late",
             effect_key="refund:1"),
        EvidenceRow(evidence(7, {"n": 1}, attempt=4, purpose="signal", trust="mixed", asked={"id": "a"})),
        EffectRow("refund:1", "issue_refund", EffectStatus.UNKNOWN, 8, "c" * 64, "worker_lost", "lead"),
        ApprovalRow("apr-1", "refused", "mallory", "asserted", "let me", "wrong_role"),
        NoteRow("cancel_requested", "cust-1", "os", "changed my mind"),
    )  # fmt: skip
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        head = {"status": Status.FAILED, "reason": "crashing", "configuration": ("A", "B"), "steps": 9, "usage": USAGE}
        await store.commit(step(task, *written, head=head, cause="outcome"), lease)
        found = await rows(store)
    assert found == [
        {"table": "transition", "row": 1, "version": 0, "event": "start", "source": "", "target": "WORKING", "row_no": 0,
         "asked": {}, "reason": None},
        {"table": "checkpoint", "row": 2, "version": 0, "at": WHEN, "cause": "start", "status": "RUNNING", "reason": None,
         "configuration": ["WORKING"], "steps": 0, "tokens": 0, "token": 0},
        {"table": "transition", "row": 3, "version": 1, "event": "call.x", "source": "WORKING", "target": "DONE",
         "row_no": 3, "asked": {"z": True, "a": False}, "reason": "why"},
        {"table": "decision", "row": 4, "version": 1, "step": 4, "attempt": 2, "state": "WORKING",
         "model": "scripted:x.yaml", "schema_version": 5, "prompt_hash": "b" * 64, "response": response,
         "input_tokens": 1210, "output_tokens": 50, "cost_usd": "0.10", "latency_ms": 12, "stop_reason": "end",
         "result": "refused", "error_class": "refused", "retryable": 1, "feedback": "told"},
        {"table": "call", "row": 5, "version": 1, "step": 6, "call_id": "call-6", "tool": "lookup_order",
         "purpose": "reconcile", "args": {"order_id": "8472"}, "request_id": "req-6", "attempt": 3, "outcome": "found",
         "latency_ms": 7, "observation_bytes": 812, "error_class": "timeout", "retryable": 1, "detail": "late",
         "effect_key": "refund:1", "evidence": "ev-6"},
        {"table": "evidence", "row": 6, "version": 1, "name": "ev-7", "tool": "lookup_order", "purpose": "signal",
         "call_id": "call-7", "request_id": "req-7", "attempt": 4, "source": "payments-service",
         "at": "2026-10-28T11:17:50.000125Z", "trust": "mixed", "payload": {"n": 1}, "asked": {"id": "a"}},
        {"table": "effect_event", "row": 7, "version": 1, "effect_key": "refund:1", "tool": "issue_refund",
         "status": "unknown", "attempt": 8, "action_hash": "c" * 64, "reason": "worker_lost", "by": "lead"},
        {"table": "approval_event", "row": 8, "version": 1, "approval_id": "apr-1", "event": "refused", "by": "mallory",
         "established": "asserted", "why": "let me", "reason": "wrong_role"},
        {"table": "note", "row": 9, "version": 1, "event": "cancel_requested", "by": "cust-1", "established": "os",
         "why": "changed my mind"},
        {"table": "checkpoint", "row": 10, "version": 1, "at": WHEN, "cause": "outcome", "status": "FAILED",
         "reason": "crashing", "configuration": ["A", "B"], "steps": 9, "tokens": 1260, "token": 1},
    ]  # fmt: skip


@on_loop
async def test_what_a_row_leaves_out_is_read_back_as_nothing(tmp_path: Path) -> None:
    """And not as an empty text, or as the word for nothing."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        left_out = (decision(response=None), call(evidence=None), EffectRow("k", "t", EffectStatus.PROPOSED, 0, "a" * 64),
                    ApprovalRow("apr-1", "expired"), NoteRow("n"))  # fmt: skip
        await store.commit(step(task, *left_out), lease)
        found = await rows(store)
    assert [{name for name, value in row.items() if value is None} for row in found[2:]] == [
        {"response", "stop_reason", "error_class", "feedback"},
        {"error_class", "detail", "effect_key", "evidence"},
        {"reason", "by"},
        {"by", "established", "why", "reason"},
        {"by", "established", "why"},
        {"reason"},
    ]


@on_loop
async def test_an_entry_of_a_list_says_whose_it_is_and_how_it_stands(tmp_path: Path) -> None:
    """`sma tasks`, `sma approvals` and `sma effects` show what stands here."""
    due = Timer("A", "elapsed.A", STARTED + timedelta(hours=2))
    open_one, done = effect("k:1", EffectStatus.INTENDED), effect("k:2", EffectStatus.VERIFIED, receipt={"id": 1})
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        later = STARTED + timedelta(minutes=1)
        head = {"status": Status.WAITING, "reason": "why", "configuration": ("A", "B"), "steps": 7}
        await store.commit(
            step(task, head=head, effects=(open_one, done), approvals=(approval(),), timers={"A": due}, at=later), lease
        )
        assert [dict(row) for row in await store.tasks()] == [
            {"id": "task-1", "machine": "errand", "machine_version": 3, "actor_id": "cust-1", "tenant": "shop",
             "status": "WAITING", "reason": "why", "configuration": ["A", "B"], "version": 1, "steps": 7,
             "started_at": WHEN, "updated_at": "2026-10-28T11:18:43.000125Z", "wake_at": "2026-10-28T13:17:43.000125Z",
             "open_effects": 1},
        ]  # fmt: skip
        assert await store.approvals() == [
            {"task": "task-1", "machine": "errand", "actor": "cust-1", "approval": approval()}
        ]
        assert await store.effects() == [
            {"task": "task-1", "machine": "errand", "effect": open_one},
            {"task": "task-1", "machine": "errand", "effect": done},
        ]


@on_loop
async def test_lists_hold_what_was_asked_for_and_all_tasks_of_it(tmp_path: Path) -> None:
    """Of two tasks; and one of neither status, that nobody asked for."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        for number, status in enumerate((ApprovalStatus.OPEN, ApprovalStatus.CONSUMED, ApprovalStatus.OPEN)):
            task, lease = await begun(store, f"t-{number}")
            asked = approval(f"apr-{number}", status=status, requested_at=STARTED - timedelta(seconds=number))
            kept = effect(f"k:{number}", EffectStatus.EXECUTED if number else EffectStatus.UNKNOWN)
            await store.commit(step(task, approvals=(asked,), effects=(kept,)), lease)
        assert [row["task"] for row in await store.approvals()] == ["t-2", "t-0"]
        assert [row["task"] for row in await store.approvals(status="consumed")] == ["t-1"]
        assert [row["task"] for row in await store.approvals(status=None)] == ["t-2", "t-1", "t-0"]
        assert [row["task"] for row in await store.effects(only_open=True)] == ["t-0"]
        assert [row["task"] for row in await store.effects()] == ["t-0", "t-1", "t-2"]
        assert await store.effects(only_open=True, task_id="t-1") == []
        assert await store.tasks(status="WAITING") == []


@on_loop
async def test_a_hundred_tasks_are_listed_unless_more_are_asked_for(tmp_path: Path) -> None:
    """The newest."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        await store._write(lambda c: [commits.create(c, new_task(f"t-{n}")) for n in range(101)])
        assert [row["id"] for row in await store.tasks()] == [f"t-{n}" for n in range(100, 0, -1)]
        assert len(await store.tasks(limit=101)) == 101


@pytest.mark.parametrize("said", [STARTED + timedelta(seconds=9), None])
@on_loop
async def test_what_names_no_moment_of_its_own_has_that_of_its_commit(tmp_path: Path, said: datetime | None) -> None:
    """The one that the transaction says, and without it that of the clock."""
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        task, lease = await begun(store)
        clock.advance(3600)
        moment = said or clock.now()
        asked, sent = approval(requested_at=None), effect(at=None)
        await store.commit(step(task, at=said, effects=(sent,), approvals=(asked,)), lease)
        found = await store.load("task-1")
        assert (found.effects, found.approvals) == (
            (replace(sent, at=moment),),
            (replace(asked, requested_at=moment),),
        )
        assert (await rows(store))[-1]["at"] == time_text(moment)
        assert [row["updated_at"] for row in await store.tasks()] == [time_text(moment)]


@on_loop
async def test_a_row_that_is_noted_brings_its_payloads(tmp_path: Path) -> None:
    """Without a version, and nothing less; of a task that is not there nobody asked for anything."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, _ = await begun(store)
        await store.note(task.task.no, [call(args={"order_id": "noted"})])
        (noted,) = [row for row in await rows(store) if row["table"] == "call"]
        assert (noted["version"], noted["args"]) == (0, {"order_id": "noted"})
        assert await store.cancel_requested(task.task.no + 1) is False


@on_loop
async def test_a_request_is_found_by_the_end_of_its_id_while_that_names_one(tmp_path: Path) -> None:
    """As a task is; one whose whole id was written is found, whatever else ends so."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        every = [
            approval(name, state=f"S{n}") for n, name in enumerate(("aaaa-1111", "bbbb-1111", "1111", "cccc-2222"))
        ]
        await store.commit(step(task, approvals=tuple(every)), lease)
        assert await store.approval("2222") == ("task-1", every[3])
        assert await store.approval("1111") == ("task-1", every[2])
        for asked in ("-1111", "222", "%222", "____", "", "3333", "2222-cccc"):
            assert await store.approval(asked) is None, asked


@on_loop
async def test_a_result_that_an_effect_made_old_is_read_as_old(tmp_path: Path) -> None:
    """Of that tool, up to that number, and no other."""
    found = [evidence(1, {}), evidence(2, {}, tool="search"), evidence(3, {})]
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store.commit(step(task, *map(EvidenceRow, found), head={"old": {"lookup_order": 2}}), lease)
        assert (await store.load("task-1")).evidence == (replace(found[0], old=True), found[1], found[2])


@on_loop
async def test_the_last_row_that_a_task_can_have_is_its_own(tmp_path: Path) -> None:
    """And the first of the next task is not."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await begun(store, "task-2")
        await store._write(lambda c: c.execute("UPDATE task SET row = ? WHERE no = 1", ((1 << ROW_BITS) - 3,)).rowcount)
        await store.commit(step(task, EvidenceRow(evidence(1, {}))), lease)
        assert [(row["table"], row["row"]) for row in (await rows(store))[-2:]] == [
            ("evidence", (1 << ROW_BITS) - 2),
            ("checkpoint", (1 << ROW_BITS) - 1),
        ]
        assert [row["row"] for row in await store.history("task-2")] == [1, 2]
