"""Phase 7: the observation is recorded with its provenance, the ledger moves, and the outcome's event goes to the chart.

Recording an outcome never fails: an outcome event of a `call` is total, and a guard that errs ends the task after the record
was made. It must not commit; the whole step is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.canonical import digest
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.loop.draft import Draft, effect_of
from statemachine_agent.loop.phases import CheckedCall, Finding, Outcome, Proposal, Record, expect
from statemachine_agent.loop.rows import call_rows, looked_up_rows
from statemachine_agent.models.decision import SCHEMA_VERSION, AskUser, CannotContinue, Finish, RequestApproval
from statemachine_agent.records import DecisionRow, EffectStatus
from statemachine_agent.text import one_line
from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.results import trust_of


def record(outcome: Outcome) -> Record:
    """The draft of the step's transaction."""
    expect(outcome, Outcome, "record")
    proposal = outcome.authorised.checked.proposal
    draft = Draft(proposal.observation.context, outcome.checkpoint, _cause(outcome))
    if proposal.planned is None:
        _decided(draft, outcome)
    elif proposal.planned.purpose == "reconcile":
        _reconciled(draft, outcome)
    else:
        _called(draft, outcome)
    return Record(outcome, draft)


def _cause(outcome: Outcome) -> str:
    planned = outcome.authorised.checked.proposal.planned
    if planned is None:
        return "step"
    return "reconciliation" if planned.purpose == "reconcile" else "outcome"


# ---------------------------------------------------------------- a decision of the model


def _decided(draft: Draft, outcome: Outcome) -> None:
    checked = outcome.authorised.checked
    proposal = checked.proposal
    draft.set_head(steps=proposal.step)
    for row in proposal.failed_attempts:
        draft.rows.append(row)
        draft.spend(input_tokens=row.input_tokens, output_tokens=row.output_tokens, cost=row.cost_usd)
    if proposal.reply is None:
        detail = proposal.failure.message if proposal.failure else None
        draft.leave("exit.model_failed", "model_failed", detail=detail)
        return
    spent = proposal.reply.spent
    draft.spend(input_tokens=spent.input_tokens, output_tokens=spent.output_tokens, cost=spent.cost_usd)
    finding = outcome.finding
    feedback = finding.text if finding else None
    draft.rows.append(_decision_row(proposal, finding))
    draft.set_head(observation={"text": one_line(feedback, 2000)} if feedback else None)
    draft.surely(lambda: _follow(draft, outcome))


def _follow(draft: Draft, outcome: Outcome) -> None:
    """What follows from a decision."""
    finding, checked = outcome.finding, outcome.authorised.checked
    match finding.kind if finding else "admitted":
        case "invalid" | "refused":
            if checked.move is not None:
                draft.apply(checked.move)
            _evidence_exit(draft)
        case "denied" | "guard_error" as kind if finding is not None:
            draft.leave(f"exit.{kind}", finding.error_class, detail=finding.text, at_once=kind == "guard_error")
        case _:
            _admitted(draft, outcome)


def _decision_row(proposal: Proposal, finding: Finding | None) -> DecisionRow:
    reply, observation = proposal.reply, proposal.observation
    assert reply is not None  # noqa: S101  chosen by the caller
    return DecisionRow(
        step=proposal.step,
        attempt=len(proposal.failed_attempts) + 1,
        state=observation.state,
        model=reply.model,
        schema_version=SCHEMA_VERSION,
        prompt_hash=proposal.prompt_hash,
        response=reply.raw.as_json(),
        input_tokens=reply.spent.input_tokens,
        output_tokens=reply.spent.output_tokens,
        cost_usd=reply.spent.cost_usd,
        latency_ms=proposal.latency_ms,
        stop_reason=reply.raw.stop_reason,
        result=finding.kind if finding else "accepted",
        error_class=finding.error_class if finding else None,
        feedback=one_line(finding.text, 2000) if finding else None,
    )


