"""Phase 6: the call, not the proposal, is the action.

Reads are called, several at once. A write is looked at once more (its precondition, what is known of its key), then its
intent is committed, and only then is it sent, once, under its key. It must not decide what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from statemachine_agent.canonical import digest
from statemachine_agent.definition import references
from statemachine_agent.definition.manifest import Reconcile, ToolManifest
from statemachine_agent.definition.schema import with_floats
from statemachine_agent.errors import GuardError, LeaseLostError, RefusedError
from statemachine_agent.guards.evaluate import truth, value
from statemachine_agent.loop import calling, receipts
from statemachine_agent.loop.budget import calls_left
from statemachine_agent.loop.call import Call, Finding
from statemachine_agent.loop.context import LEASE, Event
from statemachine_agent.loop.draft import Draft, effect_of
from statemachine_agent.loop.phases import AuthorisedCall, LookedUp, Observation, Outcome, Planned, expect
from statemachine_agent.loop.rows import looked_up_rows
from statemachine_agent.policy.action import Action
from statemachine_agent.records import ApprovalStatus, Checkpoint, Effect, EffectStatus
from statemachine_agent.store.port import KeyTakenError
from statemachine_agent.text import one_line
from statemachine_agent.times import time_text
from statemachine_agent.tools.arguments import checked_arguments
from statemachine_agent.tools.outcome import Failed, Ok
from statemachine_agent.tools.results import BadResultError, accept


async def execute(authorised: AuthorisedCall) -> Outcome:
    """What became of the calls; nothing is sent where a finding stands in the way."""
    expect(authorised, AuthorisedCall, "execute")
    planned = authorised.checked.proposal.planned
    checkpoint, finding = authorised.checked.proposal.observation.checkpoint, authorised.finding
    if planned is not None and planned.purpose == "reconcile":
        return await _reconcile(authorised, authorised.calls[0], planned)
    tools = [(call.manifest, call.args) for call in authorised.calls if call.manifest is not None]
    if finding is not None or not tools:
        return Outcome(authorised, checkpoint, finding=finding)
    if all(manifest.is_read for manifest, _ in tools):
        return await _reads(authorised, tools)
    if planned is None:
        return Outcome(authorised, checkpoint)  # a write is proposed here, never run
    return await _write(authorised, authorised.calls[0])


async def _reads(authorised: AuthorisedCall, reads: Sequence[tuple[ToolManifest, Mapping[str, Any]]]) -> Outcome:
    observation = authorised.checked.proposal.observation
    for manifest, _ in reads:
        if calls_left(observation.context, observation.checkpoint.head, manifest.tool) == 0:
            finding = Finding("failed", "at_most", f"`{manifest.tool}` was called as often as a task may")
            return Outcome(authorised, observation.checkpoint, finding=finding)
    return Outcome(authorised, observation.checkpoint, await calling.read(observation, reads))


# ---------------------------------------------------------------- a write


async def _write(authorised: AuthorisedCall, call: Call) -> Outcome:
    observation = authorised.checked.proposal.observation
    checkpoint, manifest, action = observation.checkpoint, call.manifest, call.action
    assert manifest is not None and action is not None  # noqa: S101, PT018  a write has both
    receipt, finding, task_id = await _known(observation, action)
    if receipt is not None:
        return Outcome(authorised, checkpoint, receipt=receipt, receipt_of=task_id)
    finding = finding or _in_the_way(observation, action)
    looked_up = None
    if finding is None and manifest.precondition is not None:
        looked_up, finding = await _precondition(observation, manifest, action)
    if finding is not None:
        return Outcome(authorised, checkpoint, looked_up=looked_up, finding=finding)
    clock = observation.context.environment
    started = clock.monotonic()
    try:
        after = await _intent(authorised, action, looked_up)
    except KeyTakenError as problem:
        finding = Finding("blocked", problem.reason, problem.message)
        return Outcome(authorised, checkpoint, looked_up=looked_up, finding=finding)
    if clock.monotonic() - started > LEASE / 2:  # stopped in between; somebody else may have taken over
        raise LeaseLostError("the worker stood still between the intent and the call: nothing was sent")
    attempts = await calling.call(replace(observation, checkpoint=after), manifest, call.args, action.key)
    return Outcome(authorised, after, (attempts,))


def _in_the_way(observation: Observation, action: Action) -> Finding | None:
    """What of the task itself forbids sending: calls used up, or an earlier effect of the tool of which nobody knows."""
    checkpoint = observation.checkpoint
    if calls_left(observation.context, checkpoint.head, action.tool) == 0:
        return Finding("blocked", "at_most", f"`{action.tool}` was called as often as a task may")
    earlier = checkpoint.open_effect(action.tool)
    if earlier is not None and earlier.key != action.key:
        return Finding("blocked", "effect_open", f"the effect `{earlier.key}` is still {earlier.status}")
    return None


async def _known(observation: Observation, action: Action) -> tuple[Mapping[str, Any] | None, Finding | None, str]:
    """What the ledger says of this key: a receipt to answer with, or why nothing may be sent; and by which task."""
    store, task = observation.context.store, observation.checkpoint.task
    found = await store.effect_by_key(action.key)
    if found is None:
        return None, None, ""
    task_id, effect = found
    other = task if task_id == task.id else (await store.load(task_id)).task
    if other.actor["tenant"] != task.actor["tenant"]:  # not even that it exists is this tenant's business
        return None, Finding("blocked", "key_reused", f"the key `{action.key}` is taken"), task_id
    if digest(effect.args) != digest(action.args) or effect.tool != action.tool:
        text = f"the key `{action.key}` was used with other arguments by task {task_id}"
        return None, Finding("blocked", "key_reused", text), task_id
    if effect.status.is_open:
        text = f"the effect `{action.key}` of task {task_id} is still {effect.status}"
        return None, Finding("blocked", "effect_open", text), task_id
    if effect.receipt is None:
        return None, Finding("blocked", "effect_done", f"`{action.key}` was executed by task {task_id}"), task_id
    if task_id == task.id:
        return effect.receipt, None, task_id
    receipt, lost = await receipts.taken(observation.context, action.tool, effect.receipt, other)
    if lost:
        text = f"`{action.key}` was executed by task {task_id}, whose receipt does not hold {', '.join(lost)}"
        return None, Finding("blocked", "effect_done", one_line(text, 300)), task_id
    return receipt, None, task_id


async def _precondition(
    observation: Observation, manifest: ToolManifest, action: Action
) -> tuple[LookedUp | None, Finding | None]:
    """Read again just before; what cannot be read, or has no answer, does not hold."""
    precondition = manifest.precondition
    assert precondition is not None  # noqa: S101  chosen by the caller
    lookup = observation.context.machine.tools[precondition.tool]
    data = {"args": action.args, "effect": {"key": action.key, "tool": action.tool}}
    looked_up = await _look_up(observation, lookup, precondition.given, data)
    if isinstance(looked_up, Finding):
        return None, looked_up
    outcome = looked_up.attempts[-1].outcome
    if not isinstance(outcome, Ok):
        text = f"the precondition could not be read: {getattr(outcome, 'detail', '')}"
        return looked_up, Finding("blocked", "precondition_unreadable", text)
    try:
        roots = _roots(observation, manifest, data, lookup, outcome.payload)
        holds = truth(f"{manifest.tool}.precondition", precondition.holds, roots)
    except GuardError as problem:
        return looked_up, Finding("blocked", "precondition_unreadable", problem.message)
    if not holds:
        return looked_up, Finding(
            "blocked", precondition.reason, f"the precondition does not hold: {precondition.holds}"
        )
    return looked_up, None


async def _look_up(
    observation: Observation, lookup: ToolManifest, given: Mapping[str, Any], data: Mapping[str, Any]
) -> LookedUp | Finding:
    try:
        now = time_text(observation.context.environment.now())
        filled = references.fill(given, references.MANIFEST_ROOTS, {**data, "now": now})
    except references.UnresolvedError as problem:
        return Finding("blocked", "precondition_unreadable", str(problem))
    args, faults = checked_arguments(lookup, filled)
    if faults:
        text = f"`{lookup.tool}`: " + "; ".join(f.path if lookup.masked_args else str(f) for f in faults)
        return Finding("blocked", "precondition_unreadable", text)
    return LookedUp(lookup, args, await calling.call(observation, lookup, args))


def _roots(
    observation: Observation, manifest: ToolManifest, data: Mapping[str, Any], lookup: ToolManifest, result: Any
) -> dict[str, Any]:
    """What an expression of `manifest` may read about the result of `lookup`."""
    return {
        **data,
        "args": with_floats(manifest.args, data["args"]),
        "result": with_floats(lookup.returns, result),
        "now": observation.context.environment.now(),
    }


async def _intent(authorised: AuthorisedCall, action: Action, looked_up: LookedUp | None) -> Checkpoint:
    """Commit that this will be sent: effect, consumed approval and lease in one transaction, or nothing."""
    observation = authorised.checked.proposal.observation
    context = observation.context
    draft = Draft(context, observation.checkpoint, "intent")
    if looked_up is not None:
        looked_up_rows(draft, looked_up, "precondition", action.key)
    effect = draft.checkpoint.effect(action.key)
    known = effect or effect_of(action, draft.head.version + 1)
    draft.put_effect(
        replace(
            known,
            status=EffectStatus.INTENDED,
            action_hash=action.hash,
            args=action.args,
            attempt=known.attempt + 1,
            proposed_in=draft.head.version + 1,
            approval_id=authorised.approval_id,
            reason=None,
        )
    )
    for approval in draft.checkpoint.approvals:
        if approval.id == authorised.approval_id and approval.status is ApprovalStatus.APPROVED:
            draft.put_approval(replace(approval, status=ApprovalStatus.CONSUMED), "consumed")
    draft.count_call(action.tool)
    transaction, after = draft.finish()
    if context.lease is None:
        raise RefusedError("a write needs the lease of its task", reason="no_lease")
    await context.store.commit(transaction, context.lease)
    context.emit(Event("committed", after.task.id, {"transaction": transaction, "checkpoint": after}))
    return after


# ---------------------------------------------------------------- reconciliation


async def _reconcile(authorised: AuthorisedCall, call: Call, planned: Planned) -> Outcome:
    """Ask the service by key whether the effect happened; in doubt it is `failed`, and the effect stays open."""
    manifest = call.manifest
    assert manifest is not None  # noqa: S101  what a state looks for is a tool
    observation = authorised.checked.proposal.observation
    checkpoint = observation.checkpoint
    if planned.effect is not None and planned.effect.status.is_done:
        return Outcome(authorised, checkpoint, reconciled="found", receipt=planned.effect.receipt)
    if planned.effect is None or not planned.effect.status.is_open:  # a replay of it would be the first that is sent
        text = f"there is no effect of `{manifest.tool}` to look for"
        if planned.effect is not None:
            text = f"`{planned.effect.key}` is {planned.effect.status}: nothing was sent that could be looked for"
        finding = Finding("failed", "in_doubt", text)
        return Outcome(authorised, checkpoint, reconciled="failed", finding=finding)
    at_rest = await observation.context.toolbox.at_rest(manifest, planned.effect.key)
    if manifest.reconciler is None:
        if not at_rest:
            finding = Finding("failed", "in_doubt", _STILL_RUNNING)
            return Outcome(authorised, checkpoint, reconciled="failed", finding=finding)
        return await _replay(authorised, manifest, planned.effect)
    asked = await _ask_service(authorised, manifest, manifest.reconciler, planned.effect)
    if asked.reconciled == "absent" and not at_rest:  # it may still happen
        finding = Finding("failed", "in_doubt", _STILL_RUNNING)
        return replace(asked, reconciled="failed", finding=finding)
    return asked


_STILL_RUNNING = "the call itself still runs in this process"


async def _replay(authorised: AuthorisedCall, manifest: ToolManifest, effect: Effect) -> Outcome:
    """The same request, key and bytes once more: an answer means that it was found.

    It may be the first that arrives, so it needs all that a first one needs.
    """
    observation = authorised.checked.proposal.observation
    finding, looked_up = authorised.finding, None
    if finding is None and manifest.precondition is not None:
        action = Action(manifest.tool, manifest.version, effect.args, effect.key, "")
        looked_up, finding = await _precondition(observation, manifest, action)
    if finding is not None:
        text = f"it was not sent again: {finding.text}"
        finding = Finding("failed", finding.error_class, text)
        return Outcome(authorised, observation.checkpoint, looked_up=looked_up, reconciled="failed", finding=finding)
    attempts = await calling.call(observation, manifest, effect.args, effect.key)
    outcome = attempts[-1].outcome
    if isinstance(outcome, Ok):
        return Outcome(
            authorised, observation.checkpoint, (attempts,), looked_up, reconciled="found", found=outcome.payload
        )
    text = f"the replay was not answered: {getattr(outcome, 'detail', '')}"
    finding = Finding("failed", "in_doubt", text)
    return Outcome(authorised, observation.checkpoint, (attempts,), looked_up, reconciled="failed", finding=finding)


async def _ask_service(
    authorised: AuthorisedCall, manifest: ToolManifest, reconcile: Reconcile, effect: Effect
) -> Outcome:
    observation = authorised.checked.proposal.observation
    checkpoint = observation.checkpoint
    lookup = observation.context.machine.tools[reconcile.tool]
    data = {"args": effect.args, "effect": {"key": effect.key, "tool": effect.tool}}
    looked_up = await _look_up(observation, lookup, reconcile.given, data)
    if isinstance(looked_up, Finding):
        return Outcome(
            authorised, checkpoint, reconciled="failed", finding=Finding("failed", "in_doubt", looked_up.text)
        )
    outcome = looked_up.attempts[-1].outcome
    if not isinstance(outcome, Ok):
        error_class = outcome.error_class if isinstance(outcome, Failed) else "unavailable"
        finding = Finding("failed", error_class, f"`{lookup.tool}` gave no answer: {getattr(outcome, 'detail', '')}")
        return Outcome(authorised, checkpoint, looked_up=looked_up, reconciled="failed", finding=finding)
    roots = _roots(observation, manifest, data, lookup, outcome.payload)
    try:
        if truth(f"{manifest.tool}.reconcile.found", reconcile.found, roots):
            result = accept(manifest, value(f"{manifest.tool}.reconcile.result", reconcile.result, roots))
            return Outcome(authorised, checkpoint, looked_up=looked_up, reconciled="found", found=result.payload)
        if truth(f"{manifest.tool}.reconcile.absent", reconcile.absent, roots):
            return Outcome(authorised, checkpoint, looked_up=looked_up, reconciled="absent")
        finding = Finding("failed", "in_doubt", f"`{lookup.tool}` answered neither found nor absent")
    except (GuardError, BadResultError) as problem:
        finding = Finding("failed", "in_doubt", problem.message)
    return Outcome(authorised, checkpoint, looked_up=looked_up, reconciled="failed", finding=finding)
