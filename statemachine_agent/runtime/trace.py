"""A task's history as a trace: a line for each step and each tool call, between them what moved and what was decided.

Made from the stored rows alone. It must not know how a line is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def trace_of(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a task's history, each with its `index`, `kind` and `version`, in the order in which they happened.

    Kinds: `step` (one decision: action, arguments, tokens, latency, error class, attempt), `call` (one request: tool,
    arguments, observation size, latency, error class, attempt), `evidence`, `effect`, `approval`, `move`, `note`,
    `version` (one commit: status, configuration, steps, tokens).
    """
    return [{"index": index, **line} for index, line in enumerate(_lines(history))]


def _lines(history: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in history:
        make = _MAKERS.get(str(row["table"]))
        if make is not None:
            line = make(row)
            if line is not None:
                yield {"kind": _KINDS[str(row["table"])], "version": row["version"], **line}


def _decision(row: Mapping[str, Any]) -> dict[str, Any]:
    response = row["response"] or {}
    calls = response.get("calls", [])
    return {
        "step": row["step"],
        "state": row["state"],
        "action": ", ".join(str(c["name"]) for c in calls) or ("text" if response.get("text") else "nothing"),
        "arguments": calls[0]["arguments"] if len(calls) == 1 else [c["arguments"] for c in calls],
        "text": response.get("text") or None,
        "result": row["result"],
        "feedback": row["feedback"],
        "model": row["model"],
        "input_tokens": row["input_tokens"],
        "output_tokens": row["output_tokens"],
        "cost_usd": row["cost_usd"],
        "latency_ms": row["latency_ms"],
        "error_class": row["error_class"],
        "attempt": row["attempt"],
        "prompt_hash": row["prompt_hash"],
    }


def _call(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "step": row["step"],
        "action": row["tool"],
        "arguments": row["args"],
        "purpose": row["purpose"],
        "outcome": row["outcome"],
        "observation_bytes": row["observation_bytes"],
        "latency_ms": row["latency_ms"],
        "error_class": row["error_class"],
        "detail": row["detail"],
        "attempt": row["attempt"],
        "request_id": row["request_id"],
        "call_id": row["call_id"],
        "effect_key": row["effect_key"],
        "evidence": row["evidence"],
    }


def _evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: row[k] for k in ("name", "tool", "source", "at", "trust", "request_id", "payload")}


def _effect(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: row[k] for k in ("effect_key", "tool", "status", "attempt", "action_hash", "reason", "by")}


def _approval(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: row[k] for k in ("approval_id", "event", "by", "established", "why", "reason")}


def _move(row: Mapping[str, Any]) -> dict[str, Any] | None:
    if row["target"] is None:
        return None
    return {k: row[k] for k in ("event", "source", "target", "asked", "reason")}


def _note(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: row[k] for k in ("event", "by", "established", "why")}


def _version(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: row[k] for k in ("at", "cause", "status", "reason", "steps", "tokens", "configuration")}


_MAKERS = {
    "decision": _decision, "call": _call, "evidence": _evidence, "effect_event": _effect,
    "approval_event": _approval, "transition": _move, "note": _note, "checkpoint": _version,
}  # fmt: skip
_KINDS = {
    "decision": "step", "call": "call", "evidence": "evidence", "effect_event": "effect", "approval_event": "approval",
    "transition": "move", "note": "note", "checkpoint": "version",
}  # fmt: skip
