"""What a store promises, whichever database is behind it.

Every write of a task compares the version that was read and the token of the lease; what does not compare is refused and
leaves nothing. It must not know SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from statemachine_agent.environment import ProcessIdentity
from statemachine_agent.errors import ConflictError
from statemachine_agent.records import (
    Approval,
    Checkpoint,
    Effect,
    Lease,
    NewTask,
    Row,
    Transaction,
)


class KeyTakenError(ConflictError):
    """The key of this effect belongs to an effect of another task that may have happened."""

    reason = "key_taken"


class Store(Protocol):
    """Truth about tasks."""

    async def create(self, new: NewTask) -> Checkpoint:
        """Store a new task at version 0."""

    async def load(self, task_id: str) -> Checkpoint:
        """A task as it stands; UnknownTaskError where there is none."""

    async def as_of(self, task_id: str, version: int) -> Checkpoint:
        """A task as it stood at a past version; UnknownVersionError where there is none, or it was not kept.

        Requests for approval and timers are not among it. Of an effect whose action was replaced since, only its status is.
        """

    async def definition(self, definition_hash: str) -> Mapping[str, Any]:
        """The texts that a task pinned."""

    async def claim(self, task_id: str, owner: ProcessIdentity, seconds: float) -> Lease:
        """Take the lease for that long; TaskHeldError while somebody else holds it.

        An owner on the same host that is gone is replaced at once; that raises `reclaims`.
        """

    async def heartbeat(self, lease: Lease, seconds: float) -> None:
        """Hold the lease for that long from now; LeaseLostError where it was lost."""

    async def release(self, lease: Lease) -> None:
        """Give the lease back; nothing happens where it was lost."""

    async def commit(self, transaction: Transaction, lease: Lease) -> None:
        """Write one transaction.

        StaleVersionError where the task moved on, LeaseLostError where the lease was lost, KeyTakenError where an
        effect's key belongs to another task.
        """

    async def note(self, task_no: int, rows: Sequence[Row]) -> None:
        """Append rows to a task's history without a new version."""

    async def request_cancel(self, task_no: int, who: Mapping[str, Any]) -> None:
        """Ask whoever works on the task to cancel it at the next chance."""

    async def effect_by_key(self, key: str) -> tuple[str, Effect] | None:
        """The task and effect, of whichever task, that may have happened under `key`."""

    async def approval(self, approval_id: str) -> tuple[str, Approval] | None:
        """The task and request of that id."""

    async def cancel_requested(self, task_no: int) -> bool:
        """True where somebody asked for the task to be cancelled."""

    async def tasks(self, *, status: str | None = None, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """The newest tasks, one mapping each."""

    async def approvals(self, *, status: str | None = "open") -> Sequence[Mapping[str, Any]]:
        """Requests for approval, oldest first."""

    async def effects(self, *, only_open: bool = False, task_id: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Effects of all tasks, oldest first."""

    async def history(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        """All rows of a task in the order in which they were written, each with its `table`."""

    async def prompt(self, prompt_hash: str) -> Sequence[Sequence[str | None]] | None:
        """What a model was shown, in parts, with None for the tag of its fence; None where it was not kept."""

    async def close(self) -> None:
        """Let go of the database."""
