"""People's answers to requests for approval, and what they settle when the services could not.

Every refusal is written to the task's history with who tried. It must not know how somebody came to be who they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.definition.people import People, Person
from statemachine_agent.errors import RefusedError
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.draft import Draft, action_of_proposal
from statemachine_agent.policy import approvals
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import (
    Approval,
    ApprovalRow,
    ApprovalStatus,
    Checkpoint,
    EffectStatus,
    NoteRow,
)
from statemachine_agent.runtime.drive import commit
from statemachine_agent.text import one_line
from statemachine_agent.tools.results import BadResultError, accept

SETTLE_SCOPE = "effects:resolve"
CANCEL_SCOPE = "tasks:cancel"


async def answer(
    context: Context, checkpoint: Checkpoint, approval: Approval, who: Identity, *, yes: bool, why: str | None = None
) -> Checkpoint:
    """Record one answer, and move on where it was the last that was needed."""
    try:
        current = _current(context, checkpoint, approval)
        starter = str(checkpoint.task.actor["id"])
        now = context.environment.now()
        decide = approvals.approve if yes else approvals.reject
        answered = decide(current, who, people_of(context, checkpoint), starter, now)
    except RefusedError as problem:
        row = ApprovalRow(approval.id, "refused", who.id[:200], who.established, why, problem.reason)
        await context.store.note(checkpoint.task.no, [row])
        raise
    draft = Draft(context, checkpoint, "approval")
    event = "approved" if yes else "rejected"
    draft.put_approval(answered, event, by=who.id, established=who.established, why=why)
    if answered.status is ApprovalStatus.APPROVED:
        _answered(draft, answered.effect_key, EffectStatus.APPROVED, who, None)
        draft.fire_outcome(f"approved.{answered.tool}")
    elif answered.status is ApprovalStatus.REJECTED:
        _answered(draft, answered.effect_key, EffectStatus.REJECTED, who, "rejected")
        draft.fire_outcome(f"rejected.{answered.tool}", reason="rejected")
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


def _answered(draft: Draft, key: str, status: EffectStatus, who: Identity, reason: str | None) -> None:
    """What waits to be sent is approved or refused; of what was sent before under the same key nothing is said anew."""
    effect = draft.checkpoint.effect(key)
    if effect is not None and effect.status.is_pending:
        draft.move_effect(key, status, reason, by=who.id)


def _current(context: Context, checkpoint: Checkpoint, approval: Approval) -> Approval:
    """The request as it stands; RefusedError where the task no longer waits for it, or the action is another."""
    current = next((a for a in checkpoint.approvals if a.id == approval.id), approval)
    approvals.check_answerable(current, context.environment.now())
    proposal = checkpoint.head.proposal
    if current.state not in checkpoint.head.configuration or proposal is None:
        raise RefusedError("the task no longer waits for this answer: too late", reason="too_late")
    if action_of_proposal(proposal).hash != current.action_hash:
        raise RefusedError(
            f"the stored action ({action_of_proposal(proposal).hash[:12]}) is not the one that approval was asked for"
            f" ({current.action_hash[:12]})",
            hint="it was changed after it was proposed; cancel the task",
            reason="action_changed",
        )
    return current


async def settle(
    context: Context,
    checkpoint: Checkpoint,
    key: str,
    who: Identity,
    *,
    found: Mapping[str, Any] | None,
    why: str,
) -> Checkpoint:
    """A person says what became of an open effect: `found` with its result, or (None) that it never happened."""
    try:
        _check_may_settle(context, checkpoint, who)
        effect = checkpoint.effect(key)
        if effect is None:
            raise RefusedError(f"the task has no effect `{one_line(key, 80)}`", reason="unknown_effect")  # noqa: TRY301
        if not effect.status.is_open:
            raise RefusedError(  # noqa: TRY301
                f"the effect is {effect.status}; only an open one is settled", reason="not_open"
            )
        if not checkpoint.head.status.is_end:
            raise RefusedError(  # noqa: TRY301
                "the task has not ended", hint="resume it: the machine asks the service itself", reason="not_ended"
            )
        receipt = accept(context.machine.tools[effect.tool], found).payload if found is not None else None
    except BadResultError as problem:
        raise RefusedError(f"this is no result of the tool: {problem.message}", reason="bad_result") from None
    except RefusedError as problem:
        await context.store.note(
            checkpoint.task.no, [NoteRow(f"resolve_refused:{problem.reason}", who.id[:200], who.established, why)]
        )
        raise
    draft = Draft(context, checkpoint, "resolution")
    status = EffectStatus.EXECUTED if found is not None else EffectStatus.ABANDONED
    draft.put_effect(replace(effect, status=status, receipt=receipt, reason="settled"), by=who.id)
    draft.rows.append(NoteRow("settled_found" if found is not None else "settled_absent", who.id, who.established, why))
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


def _check_may_settle(context: Context, checkpoint: Checkpoint, who: Identity) -> None:
    person = person_of(context, checkpoint, who)
    if who.id == checkpoint.task.actor["id"]:
        raise approvals.NotEntitledError(
            "nobody settles what they started", hint="ask somebody else", reason="own_task"
        )
    if SETTLE_SCOPE not in person.scopes:
        raise approvals.NotEntitledError(
            f"`{one_line(who.id, 60)}` lacks the scope {SETTLE_SCOPE}",
            hint="ask somebody who has it",
            reason="wrong_role",
        )


def people_of(context: Context, checkpoint: Checkpoint) -> People:
    """Who there is for this task: the people of its tenant, as of now."""
    return context.people.of(str(checkpoint.task.actor["tenant"]))


def person_of(context: Context, checkpoint: Checkpoint, who: Identity) -> Person:
    """What the people file says of somebody; NotEntitledError where it knows nobody of that name for this task."""
    person = people_of(context, checkpoint).people.get(who.id)
    if person is None:
        raise approvals.NotEntitledError(
            f"nobody is called `{one_line(who.id, 60)}`",
            hint="people are listed in the people file, each with a tenant",
            reason="unknown_person",
        )
    return person


def check_may_cancel(context: Context, checkpoint: Checkpoint, who: Identity) -> None:
    """RefusedError unless it is the task's own actor, or somebody with the scope for it."""
    person = person_of(context, checkpoint, who)
    if who.id == checkpoint.task.actor["id"] or CANCEL_SCOPE in person.scopes:
        return
    raise approvals.NotEntitledError(
        f"`{one_line(who.id, 60)}` may not cancel this task",
        hint=f"its actor may, and whoever has the scope {CANCEL_SCOPE}",
        reason="wrong_role",
    )
