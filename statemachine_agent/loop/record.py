"""Phase 7: the observation is recorded with its provenance, the ledger moves, and the outcome's event goes to the chart.

Recording an outcome never fails: an outcome event of a `call` is total, and a guard that errs ends the task after the record
was made. It must not commit; the whole step is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.canonical import canonical, digest
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.redaction import masked
from statemachine_agent.definition.states import Inlined
from statemachine_agent.ids import new_id
from statemachine_agent.loop.call import Call, Finding, named
from statemachine_agent.loop.draft import Draft, effect_of
from statemachine_agent.loop.phases import Attempts, CheckedCall, Outcome, Proposal, Record, expect
from statemachine_agent.loop.rows import call_rows, looked_up_rows
from statemachine_agent.loop.touched import make_old
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
    denied = next((call.denied for call in outcome.authorised.calls if call.denied), None)
    draft.rows.append(_decision_row(proposal, finding, denied))
    draft.tell(proposal.observation.state, feedback)
    draft.surely(lambda: _follow(draft, outcome))


def _follow(draft: Draft, outcome: Outcome) -> None:
    """What follows from a decision."""
    finding, checked = outcome.finding, outcome.authorised.checked
    match finding.kind if finding else "admitted":
        case "invalid" | "refused":
            for call in checked.calls:  # what would have been accepted is not: it was not made
                if call.move is not None and call.move.refusal is not None:
                    draft.apply(call.move)
            _evidence_exit(draft)
        case "denied" | "guard_error" as kind if finding is not None:
            draft.leave(f"exit.{kind}", finding.error_class, detail=finding.text, at_once=kind == "guard_error")
        case _:
            _admitted(draft, outcome)


def _decision_row(proposal: Proposal, finding: Finding | None, denied: str | None) -> DecisionRow:
    told = finding.text if finding else denied
    reply, observation = proposal.reply, proposal.observation
    assert reply is not None  # noqa: S101  chosen by the caller
    return DecisionRow(
        step=proposal.step,
        attempt=len(proposal.failed_attempts) + 1,
        state=observation.state,
        model=reply.model,
        schema_version=SCHEMA_VERSION,
        prompt_hash=proposal.prompt_hash,
        prompt=proposal.prompt,
        response=reply.raw.as_json(observation.context.machine.recording(observation.state)),
        input_tokens=reply.spent.input_tokens,
        output_tokens=reply.spent.output_tokens,
        cost_usd=reply.spent.cost_usd,
        latency_ms=proposal.latency_ms,
        stop_reason=reply.raw.stop_reason,
        result=finding.kind if finding else "accepted",
        error_class=finding.error_class if finding else None,
        feedback=one_line(told, 2000) if told else None,
    )


def _admitted(draft: Draft, outcome: Outcome) -> None:
    checked = outcome.authorised.checked
    match checked.decision:
        case Finish(answer=answer) if (scope := _scope(checked)) is not None:
            _answered(draft, scope, answer)
            _accept(draft, checked.calls[0])
        case Finish(answer=text) | AskUser(question=text) | CannotContinue(reason=text):
            draft.set_head(output=one_line(text, 4000) if isinstance(text, str) else canonical(text).decode())
            _accept(draft, checked.calls[0])
        case _ if outcome.made:
            _reads(draft, outcome)
            _evidence_exit(draft)
        case _:
            _accepted(draft, checked, checked.calls[0])


def _scope(checked: CheckedCall) -> Inlined | None:
    """The machine within this one whose model decided."""
    observation = checked.proposal.observation
    definition = observation.context.machine.definition
    scope = definition.scope(observation.state)
    return definition.inlined[scope] if scope is not None else None


def _answered(draft: Draft, held: Inlined, answer: object) -> None:
    """The answer of a machine within this one is evidence under its name, and no more than a model's word."""
    paths = draft.context.machine.masks.evidence.get(held.of.machine, ())
    payload = masked(paths, answer if isinstance(answer, Mapping) else {"answer": answer})
    draft.add_evidence(
        tool=held.of.machine,
        purpose="answer",
        call_id="",
        request_id=new_id(draft.context.environment),
        attempt=1,
        source="model",
        at=draft.context.environment.now(),
        trust="mixed",
        payload=payload,
        payload_hash=digest(payload),
        asked={},
    )


