"""Moves in a machine that stands in another one: its end is none of the task, and what was proposed in it ends with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from unit.loop.making import drafted, effect, having, propose

from statemachine_agent.loop.draft import Draft
from statemachine_agent.records import EffectRow, EffectStatus, Evidence, Timer, TransitionRow

INNER = """
machine: inner
version: 1
summary: Act when it opens.
input: {opens: {type: string}}
limits: {steps: 3}
guards:
  acted: effects.exists(e, e.tool == "act" && e.status == "executed")
success: [acted]
initial: LOOKING
states:
  LOOKING: {choose: {look: [{goto: CLOSED}], act: PROPOSED, ask_user: NEEDS_INPUT}}
  CLOSED: {wait: {until: timestamp(input.opens)}, then: {elapsed: LOOKING}}
  PROPOSED:
    route:
      - {when: approval_required, goto: DENIED, reason: too_much}
      - {goto: ACTING}
  ACTING: {call: act, with: proposal, then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}}
  FINDING: {reconcile: act, then: {found: SUCCEEDED, absent: FAILED, failed: FAILED}}
"""
OUTER = """
machine: tiny
version: 1
summary: Let it act, then look.
input: {thing: {type: string}}
limits: {steps: 9}
guards: {ended: evidence.look.good}
success: [ended]
initial: HOLD
states:
  HOLD:
    machine: inner@1
    with: {opens: input.thing}
    then: {SUCCEEDED: AFTER, DENIED: AFTER, NEEDS_INPUT: AFTER, FAILED: NEEDS_INPUT}
  AFTER: {choose: {look: stay, act: PROPOSING}}
  PROPOSING: {route: [{when: approval_required, goto: DENIED}, {goto: ACTING}]}
  ACTING: {call: act, with: proposal, then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}}
  FINDING: {reconcile: act, then: {found: SUCCEEDED, absent: FAILED, failed: FAILED}}
"""


def seen(**payload: Any) -> Evidence:
    now = datetime(2026, 10, 28, tzinfo=UTC)
    return Evidence("ev-1", "look", "step", "", "r", 1, "things", now, "system", payload, "h", {})


def inside(*leaves: str, **how: Any) -> Draft:
    return drafted(*leaves, machine=OUTER, held=(INNER,), **how)


def test_what_was_proposed_in_it_ends_with_it() -> None:
    """The reason of the inner end goes along, to the effect and to the move behind it."""
    draft = inside("HOLD__LOOKING")
    propose(draft, 200, state="HOLD__LOOKING")
    draft.rows.clear()
    draft.fire("call.act")
    assert (draft.head.configuration, draft.head.status, draft.head.proposal) == (("AFTER",), "RUNNING", None)
    assert draft.head.visits == {"HOLD__PROPOSED": 1, "HOLD__DENIED": 1, "AFTER": 1}
    action_hash = draft.checkpoint.effects[0].action_hash
    assert [replace(row, row_no=0, asked={}) if isinstance(row, TransitionRow) else row for row in draft.rows] == [
        TransitionRow("call.act", "HOLD__LOOKING", "HOLD__PROPOSED", 0, {}),
        TransitionRow("routed.HOLD__PROPOSED", "HOLD__PROPOSED", "HOLD__DENIED", 0, {}, "too_much"),
        EffectRow("act:box:200", "act", EffectStatus.ABANDONED, 0, action_hash, "too_much"),
        TransitionRow("routed.HOLD__DENIED", "HOLD__DENIED", "AFTER", 0, {}, "too_much"),
    ]


def test_what_was_proposed_outside_of_it_does_not() -> None:
    """Nor does anything end with a state within it that is no end of it, and without a proposal there is nothing to end."""
    draft = inside("HOLD__LOOKING")
    propose(draft, 200, state="AFTER")
    draft.fire("call.ask_user")
    assert draft.head.configuration == ("AFTER",)
    assert draft.head.proposal is not None
    assert [e.status for e in draft.checkpoint.effects] == ["proposed"]
    draft = inside("HOLD__LOOKING")
    propose(draft, 10, state="HOLD__LOOKING")
    draft.fire("call.act")
    assert (draft.head.configuration, draft.head.proposal is None) == (("HOLD__ACTING",), False)
    draft = inside("HOLD__LOOKING")
    draft.fire("call.ask_user")
    assert (draft.head.configuration, draft.checkpoint.effects) == (("AFTER",), ())


def test_a_route_of_the_outer_machine_drops_nothing() -> None:
    """It is no end of any machine within."""
    draft = inside("AFTER")
    propose(draft, 10, state="AFTER")
    draft.fire("call.act")
    assert (draft.head.configuration, draft.head.proposal is None) == (("ACTING",), False)


def test_it_succeeds_by_its_own_guards() -> None:
    """What it lacks is told under the name that the guard has in the task."""
    draft = inside("HOLD__ACTING")
    draft.fire("ok.act")
    assert (draft.head.status, draft.head.reason) == ("NEEDS_INPUT", "not_verified")
    text = 'effects.exists(e, e.tool == "act" && e.status == "executed")'
    assert draft.head.output == f"`success` does not hold: `hold__acted` is false: {text}"
    draft = having(inside("ACTING", evidence_count=1), evidence=(seen(good=False),))
    draft.fire("ok.act")
    assert (draft.head.reason, draft.head.output) == (
        "not_verified",
        "`success` does not hold: `ended` is false: evidence.look.good",
    )
    draft = inside("HOLD__ACTING")
    draft = having(draft, effects=(effect(draft, status=EffectStatus.EXECUTED),))
    draft.fire("ok.act")
    assert (draft.head.configuration, draft.detail) == (("AFTER",), None)


@pytest.mark.parametrize("thing", ["2026-10-28T15:00:00Z", "soon"])
def test_it_waits_by_its_own_input(thing: str) -> None:
    draft = inside("HOLD__LOOKING")
    draft = having(draft, task=replace(draft.checkpoint.task, input={"thing": thing}))
    draft.fire_outcome("ok.look")
    if thing == "soon":
        assert draft.head.reason == "guard_error" and "`HOLD__CLOSED.wait.until`" in (draft.head.output or "")
    else:
        due = datetime(2026, 10, 28, 15, tzinfo=UTC)
        assert draft.checkpoint.timers == (Timer("HOLD__CLOSED", "elapsed.HOLD__CLOSED", due),)
