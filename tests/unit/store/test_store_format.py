"""What was written by an earlier build is proved by a later one: the links of a chain are part of the file's format.

Whoever must change a figure here changes what every stored history is checked against, and needs a new version of the store.
"""

from __future__ import annotations

from pathlib import Path

from unit.store.making import (
    PROPOSAL,
    STARTED,
    USAGE,
    approval,
    begun,
    call,
    decision,
    effect,
    evidence,
    on_loop,
    step,
)

from statemachine_agent.records import (
    ApprovalRow,
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
    "status": Status.WAITING, "configuration": ("A.LEFT", "B"), "reason": "why", "usage": USAGE, "visits": {"B": 4},
    "calls": {"lookup_order": 2}, "proposal": PROPOSAL, "progress": {"stalled": 1}, "observation": {"": "refused"},
    "pending_exit": {"event": "exit.cancel", "reason": "cancelled", "detail": None}, "evidence_count": 2,
    "output": "an answer", "old": {"lookup_order": 1},
}  # fmt: skip
HEAD_TEXT = (
    '{"calls":{"lookup_order":2},"evidence_count":2,"observation":{"":"refused"},"old":{"lookup_order":1},'
    '"output":"an answer","pending_exit":{"detail":null,"event":"exit.cancel","reason":"cancelled"},'
    '"progress":{"stalled":1},"usage":{"active_ms":1234,"cost_usd":"0.0042","input_tokens":1210,"output_tokens":50,'
    '"tool_calls":3},"visits":{"B":4}}'
)
ROWS = (
    TransitionRow("call.x", "WORKING", None, 3, {"b": True, "a": False}, "why"),
    decision(2, stop_reason="length", error_class="truncated", retryable=True, feedback="cut off"),
    call(2, error_class="timeout", detail="no answer", effect_key="refund:1"),
    EvidenceRow(evidence(1, {"payment": 2000, "float": 0.5})),
    EffectRow("refund:1", "issue_refund", EffectStatus.EXECUTED, 1, "a" * 64, "settled", "lead"),
    ApprovalRow("apr-1", "approved", "lead", "os", "looks right", "r"),
    NoteRow("cancel_requested", "cust-1", "os", "changed my mind"),
)


async def written(path: Path) -> SqliteStore:
    """A store with a task that has a row in every table, and a head with something in each of its parts."""
    store = SqliteStore(path)
    task, lease = await begun(store)
    due = Timer("A", "elapsed.A", STARTED)
    done = effect(status=EffectStatus.EXECUTED, receipt={"id": 1})
    await store.commit(
        step(task, *ROWS, head=HEAD, effects=(done,), approvals=(approval(),), timers={"A": due}), lease
    )  # fmt: skip
    return store


@on_loop
async def test_the_chain_of_a_task_is_the_one_that_every_build_makes(tmp_path: Path) -> None:
    """From the task's root over one row of each kind to its head."""
    with await written(tmp_path / "tasks.db") as store:
        found = [(row["table"], row["chain"][:12]) for row in await store.history("task-1")]
        heads = [row["head"][:12] for row in await store.history("task-1") if row["table"] == "checkpoint"]
    assert found == [
        ("transition", "a19ab735e0af"), ("checkpoint", "572254c70a23"), ("transition", "6e4fa0a1f836"),
        ("decision", "256a44f4225b"), ("call", "2dcbbf0daa34"), ("evidence", "28a806209e8f"),
        ("effect_event", "1dd854bdf2f0"), ("approval_event", "2fddc6e2160d"), ("note", "81fbce485f23"),
        ("checkpoint", "eb1275cdf58e"),
    ]  # fmt: skip
    assert heads == ["0937f2c1bfcd", "1f8a72d46af5"]


@on_loop
async def test_json_in_a_column_has_the_names_that_every_build_reads(tmp_path: Path) -> None:
    """Without blanks, and sorted by name: also people read it, with `sqlite3`."""
    with await written(tmp_path / "tasks.db") as store:
        found = [
            value
            for query in (
                "SELECT configuration, head, actor FROM task",
                "SELECT configuration FROM checkpoint WHERE version = 1",
                "SELECT asked FROM transition WHERE version = 1",
                "SELECT roles, answers FROM approval",
                "SELECT owner FROM lease",
            )
            for value in tuple(store._reader.execute(query).fetchone())
        ]
    assert found == [
        '["A.LEFT","B"]',
        HEAD_TEXT,
        '{"established":"os","id":"cust-1","roles":["customer"],"scopes":["a:read"],"tenant":"shop"}',
        '["A.LEFT","B"]',
        '{"b":true,"a":false}',
        '["finance","support_lead"]',
        '[{"at":"2026-10-28T12:00:00Z","by":"lead@example.com","established":"os","role":"support_lead"}]',
        '{"host":"elsewhere","pid":4711,"started":"1"}',
    ]


@on_loop
async def test_a_head_with_something_in_each_of_its_parts_is_read_back(tmp_path: Path) -> None:
    """By another process."""
    with await written(tmp_path / "tasks.db"):
        pass
    with SqliteStore(tmp_path / "tasks.db", create=False) as again:
        head = (await again.load("task-1")).head
    assert {name: getattr(head, name) for name in HEAD} == HEAD
    assert (head.version, head.steps) == (1, 1)


@on_loop
async def test_the_steps_that_made_a_file_are_named_in_it(tmp_path: Path) -> None:
    """A later build does those that are not; under another name it would make the first tables again."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        found = store._reader.execute("SELECT migration_set, name FROM _sqlite_migrations").fetchall()
    assert [tuple(row) for row in found] == [("statemachine-agent", "m001_tasks_history_effects_approvals")]
