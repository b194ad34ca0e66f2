"""A new task begins where another one stood: what it takes over, and what it must ask for again.

The task goes back, and the world does not: it takes over what was known and decided then, and what has happened since. A yes of
people, and the time that a state may last, belong to the other task.
"""

from __future__ import annotations

from dataclasses import replace

from statemachine_agent.loop.draft import Draft, action_of_proposal, effect_of
from statemachine_agent.loop.touched import make_old
from statemachine_agent.records import Checkpoint, Effect, EvidenceRow

#: what it knows, has spent and stands in; not how it ended, nor what it was about to do
_TAKEN = (
    "configuration", "steps", "usage", "visits", "proposal", "progress", "observation", "evidence_count", "old",
)  # fmt: skip


def known_by(past: Checkpoint, now: Checkpoint) -> Checkpoint:
    """How a task stood at a past version, with what has happened until now: its effects, and the calls of its writes.

    `now` has no open effect.
    """
    done = [effect for effect in now.effects if effect.status.is_done]
    keys = {effect.key for effect in done}
    rest = [effect for effect in past.effects if effect.key not in keys]
    written = {effect.tool for effect in now.effects}
    calls = {**past.head.calls, **{tool: n for tool, n in now.head.calls.items() if tool in written}}
    return replace(past, head=replace(past.head, calls=calls), effects=(*rest, *done))


def inherit(draft: Draft, past: Checkpoint, known: Checkpoint) -> None:
    """Begin `draft`, of a task at no version yet, from `past` and what is `known_by` now."""
    draft.set_head(**{name: getattr(known.head, name) for name in _TAKEN}, calls=known.head.calls)
    found = tuple(replace(one, inherited=True) for one in known.evidence)
    draft.checkpoint = replace(draft.checkpoint, evidence=found)
    _effects(draft, past, known)
    draft.rows[:0] = [EvidenceRow(one) for one in draft.checkpoint.evidence]
    proposal = draft.head.proposal
    if proposal is not None:
        before = known.effect(proposal["key"])
        proposed = effect_of(action_of_proposal(proposal), 0)
        if before is None or not before.status.is_done:
            draft.put_effect(replace(proposed, attempt=before.attempt if before else 0))
    draft.stand()


def _effects(draft: Draft, past: Checkpoint, known: Checkpoint) -> None:
    """What is settled; of what happened after `past`, whatever it touched was read before."""
    tools = draft.context.machine.tools
    for effect in known.effects:
        if not effect.is_settled:
            continue
        draft.put_effect(replace(effect, inherited=effect.status.is_done, approval_id=None, proposed_in=0))
        if effect.status.is_done and effect.tool in tools and not _was_done(past.effect(effect.key)):
            make_old(draft, tools[effect.tool], draft.head.evidence_count)


def _was_done(effect: Effect | None) -> bool:
    return effect is not None and effect.status.is_done