def _admitted(draft: Draft, outcome: Outcome) -> None:
    checked = outcome.authorised.checked
    assert checked.move is not None  # noqa: S101  an admitted proposal has the chart's answer
    match checked.decision:
        case Finish(answer=text) | AskUser(question=text) | CannotContinue(reason=text):
            draft.set_head(output=one_line(text, 4000))
            draft.apply(checked.move)
        case _ if checked.manifest is not None and checked.manifest.is_read:
            draft.apply(checked.move)
            _read(draft, outcome, checked.manifest)
            _evidence_exit(draft)
        case _:
            _accepted(draft, checked)


def _accepted(draft: Draft, checked: CheckedCall) -> None:
    """A write was proposed and its row accepts it: it waits, and nothing runs."""
    move, action = checked.move, checked.action
    assert move is not None and action is not None  # noqa: S101, PT018  an accepted write has both
    taken = move.taken[0]
    draft.accept_proposal(
        action,
        state=taken.source,
        row=taken.index,
        raised=isinstance(checked.decision, RequestApproval),
        step=checked.proposal.step,
        call_id=checked.call_id,
    )
    draft.apply(move)


def _evidence_exit(draft: Draft) -> None:
    """The state's own exits by evidence, tried after each recorded step."""
    for state in draft.context.machine.choosing(draft.head.configuration):
        if draft.context.machine.chart.accepts(draft.head.configuration, f"then.{state}"):
            draft.fire_outcome(f"then.{state}", reason="evidence")


def _read(draft: Draft, outcome: Outcome, manifest: ToolManifest) -> None:
    checked = outcome.authorised.checked
    call_rows(draft, manifest, checked.args, outcome.attempts, purpose="step", call_id=checked.call_id)
    if not outcome.attempts:
        return
    draft.count_call(manifest.tool)
    last = outcome.attempts[-1].outcome
    if isinstance(last, Ok):
        draft.fire_outcome(f"ok.{manifest.tool}")
        return
    error_class = last.error_class if isinstance(last, (Failed, Unknown)) else last.reason
    text = f"`{manifest.tool}` failed ({error_class}): {last.detail}"
    draft.set_head(observation={"text": one_line(text, 2000)})
    draft.fire_outcome(f"failed.{manifest.tool}", reason=error_class)


# ---------------------------------------------------------------- a call without a model


def _called(draft: Draft, outcome: Outcome) -> None:
    checked = outcome.authorised.checked
    manifest = checked.manifest
    assert manifest is not None  # noqa: S101  a call has one
    key = checked.action.key if checked.action else None
    if outcome.looked_up is not None and not outcome.intended:
        looked_up_rows(draft, outcome.looked_up, "precondition", key)
    if outcome.receipt is not None:
        _receipt(draft, outcome, manifest, outcome.receipt)
        return
    if outcome.finding is not None:
        event = "failed" if manifest.is_read else "blocked"
        if not manifest.is_read:
            draft.drop_proposal(EffectStatus.ABANDONED, outcome.finding.error_class)
        draft.detail = outcome.finding.text
        draft.fire_outcome(f"{event}.{manifest.tool}", reason=outcome.finding.error_class)
        return
    evidence = call_rows(draft, manifest, checked.args, outcome.attempts, purpose="call", effect_key=key)
    if manifest.is_read:
        draft.count_call(manifest.tool)
    last = outcome.attempts[-1].outcome
    event, reason = _event_of(last)
    if key is not None:
        _move(draft, key, last, reason)
    if evidence is None and not isinstance(last, Ok):
        draft.detail = f"{manifest.tool}: {last.detail}"
    draft.fire_outcome(f"{event}.{manifest.tool}", reason=reason)


def _event_of(outcome: Ok | Failed | Blocked | Unknown) -> tuple[str, str | None]:
    match outcome:
        case Ok():
            return "ok", None
        case Failed():
            return "failed", outcome.error_class
        case Blocked():
            return "blocked", outcome.reason
        case Unknown():
            return "unknown", outcome.error_class


