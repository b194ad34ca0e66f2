"""Phase 5: the policy's word on a checked call: scopes, rules, and whether people's yes covers exactly this action.

It reads nothing that the model wrote but checked arguments. It must not run anything.
"""

from __future__ import annotations

from dataclasses import replace

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.machine import ApprovalState
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.errors import GuardError
from statemachine_agent.loop.context import Event
from statemachine_agent.loop.phases import AuthorisedCall, CheckedCall, Finding, expect
from statemachine_agent.loop.view import live_actor
from statemachine_agent.models.decision import RequestApproval
from statemachine_agent.policy import approvals
from statemachine_agent.policy.action import Action, policy_version
from statemachine_agent.policy.ruling import Deny, RequireApproval, Ruling, rule, united
from statemachine_agent.records import Effect


def authorise(checked: CheckedCall) -> AuthorisedCall:
    """The call with its ruling; `finding` says what stands in the way."""
    expect(checked, CheckedCall, "authorise")
    if checked.finding is not None or checked.manifest is None:
        return AuthorisedCall(checked, finding=checked.finding)
    try:
        return _ruled(checked, checked.manifest)
    except GuardError as problem:
        kind = "guard_error" if checked.proposal.planned is None else "blocked"
        return AuthorisedCall(checked, finding=Finding(kind, "guard_error", problem.message))


def _ruled(checked: CheckedCall, manifest: ToolManifest) -> AuthorisedCall:
    observation = checked.proposal.observation
    planned = checked.proposal.planned
    if planned is not None and planned.purpose == "reconcile":
        if manifest.reconciler is not None or planned.effect is None or not planned.effect.status.is_open:
            return AuthorisedCall(checked)
        checked = _as_sent(checked, manifest, planned.effect)  # a replay is a write like any other
    actor = live_actor(observation.context, observation.checkpoint)
    pending = observation.checkpoint.head.proposal
    raised = isinstance(checked.decision, RequestApproval)
    if checked.proposal.planned is not None and pending is not None and pending["tool"] == manifest.tool:
        raised = bool(pending["raised"])
    ruling = rule(manifest, actor, checked.args, raised=raised)
    if manifest.is_read or checked.proposal.planned is None:
        _tell(checked, ruling)
    if manifest.is_read:
        denied = Finding("denied", ruling.reason, ruling.detail) if isinstance(ruling, Deny) else None
        return AuthorisedCall(checked, ruling, finding=denied)
    if checked.proposal.planned is None:
        return AuthorisedCall(checked, ruling)  # proposed: nothing runs, the machine's route reads the ruling
    authorised = _covered(checked, ruling)
    _tell(checked, ruling, authorised.finding is None)
    return authorised


def _as_sent(checked: CheckedCall, manifest: ToolManifest, effect: Effect) -> CheckedCall:
    """The call with the action that was sent, which is judged by the rules of now."""
    rules = policy_version(checked.proposal.observation.context.machine, manifest)
    return replace(checked, action=Action(manifest.tool, manifest.version, effect.args, effect.key, rules))


def _covered(checked: CheckedCall, ruling: Ruling) -> AuthorisedCall:
    """A write about to run: denied, allowed, or covered by an approval of exactly this action."""
    if isinstance(ruling, Deny):
        return AuthorisedCall(checked, ruling, finding=Finding("blocked", ruling.reason, ruling.detail))
    observation, action = checked.proposal.observation, checked.action
    assert action is not None  # noqa: S101  a write has one
    effect = observation.checkpoint.effect(action.key)
    asked = [a for a in observation.checkpoint.approvals if a.tool == action.tool]
    approval = next((a for a in reversed(asked) if a.effect_key == action.key), asked[-1] if asked else None)
    needs = isinstance(ruling, RequireApproval)
    if not needs and (approval is None or approval.effect_key != action.key):
        return AuthorisedCall(checked, ruling)
    context = observation.context
    starter = str(observation.checkpoint.task.actor["id"])
    again = effect is not None and approval is not None and effect.approval_id == approval.id and not effect.is_settled
    now = context.environment.now()
    why = approvals.uncovered(approval, action, context.people, starter, now, again=again)
    if why is None and approval is not None:
        why = _roles_missing(_needed(context.machine, ruling, approval.state), approval.roles)
    if why is None and effect is not None and effect.action_hash != action.hash:
        why = "action_changed"
    if why is not None:
        text = f"no valid approval covers this action ({action.hash[:12]})"
        return AuthorisedCall(checked, ruling, finding=Finding("blocked", why, text))
    return AuthorisedCall(checked, ruling, approval.id if approval else None)


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


def _tell(checked: CheckedCall, ruling: Ruling, covered: bool = False) -> None:  # noqa: FBT001, FBT002
    observation = checked.proposal.observation
    tool = checked.manifest.tool if checked.manifest else ""
    data = {"state": observation.state, "tool": tool, "ruling": ruling, "covered": covered}
    observation.context.emit(Event("ruled", observation.checkpoint.task.id, data))
