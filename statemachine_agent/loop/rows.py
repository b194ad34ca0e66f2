"""Calls and results as rows and evidence of a draft. It must not decide what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statemachine_agent.canonical import canonical, digest
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.ids import new_id
from statemachine_agent.loop.draft import Draft
from statemachine_agent.loop.phases import LookedUp
from statemachine_agent.records import CallRow, Evidence
from statemachine_agent.tools.outcome import Attempt, Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.results import trust_of


def call_rows(
    draft: Draft,
    manifest: ToolManifest,
    args: Mapping[str, Any],
    attempts: Sequence[Attempt],
    *,
    purpose: str,
    call_id: str = "",
    effect_key: str | None = None,
) -> Evidence | None:
    """A row for each attempt; what the last one brought becomes evidence."""
    args = manifest.recorded(args)
    call_id = call_id or f"call-{new_id(draft.context.environment)}"
    evidence: Evidence | None = None
    for attempt in attempts:
        if isinstance(attempt.outcome, Ok):
            evidence = draft.add_evidence(
                tool=manifest.tool,
                purpose=purpose,
                call_id=call_id,
                request_id=attempt.request_id,
                attempt=attempt.number,
                source=manifest.source,
                at=draft.context.environment.now(),
                trust=trust_of(manifest),
                payload=attempt.outcome.payload,
                payload_hash=digest(attempt.outcome.payload),
                asked=args,
            )
        draft.rows.append(_call_row(draft, manifest, args, attempt, purpose, call_id, effect_key, evidence))
    return evidence


def _call_row(
    draft: Draft,
    manifest: ToolManifest,
    args: Mapping[str, Any],
    attempt: Attempt,
    purpose: str,
    call_id: str,
    effect_key: str | None,
    evidence: Evidence | None,
) -> CallRow:
    outcome = attempt.outcome
    name, error_class, detail, retryable = "ok", None, None, False
    match outcome:
        case Failed():
            name, error_class, detail, retryable = "failed", outcome.error_class, outcome.detail, outcome.retryable
        case Blocked():
            name, error_class, detail = "blocked", outcome.reason, outcome.detail
        case Unknown():
            name, error_class, detail = "unknown", outcome.error_class, outcome.detail
        case Ok():
            pass
    return CallRow(
        step=draft.head.steps,
        call_id=call_id,
        tool=manifest.tool,
        purpose=purpose,
        args=args,
        request_id=attempt.request_id,
        attempt=attempt.number,
        outcome=name,
        latency_ms=attempt.latency_ms,
        observation_bytes=len(canonical(outcome.payload)) if isinstance(outcome, Ok) else 0,
        error_class=error_class,
        retryable=retryable,
        detail=detail[:500] if detail else None,
        effect_key=effect_key,
        evidence=evidence.name if evidence and isinstance(outcome, Ok) else None,
    )


def looked_up_rows(draft: Draft, looked_up: LookedUp, purpose: str, effect_key: str | None) -> Evidence | None:
    """The rows of a read on behalf of a write."""
    return call_rows(
        draft, looked_up.manifest, looked_up.args, looked_up.attempts, purpose=purpose, effect_key=effect_key
    )
