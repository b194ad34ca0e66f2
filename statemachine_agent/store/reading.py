"""What is read back: one task as it stands, lists for people, and a task's history in order.

It must not write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from statemachine_agent.errors import StoreError, UnknownTaskError
from statemachine_agent.records import Approval, Checkpoint, Effect, Evidence, Head, Task, Timer
from statemachine_agent.store import payloads, shapes
from statemachine_agent.store.codec import approval_of, effect_of, head_of, readable
from statemachine_agent.store.schema import ROW_BITS
from statemachine_agent.text import one_line
from statemachine_agent.times import time_of

_LOG_TABLES = ("checkpoint", "transition", "decision", "call", "evidence", "effect_event", "approval_event", "note")


def is_end_of_id(text: str) -> bool:
    """True for what can be the end of an id: enough of it that it is no accident, and nothing that a pattern would read."""
    return len(text) >= 4 and all(c in "0123456789abcdef-" for c in text)  # noqa: PLR2004


def task_row(connection: sqlite3.Connection, task_id: str) -> sqlite3.Row:
    """The row of a task; an id may be shortened as long as it stays the only one."""
    row = connection.execute("SELECT * FROM task WHERE id = ?", (task_id,)).fetchone()
    if row is None and is_end_of_id(task_id):
        rows = connection.execute("SELECT * FROM task WHERE id LIKE ? LIMIT 2", (f"%{task_id}",)).fetchall()
        if len(rows) > 1:
            raise UnknownTaskError(f"more than one task ends in {task_id}", hint="write more of its id")
        row = rows[0] if rows else None
    if row is None:
        raise UnknownTaskError(f"there is no task {one_line(task_id, 80)}", hint="`sma tasks` lists them")
    found: sqlite3.Row = row
    return found


def load(connection: sqlite3.Connection, task_id: str) -> Checkpoint:
    """One task as it stands."""
    row = task_row(connection, task_id)
    with readable(f"task {row['id']}"):
        return _checkpoint(connection, row)


def cancel_requested(connection: sqlite3.Connection, task_no: int) -> bool:
    """True where somebody asked for the task to be cancelled."""
    row = connection.execute("SELECT cancel_requested IS NOT NULL FROM task WHERE no = ?", (task_no,)).fetchone()
    return bool(row[0]) if row else False


def _checkpoint(connection: sqlite3.Connection, row: sqlite3.Row) -> Checkpoint:
    no = row["no"]
    evidence = connection.execute(
        "SELECT * FROM evidence WHERE key BETWEEN ? AND ? ORDER BY key", keys_of(no)
    ).fetchall()
    effects = connection.execute("SELECT * FROM effect WHERE task_no = ? ORDER BY proposed_in, id", (no,)).fetchall()
    approvals = connection.execute(
        "SELECT * FROM approval WHERE task_no = ? ORDER BY requested_at, rowid", (no,)
    ).fetchall()
    timers = connection.execute("SELECT * FROM timer WHERE task_no = ? ORDER BY due_at", (no,)).fetchall()
    keys = [row["input_hash"], row["proposal_hash"]]
    for e in evidence:
        keys += [e["payload_hash"], e["asked_hash"]]
    for e in effects:
        keys += [e["args_hash"], e["receipt_hash"]]
    keys += [a["shown_hash"] for a in approvals]
    values: Mapping[bytes, Any] = payloads.get_many(connection, [k for k in keys if k is not None])
    newest = {a["state"]: approval_of(a, values) for a in approvals}
    head = head_of(row, values[row["proposal_hash"]] if row["proposal_hash"] else None)
    return Checkpoint(
        task=task_of(row, values),
        head=head,
        evidence=tuple(evidence_of(e, values, head) for e in evidence),
        effects=tuple(effect_of(e, values) for e in effects),
        approvals=tuple(newest.values()),
        timers=tuple(Timer(t["state"], t["event"], time_of(t["due_at"])) for t in timers),
        cancel_requested=None if (who := row["cancel_requested"]) is None else shapes.parsed(who, shapes.WHO),
    )


def keys_of(task_no: int) -> tuple[int, int]:
    """The first and the last key that rows of a task can have."""
    if not 0 < task_no < 1 << (63 - ROW_BITS):
        msg = f"it cannot have the number {task_no}"
        raise ValueError(msg)
    return task_no << ROW_BITS, (task_no + 1 << ROW_BITS) - 1


def task_of(row: sqlite3.Row, values: Mapping[bytes, Any]) -> Task:
    """What never changes about a task, from its row in `task`."""
    return Task(
        no=row["no"], id=row["id"], trace_id=row["trace_id"], machine=row["machine"],
        machine_version=row["machine_version"], definition_hash=row["definition_hash"],
        actor=shapes.parsed(row["actor"], shapes.ACTOR),
        input=shapes.shaped(values[row["input_hash"]], shapes.OBJECT), model=row["model"],
        started_at=time_of(row["started_at"]),
    )  # fmt: skip


def evidence_of(row: sqlite3.Row, values: Mapping[bytes, Any], head: Head) -> Evidence:
    """A result as it counts under `head`."""
    return Evidence(
        name=row["name"], tool=row["tool"], purpose=row["purpose"], call_id=row["call_id"],
        request_id=row["request_id"], attempt=row["attempt"], source=row["source"], at=time_of(row["at"]),
        trust=row["trust"], payload=values[row["payload_hash"]], payload_hash=row["payload_hash"].hex(),
        asked=shapes.shaped(values[row["asked_hash"]], shapes.OBJECT), old=head.is_old(row["tool"], row["name"]),
        inherited=row["version"] == 0,
    )  # fmt: skip


def definition(connection: sqlite3.Connection, definition_hash: str) -> Mapping[str, Any]:
    """The texts that belong to a definition's hash."""
    row = connection.execute("SELECT texts_hash FROM definition WHERE hash = ?", (definition_hash,)).fetchone()
    if row is None:
        raise StoreError(f"the definition {definition_hash[:12]} is missing", hint="restore the file from a backup")
    with readable(f"the definition {definition_hash[:12]}"):
        found: dict[str, Any] = shapes.shaped(payloads.get(connection, row["texts_hash"]), shapes.TEXTS)
    return found


