"""What a database complains of, in words that say what to do; and how long one waits for others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from unit.store.making import new_task, on_loop

from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import StoreError
from statemachine_agent.store import opening
from statemachine_agent.store.sqlite import SqliteStore
from statemachine_agent.store.trouble import PATIENCE, as_store_error, patiently


def complaint(
    code: int | None, text: str = "it says", kind: type[sqlite3.Error] = sqlite3.OperationalError
) -> sqlite3.Error:
    problem = kind(text)
    if code is not None:
        problem.sqlite_errorcode = code
    return problem


RIGHTS = "check the rights of the file and its folder"
DISK = (
    "the disk could not be read or written: nothing was written",
    "it may be full, over a limit, or failing; then resume",
)


@pytest.mark.parametrize(
    ("code", "reason", "message", "hint"),
    [
        (sqlite3.SQLITE_FULL, "disk_full", "the disk is full: nothing was written", "free some space, then resume"),
        (sqlite3.SQLITE_IOERR, "disk_failed", *DISK),
        (sqlite3.SQLITE_IOERR_WRITE, "disk_failed", *DISK),
        (sqlite3.SQLITE_READONLY, "store", "the store cannot be written to", RIGHTS),
        (sqlite3.SQLITE_CANTOPEN, "store", "the store cannot be opened", f"{RIGHTS}, and whether the disk is full"),
        (sqlite3.SQLITE_BUSY, "store_busy", "other processes held the store for 30 seconds", "try again"),
        (sqlite3.SQLITE_LOCKED, "store_busy", "other processes held the store for 30 seconds", "try again"),
        (sqlite3.SQLITE_PROTOCOL, "store_busy", "other processes held the store for 30 seconds", "try again"),
        (sqlite3.SQLITE_CORRUPT, "store", "the file is damaged or not a database", "restore it from a backup"),
        (sqlite3.SQLITE_NOTADB, "store", "the file is damaged or not a database", "restore it from a backup"),
        (sqlite3.SQLITE_SCHEMA, "store", "the database refused: it says", "nothing was written"),
        (None, "store", "the database refused: it says", "nothing was written"),
    ],
)  # fmt: skip
def test_a_complaint_says_what_happened_and_what_to_do(code: int | None, reason: str, message: str, hint: str) -> None:
    """One that is only about the moment is told from one about the file."""
    found = as_store_error(complaint(code))
    assert isinstance(found, StoreError)
    assert (found.reason, found.message, found.hint) == (reason, message, hint)


def test_what_is_too_large_and_what_is_closed() -> None:
    """A number past SQLite's own, and a store that somebody closed."""
    large = as_store_error(OverflowError("Python int too large"))
    assert isinstance(large, StoreError)
    assert (large.message, large.hint) == ("a number is too large to be stored", "nothing was written")
    closed = as_store_error(complaint(None, "Cannot operate on a closed database.", sqlite3.ProgrammingError))
    assert isinstance(closed, StoreError)
    assert (closed.message, closed.reason) == ("the store is closed", "closed")


@pytest.mark.parametrize("problem", [ValueError("x"), KeyboardInterrupt(), StoreError("x")])
def test_what_is_no_database_error_stays_as_it_is(problem: BaseException) -> None:
    """It is somebody else's to explain."""
    assert as_store_error(problem) is problem


BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class Clock(SimulatedEnvironment):
    """Notes each pause, and lets the time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.advance(max(seconds, 1.0))


@pytest.mark.parametrize("code", [*BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT])
def test_others_in_the_way_are_waited_for(code: int) -> None:
    """In pauses too short to be noticed, until the work is done."""
    clock, left = Clock(), [complaint(code)] * 5

    def work() -> str:
        if left:
            raise left.pop()
        return "done"

    assert patiently(clock, work) == "done"
    assert len(clock.pauses) == 5 and all(0.0005 <= pause <= 0.002 for pause in clock.pauses)


def test_nobody_waits_for_ever() -> None:
    """Half a minute, and then what stood in the way is told."""
    clock = Clock()

    def work() -> None:
        raise complaint(sqlite3.SQLITE_BUSY)

    with pytest.raises(sqlite3.OperationalError):
        patiently(clock, work)
    assert PATIENCE < clock.monotonic() <= PATIENCE + 2


@pytest.mark.parametrize(
    "problem",
    [
        complaint(sqlite3.SQLITE_FULL),
        complaint(None),
        complaint(sqlite3.SQLITE_BUSY, kind=sqlite3.IntegrityError),
    ],
)
def test_what_waiting_does_not_help_is_told_at_once(problem: sqlite3.Error) -> None:
    """A full disk is full in half a minute too."""
    clock = Clock()

    def work() -> None:
        raise problem

    with pytest.raises(sqlite3.Error):
        patiently(clock, work)
    assert clock.pauses == []


# ---------------------------------------------------------------- while a store is made


def made(path: Path) -> None:
    """A store at `path`, and nobody who uses it."""
    with SqliteStore(path):
        pass


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a schema is none: the next one to open the file begins again, and succeeds."""
    path = tmp_path / "tasks.db"

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE task (id)")
        raise sqlite3.OperationalError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(opening.schema, "migrate", half)
        with pytest.raises(StoreError, match="the power is gone"):
            SqliteStore(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    made(path)


def test_who_comes_second_finds_the_store_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes see an empty file; the one that gets the lock later leaves what is there alone."""
    path = tmp_path / "tasks.db"
    take_lock = opening.begin

    def overtaken(connection: sqlite3.Connection, environment: object) -> None:
        monkeypatch.setattr(opening, "begin", take_lock)
        made(path)
        take_lock(connection, environment)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "begin", overtaken)
    with SqliteStore(path) as store:
        assert store is not None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (opening.schema.VERSION,)


def test_who_comes_second_after_a_newer_version_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It made the store meanwhile: what it wrote is left alone."""
    path = tmp_path / "tasks.db"
    take_lock, newer = opening.begin, opening.schema.VERSION + 1

    def overtaken(connection: sqlite3.Connection, environment: object) -> None:
        monkeypatch.setattr(opening, "begin", take_lock)
        made(path)
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA user_version = {newer}")
        take_lock(connection, environment)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "begin", overtaken)
    with pytest.raises(StoreError) as caught:
        SqliteStore(path)
    assert caught.value.message == f"{path} was written by a newer version ({newer}; this one knows {newer - 1})"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (newer,)


def test_a_connection_that_cannot_be_made_ready_is_not_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening says that it failed, and keeps no handle on the file."""
    made(tmp_path / "tasks.db")
    opened: list[sqlite3.Connection] = []

    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *more: object) -> sqlite3.Cursor:  # type: ignore[override]
            opened.append(self)
            raise complaint(sqlite3.SQLITE_CANTOPEN, "no")

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **k, factory=Stubborn))
    with pytest.raises(StoreError, match="cannot be opened: no"):
        SqliteStore(tmp_path / "tasks.db")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        sqlite3.Connection.execute(opened[0], "SELECT 1")


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_FULL])
@pytest.mark.parametrize("opens", [1, 2])
def test_a_disk_with_too_little_left_to_open_a_store_is_said_to_be_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, opens: int
) -> None:
    """The log's index is made when a file is opened, by whoever is first: no rights are missing."""
    made(tmp_path / "tasks.db")
    left = [opens]

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *more: object) -> sqlite3.Cursor:  # type: ignore[override]
            if "synchronous" in sql:
                left[0] -= 1
                if left[0] == 0:
                    raise complaint(code, "disk I/O error")
            return super().execute(sql, *more)  # type: ignore[arg-type]

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **k, factory=Full))
    with pytest.raises(StoreError) as caught:
        SqliteStore(tmp_path / "tasks.db")
    assert (caught.value.message, caught.value.hint, caught.value.reason) == (
        f"{tmp_path / 'tasks.db'} cannot be opened: the disk could not be read or written",
        "it may be full, over a limit, or failing; nothing was written",
        "disk_failed",
    )


@on_loop
async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Not a traceback of the database, but what happened."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        pass
    with pytest.raises(StoreError) as problem:
        await store.create(new_task())
    assert problem.value.reason == "closed"
