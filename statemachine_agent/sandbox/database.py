"""The SQLite file of one service; must not know what is kept in it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_SECONDS = 10.0


class Database:
    """One file, one connection; transactions run one after another, and one that has ended is on the disk."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block is committed at its end, or nothing of it when it raises."""
        with self._lock:
            # IMMEDIATE: what the block reads cannot be changed by another process before the block writes.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def prepare(self, schema: Iterable[str], seed: Callable[[sqlite3.Connection], None]) -> None:
        """Create the tables of an empty file and fill them with ``seed``; a file already prepared is left alone."""
        with self.transaction() as connection:
            (prepared,) = connection.execute("PRAGMA user_version").fetchone()
            if prepared:
                return
            for statement in schema:
                connection.execute(statement)
            seed(connection)
            connection.execute("PRAGMA user_version = 1")
