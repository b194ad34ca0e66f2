"""Opening: a store is made where there is nothing, and what is no store is left as it was, to the byte."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from unit.store.making import begun, new_task, on_loop
from unit.store.workers import children

from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import StoreError
from statemachine_agent.store import schema
from statemachine_agent.store.sqlite import SqliteStore
from statemachine_agent.store.trouble import PATIENCE
from support import forks


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def refuses(path: Path, match: str, *, create: bool = True) -> None:
    before = snapshot(path.parent) if path.parent.is_dir() and not path.is_dir() else None
    with pytest.raises(StoreError, match=match) as caught:
        SqliteStore(path, create=create)
    assert caught.value.hint
    if before is not None:
        assert snapshot(path.parent) == before


@pytest.mark.parametrize("name", ["tasks.db", "a folder/and one/tasks.db", "100%#?&x=1.db", "ünï\u202ecode.db", "-x"])
@on_loop
async def test_a_new_store_in_whatever_place(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with SqliteStore(path) as store:
        await store.create(new_task())
    assert path.is_file()
    with SqliteStore(path, create=False) as store:
        assert (await store.load("task-1")).task.id == "task-1"


def test_a_relative_path_is_one_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteStore("tasks.db"):
        assert (tmp_path / "tasks.db").is_file()


def modes(folder: Path, name: str) -> dict[str, int]:
    return {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.glob(f"{name}*")}


@on_loop
async def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch(mode=0o666)
    before = os.umask(0)
    try:
        for name in ("tasks.db", "empty.db"):
            with SqliteStore(tmp_path / name) as store:
                await store.create(new_task())
                files = modes(tmp_path, name)
            assert set(files) == {name, f"{name}-wal", f"{name}-shm"}
            assert set(files.values()) == {0o600}
    finally:
        os.umask(before)


@on_loop
async def test_the_connections_are_durable_and_guarded(tmp_path: Path) -> None:
    def settings(connection: sqlite3.Connection) -> tuple[object, ...]:
        names = ("journal_mode", "synchronous", "foreign_keys", "application_id", "user_version")
        return tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)

    wanted = ("wal", 2, 1, schema.APPLICATION_ID, schema.VERSION)
    with SqliteStore(tmp_path / "tasks.db") as store:
        assert await store._write(settings) == wanted
        assert settings(store._reader) == wanted
        waits = [
            c.execute("PRAGMA busy_timeout").fetchone()[0] for c in (store._reader, await store._write(lambda c: c))
        ]
        assert waits == [PATIENCE * 1000, 0]  # milliseconds; for the writer it is the package that waits
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store._reader.execute("DELETE FROM task")
        strict = await store._write(
            lambda c: c.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        )
    ours = [name for name, sql in strict if "STRICT" in sql]
    assert {name for name, _ in strict} - set(ours) == {"_sqlite_migrations"}


def test_an_empty_file_becomes_a_store_and_only_where_one_may_be_made(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.touch()
    refuses(path, "there is no store at", create=False)
    with SqliteStore(path):
        pass
    with SqliteStore(path, create=False):
        pass


def test_a_missing_file_is_not_made_where_it_should_be_there(tmp_path: Path) -> None:
    refuses(tmp_path / "tasks.db", "there is no store at", create=False)
    refuses(tmp_path / "no folder" / "tasks.db", "there is no store at", create=False)
    assert not list(tmp_path.iterdir())


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    refuses(tmp_path, "is a folder")
    (tmp_path / "file").write_text("x")
    refuses(tmp_path / "file" / "tasks.db", "cannot be created: (Not a directory|File exists)")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, problem in (("n" * 300, "cannot be read: File name too long"), ("loop", "cannot be")):
        with pytest.raises(StoreError, match=problem):
            SqliteStore(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused_without_waiting_for_its_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="is a pipe, and no file"):
        SqliteStore(tmp_path / "pipe")


@pytest.mark.parametrize(
    "content", [b"x", b"task,amount\n1,2\n" * 100, b"SQLite format 2\x00" + bytes(200), bytes(512)]
)
def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    refuses(path, "is not a SQLite database")


@pytest.mark.parametrize("mark", ["CREATE TABLE t (x)", "PRAGMA user_version = 3", "PRAGMA application_id = 77"])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program_is_not_touched(tmp_path: Path, mark: str, mode: str) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(mark)
        connection.commit()
    refuses(path, "is a database of another program")


def test_what_another_program_left_behind_in_a_crash_is_not_recovered_for_it(tmp_path: Path) -> None:
    crash = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA journal_mode = WAL');"
        "c.execute('CREATE TABLE t (x)'); c.commit(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", crash, tmp_path / "other.db"], check=True)
    assert (tmp_path / "other.db-wal").stat().st_size > 0
    refuses(tmp_path / "other.db", "is a database of another program")


def test_a_newer_store_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    refuses(path, f"was written by a newer version \\({schema.VERSION + 1}; this one knows {schema.VERSION}\\)")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("PRAGMA user_version = 0", "it has `payload` and names no version"),
        ("PRAGMA user_version = -1", "it names the version -1"),
        ("DROP INDEX effect_happens_once", "the index `effect_happens_once` is missing"),
        ("DROP INDEX effect_happens_once; CREATE INDEX effect_happens_once ON effect (key)", "is another one"),
        ("DROP INDEX task_by_wake", "the index `task_by_wake` is missing"),
        ("DROP TABLE lease", "the table `lease` is missing"),
        ("ALTER TABLE note RENAME TO notes", "the table `note` is missing"),
    ],
)
def test_a_store_that_is_not_whole_is_not_touched(tmp_path: Path, change: str, said: str) -> None:
    """Without its unique index, two tasks would send the same effect."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(change)
    refuses(path, f"is no whole store: .*{said}")
    refuses(path, f"is no whole store: .*{said}", create=False)


