"""Phase 4: is this a decision of the closed union, is its tool known here, are its arguments right, does its row accept it.

A fault or a refusal becomes an observation, never an exception. It must not ask for permission or change anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemachine_agent.chart.chart import Macrostep, Standing
from statemachine_agent.definition import references
from statemachine_agent.definition.machine import ChooseState
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.template import TemplateError
from statemachine_agent.errors import GuardError
from statemachine_agent.loop.phases import CheckedCall, Finding, Observation, Proposal, expect
from statemachine_agent.loop.view import answers, reference_data
from statemachine_agent.models.decision import (
    AskUser,
    CannotContinue,
    Decision,
    Finish,
    InvalidDecision,
    RequestApproval,
    ToolCall,
    ToolCalls,
    decision_of,
)
from statemachine_agent.policy.action import action_of
from statemachine_agent.text import one_line
from statemachine_agent.tools.arguments import checked_arguments


def validate(proposal: Proposal) -> CheckedCall:
    """The proposal, checked; `finding` says why it was not admitted."""
    expect(proposal, Proposal, "validate")
    try:
        return _planned(proposal) if proposal.planned is not None else _proposed(proposal)
    except GuardError as problem:
        kind = "guard_error" if proposal.planned is None else "blocked"
        manifest = proposal.observation.context.machine.tools[proposal.planned.tool] if proposal.planned else None
        return CheckedCall(proposal, manifest=manifest, finding=Finding(kind, "guard_error", problem.message))


def _proposed(proposal: Proposal) -> CheckedCall:
    if proposal.reply is None:
        return CheckedCall(proposal)
    decision = decision_of(proposal.reply.raw)
    if isinstance(decision, InvalidDecision):
        return _invalid(proposal, None, decision.error_class, decision.message)
    match decision:
        case ToolCalls(calls=(call,)):
            return _tool(proposal, decision, call)
        case ToolCalls():
            text = "this state takes one call at a time: propose them one after another"
            return _invalid(proposal, decision, "several_calls", text)
        case RequestApproval():
            return _raised(proposal, decision)
        case Finish(answer=text):
            return _control(proposal, decision, "finish", {"answer": text})
        case AskUser(question=text):
            return _control(proposal, decision, "ask_user", {"question": text})
        case CannotContinue(reason=text):
            return _control(proposal, decision, "cannot_continue", {"reason": text})


def _invalid(proposal: Proposal, decision: Decision | None, error_class: str, message: str) -> CheckedCall:
    allowed = ", ".join(proposal.observation.offered) or "nothing"
    text = f"invalid proposal ({error_class}): {message}. Allowed now: {allowed}"
    return CheckedCall(proposal, decision, finding=Finding("invalid", error_class, text))


def _refused(checked: CheckedCall, text: str, error_class: str = "refused") -> CheckedCall:
    allowed = ", ".join(checked.proposal.observation.offered) or "nothing"
    finding = Finding("refused", error_class, f"refused: {text}. Allowed now: {allowed}")
    return CheckedCall(**{**checked.__dict__, "finding": finding})


# ---------------------------------------------------------------- what a model proposed


def _tool(proposal: Proposal, decision: Decision, call: ToolCall) -> CheckedCall:
    observation = proposal.observation
    machine = observation.context.machine
    standing = next((a for a in observation.available if a.tool == call.tool), None)
    if standing is None or call.tool not in machine.tools:
        known = "is not allowed here" if call.tool in machine.tools else "is no tool"
        return _invalid(proposal, decision, "illegal_tool", f"`{one_line(call.tool, 60)}` {known}")
    manifest = machine.tools[call.tool]
    definition = machine.state(observation.state)
    assert isinstance(definition, ChooseState)  # noqa: S101  only a `choose` asks a model
    pinned = definition.choose[call.tool].pinned
    filled = [name for name in call.args if name in pinned]
    if filled:
        names = ", ".join(f"`{n}`" for n in filled)
        return _invalid(proposal, decision, "pinned_argument", f"{names} of `{call.tool}` is filled in by the machine")
    if standing.standing is Standing.HIDDEN:
        return _refused(CheckedCall(proposal, decision, manifest, call_id=call.id), standing.text)
    try:
        values = references.fill(
            pinned, references.MACHINE_ROOTS, reference_data(observation.context, observation.checkpoint)
        )
    except references.UnresolvedError as problem:
        return _refused(CheckedCall(proposal, decision, manifest, call_id=call.id), str(problem), "unresolved")
    args, faults = checked_arguments(manifest, {**call.args, **values})
    if faults:
        text = "; ".join(map(str, faults))
        return _invalid(proposal, decision, "invalid_arguments", f"arguments of `{call.tool}`: {text}")
    return _admitted(proposal, decision, manifest, args, call.id)


def _admitted(
    proposal: Proposal, decision: Decision, manifest: ToolManifest, args: Mapping[str, Any], call_id: str
) -> CheckedCall:
    """The tool's rows: the chart is asked, and says yes or why not."""
    move = _ask(proposal.observation, manifest.tool, args)
    checked = CheckedCall(proposal, decision, manifest, args, call_id, move)
    if move.refusal is not None:
        return _refused(checked, move.refusal)
    if manifest.is_read:
        return checked
    try:
        action = action_of(proposal.observation.context.machine, manifest, args)
    except TemplateError as problem:
        return _invalid(proposal, decision, "invalid_arguments", str(problem))
    return CheckedCall(**{**checked.__dict__, "action": action})


