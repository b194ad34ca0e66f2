"""Records ↔ columns: how each row, head and effect is written, and what its place in the hash chain is made of.

It must not know transactions or locks.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from hashlib import sha256
from typing import Any

from statemachine_agent.canonical import canonical
from statemachine_agent.errors import StoreError
from statemachine_agent.records import (
    Approval,
    ApprovalRow,
    ApprovalStatus,
    CallRow,
    DecisionRow,
    Effect,
    EffectRow,
    EffectStatus,
    EvidenceRow,
    Head,
    NoteRow,
    Row,
    Status,
    TransitionRow,
    Usage,
)
from statemachine_agent.store import payloads, shapes
from statemachine_agent.text import one_line
from statemachine_agent.times import time_of, time_text

#: what the root of a task's chain is made of
ROOT = ("id", "trace_id", "machine", "machine_version", "definition_hash", "actor", "input", "model", "started_at")


def json_text(value: object) -> str:
    """Canonical JSON as text."""
    return canonical(value).decode()


def chained(before: bytes, table: str, columns: Mapping[str, object]) -> bytes:
    """The chain of a row: over the chain before it, the table's name and the row's content."""
    content = {k: v.hex() if isinstance(v, bytes) else v for k, v in columns.items()}
    return sha256(before + canonical([table, content])).digest()


def rooted(task: Mapping[str, object]) -> bytes:
    """The chain before a task's first row: over what the task is, which never changes (see `ROOT`)."""
    return sha256(canonical([task[name] for name in ROOT])).digest()


@contextmanager
def readable(what: str) -> Iterator[None]:
    """StoreError naming `what` where a stored value is none that was ever written."""
    try:
        yield
    except (ValueError, KeyError, TypeError, ArithmeticError) as problem:
        raise StoreError(
            f"{what} cannot be read: {one_line(str(problem))}",
            hint="it was altered; restore a backup",
            reason="altered",
        ) from None


def columns_of(connection: sqlite3.Connection, row: Row) -> dict[str, Any]:
    """The columns of an appended row, without key, version and chain; its payloads are stored on the way."""
    match row:
        case TransitionRow():
            return {
                "event": row.event, "source": row.source, "target": row.target, "row_no": row.row_no,
                "asked": json.dumps(row.asked, separators=(",", ":")), "reason": row.reason,
            }  # fmt: skip
        case DecisionRow():
            response = None if row.response is None else payloads.put(connection, row.response)
            if row.prompt and payloads.put_parts(connection, row.prompt).hex() != row.prompt_hash:
                raise StoreError("a prompt was given with the hash of another one", reason="programming")
            return {
                "step": row.step, "attempt": row.attempt, "state": row.state, "model": row.model,
                "schema_version": row.schema_version, "prompt_hash": row.prompt_hash, "response_hash": response,
                "input_tokens": row.input_tokens, "output_tokens": row.output_tokens, "cost_usd": str(row.cost_usd),
                "latency_ms": row.latency_ms, "stop_reason": row.stop_reason, "result": row.result,
                "error_class": row.error_class, "retryable": int(row.retryable), "feedback": row.feedback,
            }  # fmt: skip
        case CallRow():
            return {
                "step": row.step, "call_id": row.call_id, "tool": row.tool, "purpose": row.purpose,
                "args_hash": payloads.put(connection, row.args), "request_id": row.request_id, "attempt": row.attempt,
                "outcome": row.outcome, "latency_ms": row.latency_ms, "observation_bytes": row.observation_bytes,
                "error_class": row.error_class, "retryable": int(row.retryable), "detail": row.detail,
                "effect_key": row.effect_key, "evidence": row.evidence,
            }  # fmt: skip
        case EvidenceRow():
            found = row.evidence
            return {
                "name": found.name, "tool": found.tool, "purpose": found.purpose, "call_id": found.call_id,
                "request_id": found.request_id, "attempt": found.attempt, "source": found.source,
                "at": time_text(found.at), "trust": found.trust, "payload_hash": payloads.put(connection, found.payload),
                "asked_hash": payloads.put(connection, found.asked),
            }  # fmt: skip
        case EffectRow():
            return {
                "effect_key": row.effect_key, "tool": row.tool, "status": str(row.status), "attempt": row.attempt,
                "action_hash": row.action_hash, "reason": row.reason, "by": row.by,
            }  # fmt: skip
        case ApprovalRow():
            return {
                "approval_id": row.approval_id, "event": row.event, "by": row.by, "established": row.established,
                "why": row.why, "reason": row.reason,
            }  # fmt: skip
        case NoteRow():
            return {"event": row.event, "by": row.by, "established": row.established, "why": row.why}


