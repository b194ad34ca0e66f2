"""The rows of a task chain by hash: whoever changes one, anywhere, is found out by whoever follows the chain."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from unit.store.making import PROPOSAL, USAGE, begun, call, committed, decision, full_step, on_loop, step

from statemachine_agent.errors import StoreError
from statemachine_agent.records import ApprovalRow, EffectRow, EffectStatus, NoteRow, Status, TransitionRow
from statemachine_agent.store import codec, payloads
from statemachine_agent.store.schema import ROW_BITS
from statemachine_agent.store.sqlite import SqliteStore

TABLES = ("checkpoint", "transition", "decision", "call", "evidence", "effect_event", "approval_event", "note")


def rows_of(connection: sqlite3.Connection, task_no: int) -> list[tuple[str, dict[str, Any]]]:
    """The log of a task as it lies in the file, in the order of its keys."""
    low, high = task_no << ROW_BITS, (task_no + 1 << ROW_BITS) - 1
    found = []
    for table in TABLES:
        query = f"SELECT * FROM {table} WHERE key BETWEEN ? AND ?"  # noqa: S608  names of the schema
        found += [(table, dict(row)) for row in connection.execute(query, (low, high))]
    return sorted(found, key=lambda r: r[1]["key"])


def first_fault(connection: sqlite3.Connection) -> str | None:
    """Follow the chain of every task from its root to its head; the place of the first break, or None."""
    for found in connection.execute("SELECT * FROM task ORDER BY no").fetchall():
        task = {**dict(found), "actor": json.loads(found["actor"])}
        task["input"] = payloads.get(connection, task["input_hash"])
        chain = codec.rooted(task)
        number = 0
        for number, (table, row) in enumerate(rows_of(connection, task["no"]), 1):
            stored = row.pop("chain")
            if row["key"] != task["no"] << ROW_BITS | number:
                return f"{table} {row['key']}: number {number} is missing"
            chain = codec.chained(chain, table, row)
            if chain != stored:
                return f"{table} {row['key']}"
        if (number, chain) != (task["row"], task["chain"]):
            return f"task {task['no']}: its head"
        newest = connection.execute("SELECT head FROM checkpoint ORDER BY key DESC LIMIT 1").fetchone()["head"]
        proposal = payloads.get(connection, task["proposal_hash"]) if task["proposal_hash"] else None
        if payloads.get(connection, newest) != codec.head_document(codec.head_of(found, proposal)):
            return f"task {task['no']}: the head's hash"
    return None


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store whose only task has a row in every table, with every column filled."""
    path = tmp_path_factory.mktemp("chain") / "tasks.db"

    @on_loop
    async def write() -> None:
        with SqliteStore(path) as store:
            task, lease = await begun(store)
            rows = (
                *full_step(1, {"payment": 2000, "float": 0.5}),
                TransitionRow("call.x", "WORKING", "DONE", 3, {"g": True}, "why"),
                decision(2, stop_reason="length", error_class="truncated", feedback="cut off"),
                call(2, error_class="timeout", detail="no answer", effect_key="k", evidence="ev-1"),
                EffectRow("k", "issue_refund", EffectStatus.EXECUTED, 1, "a" * 64, "settled", "lead"),
                ApprovalRow("apr-1", "approved", "lead", "os", "looks right", "r"),
                NoteRow("cancel_requested", "cust-1", "os", "changed my mind"),
            )
            task = await committed(
                store, task, lease, *rows, head={"usage": USAGE, "reason": "r", "proposal": PROPOSAL}
            )
            await store.note(task.task.no, [NoteRow("beside", "lead", "os", "just saying")])
            await store.commit(step(task, head={"status": Status.FAILED, "reason": "crashing"}), lease)

    write()
    return path.read_bytes()


@pytest.fixture
def opened(template: bytes, tmp_path: Path):
    path = tmp_path / "copy.db"
    path.write_bytes(template)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def other(value: object) -> object:
    """Another value of the same type."""
    match value:
        case None:
            return "x"
        case int():
            return value + 1
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:]
        case str():
            return value + "x"
    raise AssertionError(value)


def test_the_chain_holds_from_the_first_row_to_the_head(opened: sqlite3.Connection) -> None:
    assert first_fault(opened) is None
    assert {table for table, _ in rows_of(opened, 1)} == set(TABLES)


def test_changing_any_column_of_any_row_breaks_the_chain_there(opened: sqlite3.Connection) -> None:
    opened.execute("PRAGMA foreign_keys = OFF")
    tried = 0
    for table, row in rows_of(opened, 1):
        for column, value in row.items():
            if column == "key":
                continue
            for wrong in (other(value), None) if value is not None else (other(value), 1, b"\x00"):
                opened.execute("SAVEPOINT change")
                try:
                    query = f"UPDATE {table} SET {column} = ? WHERE key = ?"  # noqa: S608  names of the schema
                    opened.execute(query, (wrong, row["key"]))
                except sqlite3.IntegrityError:
                    continue  # STRICT and NOT NULL refuse it before anybody has to find it
                else:
                    assert first_fault(opened) == f"{table} {row['key']}", (column, wrong)
                    tried += 1
                finally:
                    opened.execute("ROLLBACK TO change")
    assert tried > 150


