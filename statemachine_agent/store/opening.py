"""Opening a store's file: is it ours, of this version, safe to write; and the connections to it.

What is not a store is never touched: whose a file is stands in its first bytes, and a file of somebody else is not even
opened as a database, which could already change it. It must not know what stands in the tables.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from statemachine_agent import files
from statemachine_agent.environment import Environment
from statemachine_agent.errors import StoreError
from statemachine_agent.store import place, schema
from statemachine_agent.store.trouble import PATIENCE, as_store_error, not_opened, patiently
from statemachine_agent.store.writer import begin

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes; SQLite's file format says so, and that the program's number stands at 68
_APPLICATION = slice(68, 72)


def connect(path: Path) -> sqlite3.Connection:
    """A connection that writes, in the mode that the store uses: WAL, full durability, foreign keys."""
    connection = _connected(path)
    connection.execute("PRAGMA busy_timeout = 0")  # from here on it is `patiently` that waits
    return connection


def reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, and waits where another process recovers or closes the file."""
    try:
        connection = _connected(path)
    except sqlite3.Error as problem:
        raise not_opened(path, problem) from None
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(path: Path, environment: Environment, *, create: bool = True) -> None:
    """Make sure that `path` holds a store of this version, creating or migrating it; StoreError otherwise."""
    try:
        _look(path, create=create)
    except OSError as problem:
        raise StoreError(
            f"{path} cannot be opened: {problem.strerror}", hint="name a file that can be read and written"
        ) from None
    place.refuse_second_names(path)
    try:
        connection = connect(path.resolve())  # SQLite's log lies beside the file itself, whichever link led to it
    except sqlite3.Error as problem:
        raise not_opened(path, problem) from None
    try:
        if patiently(environment, lambda: _version(connection, path)) < schema.VERSION:
            _upgrade(connection, path, environment)
    except sqlite3.Error as problem:
        raise as_store_error(problem) from None
    finally:
        connection.close()


def _look(path: Path, *, create: bool) -> None:
    """StoreError unless there is a store at `path`, or an empty file that may become one."""
    kind, reason = files.look(path)
    if kind is not files.Kind.FILE and reason != files.ABSENT:  # one look: somebody may be making the file
        raise StoreError(f"{path} {reason}", hint="name a file, for example --db tasks.db")
    header = _first_bytes(path) if kind is files.Kind.FILE else b""
    if not header:
        if not create:
            raise StoreError(f"there is no store at {path}", hint="start a task first, or name another file with --db")
        _create(path)
    elif not header.startswith(_MAGIC):
        raise StoreError(f"{path} is not a SQLite database", hint="nothing was changed; name another file with --db")
    elif int.from_bytes(header[_APPLICATION]) != schema.APPLICATION_ID:
        raise StoreError(
            f"{path} is a database of another program", hint="nothing was changed; name another file with --db"
        )


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER)


def _create(path: Path) -> None:
    """An empty file that only its owner may read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as problem:
        raise StoreError(
            f"{path} cannot be created: {problem.strerror}", hint="name a file in a folder that can be written to"
        ) from None
    with suppress(OSError):  # an empty file of somebody else's, or a file system without rights
        path.chmod(0o600)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the store in the file, 0 for one that is still empty; StoreError for a newer one, or a part of one."""
    version, missing = schema.look(connection)
    if version > schema.VERSION:
        raise StoreError(
            f"{path} was written by a newer version ({version}; this one knows {schema.VERSION})",
            hint="install that version; nothing was changed",
            reason="newer_store",
        )
    if missing:
        raise StoreError(
            f"{path} is no whole store: {missing}",
            hint="it was altered; restore it from a backup; nothing was changed",
            reason="altered",
        )
    return version


def _upgrade(connection: sqlite3.Connection, path: Path, environment: Environment) -> None:
    """Create or migrate, one process at a time; whoever comes second finds it done."""
    # The mark comes first, and into the file itself: with write-ahead logging it might stand in the log only.
    patiently(environment, lambda: _mark(connection))
    # Two processes that switch a new file to WAL at once: SQLite refuses one of them without waiting.
    patiently(environment, lambda: connection.execute("PRAGMA journal_mode = WAL"))
    begin(connection, environment)
    try:
        if _version(connection, path) < schema.VERSION:
            schema.migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _mark(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
