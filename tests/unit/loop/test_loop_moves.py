"""What follows from a move of the chart: rows and reasons, states that lead on, people that are asked, and waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from unit.loop.making import TWO, act, drafted, effect, having, propose, request

from statemachine_agent.loop.draft import Draft
from statemachine_agent.records import (
    Approval,
    ApprovalRow,
    ApprovalStatus,
    EffectRow,
    EffectStatus,
    Evidence,
    Timer,
    TransitionRow,
)
from support.playing import swap
from support.world import MACHINE

#: rests for an hour after each look, once
RESTING = swap(
    MACHINE,
    ("      look: stay\n", "      look: [{goto: RESTING}]\n"),
    (
        "  PROPOSED:\n",
        "  RESTING: {wait: {for: 1h, at_most: 1}, then: {elapsed: LOOKING, exhausted: FAILED}}\n  PROPOSED:\n",
    ),
)
#: asks whatever the rules say
ASKS = swap(MACHINE, (MACHINE[MACHINE.index("    route:\n") : MACHINE.index("  ASKING:\n")], "    route: ASKING\n"))
#: a route at the very start, which leads nowhere
FIRST = swap(
    MACHINE,
    ("initial: LOOKING", "initial: FIRST"),
    ("states:\n", "states:\n  FIRST: {route: [{when: bad, goto: LOOKING}, {goto: NEEDS_INPUT}]}\n"),
)


# ---------------------------------------------------------------- moves


def test_each_move_is_a_row_with_its_row_number_and_the_guards_that_were_asked() -> None:
    """A reason that is written in the machine stands before the one that came along."""
    bad = Evidence(
        "ev-1",
        "look",
        "step",
        "",
        "r",
        1,
        "things",
        drafted().context.environment.now(),
        "system",
        {"good": False},
        "h",
        {},
    )
    draft = having(drafted(evidence_count=1), evidence=(bad,))
    draft.fire("call.look", reason="because")
    assert draft.head.configuration == ("LOOKING",)
    draft.fire_outcome("then.LOOKING", reason="evidence")
    assert draft.rows == [
        TransitionRow("call.look", "LOOKING", None, 0, {}, "because"),
        TransitionRow("then.LOOKING", "LOOKING", "DENIED", 10, {"bad": True}, "bad_thing"),
    ]
    assert (draft.head.status, draft.head.reason, draft.head.configuration) == ("DENIED", "bad_thing", ("DENIED",))


@pytest.mark.parametrize(
    ("event", "given", "reason"),
    [
        ("call.ask_user", None, "ask_user"),
        ("call.ask_user", "asked", "asked"),
        ("exit.budget", None, "exit"),
    ],
)
def test_an_end_without_a_reason_has_that_of_its_event(event: str, given: str | None, reason: str) -> None:
    """Of a control choice its name, of anything else that of the outcome."""
    draft = drafted()
    draft.fire(event, reason=given)
    assert draft.head.reason == reason


def test_a_task_begins_in_the_first_state_and_counts_it() -> None:
    draft = drafted()
    draft.begin()
    assert (draft.head.configuration, draft.head.visits, draft.head.status) == (("LOOKING",), {"LOOKING": 1}, "RUNNING")
    assert draft.rows == []
    inner = drafted(machine=TWO)
    inner.begin()
    assert inner.head.configuration == ("LOOKING", "WONDERING")
    assert inner.head.visits["LOOKING"] == inner.head.visits["WONDERING"] == 1


def test_a_first_state_that_leads_on_gives_its_reason() -> None:
    """A route at the very start: the end's reason is that it was the start."""
    draft = drafted(machine=FIRST)
    draft.begin()
    assert (draft.head.status, draft.head.reason) == ("NEEDS_INPUT", "start")
    assert (draft.head.visits, draft.head.configuration) == ({"FIRST": 1}, ("NEEDS_INPUT",))
    assert draft.rows == [TransitionRow("routed.FIRST", "FIRST", "NEEDS_INPUT", 1, {"bad": False}, "start")]


