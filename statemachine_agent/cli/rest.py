"""Where a task came to rest, for people and for programs, and what can be done next. It must not know how it was run."""

from __future__ import annotations

from typing import Any

from statemachine_agent.cli.output import compact, say
from statemachine_agent.records import Checkpoint
from statemachine_agent.text import one_line


def summary(checkpoint: Checkpoint) -> dict[str, Any]:
    """A task in short, for programs."""
    head = checkpoint.head
    return {
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
        "open_effects": [e.key for e in checkpoint.open_effects],
    }


def show_rest(checkpoint: Checkpoint, prefix: str = "sma") -> None:
    """Where a run came to rest, and what a person can do next."""
    head, task = checkpoint.head, checkpoint.task
    reason = f" ({head.reason})" if head.reason else ""
    say(
        f"task     {task.id}: {head.status}{reason}, version {head.version}, step {head.steps}, {head.usage.tokens:,} tokens"
    )
    if head.output:
        say(f"         {one_line(head.output, 400)}")
    for approval in checkpoint.approvals:
        if str(approval.status) == "open":
            say("waits    for a yes to exactly this action:")
            say(f"{approval.tool} {compact(approval.shown['args'], 200)}", indent=11)
            say(f"key      {approval.effect_key}", indent=11)
            say(f"hash     {approval.action_hash}", indent=11)
            say(f"because  {'; '.join(approval.shown['because']) or 'the machine asks'}", indent=11)
            say(f"of       {', '.join(approval.roles)}, until {approval.expires_at}", indent=11)
            say(f"approve  {prefix} approve {approval.id} --as WHO", indent=11)
            say(f"then     {prefix} resume {task.id}", indent=11)
    for timer in checkpoint.timers:
        if timer.event.startswith("elapsed."):
            say(f"waits    until {timer.due_at.isoformat()}, then: {prefix} resume {task.id}")
    for effect in checkpoint.open_effects:
        say(f"open     {effect.key} may have happened: `{prefix} effects --open`, `{prefix} resolve {task.id} KEY …`")
