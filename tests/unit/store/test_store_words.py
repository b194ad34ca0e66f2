"""What the store refuses, word for word: what happened, to which task or file, what to do, and a word for programs."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.store.making import ELSEWHERE, HOUR, begun, effect, evidence, new_task, on_loop, step

from statemachine_agent.canonical import digest
from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import (
    LeaseLostError,
    SmaError,
    StaleVersionError,
    StoreError,
    TaskHeldError,
    UnknownTaskError,
)
from statemachine_agent.records import EffectStatus, EvidenceRow, NoteRow
from statemachine_agent.store import place, schema
from statemachine_agent.store.port import KeyTakenError
from statemachine_agent.store.schema import ROW_BITS
from statemachine_agent.store.sqlite import SqliteStore
from statemachine_agent.store.trouble import not_opened

OTHER = replace(ELSEWHERE, host="elsewhere/boot-2", pid=4712)

Told = tuple[type[SmaError], str, str | None, str]


async def told(use: Callable[[], Awaitable[Any]]) -> Told:
    """The class of a refusal, its sentence, its advice and its word."""
    with pytest.raises(SmaError) as caught:
        await use()
    return type(caught.value), caught.value.message, caught.value.hint, caught.value.reason


def refused(use: Callable[[], Any]) -> Told:
    with pytest.raises(SmaError) as caught:
        use()
    return type(caught.value), caught.value.message, caught.value.hint, caught.value.reason


@on_loop
async def test_a_worker_is_told_why_it_may_not_write(tmp_path: Path) -> None:
    """Somebody else holds the task, took it, or moved it on; the host is named without what only tells processes apart."""
    clock = SimulatedEnvironment()
    lost = "the lease of task task-1 was lost to another worker"
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        task = await store.create(new_task())
        lease = await store.claim("task-1", OTHER, HOUR)
        assert await told(lambda: store.claim("task-1", ELSEWHERE, HOUR)) == (
            TaskHeldError, "task task-1 is being worked on by process 4712 on elsewhere",
            "wait for it, or stop that process", "held",
        )  # fmt: skip
        assert await told(lambda: store.commit(step(task, expected_version=4), lease)) == (
            StaleVersionError, "task task-1 has moved on from version 4: nothing was written", "read it again", "stale",
        )  # fmt: skip
        clock.advance(HOUR)
        await store.claim("task-1", ELSEWHERE, HOUR)
        assert await told(lambda: store.commit(step(task), lease)) == (
            LeaseLostError, f"{lost}: nothing was written", None, "lease_lost",
        )  # fmt: skip
        assert await told(lambda: store.heartbeat(lease, HOUR)) == (LeaseLostError, lost, None, "lease_lost")


@on_loop
async def test_who_asks_for_what_is_not_there_is_told_what_was_looked_for(tmp_path: Path) -> None:
    """On one line, however long it was."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        for number in range(2):
            await store.create(new_task(f"{number}-aaaa"))
        lists = "`sma tasks` lists them"
        for asked, said in (("nobody", "nobody"), ("0000", "0000"), ("a\nb" + "c" * 100, "a b" + "c" * 76 + "…")):
            assert await told(lambda a=asked: store.load(a)) == (
                UnknownTaskError, f"there is no task {said}", lists, "unknown_task",
            )  # fmt: skip
        assert await told(lambda: store.history("aaaa")) == (
            UnknownTaskError, "more than one task ends in aaaa", "write more of its id", "unknown_task",
        )  # fmt: skip
        assert await told(lambda: store.note(9, [NoteRow("x")])) == (
            UnknownTaskError, "There is no task of that id in this store.", None, "unknown_task",
        )  # fmt: skip
        assert await told(lambda: store.definition("e" * 64)) == (
            StoreError, "the definition eeeeeeeeeeee is missing", "restore the file from a backup", "store",
        )  # fmt: skip


@on_loop
async def test_a_mistake_of_the_program_is_told_as_one(tmp_path: Path) -> None:
    """A transaction for another task, a head of another version: no person can do anything about it."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        other, _ = await begun(store, "task-2")
        assert await told(lambda: store.commit(step(other), lease)) == (
            StoreError, "the lease of task task-1 is none of this task", None, "programming",
        )  # fmt: skip
        assert await told(lambda: store.commit(step(task, head={"version": 7}), lease)) == (
            StoreError, "the head of version 7 was given for version 1", None, "programming",
        )  # fmt: skip


@on_loop
async def test_a_task_that_is_too_long_and_a_key_that_is_taken(tmp_path: Path) -> None:
    """The one cannot go on, the other cannot be sent."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        other, other_lease = await begun(store, "task-2")
        sent = effect("refund:1", EffectStatus.INTENDED)
        await store.commit(step(other, effects=(sent,)), other_lease)
        assert await told(lambda: store.commit(step(task, effects=(sent,)), lease)) == (
            KeyTakenError, "the effect `refund:1` belongs to another task: nothing was written", None, "key_taken",
        )  # fmt: skip
        await store._write(lambda c: c.execute("UPDATE task SET row = ?", ((1 << ROW_BITS) - 2,)))
        assert await told(lambda: store.commit(step(task, NoteRow("n")), lease)) == (
            StoreError, "the task's history is full", "fork the task", "history_full",
        )  # fmt: skip
        assert await told(lambda: store.note(task.task.no, [NoteRow("n")])) == (
            StoreError, "too much was noted about this task", "its own work still goes on", "history_full",
        )  # fmt: skip


