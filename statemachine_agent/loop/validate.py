"""Phase 4: whether this is a decision of the closed union, and of each call whether tool, arguments and row are right.

Of several calls also whether they may stand together (`batch`). A fault or a refusal becomes an observation, never an
exception. It must not ask for permission or change anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from statemachine_agent.chart.chart import Macrostep, Standing
from statemachine_agent.definition import references
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.redaction import MASK, holds_mask
from statemachine_agent.definition.states import ChooseState
from statemachine_agent.definition.template import TemplateError
from statemachine_agent.errors import GuardError
from statemachine_agent.loop.batch import in_company
from statemachine_agent.loop.call import Call, Finding, told
from statemachine_agent.loop.pending import unaccepted
from statemachine_agent.loop.phases import CheckedCall, Observation, Proposal, expect
from statemachine_agent.loop.view import answers, reference_data
from statemachine_agent.models.decision import (
    AskUser,
    CannotContinue,
    Decision,
    Finish,
    InvalidCall,
    InvalidDecision,
    RequestApproval,
    ToolCall,
    ToolCalls,
    decision_of,
)
from statemachine_agent.policy.action import Action, action_of
from statemachine_agent.text import one_line
from statemachine_agent.tools.arguments import ArgumentFault, checked_arguments, faults_of


def validate(proposal: Proposal) -> CheckedCall:
    """The proposal, checked; `finding` says why it was not admitted."""
    expect(proposal, Proposal, "validate")
    try:
        return _planned(proposal) if proposal.planned is not None else _proposed(proposal)
    except GuardError as problem:
        if proposal.planned is None:
            return CheckedCall(proposal, fault=Finding("guard_error", "guard_error", problem.message))
        return CheckedCall(proposal, None, (_of(proposal).but("blocked", "guard_error", problem.message),))


def _proposed(proposal: Proposal) -> CheckedCall:
    if proposal.reply is None:
        return CheckedCall(proposal)
    decision = decision_of(proposal.reply.raw)
    match decision:
        case InvalidDecision(calls=()):
            nothing = Call("", {}).but("invalid", decision.error_class, decision.message)
            return CheckedCall(proposal, fault=told((nothing,), proposal.observation.offered))
        case InvalidDecision(calls=several):
            return _calls(proposal, None, several)
        case ToolCalls(calls=several):
            return _calls(proposal, decision, several)
        case RequestApproval():
            return CheckedCall(proposal, decision, (_raised(proposal.observation, decision),))
        case Finish(answer=answer):
            return CheckedCall(proposal, decision, (_finish(proposal.observation, answer),))
        case AskUser(question=text):
            return CheckedCall(proposal, decision, (_control(proposal.observation, "ask_user", {"question": text}),))
        case CannotContinue(reason=text):
            return CheckedCall(
                proposal, decision, (_control(proposal.observation, "cannot_continue", {"reason": text}),)
            )


# ---------------------------------------------------------------- what a model proposed


def _calls(proposal: Proposal, decision: Decision | None, proposed: Sequence[ToolCall | InvalidCall]) -> CheckedCall:
    """Each call by itself, on what is recorded now; then in the company of the others."""
    calls = [_call(proposal.observation, one) for one in proposed]
    return CheckedCall(proposal, decision, in_company(proposal.observation, calls))


def _call(observation: Observation, proposed: ToolCall | InvalidCall) -> Call:
    if isinstance(proposed, InvalidCall):
        return Call(proposed.tool, {}, proposed.id).but("invalid", proposed.error_class, proposed.message)
    machine = observation.context.machine
    call = Call(proposed.tool, proposed.args, proposed.id)
    standing = next((a for a in observation.available if a.tool == call.tool), None)
    if standing is None or call.tool not in machine.tools:
        known = "is not allowed here" if call.tool in machine.tools else "is no tool"
        return call.but("invalid", "illegal_tool", f"`{one_line(call.tool, 60)}` {known}")
    manifest = machine.tools[call.tool]
    call = replace(call, manifest=manifest)
    definition = machine.state(observation.state)
    assert isinstance(definition, ChooseState)  # noqa: S101  only a `choose` asks a model
    pinned = definition.choose[call.tool].pinned
    filled = [name for name in call.args if name in pinned]
    if filled:
        names = ", ".join(f"`{n}`" for n in filled)
        return call.but("invalid", "pinned_argument", f"{names} of `{call.tool}` is filled in by the machine")
    if standing.standing is Standing.HIDDEN:
        return call.but("refused", "refused", standing.text)
    try:
        values = references.fill(
            pinned, references.MACHINE_ROOTS, reference_data(observation.context, observation.checkpoint)
        )
    except references.UnresolvedError as problem:
        return call.but("refused", "unresolved", str(problem))
    args, faults = checked_arguments(manifest, {**call.args, **values})
    if faults:
        text = _faults(manifest, faults)
        return call.but("invalid", "invalid_arguments", f"arguments of `{call.tool}`: {text}")
    return _admitted(observation, replace(call, args=args), manifest)


def _faults(manifest: ToolManifest, faults: Sequence[ArgumentFault]) -> str:
    """What is wrong with arguments; a fault may quote what it is about, and of a tool that masks some only places are told."""
    if not manifest.masked_args:
        return "; ".join(map(str, faults))
    return "; ".join(fault.path or f"not just {', '.join(manifest.args)}" for fault in faults)


_MASKED = f"an argument is `{MASK}`, which stands for a text that is not written down"


def _admitted(observation: Observation, call: Call, manifest: ToolManifest) -> Call:
    """The tool's rows: the chart is asked, and says yes or why not."""
    move = _ask(observation, call.tool, call.args)
    call = replace(call, move=move)
    if move.refusal is not None:
        return call.but("refused", "refused", move.refusal)
    if manifest.is_read:
        return call
    if holds_mask(call.args):
        return call.but("invalid", "masked_argument", _MASKED)
    try:
        return replace(call, action=action_of(observation.context.machine, manifest, call.args))
    except TemplateError as problem:
        return call.but("invalid", "invalid_arguments", str(problem))