def test_regions_go_on_beside_each_other_and_are_done_when_both_are() -> None:
    """What one waits for stands while the other one moves; the last one to end lets the states around them be done."""
    draft = drafted("LOOKING", "WONDERING", machine=TWO)
    now = draft.context.environment.now()
    propose(draft)
    draft.rows.clear()
    draft.fire("call.act", reason="proposed")
    asks = Timer("ASKING", "expired.act", now + timedelta(hours=2))
    assert (draft.head.configuration, draft.head.status) == (("LOOKING", "ASKING"), "RUNNING")
    assert draft.checkpoint.timers == (asks,)
    draft.fire_outcome("ok.look", reason="seen")
    rests = Timer("RESTING", "elapsed.RESTING", now + timedelta(hours=1))
    assert (draft.head.configuration, draft.head.status) == (("RESTING", "ASKING"), "AWAITING_APPROVAL")
    assert draft.checkpoint.timers == (asks, rests)
    draft.fire("elapsed.RESTING")
    assert (draft.head.configuration, draft.head.status) == (("LEFT_done", "ASKING"), "AWAITING_APPROVAL")
    assert (draft.checkpoint.timers, [a.status for a in draft.checkpoint.approvals]) == ((asks,), ["open"])
    draft.fire("rejected.act")
    assert (draft.head.status, draft.head.reason) == ("SUCCEEDED", "completed")
    assert [(r.event, r.source, r.target, r.reason) for r in draft.rows if isinstance(r, TransitionRow)] == [
        ("call.act", "WONDERING", "ASKING", "proposed"),
        ("ok.look", "LOOKING", "RESTING", "seen"),
        ("elapsed.RESTING", "RESTING", "LEFT_done", None),
        ("rejected.act", "ASKING", "RIGHT_done", None),
        ("done.BOTH", "BOTH", "SUCCEEDED", "done"),
    ]


def test_a_task_that_only_stands_asks_and_waits_anew() -> None:
    """As when its states were entered, and without having entered them again; what cannot be asked ends it."""
    draft = drafted("RESTING", "ASKING", machine=TWO, visits={"RESTING": 1, "ASKING": 1})
    now = draft.context.environment.now()
    propose(draft)
    draft.rows.clear()
    draft.stand()
    (asked,) = draft.checkpoint.approvals
    assert draft.rows == [ApprovalRow(asked.id, "requested")]
    assert draft.checkpoint.timers == (
        Timer("RESTING", "elapsed.RESTING", now + timedelta(hours=1)),
        Timer("ASKING", "expired.act", now + timedelta(hours=2)),
    )
    assert (draft.head.status, draft.head.visits) == ("AWAITING_APPROVAL", {"RESTING": 1, "ASKING": 1})
    draft = drafted("ASKING", visits={"ASKING": 1})
    draft.stand()
    assert (draft.head.status, draft.head.reason) == ("FAILED", "guard_error")
    assert "there is no proposal of `act` to approve" in (draft.head.output or "")


@pytest.mark.parametrize(("status", "after"), [("executed", "verified"), ("unknown", "unknown"), (None, None)])
def test_a_row_that_confirms_verifies_what_was_executed(status: str | None, after: str | None) -> None:
    """And no effect of which that is not known."""
    machine = swap(MACHINE, ("then: {ok: SUCCEEDED,", "then: {ok: [{goto: LOOKING, confirms: act}],"))
    draft = drafted("ACTING", machine=machine)
    older = effect(draft, 20, EffectStatus.EXECUTED)
    if status is not None:
        draft = having(draft, effects=(older, effect(draft, status=EffectStatus(status), proposed_in=1)))
    draft.fire("ok.act")
    assert [e.status for e in draft.checkpoint.effects][1:] == ([after] if after else [])
    assert [(r.effect_key, r.status) for r in draft.rows if isinstance(r, EffectRow)] == (
        [("act:box:10", "verified")] if after == "verified" else []
    )


ACTED = 'effects.exists(e, e.tool == "act" && e.status in ["executed", "verified"])'
LONG = "input.thing == '" + "x" * 300 + "'"


