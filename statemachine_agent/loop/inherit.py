"""A new task begins where another one stood: what it takes over, and what it must ask for again.

It takes over what is known and what happened. A yes of people, and the time that a state may last, belong to the other task.
"""

from __future__ import annotations

from dataclasses import replace

from statemachine_agent.loop.draft import Draft, action_of_proposal, effect_of
from statemachine_agent.records import Checkpoint, EvidenceRow

#: what it knows, has spent and stands in; not how it ended, nor what it was about to do
_TAKEN = (
    "configuration", "steps", "usage", "visits", "calls", "proposal", "progress", "observation", "evidence_count", "old",
)  # fmt: skip


def inherit(draft: Draft, past: Checkpoint) -> None:
    """Begin `draft`, of a task at no version yet, from `past`: no effect of it is open, and it has not ended."""
    draft.set_head(**{name: getattr(past.head, name) for name in _TAKEN})
    found = tuple(replace(one, inherited=True) for one in past.evidence)
    draft.checkpoint = replace(draft.checkpoint, evidence=found)
    draft.rows += [EvidenceRow(one) for one in found]
    for effect in past.effects:
        if effect.is_settled:
            draft.put_effect(replace(effect, inherited=effect.status.is_done, approval_id=None, proposed_in=0))
    proposal = past.head.proposal
    if proposal is not None:
        known = past.effect(proposal["key"])
        proposed = effect_of(action_of_proposal(proposal), 0)
        if known is None or not known.status.is_done:
            draft.put_effect(replace(proposed, attempt=known.attempt if known else 0))
    draft.stand()