def test_taking_out_or_moving_a_row_is_seen(opened: sqlite3.Connection) -> None:
    for table, row in rows_of(opened, 1):
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET key = {99 << ROW_BITS}"):  # noqa: S608
            opened.execute("SAVEPOINT change")
            opened.execute(f"{change} WHERE key = ?", (row["key"],))
            assert first_fault(opened) is not None, (table, change)
            opened.execute("ROLLBACK TO change")


def test_exchanging_two_rows_is_seen(opened: sqlite3.Connection) -> None:
    (_, first), (_, second) = [r for r in rows_of(opened, 1) if r[0] == "note"]
    opened.execute("UPDATE note SET key = -1 WHERE key = ?", (first["key"],))
    opened.execute("UPDATE note SET key = ? WHERE key = ?", (first["key"], second["key"]))
    opened.execute("UPDATE note SET key = ? WHERE key = -1", (second["key"],))
    assert first_fault(opened) is not None


@pytest.mark.parametrize("column", [c for c in codec.ROOT if c != "input"])
def test_what_a_task_is_is_under_the_chain_too(opened: sqlite3.Connection, column: str) -> None:
    value = {
        "actor": '{"id":"mallory","tenant":"shop"}',
        "machine_version": 4,
        "definition_hash": "d" * 64 + "x",
    }.get(column, "other")
    opened.execute("PRAGMA foreign_keys = OFF")
    opened.execute(f"UPDATE task SET {column} = ?", (value,))  # noqa: S608  a name of the root
    assert first_fault(opened) is not None


def test_another_input_is_seen(opened: sqlite3.Connection) -> None:
    opened.execute("UPDATE task SET input_hash = ?", (payloads.put(opened, {"order_id": "1"}),))
    assert first_fault(opened) is not None


def test_a_head_that_was_altered_is_seen(opened: sqlite3.Connection) -> None:
    changes = {
        "status": "SUCCEEDED",
        "steps": 99,
        "configuration": '["DONE"]',
        "reason": "completed",
        "version": 7,
        "proposal_hash": payloads.put(opened, {**PROPOSAL, "args": {"amount_inr": 9000}}),
        "head": json.dumps({**json.loads(opened.execute("SELECT head FROM task").fetchone()[0]), "visits": {}}),
        "row": 3,
        "chain": bytes(32),
    }
    for column, value in changes.items():
        opened.execute("SAVEPOINT change")
        opened.execute(f"UPDATE task SET {column} = ?", (value,))  # noqa: S608  names above
        assert first_fault(opened) is not None, column
        opened.execute("ROLLBACK TO change")


@on_loop
async def test_rows_are_numbered_through_all_tables_and_tasks_lie_apart(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        tasks = [await begun(store, f"task-{n}") for n in range(3)]
        for number in range(1, 4):  # the three write in turn
            tasks = [(await committed(store, t, lease, *full_step(number, {"n": number})), lease) for t, lease in tasks]
        for task, _ in tasks:
            rows = rows_of(store._reader, task.task.no)
            keys = [row["key"] for _, row in rows]
            assert keys == [task.task.no << 20 | n for n in range(1, len(rows) + 1)]
            assert len(rows) == 2 + 3 * 5
        assert first_fault(store._reader) is None


@on_loop
async def test_two_tasks_with_equal_rows_have_chains_of_their_own(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        for n in range(2):
            await begun(store, f"task-{n}")
        chains = {row["chain"] for row in store._reader.execute("SELECT chain FROM task")}
    assert len(chains) == 2


@on_loop
async def test_a_history_that_is_full_is_said_and_not_written(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store._write(lambda c: c.execute("UPDATE task SET row = ?", ((1 << ROW_BITS) - 2,)))
        with pytest.raises(StoreError, match="the task's history is full"):
            await store.commit(step(task, NoteRow("one")), lease)
        await store.commit(step(task), lease)  # the last row there is room for


@on_loop
async def test_notes_leave_the_last_rows_to_the_task_itself(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store._write(lambda c: c.execute("UPDATE task SET row = ?", ((1 << ROW_BITS) - (1 << 16) - 1,)))
        await store.note(task.task.no, [NoteRow("refused", "mallory")])
        with pytest.raises(StoreError, match="too much was noted about this task") as caught:
            await store.note(task.task.no, [NoteRow("refused", "mallory")])
        assert (caught.value.reason, caught.value.hint) == ("history_full", "its own work still goes on")
        await store.commit(step(task, NoteRow("work")), lease)