def test_what_people_add_for_themselves_is_no_harm(tmp_path: Path) -> None:
    """A view, a table or an index beside ours."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE mine (x); CREATE VIEW ends AS SELECT id, status FROM task;"
                                 "CREATE INDEX by_machine ON task (machine)")  # fmt: skip
    with SqliteStore(path):
        pass


@on_loop
async def test_a_damaged_store_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with SqliteStore(path) as store:
        await begun(store)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(path)
    path.write_bytes(whole[:4096])  # cut off by a full disk or a broken copy
    with pytest.raises(StoreError, match="damaged"), SqliteStore(path) as store:
        await store.load("task-1")


def test_without_rights_it_says_so(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("whoever runs this may write anywhere")
    closed.chmod(0o700)
    for name in ("tasks.db", "read-only.db"):
        with SqliteStore(closed / name):
            pass
    (closed / "read-only.db").chmod(0o400)
    closed.chmod(0o500)
    try:
        for name in ("new.db", "tasks.db", "read-only.db"):
            with pytest.raises(StoreError), SqliteStore(closed / name) as store:
                store._submit(lambda c: c.execute("DELETE FROM task")).result()
        closed.chmod(0o000)
        with pytest.raises(StoreError, match="cannot be opened: Permission denied"):
            SqliteStore(closed / "tasks.db")
    finally:
        closed.chmod(0o700)


def test_two_processes_make_one_new_store_at_once(tmp_path: Path) -> None:
    """Twenty times, both are told the name of a file that is not there yet."""
    with children(("open_many", "task-1"), ("open_many", "task-2")) as both:
        for number in range(20):
            path = tmp_path / f"tasks-{number}.db"
            for child in both:
                child.say(path)
            assert [child.hear() for child in both] == ["done", "done"]
            with closing(sqlite3.connect(path)) as connection:
                assert sorted(r[0] for r in connection.execute("SELECT id FROM task")) == ["task-1", "task-2"]


def test_a_file_whose_rights_cannot_be_changed_becomes_a_store_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty file of somebody else's, or a file system that knows no rights."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refused)
    with SqliteStore(tmp_path / "tasks.db"):
        pass
    with SqliteStore(tmp_path / "tasks.db", create=False):
        pass


@on_loop
async def test_a_store_is_opened_and_read_while_somebody_writes_to_it(tmp_path: Path) -> None:
    """Without a wait: only what must be made or migrated needs the lock."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path) as store:
        await store.create(new_task())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with SqliteStore(path, SimulatedEnvironment()) as store:
            assert (await store.load("task-1")).task.id == "task-1"


def schema_of(store: SqliteStore) -> list[tuple[str, str]]:
    return [tuple(row) for row in store._reader.execute("SELECT name, sql FROM sqlite_master ORDER BY name")]


def test_a_process_that_is_killed_while_it_makes_a_store_leaves_one_that_opens(tmp_path: Path) -> None:
    """Whatever write it was about to make: the next one to open the file finishes the work."""
    die = """
import os, sqlite3, sys
from statemachine_agent.environment import Environment
from statemachine_agent.store import opening, schema
left = int(sys.argv[2])
class Dying(sqlite3.Connection):
    def execute(self, *arguments):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return super().execute(*arguments)
plain = sqlite3.connect
sqlite3.connect = lambda *a, **k: plain(*a, **k, factory=Dying)
opening.prepare(__import__("pathlib").Path(sys.argv[1]), Environment())
"""
    with SqliteStore(tmp_path / "whole.db") as store:
        whole = schema_of(store)
    for number in (3, 5, 6, 7, 8, 14, 30):
        path = tmp_path / f"tasks-{number}.db"
        killed = forks.run([sys.executable, "-c", die, str(path), str(number)])
        assert killed.returncode == 9, number
        with SqliteStore(path) as store:
            assert schema_of(store) == whole, number
