"""Phase 5: the policy's word on each checked call: scopes, rules, and whether people's yes covers exactly this action.

It reads nothing that the model wrote but checked arguments. It must not run anything.
"""

from __future__ import annotations

from dataclasses import replace

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.states import ApprovalState
from statemachine_agent.errors import GuardError
from statemachine_agent.loop.call import Call
from statemachine_agent.loop.context import Event
from statemachine_agent.loop.phases import AuthorisedCall, CheckedCall, Observation, expect
from statemachine_agent.loop.view import live_actor
from statemachine_agent.models.decision import RequestApproval
from statemachine_agent.policy import approvals
from statemachine_agent.policy.action import Action, policy_version
from statemachine_agent.policy.ruling import Deny, RequireApproval, Ruling, rule, united
from statemachine_agent.records import Effect


def authorise(checked: CheckedCall) -> AuthorisedCall:
    """The calls with the policy's word on each; `finding` says what stands in the way."""
    expect(checked, CheckedCall, "authorise")
    planned = checked.proposal.planned
    if planned is not None and planned.purpose == "reconcile" and checked.calls:
        return _looked_for(checked, checked.calls[0], planned.effect)
    approval_id, calls = None, []
    for call in checked.calls:
        approval_id, ruled = _permitted(checked, call)
        calls.append(ruled)
    return AuthorisedCall(checked, tuple(calls), approval_id)


def _looked_for(checked: CheckedCall, call: Call, effect: Effect | None) -> AuthorisedCall:
    """A look-up needs no permission; a replay may be the first that arrives, and is a write like any other."""
    if call.manifest is None or call.manifest.reconciler is not None or effect is None or not effect.status.is_open:
        return AuthorisedCall(checked, checked.calls)
    rules = policy_version(checked.proposal.observation.context.machine, call.manifest)
    sent = Action(
        call.manifest.tool, call.manifest.version, effect.args, effect.key, rules
    )  # judged by the rules of now
    _, call = _permitted(checked, replace(call, action=sent))
    return AuthorisedCall(checked, (call,))


def _permitted(checked: CheckedCall, call: Call) -> tuple[str | None, Call]:
    """The approval that covers the call, and the call with what forbids it; what is wrong already is not asked about."""
    if call.finding is not None or call.manifest is None:
        return None, call
    try:
        return _ruled(checked, call, call.manifest)
    except GuardError as problem:
        return None, call.but("guard_error", "guard_error", problem.message)


def _ruled(checked: CheckedCall, call: Call, manifest: ToolManifest) -> tuple[str | None, Call]:
    observation, planned = checked.proposal.observation, checked.proposal.planned
    actor = live_actor(observation.context, observation.checkpoint)
    pending = observation.checkpoint.head.proposal
    raised = isinstance(checked.decision, RequestApproval)
    if planned is not None and pending is not None and pending["tool"] == manifest.tool:
        raised = bool(pending["raised"])
    ruling = rule(manifest, actor, call.args, raised=raised)
    if manifest.is_read or planned is None:
        _tell(checked, call, ruling)
    if manifest.is_read:
        return None, call.but("denied", ruling.reason, ruling.detail) if isinstance(ruling, Deny) else call
    if planned is None:
        denied = ruling.detail if isinstance(ruling, Deny) else None
        return None, replace(call, denied=denied)  # proposed: nothing runs, the machine's route reads the ruling
    approval_id, call = _covered(observation, call, ruling)
    _tell(checked, call, ruling, call.finding is None)
    return approval_id, call


def _covered(observation: Observation, call: Call, ruling: Ruling) -> tuple[str | None, Call]:
    """A write about to run: denied, allowed, or covered by an approval of exactly this action."""
    if isinstance(ruling, Deny):
        return None, call.but("blocked", ruling.reason, ruling.detail)
    action = call.action
    assert action is not None  # noqa: S101  a write has one
    effect = observation.checkpoint.effect(action.key)
    asked = [a for a in observation.checkpoint.approvals if a.tool == action.tool]
    approval = next((a for a in reversed(asked) if a.effect_key == action.key), asked[-1] if asked else None)
    needs = isinstance(ruling, RequireApproval)
    if not needs and (approval is None or approval.effect_key != action.key):
        return None, call
    context = observation.context
    actor = observation.checkpoint.task.actor
    starter, people = str(actor["id"]), context.people.of(str(actor["tenant"]))
    again = effect is not None and approval is not None and effect.approval_id == approval.id and not effect.is_settled
    now = context.environment.now()
    why = approvals.uncovered(approval, action, people, starter, now, again=again)
    if why is None and approval is not None:
        why = _roles_missing(_needed(context.machine, ruling, approval.state), approval.roles)
    if why is None and effect is not None and effect.action_hash != action.hash:
        why = "action_changed"
    if why is not None:
        return None, call.but("blocked", why, _uncovered(context.machine, action, ruling, nobody_asked=not asked))
    return approval.id if approval else None, call


def _uncovered(machine: CompiledMachine, action: Action, ruling: Ruling, *, nobody_asked: bool) -> str:
    """What a person reads of a call without a valid yes; where nobody was asked, it is the machine that lacks something."""
    text = f"no valid approval covers this action ({action.hash[:12]})"
    if not nobody_asked or not isinstance(ruling, RequireApproval):
        return text
    states = machine.definition.all_states.items()
    asking = [n for n, s in states if isinstance(s, ApprovalState) and s.approval.of == action.tool]
    rules = "; ".join(ruling.because)
    lacks = f"the way here does not lead through `{asking[0]}`" if asking else "no `approval` state asks for it"
    return f"{text}: `{action.tool}` needs the yes of {', '.join(ruling.by) or 'somebody'} ({rules}), and {lacks}"


def _needed(machine: CompiledMachine, ruling: Ruling, state: str) -> tuple[str, ...]:
    """The roles that rules and machine ask for now, whatever the stored request says."""
    definition = machine.definition.all_states.get(state)
    asked = definition.approval.by or () if isinstance(definition, ApprovalState) else ()
    return united([ruling.by if isinstance(ruling, RequireApproval) else (), asked])


def _roles_missing(needed: tuple[str, ...], granted: tuple[str, ...]) -> str | None:
    """More may be needed than was asked for when the request was made, or than the stored request says."""
    left = list(granted)
    for role in needed:
        if role not in left:
            return "policy_changed"
        left.remove(role)
    return None


def _tell(checked: CheckedCall, call: Call, ruling: Ruling, covered: bool = False) -> None:  # noqa: FBT001, FBT002
    observation = checked.proposal.observation
    data = {"state": observation.state, "tool": call.tool, "ruling": ruling, "covered": covered}
    observation.context.emit(Event("ruled", observation.checkpoint.task.id, data))
