"""Phase 8: is it over.

Denial and success are the chart's; here budgets are asked again, progress is judged, and what was remembered while an
effect was open is done. It must not call anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from statemachine_agent.loop import progress
from statemachine_agent.loop.budget import exhausted
from statemachine_agent.loop.call import Call
from statemachine_agent.loop.draft import Draft
from statemachine_agent.loop.observe import told
from statemachine_agent.loop.phases import Attempts, Outcome, Record, Verdict, expect
from statemachine_agent.models.decision import ToolCalls
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.tools.outcome import Ok

#: a read that failed for good so many times running ends the task
_FAILED_READS = 2


def terminate(record: Record) -> Verdict:
    """The step's transaction, an exit included where one is due."""
    expect(record, Record, "terminate")
    draft = record.draft
    if record.outcome.authorised.checked.proposal.planned is None and _judged(record.outcome):
        _judge_progress(draft, record.outcome)
    leave_if_due(draft)
    transaction, checkpoint = draft.finish()
    return Verdict(transaction, checkpoint)


def leave_if_due(draft: Draft) -> None:
    """Take the exit that was remembered, or that a used-up budget asks for, unless the task is not working.

    Where a model would decide next it is taken although an effect is open: no decision follows an exit that is due.
    """
    if draft.head.status is not Status.RUNNING:
        return
    pending = draft.head.pending_exit
    choosing = bool(draft.context.machine.choosing(draft.head.configuration))
    if pending is not None:
        if choosing or not draft.checkpoint.open_effects:
            draft.leave(pending["event"], pending["reason"], detail=pending["detail"], at_once=choosing)
        return
    used_up = exhausted(draft.context, draft.head, before_decision=choosing)
    if used_up is not None:
        draft.leave("exit.budget", used_up, at_once=choosing)


def _judged(outcome: Outcome) -> bool:
    """A rejected `finish` costs its step and is no sign of going in circles; nor are reads of which repeats are expected."""
    checked = outcome.authorised.checked
    finished = checked.move is not None and checked.move.event == "call.finish"
    manifests = [call.manifest for call, _ in outcome.made]
    polled = bool(manifests) and all(m is not None and m.polling for m in manifests)
    return checked.proposal.reply is not None and not finished and not polled


def _judge_progress(draft: Draft, outcome: Outcome) -> None:
    before = outcome.authorised.checked.proposal.observation.checkpoint
    seen = progress.Seen(_action(outcome), _result(outcome), _is_new(before, draft.checkpoint))
    settings = draft.context.machine.definition.progress
    memory, flag = progress.observe(settings, draft.head.progress, seen)
    failed_reads = _failed_reads(draft, outcome)
    memory["failed_reads"] = failed_reads
    draft.set_head(progress=memory)
    if draft.head.status is not Status.RUNNING:
        return
    if failed_reads >= _FAILED_READS:
        draft.leave("exit.dependency_failed", "dependency_failed", detail=_told(draft, outcome))
    elif flag is not None and memory["corrected"]:
        draft.leave("exit.no_progress", flag, detail=_told(draft, outcome))
    elif flag is not None:
        draft.set_head(progress={**memory, "corrected": True})
        before_that = _told(draft, outcome)
        text = f"{before_that} And: {progress.CORRECTIONS[flag]}" if before_that else progress.CORRECTIONS[flag]
        draft.tell(outcome.authorised.checked.proposal.observation.state, text, flag=flag)


def _told(draft: Draft, outcome: Outcome) -> str | None:
    """What the model that decided is told about it."""
    observation = outcome.authorised.checked.proposal.observation
    return told(draft.context, draft.head, observation.state)


def _action(outcome: Outcome) -> str | None:
    """The calls that were proposed, as they are written down; two orders of one set of calls are one.

    A fingerprint is stored: of an argument that is not, it would let somebody try out what it was.
    """
    proposal = outcome.authorised.checked.proposal
    decision = outcome.authorised.checked.decision
    if not isinstance(decision, ToolCalls):
        return None
    recorded = proposal.observation.context.machine.recorded
    calls = [{"tool": c.tool, "args": recorded(c.tool, c.args) or c.args} for c in decision.calls]
    return progress.fingerprint(sorted(map(progress.fingerprint, calls)))


def _result(outcome: Outcome) -> str:
    """What came of them, whatever their order and their ids."""
    calls, made = outcome.authorised.calls, outcome.made
    if made:
        return _together([(call, _brought(attempts)) for call, attempts in made])
    if outcome.finding is not None and len(calls) > 1:
        return _together([(call, call.finding.error_class if call.finding else None) for call in calls])
    return progress.fingerprint(outcome.finding.text if outcome.finding else None)


def _together(results: Sequence[tuple[Call, object]]) -> str:
    if len(results) == 1:
        return progress.fingerprint(results[0][1])
    parts = [[c.tool, c.manifest.recorded(c.args) if c.manifest else {}, result] for c, result in results]
    return progress.fingerprint(sorted(map(progress.fingerprint, parts)))


def _brought(attempts: Attempts) -> object:
    last = attempts[-1].outcome
    return last.payload if isinstance(last, Ok) else getattr(last, "error_class", "failed")


def _is_new(before: Checkpoint, after: Checkpoint) -> bool:
    """A payload that no evidence had, an effect that came further, or another state."""
    known = {e.payload_hash for e in before.evidence}
    facts = any(e.payload_hash not in known for e in after.evidence)
    moved = [(e.key, e.status) for e in before.effects] != [(e.key, e.status) for e in after.effects]
    return facts or moved or before.head.configuration != after.head.configuration


def _failed_reads(draft: Draft, outcome: Outcome) -> int:
    """Decisions running of which every read failed for good."""
    before = int(draft.head.progress.get("failed_reads", 0))
    if not outcome.attempts:
        return before
    last = [attempts[-1].outcome for attempts in outcome.attempts]
    failed = not any(isinstance(one, Ok) for one in last)
    return before + 1 if failed and any(getattr(one, "retryable", False) for one in last) else 0