def _ask(observation: Observation, tool: str, args: Mapping[str, Any]) -> Macrostep:
    asked = answers(observation.context, observation.checkpoint, {"tool": tool, "args": args})
    leaves = observation.checkpoint.head.configuration
    return observation.context.machine.chart.fire(leaves, f"call.{tool}", asked)


def _raised(proposal: Proposal, decision: RequestApproval) -> CheckedCall:
    """The call itself, with the ruling raised: only where an approval of that tool can follow."""
    machine = proposal.observation.context.machine
    if not machine.approvals_of(decision.call.tool):
        name = one_line(decision.call.tool, 60)
        return _invalid(proposal, decision, "no_approval_state", f"no approval of `{name}` can follow here")
    return _tool(proposal, decision, decision.call)


def _control(proposal: Proposal, decision: Decision, control: str, args: Mapping[str, Any]) -> CheckedCall:
    available = next((a for a in proposal.observation.available if a.tool == control), None)
    if available is None:
        return _invalid(proposal, decision, "illegal_tool", f"`{control}` is not allowed here")
    move = _ask(proposal.observation, control, args)
    checked = CheckedCall(proposal, decision, None, args, "", move)
    return _refused(checked, move.refusal) if move.refusal is not None else checked


# ---------------------------------------------------------------- what a state plans


def _planned(proposal: Proposal) -> CheckedCall:
    planned = proposal.planned
    assert planned is not None  # noqa: S101  chosen by the caller
    observation = proposal.observation
    machine = observation.context.machine
    manifest = machine.tools[planned.tool]
    if planned.purpose == "reconcile":
        return CheckedCall(proposal, None, manifest, planned.args)
    if planned.fault is not None:
        return _blocked(CheckedCall(proposal, None, manifest), "unresolved", planned.fault)
    args, faults = checked_arguments(manifest, planned.args)
    checked = CheckedCall(proposal, None, manifest, args)
    if faults:
        return _blocked(checked, "invalid_arguments", "; ".join(map(str, faults)))
    if manifest.is_read:
        return checked
    try:
        action = action_of(machine, manifest, args)
    except TemplateError as problem:
        return _blocked(checked, "invalid_arguments", str(problem))
    return _still_accepted(CheckedCall(**{**checked.__dict__, "action": action}))


def _still_accepted(checked: CheckedCall) -> CheckedCall:
    """A pending proposal is judged again by its tool's whole list of rows, on what is known now."""
    observation = checked.proposal.observation
    pending = observation.checkpoint.head.proposal
    action = checked.action
    if pending is None or action is None or pending["tool"] != action.tool:
        return checked
    if pending["args"] != action.args or pending["key"] != action.key or pending["version"] != action.version:
        return _blocked(checked, "action_changed", "the stored proposal is not the one that was accepted")
    machine = observation.context.machine
    asked = answers(observation.context, observation.checkpoint, {"tool": action.tool, "args": action.args})
    move = machine.chart.fire(machine.chart.tree.around(pending["state"]), f"call.{action.tool}", asked)
    if [t.index for t in move.taken] != [pending["row"]]:
        text = move.refusal or "another row than the one that accepted it holds now"
        return _blocked(checked, "stale_proposal", text)
    return checked


def _blocked(checked: CheckedCall, reason: str, text: str) -> CheckedCall:
    return CheckedCall(**{**checked.__dict__, "finding": Finding("blocked", reason, one_line(text, 300))})
