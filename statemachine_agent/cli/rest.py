"""Where a task came to rest, for people and for programs, and what can be done next. It must not know how it was run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from statemachine_agent.cli.again import Again
from statemachine_agent.cli.output import compact, say
from statemachine_agent.policy.approvals import has_expired
from statemachine_agent.records import Approval, ApprovalStatus, Checkpoint, Status
from statemachine_agent.store.port import Store
from statemachine_agent.text import one_line


def summary(checkpoint: Checkpoint, awaited: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A task in short, for programs; `waits_for` where the caller knows which signals its states wait for."""
    head = checkpoint.head
    found = {
        "task": checkpoint.task.id,
        "machine": checkpoint.task.machine,
        "status": head.status,
        "reason": head.reason,
        "version": head.version,
        "steps": head.steps,
        "tokens": head.usage.tokens,
        "configuration": head.configuration,
        "output": head.output,
        "approvals": [
            {
                "id": a.id,
                "tool": a.tool,
                "args": a.shown["args"],
                "action_hash": a.action_hash,
                "key": a.effect_key,
                "roles": a.roles,
                "expires_at": a.expires_at,
            }
            for a in checkpoint.approvals
            if str(a.status) == "open"
        ],
        "waits_until": {t.state: t.due_at for t in checkpoint.timers},
        "open_effects": [e.key for e in checkpoint.open_effects],
    }
    return found if awaited is None else {**found, "waits_for": dict(awaited)}


async def awaited_in(store: Store, checkpoint: Checkpoint) -> Mapping[str, str]:
    """The signals that the task waits for, by state, as its own definition in the store says."""
    if not any(timer.event.startswith("expired.") for timer in checkpoint.timers):
        return {}
    from statemachine_agent.chart.compile import compile_texts  # what only shows does not pay for a chart
    from statemachine_agent.runtime.outside import awaited

    return awaited(compile_texts(await store.definition(checkpoint.task.definition_hash)), checkpoint)


def trouble_of(history: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last call that failed and was not made good by a later one of the same tool: what to mend may be its service."""
    last = {row["tool"]: row for row in history if row["table"] == "call"}
    failed = [row for row in last.values() if row["detail"]]
    return max(failed, key=lambda row: row["row"]) if failed else None


def show_rest(
    checkpoint: Checkpoint,
    again: Again,
    now: datetime | None = None,
    history: Sequence[Mapping[str, Any]] = (),
    awaited: Mapping[str, str] | None = None,
) -> None:
    """Where a run came to rest, what stood in its way, and what a person can do next."""
    head, task = checkpoint.head, checkpoint.task
    reason = f" ({head.reason})" if head.reason else ""
    spent = f"version {head.version}, step {head.steps}, {head.usage.tokens:,} tokens"
    say(f"task     {task.id}: {head.status}{reason}, {spent}")
    if head.output:
        say(one_line(head.output, 1000), indent=9)
    failed = trouble_of(history)
    if failed and one_line(failed["detail"], 100) not in one_line(head.output or "", 4000):
        say(f"trouble  `{failed['tool']}` failed ({failed['error_class']}): {one_line(failed['detail'], 500)}")
    for approval in checkpoint.approvals:
        if approval.status is ApprovalStatus.OPEN:
            _show_request(checkpoint, approval, again, now)
    for timer in checkpoint.timers:
        kind, _, state = timer.event.partition(".")
        if kind == "elapsed":
            say(f"waits    until {timer.due_at.isoformat()}, then: {again('resume', task.id)}")
        elif state in (awaited or {}):
            signal = (awaited or {})[state]
            say(f"waits    in {state} for the signal {signal}, until {timer.due_at.isoformat()}:")
            told = ("talk", task.id) if signal == "reply" else ("signal", task.id, signal, "JSON")
            say(again.answered(*told), indent=11)
    if head.status is Status.NEEDS_INPUT:
        say("next     start a new task with the answer")
    for effect in checkpoint.open_effects:
        if not head.status.is_end:
            say(f"open     {effect.key} may have happened; the machine finds out itself:")
            say(again("resume", task.id), indent=11)
            continue
        say(f"open     {effect.key} may have happened; look at the service, then:")
        answer = (task.id, shlex.quote(effect.key), "--found JSON | --absent", "--why TEXT")
        say(again.answered("resolve", *answer), indent=11)


def _show_request(checkpoint: Checkpoint, approval: Approval, again: Again, now: datetime | None) -> None:
    if now is not None and has_expired(approval, now):
        say(f"expired  the request of {approval.tool} at {approval.expires_at}; it goes its way with:")
        say(again("resume", checkpoint.task.id), indent=11)
        return
    say("waits    for a yes to exactly this action:")
    say(f"{approval.tool} {compact(approval.shown['args'], 400)}", indent=11)
    for name, text in (
        ("key", approval.effect_key),
        ("hash", approval.action_hash),
        ("because", "; ".join(approval.shown["because"]) or "the machine asks"),
        ("of", f"{', '.join(approval.roles)}, until {approval.expires_at}"),
        ("approve", again.answered("approve", approval.id)),
        ("then", again("resume", checkpoint.task.id)),
    ):
        say(f"{name:<8} {text}", indent=11)
