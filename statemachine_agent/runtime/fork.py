"""Going back: a new task that begins where another one stood, for the person whose task that was.

Going back undoes nothing: what happened since stays in the ledger, and answers under its key. It must not run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.chart.compile import CompiledMachine, compile_texts, texts_of
from statemachine_agent.definition.machine import Limits
from statemachine_agent.errors import GuardError, RefusedError
from statemachine_agent.loop.budget import exhausted
from statemachine_agent.loop.draft import Draft
from statemachine_agent.loop.inherit import inherit, known_by
from statemachine_agent.loop.pending import unaccepted
from statemachine_agent.policy.approvals import NotEntitledError
from statemachine_agent.records import Checkpoint, EffectStatus
from statemachine_agent.runtime.fitting import carried, misfits
from statemachine_agent.text import one_line

LIMITS_SCOPE = "tasks:limits"

_VERSIONS = "`sma trace` lists the versions; take an earlier one"


async def go_back(draft: Draft, now: Checkpoint, at: int, pinned: CompiledMachine) -> None:
    """Let `draft`, of a new task, begin as the task `now` stood at version `at`; RefusedError where it cannot.

    `pinned` is the machine of `now`; the draft's may be another one.
    """
    who, machine = draft.checkpoint.task.actor, draft.context.machine
    check_may_fork(now, who)
    check_may_raise(who, pinned, machine)
    await begin(draft, now, at, pinned)


async def begin(draft: Draft, now: Checkpoint, at: int, pinned: CompiledMachine) -> None:
    """The same, whoever asks for it."""
    machine = draft.context.machine
    past = await draft.context.store.as_of(now.task.id, at)
    check_can_begin(past)
    known = taken_over(known_by(past, now), pinned, machine)
    spent = exhausted(draft.context, known.head, before_decision=bool(machine.choosing(known.head.configuration)))
    if spent is not None:
        raise RefusedError(
            f"it would end at once: {spent}", hint="take an earlier version, or raise the limit", reason="exhausted"
        )
    inherit(draft, past, known)
    if draft.head.status.is_end:
        raise RefusedError(
            f"it would end at once: {draft.head.status} ({draft.head.reason})",
            hint="take an earlier version",
            reason="exhausted",
        )
    _check_accepted(draft)


def _check_accepted(draft: Draft) -> None:
    """RefusedError where the proposal that waits would be refused when it is to run: nobody is asked about that."""
    try:
        text = unaccepted(draft.context, draft.checkpoint)
    except GuardError as problem:
        text = problem.message
    if text is not None:
        raise RefusedError(
            f"the proposal that waits would be refused now: {text}", hint="take an earlier version", reason="misfit"
        )


def check_may_fork(now: Checkpoint, who: Mapping[str, object]) -> None:
    """RefusedError unless the task is this actor's own, and nothing of it is open."""
    actor = now.task.actor
    if (who["id"], who["tenant"]) != (actor["id"], actor["tenant"]):
        raise NotEntitledError(
            f"`{one_line(str(who['id']), 60)}` may not fork this task", hint="only its actor may", reason="not_yours"
        )
    if now.open_effects:
        raise RefusedError(
            f"its effect `{now.open_effects[0].key}` is open: it may have happened, and a fork could do it again",
            hint="resume the task first; of an ended one, `sma resolve` settles it",
            reason="effect_open",
        )


def check_may_raise(who: Mapping[str, object], old: CompiledMachine, new: CompiledMachine) -> None:
    """RefusedError where a budget is larger than the task's own, and the actor lacks the scope for that."""
    raised = [name for name, (was, now) in _both(old.definition.limits, new.definition.limits).items() if now > was]
    if raised and LIMITS_SCOPE not in who["scopes"]:  # type: ignore[operator]
        raise NotEntitledError(
            f"`{one_line(str(who['id']), 60)}` lacks the scope {LIMITS_SCOPE}, and {', '.join(raised)} would be raised",
            hint="leave the limits as they are, or ask for the scope",
            reason="limits",
        )


def _both(old: Limits, new: Limits) -> dict[str, tuple[Any, Any]]:
    return {name: (getattr(old, name), getattr(new, name)) for name in type(old).model_fields}


def check_can_begin(past: Checkpoint) -> None:
    """RefusedError where no task can begin as this one stood."""
    head = past.head
    if head.status.is_end:
        raise RefusedError(
            f"at version {head.version} the task had ended: {head.status}", hint=_VERSIONS, reason="ended"
        )
    what = under_way(past)
    if what is not None:
        raise RefusedError(
            f"at version {head.version} {what}: that belongs to the other task", hint=_VERSIONS, reason="under_way"
        )


def under_way(past: Checkpoint) -> str | None:
    """What this task alone can finish, if there is anything: an action that was approved or sent, an end that is due."""
    found = [e for e in past.effects if e.status.is_open or e.status is EffectStatus.APPROVED]
    if found:
        return f"`{found[0].key}` was {found[0].status}"
    return "it was about to end" if past.head.pending_exit else None


def taken_over(known: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Checkpoint:
    """What is known, as of a task of `new`; RefusedError where it does not fit."""
    found = misfits(known, old, new)
    if found:
        raise RefusedError(
            f"the task cannot go on under {new.name} {new.definition.version}: {'; '.join(found)}",
            hint="it can end as it began; or take another version",
            reason="misfit",
        )
    proposal = known.head.proposal
    if proposal is None or old.hash == new.hash:
        return known
    return replace(known, head=replace(known.head, proposal=carried(proposal, old, new)))


def with_limits(machine: CompiledMachine, limits: Mapping[str, str]) -> CompiledMachine:
    """The machine with these budgets instead of its own; UsageError for one that cannot be."""
    return compile_texts({**texts_of(machine), "limits": dict(limits)}) if limits else machine
