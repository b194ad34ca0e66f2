"""The one writer of a process: a thread that owns the connection and commits whatever waits together.

Each piece of work is all or nothing by itself; everybody waits for the commit that made his own work durable. It must not
know tables.
"""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StoreError

T = TypeVar("T")

#: how long a writer waits for those of other processes, in seconds
PATIENCE = 30.0
_TOGETHER = 128


@dataclass
class _Work:
    do: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    result: Any = None
    problem: BaseException | None = None


class Writer:
    """Runs work on one connection, in one thread, in transactions."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], environment: Environment) -> None:
        """`connect` is called in the writer's own thread."""
        self._connect = connect
        self._environment = environment
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._ready: Future[None] = Future()
        self._thread = environment.start_thread(self._run, "sma-writer")
        self._ready.result()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Have `work` done in a transaction; the future is settled after the commit."""
        future: Future[T] = Future()
        self._queue.put(_Work(work, future))
        return future

    def close(self) -> None:
        """Finish what waits, then let go."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            connection = self._connect()
        except BaseException as problem:  # noqa: BLE001  the opener is told
            self._ready.set_exception(problem)
            return
        self._ready.set_result(None)
        try:
            while (first := self._queue.get()) is not None:
                batch, last = self._gather(first)
                self._commit(connection, batch)
                if last:
                    return
        finally:
            connection.close()

    def _gather(self, first: _Work) -> tuple[list[_Work], bool]:
        batch = [first]
        while len(batch) < _TOGETHER:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                break
            if more is None:
                return batch, True
            batch.append(more)
        return batch, False

    def _commit(self, connection: sqlite3.Connection, batch: list[_Work]) -> None:
        try:
            begin(connection, self._environment)
            for work in batch:
                _attempt(connection, work)
            connection.execute("COMMIT")
        except BaseException as problem:  # noqa: BLE001  everybody who waits is told
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for work in batch:
                work.future.set_exception(work.problem or as_store_error(problem))
            return
        for work in batch:
            if work.problem is not None:
                work.future.set_exception(work.problem)
            else:
                work.future.set_result(work.result)


def begin(connection: sqlite3.Connection, environment: Environment) -> None:
    """Take the write lock, waiting in short random pauses: SQLite's own waiting lets one process starve the others."""
    patience = environment.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or environment.monotonic() > patience:
                raise
            environment.pause(environment.uniform(0.0005, 0.002))
        else:
            return


def _attempt(connection: sqlite3.Connection, work: _Work) -> None:
    """Do one piece of work; one that fails leaves nothing, and the others of the batch go on."""
    connection.execute("SAVEPOINT work")
    try:
        work.result = work.do(connection)
    except sqlite3.Error as problem:
        if not connection.in_transaction:  # SQLite gave up the whole transaction: a full disk, an input or output error
            raise
        work.problem = as_store_error(problem)
    except BaseException as problem:  # noqa: BLE001
        work.problem = problem
    if work.problem is not None:
        connection.execute("ROLLBACK TO work")
    connection.execute("RELEASE work")


def as_store_error(problem: BaseException) -> BaseException:
    """A database error in words that help; anything else unchanged."""
    if not isinstance(problem, sqlite3.Error):
        return problem
    text = str(problem)
    if "full" in text:
        return StoreError(
            "the disk is full: nothing was written", hint="free some space, then resume", reason="disk_full"
        )
    if "readonly" in text or "read-only" in text:
        return StoreError("the store cannot be written to", hint="check the rights of the file and its folder")
    if "locked" in text:
        return StoreError(
            f"other processes held the store for {PATIENCE:.0f} seconds", hint="try again", reason="store_busy"
        )
    if "malformed" in text or "not a database" in text:
        return StoreError("the file is damaged or not a database", hint="restore it from a backup")
    return StoreError(f"the database refused: {text}", hint="nothing was written")
