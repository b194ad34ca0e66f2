"""What one commit writes: compare, append, chain, and write the heads; all inside the writer's transaction.

It must not know who asked for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StaleVersionError, StoreError, UnknownTaskError
from statemachine_agent.records import Approval, Effect, Head, Lease, NewTask, Row, Timer, Transaction
from statemachine_agent.store import leases, payloads
from statemachine_agent.store.codec import ROOT, chained, columns_of, head_document, head_json, json_text, rooted
from statemachine_agent.store.port import KeyTakenError
from statemachine_agent.store.schema import ROW_BITS
from statemachine_agent.times import time_text

#: from this row on only commits are written: whoever tries to answer without end does not stop the task
_NOTES_END = (1 << ROW_BITS) - (1 << 16)


@dataclass
class _Log:
    """The end of a task's history while rows are appended to it."""

    connection: sqlite3.Connection
    task_no: int
    version: int
    row: int
    chain: bytes

    def append(self, table: str, columns: Mapping[str, Any]) -> None:
        self.row += 1
        if self.row >= 1 << ROW_BITS:
            raise StoreError("the task's history is full", hint="fork the task", reason="history_full")
        content = {"key": self.task_no << ROW_BITS | self.row, "version": self.version, **columns}
        self.chain = chained(self.chain, table, content)
        names, marks = ", ".join(content), ", ".join("?" * (len(content) + 1))
        self.connection.execute(
            f"INSERT INTO {table} ({names}, chain) VALUES ({marks})",  # noqa: S608  names of our own columns
            (*content.values(), self.chain),
        )


def create(connection: sqlite3.Connection, new: NewTask) -> int:
    """Write a new task and its version 0; its number."""
    connection.execute(
        "INSERT INTO definition (hash, machine, version, texts_hash) VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING",
        (new.definition_hash, new.machine, new.machine_version, payloads.put(connection, new.definition)),
    )
    first = new.first
    root = rooted({**{name: getattr(new, name) for name in ROOT}, "started_at": time_text(new.started_at)})
    cursor = connection.execute(
        "INSERT INTO task (id, trace_id, machine, machine_version, definition_hash, actor, actor_id, tenant, input_hash,"
        " model, started_at, version, status, configuration, steps, head, updated_at, row, chain)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'RUNNING', '[]', 0, '{}', ?, 0, ?)",
        (
            new.id, new.trace_id, new.machine, new.machine_version, new.definition_hash, json_text(new.actor),
            new.actor["id"], new.actor["tenant"], payloads.put(connection, new.input), new.model,
            time_text(new.started_at), time_text(new.started_at), root,
        ),
    )  # fmt: skip
    task_no = int(cursor.lastrowid or 0)
    log = _Log(connection, task_no, 0, 0, root)
    _write(connection, log, first, token=0, now=first.at or new.started_at)
    return task_no


def commit(connection: sqlite3.Connection, environment: Environment, transaction: Transaction, lease: Lease) -> None:
    """Write one transaction over the version that it was made from."""
    if lease.task_no != transaction.task_no:
        raise StoreError(f"the lease of task {lease.task_id} is none of this task", reason="programming")
    leases.check(connection, lease)
    row = connection.execute("SELECT version, row, chain FROM task WHERE no = ?", (transaction.task_no,)).fetchone()
    if row is None or row["version"] != transaction.expected_version:
        raise StaleVersionError(
            f"task {lease.task_id} has moved on from version {transaction.expected_version}: nothing was written",
            hint="read it again",
        )
    log = _Log(connection, transaction.task_no, transaction.expected_version + 1, row["row"], row["chain"])
    _write(connection, log, transaction, token=lease.token, now=transaction.at or environment.now())


def note(connection: sqlite3.Connection, task_no: int, rows: Iterable[Row]) -> None:
    """Append rows without a new version."""
    found = connection.execute("SELECT version, row, chain FROM task WHERE no = ?", (task_no,)).fetchone()
    if found is None:
        raise UnknownTaskError
    if found["row"] >= _NOTES_END:
        raise StoreError("too much was noted about this task", hint="its own work still goes on", reason="history_full")
    log = _Log(connection, task_no, found["version"], found["row"], found["chain"])
    for row in rows:
        log.append(row.table, columns_of(connection, row))
    connection.execute("UPDATE task SET row = ?, chain = ? WHERE no = ?", (log.row, log.chain, task_no))