# ---------------------------------------------------------------- the head


def head_json(head: Head) -> dict[str, Any]:
    """The part of a head that lies in one JSON column."""
    usage = head.usage
    return {
        "usage": {
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": str(usage.cost_usd),
            "tool_calls": usage.tool_calls, "active_ms": usage.active_ms,
        },
        "visits": dict(head.visits), "calls": dict(head.calls), "progress": dict(head.progress),
        "observation": head.observation, "pending_exit": head.pending_exit, "evidence_count": head.evidence_count,
        "output": head.output, "old": dict(head.old),
    }  # fmt: skip


def head_document(head: Head) -> dict[str, Any]:
    """A head as it is kept for each version."""
    return {
        "version": head.version, "status": str(head.status), "reason": head.reason, "steps": head.steps,
        "configuration": list(head.configuration), "proposal": head.proposal, **head_json(head),
    }  # fmt: skip


def head_of(row: sqlite3.Row, proposal: Any) -> Head:
    """The head in a row of `task`."""
    with readable(f"the head of task {row['id']}"):
        body = shapes.parsed(row["head"], shapes.HEAD)
        configuration = shapes.parsed(row["configuration"], shapes.CONFIGURATION)
        return _head({**dict(row), **body, "configuration": configuration, "proposal": proposal})


def head_at(document: Any) -> Head:
    """The head in what was kept for a version (see `head_document`)."""
    return _head(shapes.shaped(document, shapes.HEAD_DOCUMENT))


def _head(known: Mapping[str, Any]) -> Head:
    usage, proposal = known["usage"], known["proposal"]
    return Head(
        version=known["version"],
        status=Status(known["status"]),
        reason=known["reason"],
        configuration=tuple(known["configuration"]),
        steps=known["steps"],
        usage=Usage(
            usage["input_tokens"], usage["output_tokens"], _money(usage["cost_usd"]), usage["tool_calls"],
            usage["active_ms"],
        ),
        visits=known["visits"], calls=known["calls"], progress=known["progress"], observation=known["observation"],
        pending_exit=known["pending_exit"], evidence_count=known["evidence_count"], output=known["output"],
        old=known["old"], proposal=None if proposal is None else shapes.shaped(proposal, shapes.PROPOSAL),
    )  # fmt: skip


# ---------------------------------------------------------------- effects and approvals


def effect_of(row: sqlite3.Row, values: Mapping[bytes, Any]) -> Effect:
    """The effect in a row of `effect`; `values` are its payloads by hash."""
    with readable(f"the effect {row['key']}"):
        return Effect(
            key=row["key"], tool=row["tool"], status=EffectStatus(row["status"]), action_hash=row["action_hash"],
            args=shapes.shaped(values[row["args_hash"]], shapes.OBJECT), proposed_in=row["proposed_in"], attempt=row["attempt"],
            receipt=values[row["receipt_hash"]] if row["receipt_hash"] else None,
            approval_id=row["approval_id"], reason=row["reason"], inherited=bool(row["inherited"]),
            at=time_of(row["at"]),
        )  # fmt: skip


def approval_of(row: sqlite3.Row, values: Mapping[bytes, Any]) -> Approval:
    """The request in a row of `approval`. A text that is no time stays as it is: its reader fails closed."""
    with readable(f"the approval {row['id']}"):
        return Approval(
            id=row["id"], state=row["state"], tool=row["tool"], action_hash=row["action_hash"],
            effect_key=row["effect_key"], policy_version=row["policy_version"],
            roles=tuple(shapes.parsed(row["roles"], shapes.ROLES)),
            expires_at=row["expires_at"], status=ApprovalStatus(row["status"]),
            answers=tuple(shapes.parsed(row["answers"], shapes.ANSWERS)),
            shown=shapes.shaped(values[row["shown_hash"]], shapes.SHOWN),
            requested_at=time_of(row["requested_at"]),
        )  # fmt: skip


def _money(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite() or found < 0:
        msg = f"`{text}` was never written"
        raise ValueError(msg)
    return found