def _ask(observation: Observation, tool: str, args: Mapping[str, Any]) -> Macrostep:
    asked = answers(observation.context, observation.checkpoint, {"tool": tool, "args": args})
    leaves = observation.checkpoint.head.configuration
    return observation.context.machine.chart.fire(leaves, f"call.{tool}", asked)


def _raised(observation: Observation, decision: RequestApproval) -> Call:
    """The call itself, with the ruling raised: only where an approval of that tool can follow."""
    if not observation.context.machine.approvals_of(decision.call.tool):
        text = f"no approval of `{one_line(decision.call.tool, 60)}` can follow here"
        return Call(decision.call.tool, decision.call.args, decision.call.id).but("invalid", "no_approval_state", text)
    return _call(observation, decision.call)


def _finish(observation: Observation, answer: str | Mapping[str, Any]) -> Call:
    """The final answer: a text, or what the machine says that it gives."""
    output = observation.context.machine.output(observation.checkpoint.head.configuration)
    masks = observation.context.machine.masks_arguments("finish", observation.state)
    found = faults_of(output, answer) if output else []
    faults = [(fault.path or "it has not just these fields") if masks else str(fault) for fault in found]
    if not output and not isinstance(answer, str):
        faults = ["it is a text here"]
    text = "; ".join(faults)
    if text:
        return Call("finish", {}).but("invalid", "invalid_arguments", f"`answer` of `finish`: {text}")
    return _control(observation, "finish", {"answer": answer})


def _control(observation: Observation, control: str, args: Mapping[str, Any]) -> Call:
    call = Call(control, args)
    if not any(a.tool == control for a in observation.available):
        return call.but("invalid", "illegal_tool", f"`{control}` is not allowed here")
    move = _ask(observation, control, args)
    call = replace(call, move=move)
    return call if move.refusal is None else call.but("refused", "refused", move.refusal)


# ---------------------------------------------------------------- what a state plans


def _of(proposal: Proposal) -> Call:
    planned = proposal.planned
    assert planned is not None  # noqa: S101  chosen by the caller
    return Call(planned.tool, {}, manifest=proposal.observation.context.machine.tools[planned.tool])


def _planned(proposal: Proposal) -> CheckedCall:
    return CheckedCall(proposal, None, (_about_to_run(proposal, _of(proposal)),))


def _about_to_run(proposal: Proposal, call: Call) -> Call:
    planned, manifest = proposal.planned, call.manifest
    assert planned is not None and manifest is not None  # noqa: S101, PT018  chosen by the caller
    if planned.purpose == "reconcile":
        return replace(call, args=planned.args)
    if planned.fault is not None:
        return _blocked(call, "unresolved", planned.fault)
    args, faults = checked_arguments(manifest, planned.args)
    call = replace(call, args=args)
    if faults:
        text = _faults(manifest, faults)
        return _blocked(call, "invalid_arguments", text)
    if manifest.is_read:
        return call
    if holds_mask(args):
        return _blocked(call, "masked_argument", _MASKED)
    try:
        action = action_of(proposal.observation.context.machine, manifest, args)
    except TemplateError as problem:
        return _blocked(call, "invalid_arguments", str(problem))
    return _still_accepted(proposal.observation, replace(call, action=action), action)


def _still_accepted(observation: Observation, call: Call, action: Action) -> Call:
    """A pending proposal is judged again by its tool's whole list of rows, on what is known now."""
    pending = observation.checkpoint.head.proposal
    if pending is None or pending["tool"] != action.tool:
        return call
    if pending["args"] != action.args or pending["key"] != action.key or pending["version"] != action.version:
        return _blocked(call, "action_changed", "the stored proposal is not the one that was accepted")
    text = unaccepted(observation.context, observation.checkpoint)
    if text is not None:
        return _blocked(call, "stale_proposal", text)
    return call


def _blocked(call: Call, reason: str, text: str) -> Call:
    return call.but("blocked", reason, one_line(text, 300))
