"""A file whose values somebody changed: whatever stands in a column, reading it gives a record or an error of the store."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from unit.store.making import (
    ELSEWHERE,
    HOUR,
    PROPOSAL,
    STARTED,
    USAGE,
    approval,
    begun,
    call,
    committed,
    decision,
    effect,
    full_step,
    on_loop,
)

from statemachine_agent.errors import SmaError, StoreError
from statemachine_agent.records import ApprovalRow, EffectRow, EffectStatus, NoteRow, Timer, TransitionRow
from statemachine_agent.runtime.trace import trace_of
from statemachine_agent.store import shapes
from statemachine_agent.store.sqlite import SqliteStore

JSON_COLUMNS = {
    "task": ("actor", "configuration", "head", "cancel_requested"),
    "checkpoint": ("configuration",),
    "transition": ("asked",),
    "approval": ("roles", "answers"),
    "lease": ("owner",),
}
NO_JSON = ["", "x", "NaN", "Infinity", "[1e999]", "\x00", "[" * 100_000, "9" * 5000, '"\\ud800"']
OTHER_JSON = ["null", "true", "5", '"x"', "[]", "{}", '["NOPE"]', "[1]", "[null]", '[["x"]]', '[{"by": 1}]', '{"by": "x"}',
              '{"a": ' + "[" * 50 + "]" * 50 + "}"]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "TEXT": ["", "\x00", "5", "[]", "executed", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"],
    "INTEGER": [-1, 0, 99, 2**62, -(2**63)],
    "BLOB": [b"", b"x" * 32, b"\x78\x9c"],
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store whose only task has a row in every table."""
    path = tmp_path_factory.mktemp("altered") / "tasks.db"

    @on_loop
    async def write() -> None:
        with SqliteStore(path) as store:
            task, lease = await begun(store)
            rows = (
                *full_step(1, {"n": 1}), TransitionRow("call.x", "WORKING", "DONE", 3, {"g": True}, "why"),
                decision(2), call(2, effect_key="k"), EffectRow("k", "issue_refund", EffectStatus.EXECUTED, 1, "a" * 64),
                ApprovalRow("apr-1", "approved", "lead", "os", "looks right", "r"), NoteRow("n", "lead", "os", "why"),
            )  # fmt: skip
            done = effect("refund:2", EffectStatus.EXECUTED, receipt={"id": "r-1"})
            await committed(
                store, task, lease, *rows, head={"usage": USAGE, "proposal": PROPOSAL, "output": "x"},
                effects=(effect(), done), approvals=(approval(),), timers={"A": Timer("A", "elapsed.A", STARTED)},
            )  # fmt: skip
            await store.request_cancel(task.task.no, {"by": "cust-1", "established": "os"})

    write()
    return path.read_bytes()


def columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%STRICT%'").fetchall():
        for row in connection.execute(f"PRAGMA table_info({table})").fetchall():
            yield table, row[1], row[2]


READS: dict[str, Callable[[SqliteStore], Coroutine[Any, Any, Any]]] = {
    "load": lambda s: s.load("task-1"),
    "history": lambda s: s.history("task-1"),
    "tasks": lambda s: s.tasks(),
    "approvals": lambda s: s.approvals(status=None),
    "effects": lambda s: s.effects(),
    "definition": lambda s: s.definition("d" * 64),
    "effect_by_key": lambda s: s.effect_by_key("refund:2"),
    "approval": lambda s: s.approval("apr-1"),
    "cancel_requested": lambda s: s.cancel_requested(1),
}
CLAIMS = {"claim": lambda s: s.claim("task-1", ELSEWHERE, HOUR)}


def refusals(path: Path, table: str = "lease") -> dict[str, str]:
    """What each way of reading refused, and with which words; anything but an error of ours is a failure."""

    async def read_all(store: SqliteStore) -> dict[str, str]:
        found = {}
        for name, read in {**READS, **(CLAIMS if table in ("lease", "task") else {})}.items():
            try:
                result = await read(store)
                if name == "history":
                    trace_of(result)
            except SmaError as problem:
                found[name] = problem.message
        return found

    with SqliteStore(path, create=False) as store:
        found = asyncio.run(read_all(store))
    assert all(len(message.splitlines()) == 1 and len(message) < 400 for message in found.values())
    return found