@on_loop
async def test_what_was_altered_is_named(tmp_path: Path) -> None:
    """And what to do: nothing in the file can be believed any more."""
    backup = "restore the file from a backup"
    payload, gone = digest({"n": 1}), digest({"n": 2})
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store.commit(step(task, EvidenceRow(evidence(1, {"n": 1})), EvidenceRow(evidence(2, {"n": 2}))), lease)

        async def sql(text: str, *values: object) -> None:
            await store._write(lambda c: c.execute(text, values).rowcount)

        await sql("UPDATE lease SET owner = '[]'")
        assert await told(lambda: store.claim("task-1", OTHER, HOUR)) == (
            StoreError, "the lease of task task-1 cannot be read: `[]` was never written",
            "it was altered; restore a backup", "altered",
        )  # fmt: skip
        await sql("UPDATE payload SET body = x'7b7d' WHERE hash = ?", bytes.fromhex(payload))
        assert await told(lambda: store.load("task-1")) == (
            StoreError, f"the payload {payload[:12]} was altered after it was written",
            f"nothing was done with it; {backup}", "payload_altered",
        )  # fmt: skip
        await sql("DELETE FROM payload WHERE hash = ?", bytes.fromhex(gone))
        await sql("DELETE FROM evidence WHERE name = 'ev-1'")
        assert await told(lambda: store.history("task-1")) == (
            StoreError, f"the payload {gone[:12]} is missing from the store", backup, "store",
        )  # fmt: skip
        await sql("DELETE FROM evidence")
        await sql("UPDATE transition SET asked = '{\"g\": NaN}'")
        assert await told(lambda: store.history("task-1")) == (
            StoreError, "row 1 of task task-1 cannot be read: `NaN` is no JSON", "it was altered; restore a backup",
            "altered",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE task SET configuration = '{}'", "the list of tasks cannot be read: `{}` was never written"),
        ("UPDATE task SET head = replace(head, '\"cost_usd\":\"0\"', '\"cost_usd\":\"-1\"')",
         "the head of task task-1 cannot be read: `-1` was never written"),
        ("UPDATE definition SET texts_hash = (SELECT input_hash FROM task)",
         'the definition dddddddddddd cannot be read: `{"message": "charged twice", "order_id": "8472"}` was never written'),
        ("UPDATE task SET actor = '\"' || hex(zeroblob(60)) || '\"'",
         'task task-1 cannot be read: `"' + "0" * 79 + "` was never written"),
        ("UPDATE task SET actor = replace(hex(zeroblob(50000)), '0', '[')",
         "task task-1 cannot be read: it is nested too deeply"),
    ],
)  # fmt: skip
@on_loop
async def test_a_value_that_was_never_written_is_quoted(tmp_path: Path, change: str, said: str) -> None:
    """Its beginning, after the name of what cannot be read."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        await store.create(new_task())
        await store._write(lambda c: c.execute(change).rowcount)
        reads = {"the list": store.tasks, "the defi": lambda: store.definition("d" * 64)}
        read = reads.get(said[:8], lambda: store.load("task-1"))
        assert await told(read) == (StoreError, said, "it was altered; restore a backup", "altered")


@pytest.mark.parametrize("number", [0, -1, 1 << (63 - ROW_BITS)])
@on_loop
async def test_a_task_whose_number_no_row_can_have_was_altered(tmp_path: Path, number: int) -> None:
    """The numbers of its rows would lie among those of others; the last number there is can be read."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        await store.create(new_task())
        await store._write(lambda c: c.execute("UPDATE task SET no = ?", (number,)).rowcount)
        for read in (store.load, store.history):
            assert await told(lambda r=read: r("task-1")) == (
                StoreError, f"task task-1 cannot be read: it cannot have the number {number}",
                "it was altered; restore a backup", "altered",
            )  # fmt: skip
        await store._write(lambda c: c.execute("UPDATE task SET no = ?", ((1 << (63 - ROW_BITS)) - 1,)).rowcount)
        assert (await store.load("task-1")).task.no == (1 << (63 - ROW_BITS)) - 1


# ---------------------------------------------------------------- opening


