"""What SQLite complains of: which complaints only mean to wait, and what the others mean to a person.

It must not know tables or who is writing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StoreError

T = TypeVar("T")

#: how long one waits for other processes, in seconds
PATIENCE = 30.0

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})


def patiently(environment: Environment, work: Callable[[], T]) -> T:
    """Do `work`, again and again in short random pauses while others are in the way.

    SQLite's own waiting lets one process starve the others, and some locks it does not wait for at all.
    """
    patience = environment.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except sqlite3.OperationalError as problem:
            if _code(problem) not in _BUSY or environment.monotonic() > patience:
                raise
            environment.pause(environment.uniform(0.0005, 0.002))


def as_store_error(problem: BaseException) -> BaseException:
    """A database error in words that help; anything else unchanged."""
    if isinstance(problem, OverflowError):
        return StoreError("a number is too large to be stored", hint="nothing was written")
    if not isinstance(problem, sqlite3.Error):
        return problem
    match _code(problem):
        case sqlite3.SQLITE_FULL:
            return StoreError(
                "the disk is full: nothing was written", hint="free some space, then resume", reason="disk_full"
            )
        case sqlite3.SQLITE_IOERR:
            return StoreError(
                "the disk could not be read or written: nothing was written",
                hint="it may be full, over a limit, or failing; then resume",
                reason="disk_failed",
            )
        case sqlite3.SQLITE_READONLY:
            return StoreError("the store cannot be written to", hint="check the rights of the file and its folder")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(
                "the store cannot be opened",
                hint="check the rights of the file and its folder, and whether the disk is full",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return StoreError(
                f"other processes held the store for {PATIENCE:.0f} seconds", hint="try again", reason="store_busy"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError("the file is damaged or not a database", hint="restore it from a backup")
    text = str(problem)
    if "closed" in text:
        return StoreError("the store is closed", reason="closed")
    return StoreError(f"the database refused: {text}", hint="nothing was written")


def not_opened(path: Path, problem: sqlite3.Error) -> StoreError:
    """Why the file at `path` could not be opened as a store."""
    match _code(problem):
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_FULL:  # the log and its index are made when a file is opened
            return StoreError(
                f"{path} cannot be opened: the disk could not be read or written",
                hint="it may be full, over a limit, or failing; nothing was written",
                reason="disk_failed",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(f"{path} is damaged or not a database", hint="restore it from a backup")
    return StoreError(
        f"{path} cannot be opened: {problem}",
        hint="check the rights of the file and its folder, and whether the disk is full",
    )


def _code(problem: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for what Python's module raises by itself."""
    return (getattr(problem, "sqlite_errorcode", None) or 0) & 0xFF
