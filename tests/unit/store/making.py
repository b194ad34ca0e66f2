"""Tasks and transactions made by hand, for tests of the store alone."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from statemachine_agent.canonical import digest
from statemachine_agent.environment import ProcessIdentity
from statemachine_agent.records import (
    Approval,
    ApprovalStatus,
    CallRow,
    Checkpoint,
    DecisionRow,
    Effect,
    EffectStatus,
    Evidence,
    EvidenceRow,
    Head,
    Lease,
    NewTask,
    Status,
    Transaction,
    TransitionRow,
    Usage,
)
from statemachine_agent.store.sqlite import SqliteStore

STARTED = datetime(2026, 10, 28, 11, 17, 43, 125, tzinfo=UTC)
#: a worker on another machine: whether it lives cannot be told from here
ELSEWHERE = ProcessIdentity("elsewhere", 4711, "1")
HOUR = 3600.0


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def new_task(task_id: str = "task-1", **changes: Any) -> NewTask:
    head = Head(0, Status.RUNNING, ("WORKING",), visits={"WORKING": 1})
    rows = (TransitionRow("start", "", "WORKING", 0, {}),)
    first = Transaction(task_no=0, expected_version=-1, cause="start", head=head, rows=rows)
    task = NewTask(
        id=task_id,
        trace_id=f"trace-{task_id}",
        machine="errand",
        machine_version=3,
        definition_hash="d" * 64,
        definition={"machine": {"name": "errand.yaml", "text": "machine: errand"}, "tools": {}},
        actor={"id": "cust-1", "tenant": "shop", "roles": ["customer"], "scopes": ["a:read"], "established": "os"},
        input={"order_id": "8472", "message": "charged twice"},
        model="scripted:x.yaml",
        started_at=STARTED,
        first=first,
    )
    return replace(task, **changes)


def step(checkpoint: Checkpoint, *rows: Any, head: dict[str, Any] | None = None, **more: Any) -> Transaction:
    """A transaction over `checkpoint`; `head` holds what changes in it."""
    old = checkpoint.head
    new = replace(old, **{"version": old.version + 1, "steps": old.steps + 1, **(head or {})})
    given = {"task_no": checkpoint.task.no, "expected_version": old.version, "cause": "step", "at": STARTED}
    return Transaction(**{**given, "head": new, "rows": tuple(rows), **more})


async def begun(store: SqliteStore, task_id: str = "task-1") -> tuple[Checkpoint, Lease]:
    """A new task with its lease."""
    created = await store.create(new_task(task_id))
    return created, await store.claim(task_id, ELSEWHERE, HOUR)


async def committed(store: SqliteStore, checkpoint: Checkpoint, lease: Lease, *rows: Any, **more: Any) -> Checkpoint:
    """One commit, and the task after it."""
    await store.commit(step(checkpoint, *rows, **more), lease)
    return await store.load(checkpoint.task.id)


def evidence(number: int, payload: Any, **changes: Any) -> Evidence:
    found = Evidence(
        name=f"ev-{number}",
        tool="lookup_order",
        purpose="step",
        call_id=f"call-{number}",
        request_id=f"req-{number}",
        attempt=1,
        source="payments-service",
        at=STARTED + timedelta(seconds=number),
        trust="system",
        payload=payload,
        payload_hash=digest(payload),
        asked={"order_id": "8472"},
    )
    return replace(found, **changes)


def effect(key: str = "refund:1", status: EffectStatus = EffectStatus.PROPOSED, **changes: Any) -> Effect:
    made = Effect(key, "issue_refund", status, "a" * 64, {"amount_inr": 2000}, proposed_in=1, at=STARTED)
    return replace(made, **changes)


def approval(approval_id: str = "apr-1", **changes: Any) -> Approval:
    made = Approval(
        id=approval_id,
        state="AWAITING_APPROVAL",
        tool="issue_refund",
        action_hash="a" * 64,
        effect_key="refund:1",
        policy_version="p" * 64,
        roles=("finance", "support_lead"),
        expires_at="2026-10-28T13:17:43.000125Z",
        status=ApprovalStatus.OPEN,
        answers=(
            {"by": "lead@example.com", "role": "support_lead", "established": "os", "at": "2026-10-28T12:00:00Z"},
        ),
        shown={"args": {"amount_inr": 30000}, "because": ["POL-REF-004"]},
        requested_at=STARTED,
    )
    return replace(made, **changes)


def decision(number: int = 1, **changes: Any) -> DecisionRow:
    made = DecisionRow(
        step=number,
        attempt=1,
        state="WORKING",
        model="scripted:x.yaml",
        schema_version=1,
        prompt_hash="b" * 64,
        response={"text": "", "calls": [{"id": "c", "name": "lookup_order", "arguments": {}}], "stop_reason": None},
        input_tokens=1210,
        output_tokens=50,
        cost_usd=Decimal("0.0042"),
        latency_ms=12,
    )
    return replace(made, **changes)


def call(number: int = 1, **changes: Any) -> CallRow:
    made = CallRow(
        step=number,
        call_id=f"call-{number}",
        tool="lookup_order",
        purpose="step",
        args={"order_id": "8472"},
        request_id=f"req-{number}",
        attempt=1,
        outcome="ok",
        latency_ms=7,
        observation_bytes=812,
        evidence=f"ev-{number}",
    )
    return replace(made, **changes)


def full_step(number: int, payload: Any) -> tuple[Any, ...]:
    """The rows of an ordinary step: decision, move, call, evidence."""
    move = TransitionRow("call.lookup_order", "WORKING", None, 2, {"b_guard": True, "a_guard": False})
    return decision(number), move, call(number), EvidenceRow(evidence(number, payload))


PROPOSAL = {
    "tool": "issue_refund", "version": 1, "args": {"amount_inr": 2000}, "key": "refund:1", "policy_version": "p" * 64,
    "action_hash": "a" * 64, "state": "WORKING", "row": 3, "raised": False, "step": 1, "call_id": "call-1",
}  # fmt: skip
USAGE = Usage(1210, 50, Decimal("0.0042"), 3, 1234)