def test_a_file_that_is_no_store_of_ours_is_told_apart(tmp_path: Path) -> None:
    """A folder, nothing, a text, the database of another program, a newer store, a part of one."""
    another = "nothing was changed; name another file with --db"
    path = tmp_path / "tasks.db"
    assert refused(lambda: SqliteStore(tmp_path)) == (
        StoreError, f"{tmp_path} is a folder", "name a file, for example --db tasks.db", "store",
    )  # fmt: skip
    assert refused(lambda: SqliteStore(path, create=False)) == (
        StoreError, f"there is no store at {path}", "start a task first, or name another file with --db", "store",
    )  # fmt: skip
    path.write_text("task,amount\n")
    assert refused(lambda: SqliteStore(path)) == (StoreError, f"{path} is not a SQLite database", another, "store")
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    assert refused(lambda: SqliteStore(path)) == (
        StoreError, f"{path} is a database of another program", another, "store",
    )  # fmt: skip
    path.unlink()
    with SqliteStore(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    assert refused(lambda: SqliteStore(path)) == (
        StoreError,
        f"{path} was written by a newer version ({schema.VERSION + 1}; this one knows {schema.VERSION})",
        "install that version; nothing was changed", "newer_store",
    )  # fmt: skip
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA user_version = {schema.VERSION}; DROP TABLE lease")
    assert refused(lambda: SqliteStore(path)) == (
        StoreError, f"{path} is no whole store: the table `lease` is missing",
        "it was altered; restore it from a backup; nothing was changed", "altered",
    )  # fmt: skip


def test_a_file_that_cannot_be_made_or_read_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the operating system, and not its number."""
    path = tmp_path / "tasks.db"

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "touch", closed)
        assert refused(lambda: SqliteStore(path)) == (
            StoreError, f"{path} cannot be created: Permission denied",
            "name a file in a folder that can be written to", "store",
        )  # fmt: skip
    path.write_text("x")
    monkeypatch.setattr(Path, "open", closed)
    assert refused(lambda: SqliteStore(path)) == (
        StoreError, f"{path} cannot be opened: Permission denied", "name a file that can be read and written", "store",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "said", "hint", "reason"),
    [
        (sqlite3.SQLITE_IOERR_SHMSIZE, "x.db cannot be opened: the disk could not be read or written",
         "it may be full, over a limit, or failing; nothing was written", "disk_failed"),
        (sqlite3.SQLITE_FULL, "x.db cannot be opened: the disk could not be read or written",
         "it may be full, over a limit, or failing; nothing was written", "disk_failed"),
        (sqlite3.SQLITE_NOTADB, "x.db is damaged or not a database", "restore it from a backup", "store"),
        (sqlite3.SQLITE_CORRUPT_INDEX, "x.db is damaged or not a database", "restore it from a backup", "store"),
        (sqlite3.SQLITE_CANTOPEN, "x.db cannot be opened: it says",
         "check the rights of the file and its folder, and whether the disk is full", "store"),
    ],
)  # fmt: skip
def test_why_a_file_could_not_be_opened(code: int, said: str, hint: str, reason: str) -> None:
    """What SQLite complains of while it opens one, with the file's name."""
    problem = sqlite3.OperationalError("it says")
    problem.sqlite_errorcode = code
    found = not_opened(Path("x.db"), problem)
    assert (found.message, found.hint, found.reason) == (said, hint, reason)


@on_loop
async def test_a_file_with_two_names_or_none_is_told_by_the_name_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how to find the other names, and that nothing is lost."""
    path = tmp_path / "tasks.db"
    links = (
        StoreError,
        f"{path} has more than one name (a hard link), and no lock would be seen under all of them: nothing was written",
        "remove the other names (`find -samefile` lists them), or name a copy of its own", "second_name",
    )  # fmt: skip
    gone = ("put the file back, then resume: it holds all that was committed", "store_gone")
    with SqliteStore(path) as store:
        task, lease = await begun(store)
        (tmp_path / "other.db").hardlink_to(path)
        assert await told(lambda: store.commit(step(task), lease)) == links
        assert refused(lambda: SqliteStore(path)) == links
        (tmp_path / "other.db").unlink()
        log = tmp_path / "tasks.db-wal"
        log.rename(tmp_path / "kept-wal")
        assert await told(lambda: store.commit(step(task), lease)) == (
            StoreError, f"{log} was deleted or replaced while it was in use: nothing was written", *gone,
        )  # fmt: skip
        (tmp_path / "kept-wal").rename(log)
        path.rename(tmp_path / "elsewhere.db")
        assert await told(lambda: store.load("task-1")) == (
            StoreError, f"{path} was deleted or replaced while it was in use: nothing was written", *gone,
        )  # fmt: skip
        (tmp_path / "elsewhere.db").rename(path)
    (tmp_path / "mountinfo").write_text(f"36 35 98:0 / {path} rw - ext3 /dev/root rw\n")
    monkeypatch.setattr(place, "_MOUNTS", tmp_path / "mountinfo")
    assert refused(lambda: SqliteStore(path)) == (
        StoreError,
        f"{path} is mounted by itself, and its log would not lie beside the same file elsewhere: nothing was changed",
        "mount the folder that holds it, and never the file alone", "second_name",
    )  # fmt: skip


@on_loop
async def test_a_store_that_was_closed_says_so_to_readers_and_writers(tmp_path: Path) -> None:
    """Whether it ever wrote or not."""
    closed = (StoreError, "the store is closed", None, "closed")
    with SqliteStore(tmp_path / "tasks.db") as read, SqliteStore(tmp_path / "tasks.db") as wrote:
        await wrote.create(new_task())
    for store in (read, wrote):
        for use in (lambda s=store: s.create(new_task()), store.tasks):
            assert await told(use) == closed
