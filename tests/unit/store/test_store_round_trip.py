"""What is written comes back: tasks, heads, evidence, effects, approvals, timers, history."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from unit.store.making import (
    PROPOSAL,
    STARTED,
    USAGE,
    approval,
    begun,
    call,
    committed,
    decision,
    effect,
    evidence,
    full_step,
    new_task,
    on_loop,
    step,
)

from statemachine_agent.errors import StoreError, UnknownTaskError
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
from statemachine_agent.store.sqlite import SqliteStore

HEAD = {
    "status": Status.WAITING,
    "configuration": ("A.LEFT", "B"),
    "reason": "why",
    "usage": USAGE,
    "visits": {"WORKING": 4},
    "calls": {"lookup_order": 2},
    "proposal": PROPOSAL,
    "progress": {"pairs": {"x:y": 2}, "recent": ["x"], "stalled": 1, "corrected": True, "failed_reads": 1},
    "observation": {"text": "refused: no"},
    "pending_exit": {"event": "exit.cancel", "reason": "cancelled", "detail": None},
    "evidence_count": 2,
    "output": "an answer",
}


@on_loop
async def test_a_new_task_loads_as_it_was_created(tmp_path: Path) -> None:
    new = new_task()
    with SqliteStore(tmp_path / "tasks.db") as store:
        created = await store.create(new)
        assert created == await store.load("task-1")
        assert await store.definition(new.definition_hash) == new.definition
    assert created.head == new.first.head
    for name in ("id", "trace_id", "machine", "machine_version", "definition_hash", "actor", "input", "model"):
        assert getattr(created.task, name) == getattr(new, name)
    assert created.task.started_at == STARTED  # to the microsecond, with its zone


@on_loop
async def test_a_head_with_everything_in_it_survives_another_process(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        transaction = step(task, head=HEAD)
        await store.commit(transaction, lease)
    with SqliteStore(tmp_path / "tasks.db", create=False) as again:
        assert (await again.load("task-1")).head == transaction.head


@on_loop
async def test_evidence_effects_approvals_and_timers_come_back_equal(tmp_path: Path) -> None:
    found = evidence(1, {"orders": [{"id": "8472", "total": 4000}], "note": None})
    sent = effect(status=EffectStatus.EXECUTED, receipt={"refund_id": "rf_1"}, attempt=2, approval_id="apr-1")
    asked = approval()
    timer = Timer("AWAITING_APPROVAL", "expired.issue_refund", STARTED + timedelta(hours=2))
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        after = await committed(
            store, task, lease, EvidenceRow(found), effects=(sent,), approvals=(asked,), timers={timer.state: timer}
        )
        assert (after.evidence, after.effects, after.approvals, after.timers) == ((found,), (sent,), (asked,), (timer,))
        assert await store.effect_by_key("refund:1") == ("task-1", sent)
        assert await store.approval("apr-1") == ("task-1", asked)
        assert await store.approval("apr-2") is None
        (row,) = await store.approvals()
        assert (row["task"], row["actor"], row["approval"]) == ("task-1", "cust-1", asked)
        (row,) = await store.effects(task_id="task-1")
        assert row["effect"] == sent


@on_loop
async def test_an_answer_changes_a_request_and_nothing_else_of_it(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        task = await committed(store, task, lease, approvals=(approval(),))
        forged = approval(status=ApprovalStatus.APPROVED, roles=(), action_hash="f" * 64, expires_at="9999-01-01")
        task = await committed(store, task, lease, approvals=(forged,))
        (stored,) = task.approvals
        assert stored == approval(status=ApprovalStatus.APPROVED)


@on_loop
async def test_the_newest_request_of_a_state_is_the_one_that_is_loaded(tmp_path: Path) -> None:
    older = approval("apr-z", status=ApprovalStatus.EXPIRED)
    newer = approval("apr-a", requested_at=STARTED + timedelta(seconds=1))
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        task = await committed(store, task, lease, approvals=(older,))
        task = await committed(store, task, lease, approvals=(newer,))
        assert task.approvals == (newer,)
        assert [row["approval"].id for row in await store.approvals(status=None)] == ["apr-z", "apr-a"]


@pytest.mark.parametrize("expiry", ["tomorrow", "2026-10-28T13:17:43", "", "2026-13-45T99:99:99Z"])
@on_loop
async def test_an_expiry_that_is_no_moment_loads_as_the_text_it_is(tmp_path: Path, expiry: str) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        task = await committed(store, task, lease, approvals=(approval(expires_at=expiry),))
        assert task.approvals[0].expires_at == expiry


@on_loop
async def test_effects_are_ordered_by_the_version_that_proposed_them_last(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        task = await committed(store, task, lease, effects=(effect("k:1"), effect("k:2", proposed_in=2)))
        task = await committed(store, task, lease, effects=(effect("k:1", proposed_in=3),))
        assert [e.key for e in task.effects] == ["k:2", "k:1"]
        assert task.newest_effect("issue_refund") == effect("k:1", proposed_in=3)


@on_loop
async def test_timers_set_move_and_clear_the_moment_at_which_a_task_wakes(tmp_path: Path) -> None:
    def at(state: str, hours: int) -> Timer:
        return Timer(state, f"elapsed.{state}", STARTED + timedelta(hours=hours))

    async def wake() -> str | None:
        (row,) = await store.tasks()
        return row["wake_at"]

    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        assert await wake() is None
        task = await committed(store, task, lease, timers={"A": at("A", 5), "B": at("B", 2)})
        assert [t.state for t in task.timers] == ["B", "A"]
        assert await wake() == "2026-10-28T13:17:43.000125Z"
        task = await committed(store, task, lease, timers={"B": at("B", 7)})
        assert await wake() == "2026-10-28T16:17:43.000125Z"
        task = await committed(store, task, lease, timers={"A": None, "B": None, "C": None})
        assert task.timers == ()
        assert await wake() is None


@on_loop
async def test_the_history_holds_every_row_in_order_with_its_payloads(tmp_path: Path) -> None:
    rows = (
        decision(feedback="told", response=None, result="failed"),
        *full_step(2, {"a": 1}),
        EffectRow("refund:1", "issue_refund", EffectStatus.PROPOSED, 0, "a" * 64, by="lead"),
        ApprovalRow("apr-1", "refused", "mallory", "asserted", "let me", "wrong_role"),
        NoteRow("cancel_requested", "cust-1", "os"),
    )
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await committed(store, task, lease, *rows)
        history = await store.history("task-1")
    assert [(r["row"], r["table"], r["version"]) for r in history] == [
        (1, "transition", 0), (2, "checkpoint", 0), (3, "decision", 1), (4, "decision", 1), (5, "transition", 1),
        (6, "call", 1), (7, "evidence", 1), (8, "effect_event", 1), (9, "approval_event", 1), (10, "note", 1),
        (11, "checkpoint", 1),
    ]  # fmt: skip
    assert history[2]["response"] is None and history[3]["response"]["calls"][0]["name"] == "lookup_order"
    assert history[3]["cost_usd"] == "0.0042"
    assert list(history[4]["asked"].items()) == [("b_guard", True), ("a_guard", False)]  # in the order of asking
    assert history[5]["args"] == {"order_id": "8472"} and history[6]["payload"] == {"a": 1}
    assert history[8]["why"] == "let me" and history[10]["cause"] == "step"


@on_loop
async def test_notes_are_appended_without_a_version_while_a_worker_holds_the_task(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store.note(task.task.no, [NoteRow("seen", "lead"), NoteRow("seen", "finance")])
        assert (await store.load("task-1")).head.version == 0
        await store.commit(step(task), lease)  # the worker that read version 0 is not disturbed
        history = await store.history("task-1")
    assert [(r["table"], r["version"]) for r in history[2:]] == [("note", 0), ("note", 0), ("checkpoint", 1)]


@on_loop
async def test_a_cancel_request_keeps_who_asked_first(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, _ = await begun(store)
        assert not await store.cancel_requested(task.task.no)
        await store.request_cancel(task.task.no, {"by": "cust-1", "established": "os"})
        await store.request_cancel(task.task.no, {"by": "mallory"})
        assert await store.cancel_requested(task.task.no)
        assert (await store.load("task-1")).cancel_requested == {"by": "cust-1", "established": "os"}


@on_loop
async def test_texts_of_every_kind_come_back_as_they_were(tmp_path: Path) -> None:
    text = "a\x00b \u202e \U0001f4b8 é 'quoted\" ; DROP TABLE task; -- %_ \r\n"
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        task = await committed(
            store, task, lease, call(detail=text, args={text: text}), NoteRow(text, text), head={"output": text}
        )
        row = next(r for r in await store.history("task-1") if r["table"] == "call")
        assert (task.head.output, row["detail"], row["args"]) == (text, text, {text: text})


@on_loop
async def test_a_task_is_found_by_the_end_of_its_id_while_that_names_one(tmp_path: Path) -> None:
    ids = ("0192f0c1-7a3b-7000-8000-00000000aaaa", "0192f0c1-7a3b-7000-8000-11111111aaaa")
    with SqliteStore(tmp_path / "tasks.db") as store:
        for task_id in ids:
            await store.create(new_task(task_id))
        assert (await store.load("1111aaaa")).task.id == ids[1]
        with pytest.raises(UnknownTaskError, match="more than one task ends in aaaa"):
            await store.load("aaaa")
        for unknown in ("nothing", "%", "____", "aaa", "", "1111aaaa%"):
            with pytest.raises(UnknownTaskError, match="there is no task"):
                await store.load(unknown)
        with pytest.raises(UnknownTaskError):
            await store.history("nothing")
        with pytest.raises(UnknownTaskError):
            await store.note(4711, [NoteRow("x")])


@on_loop
async def test_lists_filter_by_status_and_show_open_effects(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        for task_id in ("t-1", "t-2", "t-3"):
            task, lease = await begun(store, task_id)
            status = Status.FAILED if task_id == "t-2" else Status.RUNNING
            unknown = effect(f"k:{task_id}", EffectStatus.UNKNOWN)
            await committed(store, task, lease, head={"status": status}, effects=(unknown,))
        assert [t["id"] for t in await store.tasks()] == ["t-3", "t-2", "t-1"]
        assert [t["id"] for t in await store.tasks(limit=2)] == ["t-3", "t-2"]
        (failed,) = await store.tasks(status="FAILED")
        assert (failed["id"], failed["open_effects"], failed["configuration"]) == ("t-2", 1, ["WORKING"])
        assert [e["effect"].key for e in await store.effects(only_open=True)] == ["k:t-1", "k:t-2", "k:t-3"]
        assert [e["task"] for e in await store.effects(task_id="t-2")] == ["t-2"]


@on_loop
async def test_equal_definitions_are_stored_once(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        for number in range(3):
            await store.create(new_task(f"t-{number}"))
        with pytest.raises(StoreError, match="definition eeeeeeeeeeee is missing"):
            await store.definition("e" * 64)
        count = store._reader.execute("SELECT count(*) FROM definition").fetchone()[0]
    assert count == 1


@on_loop
async def test_two_tasks_of_one_id_are_refused(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        first = await store.create(new_task())
        with pytest.raises(StoreError):
            await store.create(new_task(input={"order_id": "other"}))
        assert await store.load("task-1") == first
        assert len(await store.tasks()) == 1


@on_loop
async def test_a_move_that_stays_has_no_target(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await committed(store, task, lease, TransitionRow("call.x", "WORKING", None, 1, {}))
        row = (await store.history("task-1"))[-2]
        assert (row["table"], row["target"], row["asked"]) == ("transition", None, {})
