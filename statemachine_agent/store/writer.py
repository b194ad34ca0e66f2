"""The one writer of a process: a thread that owns the connection and commits whatever waits together.

Each piece of work is all or nothing by itself; everybody waits for the commit that made his own work durable. It must not
know tables.
"""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StoreError
from statemachine_agent.store.trouble import as_store_error, patiently

T = TypeVar("T")

_TOGETHER = 128


@dataclass
class _Work:
    do: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    result: Any = None
    problem: BaseException | None = None


class Writer:
    """Runs work on one connection, in one thread, in transactions."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        environment: Environment,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`connect` is called in the writer's own thread; `check` within each transaction, and may refuse its commit."""
        self._connect = connect
        self._check = check
        self._environment = environment
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = environment.lock()
        self._closed = False
        self._ready: Future[None] = Future()
        self._thread = environment.start_thread(self._run, "sma-writer")
        self._ready.result()

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Have `work` done in a transaction; the future is settled after the commit.

        Work whose future is cancelled before it began is not done; once begun, it is done to its end.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed", reason="closed")
            self._queue.put(_Work(work, future))
        return future

    def close(self) -> None:
        """Finish what waits, then let go."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            connection = self._connect()
        except BaseException as problem:  # noqa: BLE001  the opener is told
            self._ready.set_exception(as_store_error(problem))
            return
        self._ready.set_result(None)
        try:
            while (first := self._queue.get()) is not None:
                batch, last = self._gather(first)
                wanted = [work for work in batch if work.future.set_running_or_notify_cancel()]
                if wanted:
                    self._commit(connection, wanted)
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
            self._check()
            connection.execute("COMMIT")
        except BaseException as problem:  # noqa: BLE001  everybody who waits is told
            with suppress(sqlite3.Error):
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
    """Take the write lock, waiting for those of other processes."""
    patiently(environment, lambda: connection.execute("BEGIN IMMEDIATE"))


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
        work.problem = as_store_error(problem)
    if work.problem is not None:
        connection.execute("ROLLBACK TO work")
    connection.execute("RELEASE work")