@pytest.mark.parametrize(
    ("success", "status", "said"),
    [
        ("[both]", "executed", "`success` does not hold: `both` is false: one of `acted`, `looked`, `bad` is"),
        ("[acted, long]", "executed", f"`success` does not hold: `long` is false: {LONG[:299]}…"),
        ("[acted]", "unknown", f"`success` does not hold: `acted` is false: {ACTED}"),
        ("[same]", "unknown", "`success` holds, and an effect is still open"),
    ],
)  # fmt: skip
def test_a_success_that_is_none_says_what_it_lacks(success: str, status: str, said: str) -> None:
    """The guard that does not hold, with its text, or with the guards that it stands for; or that an effect is open."""
    machine = swap(
        MACHINE,
        (
            "guards:\n",
            f"guards:\n  both: [acted, more]\n  more: [looked, bad]\n  same: input.thing == 'box'\n  long: {LONG}\n",
        ),
        ("success: [acted]", f"success: {success}"),
    )
    draft = drafted("ACTING", machine=machine)
    draft = having(draft, effects=(effect(draft, status=EffectStatus(status)),))
    draft.fire("ok.act")
    assert (draft.head.status, draft.head.reason, draft.head.output) == ("FAILED", "not_verified", said)


def test_a_guard_of_success_that_is_asked_elsewhere_is_no_success_that_is_none() -> None:
    """The row that takes no other way says nothing of it."""
    draft = drafted(
        machine=swap(MACHINE, ("{when: bad, goto: DENIED, reason: bad_thing}", "{when: acted, goto: DENIED}"))
    )
    draft.fire("then.LOOKING")
    assert (draft.head.configuration, draft.detail) == (("LOOKING",), None)
    assert [r.asked for r in draft.rows if isinstance(r, TransitionRow)] == [{"acted": False}]


def test_a_success_does_not_speak_of_what_failed_on_the_way() -> None:
    """Any other end does."""
    for event, end, output in (("ok.act", "SUCCEEDED", None), ("failed.act", "FAILED", "act: no")):
        draft = drafted("ACTING")
        draft = having(draft, effects=(effect(draft, status=EffectStatus.EXECUTED),))
        draft.detail = "act: no"
        draft.fire_outcome(event, reason="refused")
        reason = "completed" if end == "SUCCEEDED" else "refused"
        assert (draft.head.status, draft.head.reason, draft.head.output) == (end, reason, output)


@pytest.mark.parametrize("leaf", ["PROPOSED", "ASKING"])
def test_what_is_denied_meanwhile_is_not_asked_about(leaf: str) -> None:
    """The end says which scope is missing, whether a row of the machine has a reason of its own or not."""
    machine = swap(MACHINE, ("{goto: DENIED, reason: policy}", "{goto: DENIED}")) if leaf == "PROPOSED" else ASKS
    machine = swap(machine, ("      look: stay\n", "      look: [{goto: PROPOSED}]\n"))
    draft = drafted(machine=machine)
    task = replace(draft.checkpoint.task, actor={**draft.checkpoint.task.actor, "scopes": ["things:read"]})
    draft = having(draft, task=task)
    propose(draft, 200)
    draft.fire("ok.look")
    assert (draft.head.status, draft.head.reason) == ("DENIED", "missing_scope")
    assert draft.head.output == "`ann` lacks the scope things:write, which `act` needs"
    assert [(e.status, e.reason) for e in draft.checkpoint.effects] == [("abandoned", "missing_scope")]
    assert (draft.checkpoint.approvals, draft.head.proposal) == ((), None)


# ---------------------------------------------------------------- asking and waiting


