"""What the policy says of one call, on values alone: which yes covers it, and what a person reads where none does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from unit.loop.making import ACTOR, act, standing

from statemachine_agent.definition.people import People
from statemachine_agent.loop.authorise import authorise
from statemachine_agent.loop.call import Call, Finding
from statemachine_agent.loop.context import Event
from statemachine_agent.loop.phases import AuthorisedCall, CheckedCall, Observation, Planned, Proposal
from statemachine_agent.models.decision import RequestApproval, ToolCall, ToolCalls
from statemachine_agent.policy.action import Action
from statemachine_agent.policy.ruling import Allow, Deny, RequireApproval
from statemachine_agent.records import Approval, ApprovalStatus, Effect, EffectStatus
from statemachine_agent.times import time_text
from support.playing import swap
from support.world import ACT, FIND, LOOK, PEOPLE

REPLAYED = ACT[: ACT.index("  reconcile:")] + "  replay: true\n" + ACT[ACT.index("approval:") :]


def person(name: str, *roles: str, scopes: tuple[str, ...] = ()) -> People:
    """Who there is now: this one has just these roles and scopes."""
    data = PEOPLE.model_dump(mode="json")
    data["people"][name] = {"roles": roles, "scopes": scopes}
    return People.model_validate(data)


class Stand:
    """A task of the small machine, and a call of its write about which the policy is asked."""

    def __init__(self, amount: int = 10, people: People = PEOPLE, **how: Any) -> None:
        self.heard: list[Event] = []
        context, self.checkpoint = standing(heard=self.heard, **how)
        self.context = replace(context, people=people)
        self.machine = context.machine
        self.action = act(self.machine, amount)
        self.now = context.environment.now()

    def known(self, **parts: Any) -> Stand:
        self.checkpoint = replace(self.checkpoint, **parts)
        return self

    def pending(self, tool: str = "act", *, raised: bool = False) -> Stand:
        proposal = {"tool": tool, "args": dict(self.action.args), "raised": raised}
        return self.known(head=replace(self.checkpoint.head, proposal=proposal))

    def approved(self, *by: str, roles: tuple[str, ...] = ("boss",), **more: Any) -> Approval:
        """A yes to the action, good for an hour."""
        answers = tuple({"by": name, "established": "os"} for name in by)
        return replace(
            Approval(
                "apr-1", "ASKING", "act", self.action.hash, self.action.key, self.action.policy_version, roles,
                time_text(self.now + timedelta(hours=1)), ApprovalStatus.APPROVED, answers,
            ),
            **more,
        )  # fmt: skip

    def effect(self, status: EffectStatus = EffectStatus.APPROVED, **more: Any) -> Effect:
        return replace(Effect(self.action.key, "act", status, self.action.hash, self.action.args), **more)

    def runs(self, planned: Planned | None = None, **call: Any) -> AuthorisedCall:
        """It is about to run."""
        planned = planned or Planned("act", self.action.args, "call")
        manifest = self.machine.tools[planned.tool]
        ready = Call(planned.tool, planned.args, manifest=manifest, **{"action": self.action, **call})
        observation = Observation(self.context, self.checkpoint, "ACTING")
        return authorise(CheckedCall(Proposal(observation, 1, planned=planned), None, (ready,)))

    def proposed(self, *tools: str, raised: bool = False) -> AuthorisedCall:
        """A model proposes it."""
        calls = [ToolCall(f"c{n}", tool, self.action.args) for n, tool in enumerate(tools)]
        decision = RequestApproval(calls[0], "to be sure") if raised else ToolCalls(tuple(calls))
        ready = tuple(Call(c.tool, c.args, c.id, manifest=self.machine.tools[c.tool]) for c in calls)
        observation = Observation(self.context, self.checkpoint, "LOOKING")
        return authorise(CheckedCall(Proposal(observation, 1), decision, ready))

    def uncovered(self, why: str) -> Finding:
        return Finding("blocked", why, f"no valid approval covers this action ({self.action.hash[:12]})")


def test_a_yes_to_this_action_covers_it() -> None:
    """The one that is about its key, whether another one came before or after it."""
    here = Stand(200)
    yes, other = here.approved("bob"), replace(here.approved("bob"), id="apr-2", effect_key="k", state="AGAIN")
    for approvals in ((yes,), (yes, other), (other, yes), (replace(yes, id="apr-0", state="X"), yes, other)):
        found = here.known(approvals=approvals).runs()
        assert (found.finding, found.approval_id) == (None, "apr-1")
    assert [e.data["covered"] for e in here.heard] == [True] * 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": ApprovalStatus.OPEN}, "approval_required"),
        ({"status": ApprovalStatus.CONSUMED}, "approval_required"),
        ({"action_hash": "0" * 64}, "action_changed"),
        ({"effect_key": "act:box:201"}, "action_changed"),
        ({"expires_at": "2026-10-28T11:17:43Z"}, "approval_expired"),
        ({"answers": ({"by": "eve"},)}, "approver_not_entitled"),
        ({"roles": ("chief",), "answers": ({"by": "ceo"},)}, "policy_changed"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_any_other_yes_does_not(change: dict[str, Any], why: str) -> None:
    """Blocked with the reason; what a person reads names the action."""
    here = Stand(200)
    found = here.known(approvals=(here.approved("bob", **change),)).runs()
    assert (found.finding, found.approval_id) == (here.uncovered(why), None)
    assert [e.data for e in here.heard] == [
        {"state": "ACTING", "tool": "act", "ruling": RequireApproval(("boss",), ("rule 1",)), "covered": False}
    ]


def test_whoever_started_a_task_never_covers_it() -> None:
    """Although they have the role by now."""
    here = Stand(200, person("ann", "boss", scopes=("things:write",)))
    assert here.known(approvals=(here.approved("ann"),)).runs().finding == here.uncovered("approver_not_entitled")


def test_the_state_that_asked_is_heard_too() -> None:
    """No rule asks for anybody, and a machine did: the role that its state names is needed."""
    here = Stand(10)
    assert here.known(approvals=(here.approved("bob"),)).runs().approval_id == "apr-1"
    found = here.known(approvals=(here.approved("ceo", roles=("chief",)),)).runs()
    assert found.finding == here.uncovered("policy_changed")
    elsewhere = here.approved("ceo", roles=("chief",), state="GONE")
    assert here.known(approvals=(elsewhere,)).runs().approval_id == "apr-1"


def test_each_role_that_is_needed_now_must_have_been_asked_for() -> None:
    """Also one that is needed beside those that were."""
    here = Stand(600)
    assert here.known(approvals=(here.approved("bob", "ceo", roles=("boss", "chief")),)).runs().approval_id == "apr-1"
    assert here.known(approvals=(here.approved("bob"),)).runs().finding == here.uncovered("policy_changed")


@pytest.mark.parametrize(
    ("status", "by", "covered"),
    [
        (EffectStatus.INTENDED, "apr-1", True),
        (EffectStatus.UNKNOWN, "apr-1", True),
        (EffectStatus.APPROVED, "apr-1", True),
        (EffectStatus.UNKNOWN, "apr-0", False),
        (EffectStatus.UNKNOWN, None, False),
        (EffectStatus.REJECTED, "apr-1", False),
        (EffectStatus.EXECUTED, "apr-1", False),
    ],
)
def test_a_used_yes_covers_its_own_effect_until_that_is_settled(status: EffectStatus, by: str, covered: bool) -> None:
    here = Stand(200)
    used = here.approved("bob", status=ApprovalStatus.CONSUMED)
    found = here.known(approvals=(used,), effects=(here.effect(status, approval_id=by),)).runs()
    assert found.finding == (None if covered else here.uncovered("approval_required"))
    assert found.approval_id == ("apr-1" if covered else None)


def test_the_ledger_must_hold_the_action_that_was_approved() -> None:
    here = Stand(200)
    other = here.effect(action_hash="0" * 64)
    found = here.known(approvals=(here.approved("bob"),), effects=(other,)).runs()
    assert found.finding == here.uncovered("action_changed")


def test_what_needs_nobody_runs_without_a_yes() -> None:
    """Whatever was asked about other actions; and an effect of its own is none."""
    here = Stand(10)
    other = here.approved("eve", effect_key="act:box:11")
    for approvals in ((), (other,)):
        found = here.known(approvals=approvals, effects=(here.effect(),)).runs()
        assert (found.finding, found.approval_id) == (None, None)
    assert [(e.data["ruling"], e.data["covered"]) for e in here.heard] == [(Allow(), True)] * 2


def test_where_nobody_was_asked_the_machine_lacks_something() -> None:
    """The author learns which rules they were, and what would ask."""
    here = Stand(600)
    lacks = "`act` needs the yes of boss, chief (rule 1; rule 2), and the way here does not lead through `ASKING`"
    assert here.runs().finding == Finding("blocked", "approval_required", f"{here.uncovered('').text}: {lacks}")


def test_what_a_model_itself_asked_a_yes_for_needs_one() -> None:
    """Also where no rule does; and only what it asked for."""
    here = Stand(10).pending(raised=True)
    text = f"{here.uncovered('').text}: `act` needs the yes of somebody (the model asked for it), and the way here does not"
    assert here.runs().finding == Finding("blocked", "approval_required", f"{text} lead through `ASKING`")
    assert Stand(10).pending(raised=False).runs().finding is None
    assert Stand(10).pending("look", raised=True).runs().finding is None


def test_a_proposal_is_ruled_on_by_itself() -> None:
    """By whether this one asks for a yes, not the one that waits; it is told, and nothing stands in its way."""
    here = Stand(10)
    asked = RequireApproval((), ("the model asked for it",))
    for pending, raised, ruling in ((True, False, Allow()), (False, True, asked)):
        here.heard.clear()
        found = here.pending(raised=pending).proposed("act", raised=raised)
        assert (found.finding, found.approval_id, found.calls[0].denied) == (None, None, None)
        assert [e.data for e in here.heard] == [{"state": "LOOKING", "tool": "act", "ruling": ruling, "covered": False}]
        assert {(e.kind, e.task_id) for e in here.heard} == {("ruled", "task-1")}


def test_a_denial_is_told_of_each_call() -> None:
    """A read is not made; a write that is only proposed leaves it to its machine; one about to run is blocked."""
    here = Stand(10, person("ann"))
    look, write = (
        "`ann` lacks the scope things:read, which `look` needs",
        "`ann` lacks the scope things:write, which `act` needs",
    )
    found = here.proposed("look", "act")
    assert [(c.finding, c.denied) for c in found.calls] == [
        (Finding("denied", "missing_scope", look), None),
        (None, write),
    ]
    assert [e.data["ruling"] for e in here.heard] == [Deny("missing_scope", look), Deny("missing_scope", write)]
    assert here.runs().finding == Finding("blocked", "missing_scope", write)
    read = here.runs(Planned("look", {"thing": "box"}, "call"), action=None)
    assert (read.finding, read.approval_id) == (Finding("denied", "missing_scope", look), None)


def test_what_is_wrong_already_is_not_asked_about() -> None:
    """Nor a control choice; both come back as they were."""
    here = Stand(600)
    wrong = Finding("blocked", "stale_proposal", "another row")
    found = here.runs(finding=wrong)
    assert (found.finding, found.approval_id, here.heard) == (wrong, None, [])
    ready = Call("finish", {"answer": "x"})
    checked = CheckedCall(Proposal(Observation(here.context, here.checkpoint, "LOOKING"), 1), None, (ready,))
    assert authorise(checked) == AuthorisedCall(checked, (ready,), None)


def test_a_rule_without_an_answer_says_which() -> None:
    """Of a proposal it is the end of the task, of a call it stands in the way."""
    text = swap(
        ACT, ("args:\n", "args:\n  note: {type: string, optional: true}\n"), ("args.amount > 100,", "args.note == 'x',")
    )
    here = Stand(10, texts=(LOOK, text, FIND))
    (proposed,), (runs,) = here.proposed("act").calls, here.runs().calls
    assert proposed.finding is not None and runs.finding is not None
    assert (proposed.finding.kind, proposed.finding.error_class) == ("guard_error", "guard_error")
    assert runs.finding.error_class == "guard_error"
    assert "`act.approval[0]`" in proposed.finding.text == runs.finding.text


# ---------------------------------------------------------------- looking for an effect


def looked_for(here: Stand, effect: Effect | None) -> AuthorisedCall:
    return here.runs(Planned("act", effect.args if effect else {}, "reconcile", effect), action=None)


def test_a_look_up_needs_no_permission() -> None:
    """Nobody is asked, and who looks on is told of no ruling."""
    here = Stand(600, person("ann"))
    found = looked_for(here, here.effect(EffectStatus.UNKNOWN))
    assert (found.finding, found.approval_id, here.heard) == (None, None, [])


@pytest.mark.parametrize("status", [None, EffectStatus.EXECUTED, EffectStatus.ABANDONED])
def test_a_replay_of_what_is_not_open_needs_none_either(status: EffectStatus | None) -> None:
    """It is not sent."""
    here = Stand(600, person("ann"), texts=(LOOK, REPLAYED, FIND))
    found = looked_for(here, here.effect(status) if status else None)
    assert (found.finding, here.heard) == (None, [])


def test_a_replay_is_a_write_like_any_other() -> None:
    """By the rules of now: the effect's own arguments and key, and the yes that it used."""
    here = Stand(600, texts=(LOOK, REPLAYED, FIND))
    effect = here.effect(EffectStatus.UNKNOWN, approval_id="apr-1")
    found = looked_for(here, effect)
    (call,) = found.calls
    assert call.action == here.action == Action("act", 1, effect.args, effect.key, here.action.policy_version)
    assert found.finding is not None and found.finding.error_class == "approval_required"
    yes = here.approved("bob", "ceo", roles=("boss", "chief"), status=ApprovalStatus.CONSUMED)
    assert looked_for(here.known(approvals=(yes,), effects=(effect,)), effect).finding is None
    assert here.checkpoint.task.actor == ACTOR