def _move(draft: Draft, key: str, outcome: Ok | Failed | Blocked | Unknown, reason: str | None) -> None:
    """The effect's ledger row follows the outcome; a proposal that is done or refused waits no more."""
    match outcome:
        case Ok():
            _executed(draft, key, outcome.payload)
        case Failed():
            draft.move_effect(key, EffectStatus.REJECTED, reason)
            draft.set_head(proposal=None)
        case Blocked():
            draft.move_effect(key, EffectStatus.ABANDONED, reason)
            draft.set_head(proposal=None)
        case Unknown():
            draft.move_effect(key, EffectStatus.UNKNOWN, reason)


def _executed(draft: Draft, key: str, receipt: Mapping[str, Any] | None) -> None:
    effect = draft.checkpoint.effect(key)
    if effect is not None:
        draft.put_effect(replace(effect, status=EffectStatus.EXECUTED, receipt=receipt, reason=None))
    draft.set_head(proposal=None)


def _receipt(draft: Draft, outcome: Outcome, manifest: ToolManifest, receipt: Mapping[str, Any]) -> None:
    """The same action was executed before: its stored receipt answers, and nothing is sent."""
    checked = outcome.authorised.checked
    action = checked.action
    assert action is not None  # noqa: S101  a write has one
    _evidence_of(draft, manifest, checked.args, receipt, "ledger")
    own = draft.checkpoint.effect(action.key)
    if own is None or not own.status.is_done:
        known = own or effect_of(action, draft.head.version + 1)
        draft.put_effect(
            replace(known, status=EffectStatus.EXECUTED, receipt=receipt, inherited=True, reason="done_before"),
            by=outcome.receipt_of,
        )
    draft.set_head(proposal=None)
    draft.fire_outcome(f"ok.{manifest.tool}")


def _evidence_of(
    draft: Draft, manifest: ToolManifest, args: Mapping[str, Any], payload: Mapping[str, Any], request_id: str
) -> None:
    draft.add_evidence(
        tool=manifest.tool,
        purpose="reconcile",
        call_id="",
        request_id=request_id,
        attempt=1,
        source=manifest.source,
        at=draft.context.environment.now(),
        trust=trust_of(manifest),
        payload=payload,
        payload_hash=digest(payload),
        asked=args,
    )


# ---------------------------------------------------------------- a reconciliation


def _reconciled(draft: Draft, outcome: Outcome) -> None:
    checked = outcome.authorised.checked
    manifest, planned = checked.manifest, checked.proposal.planned
    assert manifest is not None and planned is not None  # noqa: S101, PT018  a reconciliation has both
    effect = planned.effect
    key = effect.key if effect else None
    asked, request_id = manifest.reconciler is not None, "ledger"
    if outcome.looked_up is not None:
        looked_up_rows(draft, outcome.looked_up, "reconcile" if asked else "precondition", key)
        request_id = outcome.looked_up.attempts[-1].request_id
    if outcome.attempts:
        call_rows(draft, manifest, planned.args, outcome.attempts, purpose="reconcile", effect_key=key)
    match outcome.reconciled:
        case "found" if effect is not None:
            found = outcome.found if outcome.found is not None else outcome.receipt
            if outcome.looked_up is not None and asked and found is not None:
                _evidence_of(draft, manifest, effect.args, found, request_id)
            _executed(draft, effect.key, found)
            draft.fire_outcome(f"found.{manifest.tool}")
        case "absent" if effect is not None:
            again = EffectStatus.APPROVED if effect.approval_id else EffectStatus.PROPOSED
            draft.move_effect(effect.key, again, "absent")
            draft.fire_outcome(f"absent.{manifest.tool}")
        case _:
            finding = outcome.finding
            draft.detail = finding.text if finding else None
            draft.fire_outcome(f"failed.{manifest.tool}", reason=finding.error_class if finding else "in_doubt")