def test_a_request_shows_the_action_its_rules_and_what_is_known() -> None:
    """For an hour; the roles of rules and state together."""
    draft = drafted("PROPOSED")
    now = draft.context.environment.now()
    seen = Evidence("ev-1", "look", "step", "c", "r", 1, "things", now, "mixed", {"good": True}, "h", {})
    draft = having(draft, evidence=(seen, replace(seen, name="ev-2", old=True)))
    propose(draft, 600)
    draft.rows.clear()
    draft.fire("routed.PROPOSED")
    action = act(draft.context.machine, 600)
    (asked,) = draft.checkpoint.approvals
    assert asked == Approval(
        asked.id, "ASKING", "act", action.hash, "act:box:600", action.policy_version, ("boss", "chief"),
        "2026-10-28T12:17:43.000000Z", ApprovalStatus.OPEN, (),
        {
            "tool": "act", "version": 1, "args": {"thing": "box", "amount": 600}, "key": "act:box:600",
            "because": ["rule 1", "rule 2"],
            "evidence": [
                {"id": "ev-1", "tool": "look", "source": "things", "at": "2026-10-28T11:17:43+00:00", "trust": "mixed"}
            ],
        },
        now,
    )  # fmt: skip
    assert asked.id.startswith("apr-") and len(asked.id) == 40
    assert draft.checkpoint.timers == (Timer("ASKING", "expired.act", now + timedelta(hours=1)),)
    assert draft.rows[-1] == ApprovalRow(asked.id, "requested")
    assert (draft.head.status, draft.head.visits) == ("AWAITING_APPROVAL", {"ASKING": 1})


def test_where_no_rule_asks_the_state_itself_does() -> None:
    draft = drafted("PROPOSED", machine=ASKS)
    propose(draft)
    draft.fire("routed.PROPOSED")
    (asked,) = draft.checkpoint.approvals
    assert (asked.roles, asked.shown["because"], asked.shown["evidence"]) == (("boss",), [], [])


@pytest.mark.parametrize(
    ("event", "approval", "effect_ends", "reason"),
    [
        ("rejected.act", "void", "rejected", "rejected"),
        ("expired.act", "expired", "abandoned", "expired"),
        ("approved.act", "void", "proposed", None),
    ],
)
def test_what_is_left_behind_when_people_were_asked(
    event: str, approval: str, effect_ends: str, reason: str | None
) -> None:
    """The timer goes; an open request is over; the write that was asked about is given up unless it goes on."""
    draft = drafted("ASKING", machine=swap(MACHINE, ("DENIED, expired: NEEDS_INPUT", "LOOKING, expired: LOOKING")))
    propose(draft)
    timers = (
        Timer("ASKING", "expired.act", draft.context.environment.now()),
        Timer("X", "x", draft.context.environment.now()),
    )
    draft = having(draft, approvals=(request(draft),), timers=timers)
    draft.rows.clear()
    draft.fire(event)
    assert [a.status for a in draft.checkpoint.approvals] == [approval]
    assert [r for r in draft.rows if isinstance(r, ApprovalRow)] == [ApprovalRow("apr-ASKING", approval)]
    assert [(e.status, e.reason) for e in draft.checkpoint.effects] == [(effect_ends, reason)]
    assert (draft.head.proposal is None) == (reason is not None)


def test_people_are_asked_as_often_as_the_machine_says() -> None:
    """Once too often is a way out of its own, and what was proposed is given up."""
    machine = swap(
        MACHINE,
        ("by: boss, expires: 1h}", "by: boss, expires: 1h, at_most: 2}"),
        ("expired: NEEDS_INPUT}", "expired: LOOKING, exhausted: LOOKING}"),
    )
    for visits, status, approvals in ((1, "AWAITING_APPROVAL", 1), (2, "RUNNING", 0)):
        draft = drafted("PROPOSED", machine=machine, visits={"ASKING": visits})
        propose(draft, 200)
        draft.fire("routed.PROPOSED")
        assert (draft.head.status, len(draft.checkpoint.approvals)) == (status, approvals)
        assert draft.head.visits["ASKING"] == visits + 1
    assert [(e.status, e.reason) for e in draft.checkpoint.effects] == [("abandoned", "exhausted")]