def prompt(connection: sqlite3.Connection, prompt_hash: str) -> list[list[str | None]] | None:
    """The parts of a prompt; None where there is none under that hash."""
    with readable(f"the prompt {prompt_hash[:12]}"):
        key = bytes.fromhex(prompt_hash)
        if connection.execute("SELECT 1 FROM payload WHERE hash = ?", (key,)).fetchone() is None:
            return None
        return [shapes.shaped(part, shapes.SECTION) for part in payloads.get_parts(connection, key)]


def effect_by_key(connection: sqlite3.Connection, key: str) -> tuple[str, Effect] | None:
    """The effect that may have happened under `key`, with the id of its task."""
    row = connection.execute(
        "SELECT effect.*, task.id AS task_id FROM effect JOIN task ON task.no = effect.task_no"
        " WHERE effect.key = ? AND effect.inherited = 0"
        " AND effect.status IN ('intended', 'unknown', 'executed', 'verified')",
        (key,),
    ).fetchone()
    if row is None:
        return None
    values = payloads.get_many(connection, [k for k in (row["args_hash"], row["receipt_hash"]) if k is not None])
    return row["task_id"], effect_of(row, values)


def approval(connection: sqlite3.Connection, approval_id: str) -> tuple[str, Approval] | None:
    """A request by its id, or by the end of it that no other has, with the id of its task."""
    query = "SELECT approval.*, task.id AS task_id FROM approval JOIN task ON task.no = approval.task_no WHERE "
    rows = connection.execute(query + "approval.id = ?", (approval_id,)).fetchall()
    if not rows and is_end_of_id(approval_id):
        rows = connection.execute(query + "approval.id LIKE ? LIMIT 2", (f"%{approval_id}",)).fetchall()
    if len(rows) != 1:
        return None
    row = rows[0]
    return row["task_id"], approval_of(row, payloads.get_many(connection, [row["shown_hash"]]))


