"""A task as it stood at a past version: from the head that was kept for it, and the rows that had been written by then.

It must not write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.errors import UnknownVersionError
from statemachine_agent.records import Checkpoint, Effect, EffectStatus
from statemachine_agent.store import payloads
from statemachine_agent.store.codec import effect_of, head_at, readable
from statemachine_agent.store.reading import evidence_of, keys_of, task_of, task_row


def as_of(connection: sqlite3.Connection, task_id: str, version: int) -> Checkpoint:
    """The task after `version`, without requests for approval and timers."""
    row = task_row(connection, task_id)
    if not 0 <= version <= row["version"]:
        raise UnknownVersionError(
            f"task {row['id']} has no version {version}",
            hint=f"it has 0 to {row['version']}; `sma trace` lists them",
        )
    with readable(f"version {version} of task {row['id']}"):
        span = (*keys_of(row["no"]), version)
        document = _kept(connection, row, span)
        evidence = connection.execute(
            "SELECT * FROM evidence WHERE key BETWEEN ? AND ? AND version <= ? ORDER BY key", span
        ).fetchall()
        hashes = [row["input_hash"], *(e[column] for e in evidence for column in ("payload_hash", "asked_hash"))]
        values = payloads.get_many(connection, hashes)
        head = head_at(document)
        return Checkpoint(
            task=task_of(row, values),
            head=head,
            evidence=tuple(evidence_of(e, values, head) for e in evidence),
            effects=tuple(_effects(connection, row["no"], span)),
        )


def _kept(connection: sqlite3.Connection, row: sqlite3.Row, span: tuple[int, int, int]) -> Any:
    """The head of that version."""
    found = connection.execute(
        "SELECT payload.hash FROM checkpoint JOIN payload ON payload.hash = checkpoint.head"
        " WHERE key BETWEEN ? AND ? AND version = ?",
        span,
    ).fetchone()
    if found is None:
        raise UnknownVersionError(
            f"how task {row['id']} stood at version {span[2]} was not kept",
            hint="an earlier build wrote it; take another version",
        )
    return payloads.get(connection, found["hash"])


def _effects(connection: sqlite3.Connection, task_no: int, span: tuple[int, int, int]) -> Iterator[Effect]:
    """The effects that there were, in the order in which they were proposed, each as it stood then."""
    newest: dict[str, sqlite3.Row] = {}
    proposed: dict[str, int] = {}
    for event in connection.execute(
        "SELECT * FROM effect_event WHERE key BETWEEN ? AND ? AND version <= ? ORDER BY key", span
    ):
        key = event["effect_key"]
        newest[key] = event
        if key not in proposed or event["status"] in (EffectStatus.PROPOSED, EffectStatus.INTENDED):
            proposed[key] = event["version"]
    rows = connection.execute("SELECT * FROM effect WHERE task_no = ? ORDER BY id", (task_no,)).fetchall()
    hashes = [h for row in rows for h in (row["args_hash"], row["receipt_hash"]) if h is not None]
    values = payloads.get_many(connection, hashes)
    for row in sorted((r for r in rows if r["key"] in newest), key=lambda r: proposed[r["key"]]):
        yield _then(effect_of(row, values), dict(newest[row["key"]]), proposed[row["key"]])


def _then(now: Effect, event: Mapping[str, Any], proposed_in: int) -> Effect:
    """An effect after `event`. What happened keeps its arguments and receipt; what was replaced since has lost them."""
    status = EffectStatus(event["status"])
    is_same = now.action_hash == event["action_hash"]
    return replace(
        now,
        status=status,
        proposed_in=proposed_in,
        attempt=event["attempt"],
        reason=event["reason"],
        action_hash=event["action_hash"],
        args=now.args if is_same else {},
        receipt=now.receipt if is_same and status.is_done else None,
    )