def test_a_wait_ends_after_its_time_and_is_waited_so_often() -> None:
    """The second time is one too many."""
    draft = drafted(machine=RESTING)
    draft.fire("ok.look")
    now = draft.context.environment.now()
    assert draft.checkpoint.timers == (Timer("RESTING", "elapsed.RESTING", now + timedelta(hours=1)),)
    assert (draft.head.status, draft.head.visits) == ("WAITING", {"RESTING": 1})
    draft.fire("elapsed.RESTING")
    assert (draft.checkpoint.timers, draft.head.configuration) == ((), ("LOOKING",))
    draft.fire("ok.look")
    assert (draft.head.status, draft.head.reason) == ("FAILED", "exhausted")


#: opens at a time that its input says, or when it is told to
OPENS = """
machine: tiny
version: 1
summary: Wait until it opens, then wait for a word.
input: {thing: {type: string}}
limits: {steps: 3}
signals: {word: {}}
success: []
initial: LOOKING
states:
  LOOKING: {choose: {look: [{goto: CLOSED}]}}
  CLOSED: {wait: {until: timestamp(input.thing)}, then: {elapsed: LISTENING}}
  LISTENING: {wait: {signal: word, expires: 30m}, then: {received: SUCCEEDED, expired: NEEDS_INPUT}}
"""


def opening(thing: str) -> Draft:
    draft = drafted(machine=OPENS)
    task = replace(draft.checkpoint.task, input={"thing": thing})
    draft = having(draft, task=task)
    draft.fire_outcome("ok.look")
    return draft


def test_a_wait_until_a_time_ends_then() -> None:
    """In whatever zone it is written; it is stored in that of the machine."""
    draft = opening("2026-10-28T15:00:00+01:00")
    due = datetime(2026, 10, 28, 14, tzinfo=UTC)
    assert draft.checkpoint.timers == (Timer("CLOSED", "elapsed.CLOSED", due),)
    assert draft.checkpoint.timers[0].due_at.tzinfo is UTC
    assert (draft.head.status, draft.head.configuration) == ("WAITING", ("CLOSED",))


@pytest.mark.parametrize("thing", ["2026-10-28T11:17:43Z", "2026-10-28T11:17:42Z"])
def test_a_time_that_is_over_is_not_waited_for(thing: str) -> None:
    """The state behind it is entered at once; there the wait for a word ends after half an hour."""
    draft = opening(thing)
    now = draft.context.environment.now()
    assert draft.checkpoint.timers == (Timer("LISTENING", "expired.LISTENING", now + timedelta(minutes=30)),)
    rows = [(r.event, r.target, r.reason) for r in draft.rows if isinstance(r, TransitionRow)]
    assert rows == [("ok.look", "CLOSED", None), ("elapsed.CLOSED", "LISTENING", None)]
    assert draft.head.visits == {"CLOSED": 1, "LISTENING": 1}


def test_what_is_no_time_is_not_waited_for() -> None:
    """The end says which expression it was."""
    machine = swap(OPENS, ("until: timestamp(input.thing)", "until: input.thing"))
    draft = drafted(machine=machine)
    draft.fire_outcome("ok.look")
    assert (draft.head.status, draft.head.reason) == ("FAILED", "guard_error")
    assert "`CLOSED.wait.until`" in (draft.head.output or "") and "gave str, not a time" in (draft.head.output or "")


def test_a_text_that_is_no_time_ends_the_task() -> None:
    """The end says where it stands."""
    draft = opening("soon")
    assert (draft.head.status, draft.head.reason) == ("FAILED", "guard_error")
    assert "`CLOSED.wait.until`" in (draft.head.output or "")


def test_nobody_is_asked_about_what_was_not_proposed() -> None:
    """A request without a proposal of its tool is an error of the machine, that names both."""
    draft = drafted("PROPOSED", machine=ASKS)
    draft.fire_outcome("routed.PROPOSED")
    assert (draft.head.status, draft.head.reason, draft.checkpoint.approvals) == ("FAILED", "guard_error", ())
    assert "ASKING" in (draft.head.output or "") and "there is no proposal of `act` to approve" in (
        draft.head.output or ""
    )