def altered(path: Path, table: str, column: str, value: object) -> bool:
    """Write `value` there; False where the database itself refuses it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF")
        try:
            newest = f"rowid = (SELECT max(rowid) FROM {table})"  # noqa: S608  names of the schema
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {newest}", (value,))  # noqa: S608
        except sqlite3.IntegrityError:
            return False
        connection.commit()
    return True


def test_nothing_is_wrong_with_the_store_as_it_was_written(template: bytes, tmp_path: Path) -> None:
    (tmp_path / "tasks.db").write_bytes(template)
    assert set(refusals(tmp_path / "tasks.db")) == {"claim"}  # somebody holds it


def test_whatever_stands_in_any_column_is_a_record_or_an_error_of_the_store(template: bytes, tmp_path: Path) -> None:
    """Every column of every table, with values of its own type that were never written."""
    path = tmp_path / "tasks.db"
    path.write_bytes(template)
    with closing(sqlite3.connect(path)) as connection:
        every = list(columns(connection))
    tried = 0
    for table, column, kind in every:
        for value in (*VALUES[kind], None):
            path.write_bytes(template)
            if altered(path, table, column, value):
                try:
                    refusals(path, table)
                except Exception as problem:
                    raise AssertionError((table, column, value)) from problem
                tried += 1
    assert tried > 500


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, names in JSON_COLUMNS.items() for c in names])
def test_a_json_text_of_another_shape_is_an_altered_store(
    template: bytes, tmp_path: Path, table: str, column: str
) -> None:
    """In each column that holds JSON: no JSON, and JSON that was never written there."""
    path = tmp_path / "tasks.db"
    fitting = {"configuration": ("[]", '["NOPE"]'), "roles": ("[]", '["NOPE"]'), "asked": ("{}",), "answers": ("[]",)}
    for value in (*NO_JSON, *OTHER_JSON):
        path.write_bytes(template)
        assert altered(path, table, column, value)
        found = refusals(path, table)
        told = [m for m in found.values() if "cannot be read: " in m]
        assert bool(told) is (value not in fitting.get(column, ())), (value, found)


def test_no_column_of_json_is_forgotten() -> None:
    """The schema says which they are."""
    from statemachine_agent.store.schema import M001  # noqa: PLC0415

    said = {(s.split()[2], line.split()[0]) for s in M001 for line in s.splitlines() if "-- JSON" in line}
    assert said <= {(table, column) for table, names in JSON_COLUMNS.items() for column in names}


@pytest.mark.parametrize(
    ("value", "shape", "fitting"),
    [
        (1, int, True), (True, int, False), (1.5, int, False), (True, bool, True), (1, bool, False), ("x", str, True),
        (None, str, False), (None, (None, str), True),
        ("x", (None, str), True), (5, (None, str), False), (["x", None], [(None, str)], True), (["x", 5], [(None, str)], False),
        ({}, dict, True), ([], dict, False), ([], [str], True),
        (["a", 1], [str], False), ({"a": 1}, {"*": int}, True), ({"a": "1"}, {"*": int}, False),
        ({"a": 1, "more": 2}, {"a": int}, True), ({}, {"a": int}, False), ({}, {"?a": int}, True),
        ({"a": None}, {"?a": int}, False), (float("inf"), float, False), (float("inf"), object, False), (None, object, True),
    ],
)  # fmt: skip
def test_shapes(value: object, shape: object, fitting: bool) -> None:
    assert shapes.fits(value, shape) is fitting


def test_a_payload_in_the_place_of_another_is_an_altered_store(template: bytes, tmp_path: Path) -> None:
    """Each is whole by itself, and is no input, no argument and no definition."""
    path = tmp_path / "tasks.db"
    for table, column in (("task", "input_hash"), ("task", "proposal_hash"), ("effect", "args_hash"),
                          ("evidence", "asked_hash"), ("call", "args_hash"), ("decision", "response_hash"),
                          ("approval", "shown_hash"), ("definition", "texts_hash")):  # fmt: skip
        path.write_bytes(template)
        with SqliteStore(path) as store:
            key = store._submit(lambda c: _stored(c, [1])).result()
        assert altered(path, table, column, key)
        assert any("was never written" in m for m in refusals(path).values()), (table, column)


def _stored(connection: sqlite3.Connection, value: object) -> bytes:
    from statemachine_agent.store import payloads  # noqa: PLC0415

    return payloads.put(connection, value)


@on_loop
async def test_money_that_is_no_amount_is_an_altered_store(template_path: Path) -> None:
    with SqliteStore(template_path) as store:
        for text in ("NaN", "-1", "Infinity", "much"):
            head = json.loads((await store._write(lambda c: c.execute("SELECT head FROM task").fetchone()))[0])
            head["usage"]["cost_usd"] = text
            await store._write(lambda c, h=head: c.execute("UPDATE task SET head = ?", (json.dumps(h),)).rowcount)
            with pytest.raises(StoreError, match="the head of task task-1 cannot be read"):
                await store.load("task-1")


@pytest.fixture
def template_path(template: bytes, tmp_path: Path) -> Path:
    (tmp_path / "tasks.db").write_bytes(template)
    return tmp_path / "tasks.db"