def _accept(draft: Draft, call: Call) -> None:
    assert call.move is not None  # noqa: S101  an admitted proposal has the chart's answer
    draft.apply(call.move)


def _accepted(draft: Draft, checked: CheckedCall, call: Call) -> None:
    """A write was proposed and its row accepts it: it waits, and nothing runs."""
    move, action = call.move, call.action
    assert move is not None and action is not None  # noqa: S101, PT018  an accepted write has both
    taken = move.taken[0]
    draft.accept_proposal(
        action,
        state=taken.source,
        row=taken.index,
        raised=isinstance(checked.decision, RequestApproval),
        step=checked.proposal.step,
        call_id=call.id,
    )
    draft.apply(move)


def _evidence_exit(draft: Draft) -> None:
    """The state's own exits by evidence, tried after each recorded step."""
    for state in draft.context.machine.choosing(draft.head.configuration):
        if draft.context.machine.chart.accepts(draft.head.configuration, f"then.{state}"):
            draft.fire_outcome(f"then.{state}", reason="evidence")


def _reads(draft: Draft, outcome: Outcome) -> None:
    """One read or several, all in the order of the proposal, whichever ended first.

    Each is recorded before the first outcome is sent, so that rows of any of them see the results of all.
    """
    decided_in = outcome.authorised.checked.proposal.observation.state
    for call, _ in outcome.made:
        _accept(draft, call)
    brought = [_brought(draft, call, attempts) for call, attempts in outcome.made]
    last = [attempts[-1].outcome for attempts in outcome.attempts]
    if len(brought) > 1:
        text = "; ".join(one_line(f"{_asked(call)}: {found}", 1_900 // len(brought)) for call, found in brought)
        draft.tell(decided_in, text)
    elif not isinstance(last[0], Ok):
        draft.tell(decided_in, f"`{brought[0][0].tool}` {brought[0][1]}")
    for (call, _), came in zip(brought, last, strict=True):
        event, reason = ("ok", None) if isinstance(came, Ok) else ("failed", _event_of(came)[1])
        if draft.context.machine.chart.accepts(draft.head.configuration, f"{event}.{call.tool}"):  # else a guard erred
            draft.fire_outcome(f"{event}.{call.tool}", reason=reason)


def _brought(draft: Draft, call: Call, attempts: Attempts) -> tuple[Call, str]:
    """The call on record, and for the model what came of it."""
    assert call.manifest is not None  # noqa: S101  what was called is a tool
    evidence = call_rows(draft, call.manifest, call.args, attempts, purpose="step", call_id=call.id)
    draft.count_call(call.tool)
    if evidence is not None:
        return call, evidence.name
    last = attempts[-1].outcome
    return call, f"failed ({_event_of(last)[1]}): {getattr(last, 'detail', '')}"


def _asked(call: Call) -> str:
    args = call.manifest.recorded(call.args) if call.manifest is not None else call.args
    return f"{named(call)} {one_line(canonical(args).decode(), 120)}"


# ---------------------------------------------------------------- a call without a model


def _called(draft: Draft, outcome: Outcome) -> None:
    (call,) = outcome.authorised.calls
    manifest = call.manifest
    assert manifest is not None  # noqa: S101  a call has one
    key = call.action.key if call.action else None
    if outcome.looked_up is not None:  # with an intent it is on record already
        looked_up_rows(draft, outcome.looked_up, "precondition", key)
    if outcome.receipt is not None:
        _receipt(draft, outcome, manifest, outcome.receipt)
        return
    if outcome.finding is not None:
        event = "failed" if manifest.is_read else "blocked"
        proposal = draft.head.proposal
        if not manifest.is_read and proposal is not None and proposal["tool"] == manifest.tool:
            draft.drop_proposal(EffectStatus.ABANDONED, outcome.finding.error_class)
        draft.detail = outcome.finding.text
        draft.fire_outcome(f"{event}.{manifest.tool}", reason=outcome.finding.error_class)
        return
    (attempts,) = outcome.attempts
    evidence = call_rows(draft, manifest, call.args, attempts, purpose="call", effect_key=key)
    if manifest.is_read:
        draft.count_call(manifest.tool)
    last = attempts[-1].outcome
    event, reason = _event_of(last)
    if key is not None:
        _move(draft, manifest, key, last, reason)
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


def _move(
    draft: Draft, manifest: ToolManifest, key: str, outcome: Ok | Failed | Blocked | Unknown, reason: str | None
) -> None:
    """The effect's ledger row follows the outcome; a proposal that is done or refused waits no more."""
    match outcome:
        case Ok():
            _executed(draft, manifest, key, outcome.payload, draft.head.evidence_count)
        case Failed():
            draft.move_effect(key, EffectStatus.REJECTED, reason)
            draft.no_longer_waits(key)
        case Blocked():
            draft.move_effect(key, EffectStatus.ABANDONED, reason)
            draft.no_longer_waits(key)
        case Unknown():
            draft.move_effect(key, EffectStatus.UNKNOWN, reason)


def _executed(draft: Draft, manifest: ToolManifest, key: str, receipt: Mapping[str, Any] | None, seen: int) -> None:
    """It happened; the first `seen` results were read before, or may have been."""
    effect = draft.checkpoint.effect(key)
    if effect is not None and not effect.status.is_done:
        make_old(draft, manifest, seen)
        draft.put_effect(replace(effect, status=EffectStatus.EXECUTED, receipt=receipt, reason=None))
    draft.no_longer_waits(key)


def _receipt(draft: Draft, outcome: Outcome, manifest: ToolManifest, receipt: Mapping[str, Any]) -> None:
    """The same action was executed before: its stored receipt answers, and nothing is sent."""
    (call,) = outcome.authorised.calls
    action = call.action
    assert action is not None  # noqa: S101  a write has one
    _evidence_of(draft, manifest, call.args, receipt, "ledger")
    own = draft.checkpoint.effect(action.key)
    if own is None or not own.status.is_done:
        make_old(draft, manifest, draft.head.evidence_count)
        known = own or effect_of(action, draft.head.version + 1)
        draft.put_effect(
            replace(known, status=EffectStatus.EXECUTED, receipt=receipt, inherited=True, reason="done_before"),
            by=outcome.receipt_of,
        )
    draft.no_longer_waits(action.key)
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
    (call,) = outcome.authorised.calls
    manifest, planned = call.manifest, outcome.authorised.checked.proposal.planned
    assert manifest is not None and planned is not None  # noqa: S101, PT018  a reconciliation has both
    effect = planned.effect
    key = effect.key if effect else None
    asked = manifest.reconciler is not None
    seen = draft.head.evidence_count  # before the look-up: what that brings was read after the effect
    if outcome.looked_up is not None:
        looked_up_rows(draft, outcome.looked_up, "reconcile" if asked else "precondition", key)
        seen = seen if asked else draft.head.evidence_count
    for attempts in outcome.attempts:
        call_rows(draft, manifest, planned.args, attempts, purpose="reconcile", effect_key=key)
    match outcome.reconciled:
        case "found" if effect is not None:
            found = outcome.found if outcome.found is not None else outcome.receipt
            if outcome.looked_up is not None and asked and found is not None:
                _evidence_of(draft, manifest, effect.args, found, outcome.looked_up.attempts[-1].request_id)
            _executed(draft, manifest, effect.key, found, seen)
            draft.fire_outcome(f"found.{manifest.tool}")
        case "absent" if effect is not None:
            again = EffectStatus.APPROVED if effect.approval_id else EffectStatus.PROPOSED
            draft.move_effect(effect.key, again, "absent")
            draft.fire_outcome(f"absent.{manifest.tool}")
        case _:
            finding = outcome.finding
            draft.detail = finding.text if finding else None
            draft.fire_outcome(f"failed.{manifest.tool}", reason=finding.error_class if finding else "in_doubt")