def tasks(connection: sqlite3.Connection, status: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest tasks."""
    rows = connection.execute(
        "SELECT id, machine, machine_version, actor_id, tenant, status, reason, configuration, version, steps,"
        " started_at, updated_at, wake_at, (SELECT count(*) FROM effect WHERE effect.task_no = task.no AND"
        " effect.status IN ('intended', 'unknown')) AS open_effects"
        " FROM task WHERE (?1 IS NULL OR status = ?1) ORDER BY no DESC LIMIT ?2",
        (status, limit),
    ).fetchall()
    with readable("the list of tasks"):
        return [{**dict(r), "configuration": shapes.parsed(r["configuration"], shapes.CONFIGURATION)} for r in rows]


def approvals(connection: sqlite3.Connection, status: str | None) -> list[dict[str, Any]]:
    """Requests for approval, oldest first."""
    rows = connection.execute(
        "SELECT approval.*, task.id AS task_id, task.machine, task.actor_id FROM approval"
        " JOIN task ON task.no = approval.task_no WHERE (?1 IS NULL OR approval.status = ?1)"
        " ORDER BY requested_at, approval.rowid",
        (status,),
    ).fetchall()
    values = payloads.get_many(connection, [row["shown_hash"] for row in rows])
    return [
        {
            "task": row["task_id"], "machine": row["machine"], "actor": row["actor_id"],
            "approval": approval_of(row, values),
        }
        for row in rows
    ]  # fmt: skip


def effects(connection: sqlite3.Connection, task_id: str | None, *, only_open: bool) -> list[dict[str, Any]]:
    """Effects, oldest first."""
    rows = connection.execute(
        "SELECT effect.*, task.id AS task_id, task.machine FROM effect JOIN task ON task.no = effect.task_no"
        " WHERE (?1 IS NULL OR task.id = ?1) AND (?2 = 0 OR effect.status IN ('intended', 'unknown')) ORDER BY effect.id",
        (task_id, int(only_open)),
    ).fetchall()
    keys = [k for row in rows for k in (row["args_hash"], row["receipt_hash"]) if k is not None]
    values = payloads.get_many(connection, keys)
    return [{"task": row["task_id"], "machine": row["machine"], "effect": effect_of(row, values)} for row in rows]


#: column of a payload → what it is called, and its shape
_PAYLOADS = {
    "args_hash": ("args", shapes.OBJECT), "response_hash": ("response", shapes.RESPONSE),
    "payload_hash": ("payload", object), "asked_hash": ("asked", shapes.OBJECT),
}  # fmt: skip
#: and of JSON text
_TEXTS = {"configuration": shapes.CONFIGURATION, "asked": shapes.ASKED}


def history(connection: sqlite3.Connection, task_id: str) -> Sequence[dict[str, Any]]:
    """All rows of a task, each as a mapping with its table's name and its payloads."""
    row = task_row(connection, task_id)
    with readable(f"task {row['id']}"):
        low, high = keys_of(row["no"])
    found: list[dict[str, Any]] = []
    for table in _LOG_TABLES:
        query = f"SELECT * FROM {table} WHERE key BETWEEN ? AND ?"  # noqa: S608  names of our own tables
        found += [{"table": table, **dict(r)} for r in connection.execute(query, (low, high))]
    found.sort(key=lambda r: r["key"])
    keys = [r[column] for r in found for column in _PAYLOADS if r.get(column) is not None]
    values = payloads.get_many(connection, keys)
    for r in found:
        r["row"] = r.pop("key") - low
        with readable(f"row {r['row']} of task {row['id']}"):
            _unfold(r, values)
    return found


def _unfold(row: dict[str, Any], values: Mapping[bytes, Any]) -> None:
    """Put what a row's columns stand for in their place."""
    for column in _TEXTS.keys() & row.keys():
        row[column] = shapes.parsed(row[column], _TEXTS[column])
    for column, (name, shape) in _PAYLOADS.items():
        if column in row:
            key = row.pop(column)
            row[name] = None if key is None else shapes.shaped(values[key], shape)
    for column, value in row.items():
        if isinstance(value, bytes):
            row[column] = value.hex()
