"""What the guards of a task may see: its recorded state as plain data, and the policy's two guards.

Functions of a checkpoint; they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from statemachine_agent.definition.names import RULING_GUARDS, SETTLED
from statemachine_agent.definition.schema import with_floats
from statemachine_agent.guards.contexts import ASKING
from statemachine_agent.guards.evaluate import Answers
from statemachine_agent.loop.context import Context
from statemachine_agent.policy.ruling import Allow, RequireApproval, Ruling, rule
from statemachine_agent.records import Checkpoint, Evidence
from statemachine_agent.times import time_text


def current(context: Context, checkpoint: Checkpoint) -> Iterator[Evidence]:
    """The results that count, oldest first: no effect made them old, and they are as fresh as their manifests ask for."""
    now = context.environment.now()
    for found in checkpoint.known:
        manifest = context.machine.tools.get(found.tool)
        lasts = manifest.fresh_for if manifest is not None else None
        if lasts is None or found.at + lasts >= now:
            yield found


def data_of(
    context: Context, checkpoint: Checkpoint, call: Mapping[str, Any] | None = None, *, again: bool = False
) -> dict[str, Any]:
    """The roots of a guard; with `call`, those of a row of that call, else with the pending proposal.

    `again`: what was accepted is judged again, on the evidence as it was accepted on, however old it has become.
    """
    task, head = checkpoint.task, checkpoint.head
    evidence: dict[str, Any] = {}
    asked: dict[str, Any] = {}
    results: dict[str, list[Any]] = {}
    for found in checkpoint.known if again else current(context, checkpoint):
        entry = _entry(context, checkpoint, found)
        evidence[found.tool] = entry["result"]
        asked[found.tool] = entry["asked"]
        results.setdefault(found.tool, []).append(entry)
    roots: dict[str, Any] = {
        "input": with_floats(context.machine.definition.input, task.input),
        "actor": {k: v for k, v in task.actor.items() if k != "established"},
        "evidence": evidence,
        "asked": asked,
        "results": results,
        "effects": [{"tool": e.tool, "key": e.key, "status": str(e.status)} for e in checkpoint.effects],
        "approval": _approval(checkpoint),
        "usage": {
            "steps": head.steps,
            "tokens": head.usage.tokens,
            "tool_calls": head.usage.tool_calls,
            "active_seconds": head.usage.active_ms / 1000,
            "cost_usd": float(head.usage.cost_usd),
        },
        "visits": {name: head.visits.get(name, 0) for name in context.machine.definition.all_states},
        "now": context.environment.now(),
    }
    if call is not None:
        roots["call"] = {**call, "args": _typed(context, checkpoint, call["tool"], {}, call["args"])[1]}
    if head.proposal is not None and (call is None or call["tool"] in ASKING):
        tool = head.proposal["tool"]
        roots["proposal"] = {"tool": tool, "args": _typed(context, checkpoint, tool, {}, head.proposal["args"])[1]}
    return roots


def _entry(context: Context, checkpoint: Checkpoint, found: Evidence) -> Mapping[str, Any]:
    """A result as guards see it. It is made once in a run: each step asks for all of them several times."""
    known = context.entries.get(found.name)
    if known is not None and known[0] is found.payload:
        return known[1]
    payload, arguments = _typed(context, checkpoint, found.tool, found.payload, found.asked)
    entry = {"asked": arguments, "result": payload, "at": time_text(found.at)}
    context.entries[found.name] = (found.payload, entry)
    return entry


def _typed(context: Context, checkpoint: Checkpoint, tool: str, payload: Any, arguments: Any) -> tuple[Any, Any]:
    """A tool's result and arguments with floats where its manifest says `number`."""
    if tool == "finish":
        output = context.machine.output(checkpoint.head.configuration)
        return payload, {"answer": with_floats(output, arguments["answer"])} if output else arguments
    if tool in context.machine.definition.outside:
        return with_floats(context.machine.definition.outside[tool], payload), arguments
    if tool not in context.machine.with_numbers:
        return payload, arguments
    manifest = context.machine.tools[tool]
    return with_floats(manifest.returns, payload), with_floats(manifest.args, arguments)


def _approval(checkpoint: Checkpoint) -> dict[str, Any]:
    if not checkpoint.approvals:
        return {}
    newest = checkpoint.approvals[-1]
    return {"id": newest.id, "tool": newest.tool, "status": str(newest.status), "expires_at": newest.expires_at}


def reference_data(context: Context, checkpoint: Checkpoint) -> dict[str, Any]:
    """What a `with` may refer to: the same, with `effects` by tool."""
    roots = data_of(context, checkpoint)
    roots["effects"] = {e.tool: {"key": e.key, "tool": e.tool, "status": str(e.status)} for e in checkpoint.effects}
    roots["now"] = time_text(roots["now"])
    return roots


def answers(
    context: Context, checkpoint: Checkpoint, call: Mapping[str, Any] | None = None, *, again: bool = False
) -> Answers:
    """The answers of one event, over data frozen now; `again` as in `data_of`."""
    required, not_required = RULING_GUARDS
    rulings = {
        required: lambda: isinstance(ruling_on_proposal(context, checkpoint), RequireApproval),
        not_required: lambda: isinstance(ruling_on_proposal(context, checkpoint), Allow),
        SETTLED: lambda: not checkpoint.open_effects,
    }
    return Answers(context.machine.definition, data_of(context, checkpoint, call, again=again), rulings)


def ruling_on_proposal(context: Context, checkpoint: Checkpoint) -> Ruling | None:
    """The policy's ruling on the pending proposal; None where there is none."""
    proposal = checkpoint.head.proposal
    if proposal is None:
        return None
    manifest = context.machine.tools[proposal["tool"]]
    return rule(manifest, live_actor(context, checkpoint), proposal["args"], raised=bool(proposal["raised"]))


def live_actor(context: Context, checkpoint: Checkpoint) -> dict[str, Any]:
    """The actor with those scopes that it had when the task started and still has."""
    actor = dict(checkpoint.task.actor)
    person = context.people.people.get(actor["id"])
    still = set(person.scopes) if person else set()
    actor["scopes"] = [s for s in actor["scopes"] if s in still]
    return actor
