"""Opening a store's file: is it ours, of this version, safe to write; and the connections to it.

What is not a store is never touched. It must not know what is in the tables.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StoreError
from statemachine_agent.store import schema
from statemachine_agent.store.writer import PATIENCE, as_store_error, begin


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in the mode that the store uses: WAL, full durability, foreign keys."""
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def prepare(path: Path, environment: Environment, *, create: bool = True) -> None:
    """Make sure that `path` holds a store of this version, creating or migrating it; StoreError otherwise."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder", hint="name a file, for example --db tasks.db")
    if not path.exists() and not create:
        raise StoreError(f"there is no store at {path}", hint="start a task first, or name another file with --db")
    if not path.exists():
        _create(path)
    try:
        connection = connect(path)
    except sqlite3.Error as problem:
        raise StoreError(f"{path} cannot be opened: {problem}", hint="check the file's rights") from None
    try:
        version = _version(connection, path)
        if version < schema.VERSION:
            _upgrade(connection, path, environment)
    except sqlite3.Error as problem:
        raise as_store_error(problem) from None
    finally:
        connection.close()


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as problem:
        raise StoreError(
            f"{path} cannot be created: {problem.strerror}", hint="name a file in a folder that can be written to"
        ) from None


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the store in the file; 0 for an empty file; StoreError for what is not ours."""
    try:
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.DatabaseError as problem:
        if "locked" in str(problem):
            raise
        raise StoreError(f"{path} is not a SQLite database", hint="name another file with --db") from None
    if application != schema.APPLICATION_ID:
        if tables or application or version:
            raise StoreError(
                f"{path} is a database of another program", hint="nothing was changed; name another file with --db"
            )
        return 0
    if version > schema.VERSION:
        raise StoreError(
            f"{path} was written by a newer version ({version}; this one knows {schema.VERSION})",
            hint="install that version; nothing was changed",
            reason="newer_store",
        )
    return version


def _upgrade(connection: sqlite3.Connection, path: Path, environment: Environment) -> None:
    """Create or migrate, one process at a time; whoever comes second finds it done."""
    patience = environment.monotonic() + PATIENCE
    while True:  # two processes that switch a new file to WAL at once: SQLite refuses one of them without waiting
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or environment.monotonic() > patience:
                raise
            environment.pause(environment.uniform(0.001, 0.01))
    begin(connection, environment)
    try:
        if _version(connection, path) < schema.VERSION:
            schema.migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
