"""The store on one SQLite file: one writer thread a process, readers beside it, write-ahead log, full durability.

It must not know SQL beyond what holds transactions together; the tables are in `schema`, the writing in `commits`, the
reading in `reading`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from statemachine_agent.environment import Environment, ProcessIdentity
from statemachine_agent.errors import StoreError
from statemachine_agent.records import Approval, Checkpoint, Effect, Lease, NewTask, Row, Transaction
from statemachine_agent.store import commits, leases, opening, past, reading
from statemachine_agent.store.codec import json_text
from statemachine_agent.store.place import Place
from statemachine_agent.store.trouble import as_store_error
from statemachine_agent.store.writer import Writer

T = TypeVar("T")


class SqliteStore:
    """A store in one file. Closing it lets the writer finish; it is also a context manager."""

    def __init__(self, path: str | Path, environment: Environment | None = None, *, create: bool = True) -> None:
        """Open the file at `path`, creating it unless `create` is False; StoreError where that cannot be."""
        self.path = Path(path)
        self._environment = environment or Environment()
        opening.prepare(self.path, self._environment, create=create)
        self._writer: Writer | None = None
        self._closed = False
        self._lock = self._environment.lock()
        self._place = Place(self.path)
        self._reader = opening.reader(self._place.real)

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    async def close(self) -> None:
        """Let the writer finish, and let go of the file."""
        self._close()

    def _close(self) -> None:
        self._closed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._reader.close()

    # ------------------------------------------------------------ writing

    async def create(self, new: NewTask) -> Checkpoint:
        """Store a new task at version 0."""
        await self._write(lambda connection: commits.create(connection, new))
        return await self.load(new.id)

    async def claim(self, task_id: str, owner: ProcessIdentity, seconds: float) -> Lease:
        """Take the lease of a task; one that nobody waits for any more is given back."""

        def work(connection: sqlite3.Connection) -> Lease:
            row = reading.task_row(connection, task_id)
            return leases.claim(connection, self._environment, (row["no"], row["id"]), owner, seconds)

        future = self._submit(work)
        try:
            return await self._environment.settled(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._give_back)
            raise

    def _give_back(self, claimed: Future[Lease]) -> None:
        if not claimed.cancelled() and claimed.exception() is None:
            lease = claimed.result()
            with suppress(StoreError):  # closed meanwhile: the lease runs out
                self._submit(lambda connection: leases.release(connection, lease))

    async def heartbeat(self, lease: Lease, seconds: float) -> None:
        """Hold the lease for `seconds` from now."""
        await self._write(lambda connection: leases.heartbeat(connection, self._environment, lease, seconds))

    async def release(self, lease: Lease) -> None:
        """Give the lease back."""
        await self._write(lambda connection: leases.release(connection, lease))

    async def commit(self, transaction: Transaction, lease: Lease) -> None:
        """Write one transaction."""
        await self._write(lambda connection: commits.commit(connection, self._environment, transaction, lease))

    async def note(self, task_no: int, rows: Sequence[Row]) -> None:
        """Append rows without a new version."""
        await self._write(lambda connection: commits.note(connection, task_no, rows))

    async def request_cancel(self, task_no: int, who: Mapping[str, Any]) -> None:
        """Ask whoever works on the task to cancel it."""
        await self._write(lambda connection: commits.request_cancel(connection, task_no, json_text(who)))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._environment.settled(self._submit(work))

    def _submit(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        if self._closed:
            raise StoreError("the store is closed", reason="closed")
        if self._writer is None:
            self._writer = Writer(lambda: opening.connect(self._place.real), self._environment, self._place.check)
        return self._writer.submit(work)

    # ------------------------------------------------------------ reading

    async def load(self, task_id: str) -> Checkpoint:
        """A task as it stands."""
        return self._read(lambda connection: reading.load(connection, task_id))

    async def as_of(self, task_id: str, version: int) -> Checkpoint:
        """A task as it stood at a past version."""
        return self._read(lambda connection: past.as_of(connection, task_id, version))

    async def definition(self, definition_hash: str) -> Mapping[str, Any]:
        """The texts that a task pinned."""
        return self._read(lambda connection: reading.definition(connection, definition_hash))

    async def effect_by_key(self, key: str) -> tuple[str, Effect] | None:
        """The effect that may have happened under `key`."""
        return self._read(lambda connection: reading.effect_by_key(connection, key))

    async def approval(self, approval_id: str) -> tuple[str, Approval] | None:
        """A request by its id."""
        return self._read(lambda connection: reading.approval(connection, approval_id))

    async def cancel_requested(self, task_no: int) -> bool:
        """True where somebody asked for the task to be cancelled."""
        return self._read(lambda connection: reading.cancel_requested(connection, task_no))

    async def tasks(self, *, status: str | None = None, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """The newest tasks."""
        return self._read(lambda connection: reading.tasks(connection, status, limit))

    async def approvals(self, *, status: str | None = "open") -> Sequence[Mapping[str, Any]]:
        """Requests for approval."""
        return self._read(lambda connection: reading.approvals(connection, status))

    async def effects(self, *, only_open: bool = False, task_id: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Effects of all tasks, or of one."""
        return self._read(lambda connection: reading.effects(connection, task_id, only_open=only_open))

    async def history(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        """All rows of a task, in order."""
        return self._read(lambda connection: reading.history(connection, task_id))

    async def prompt(self, prompt_hash: str) -> Sequence[Sequence[str | None]] | None:
        """What a model was shown, in parts; None where it was not kept."""
        return self._read(lambda connection: reading.prompt(connection, prompt_hash))

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Whatever is read together is read in one snapshot, of the file that others write to."""
        self._place.found()
        with self._lock:
            try:
                self._reader.execute("BEGIN")
                return work(self._reader)
            except sqlite3.Error as problem:
                raise as_store_error(problem) from None
            finally:
                with suppress(sqlite3.Error):
                    self._reader.execute("ROLLBACK")  # nothing was written: it only ends the snapshot