def request_cancel(connection: sqlite3.Connection, task_no: int, who: str) -> None:
    """Note who asked first for the task to be cancelled."""
    connection.execute("UPDATE task SET cancel_requested = ? WHERE no = ? AND cancel_requested IS NULL", (who, task_no))


def _write(connection: sqlite3.Connection, log: _Log, transaction: Transaction, *, token: int, now: datetime) -> None:
    head = transaction.head
    for row in transaction.rows:
        log.append(row.table, columns_of(connection, row))
    for effect in transaction.effects:
        _put_effect(connection, log.task_no, effect, now)
    for approval in transaction.approvals:
        _put_approval(connection, log.task_no, approval, now)
    for state, timer in transaction.timers.items():
        _put_timer(connection, log.task_no, state, timer)
    log.append(
        "checkpoint",
        {
            "at": time_text(now), "cause": transaction.cause, "status": str(head.status), "reason": head.reason,
            "configuration": json_text(list(head.configuration)), "steps": head.steps, "tokens": head.usage.tokens,
            "token": token, "head": payloads.put(connection, head_document(head)),
        },
    )  # fmt: skip
    _put_head(connection, log, head, now)


def _put_head(connection: sqlite3.Connection, log: _Log, head: Head, now: datetime) -> None:
    if head.version != log.version:
        raise StoreError(
            f"the head of version {head.version} was given for version {log.version}", reason="programming"
        )
    proposal = None if head.proposal is None else payloads.put(connection, head.proposal)
    connection.execute(
        "UPDATE task SET version = ?, status = ?, reason = ?, configuration = ?, steps = ?, head = ?, proposal_hash = ?,"
        " wake_at = (SELECT min(due_at) FROM timer WHERE task_no = ?), updated_at = ?, row = ?, chain = ? WHERE no = ?",
        (
            head.version, str(head.status), head.reason, json_text(list(head.configuration)), head.steps,
            json_text(head_json(head)), proposal, log.task_no, time_text(now), log.row, log.chain, log.task_no,
        ),
    )  # fmt: skip


def _put_effect(connection: sqlite3.Connection, task_no: int, effect: Effect, now: datetime) -> None:
    receipt = None if effect.receipt is None else payloads.put(connection, effect.receipt)
    try:
        connection.execute(
            "INSERT INTO effect (task_no, key, tool, status, action_hash, args_hash, proposed_in, attempt, receipt_hash,"
            " approval_id, reason, inherited, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (task_no, key) DO UPDATE SET tool = excluded.tool, status = excluded.status,"
            " action_hash = excluded.action_hash, args_hash = excluded.args_hash,"
            " proposed_in = excluded.proposed_in, attempt = excluded.attempt,"
            " receipt_hash = excluded.receipt_hash, approval_id = excluded.approval_id, reason = excluded.reason,"
            " inherited = excluded.inherited, at = excluded.at",
            (
                task_no, effect.key, effect.tool, str(effect.status), effect.action_hash,
                payloads.put(connection, effect.args), effect.proposed_in, effect.attempt, receipt,
                effect.approval_id, effect.reason, int(effect.inherited), time_text(effect.at or now),
            ),
        )  # fmt: skip
    except sqlite3.IntegrityError as problem:
        # the index `effect_happens_once`: a second one of the same task is written over the first
        if problem.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise KeyTakenError(f"the effect `{effect.key}` belongs to another task: nothing was written") from None
        raise


def _put_approval(connection: sqlite3.Connection, task_no: int, approval: Approval, now: datetime) -> None:
    connection.execute(
        "INSERT INTO approval (id, task_no, state, tool, action_hash, effect_key, policy_version, roles, requested_at,"
        " expires_at, status, answers, shown_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status, answers = excluded.answers",
        (
            approval.id, task_no, approval.state, approval.tool, approval.action_hash, approval.effect_key,
            approval.policy_version, json_text(list(approval.roles)), time_text(approval.requested_at or now),
            approval.expires_at, str(approval.status), json_text(list(approval.answers)),
            payloads.put(connection, approval.shown),
        ),
    )  # fmt: skip


def _put_timer(connection: sqlite3.Connection, task_no: int, state: str, timer: Timer | None) -> None:
    if timer is None:
        connection.execute("DELETE FROM timer WHERE task_no = ? AND state = ?", (task_no, state))
        return
    connection.execute(
        "INSERT INTO timer (task_no, state, event, due_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (task_no, state) DO UPDATE SET event = excluded.event, due_at = excluded.due_at",
        (task_no, state, timer.event, time_text(timer.due_at)),
    )
