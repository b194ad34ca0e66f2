"""Machines of which one use may succeed by what another use did: whoever puts them there is told."""

from __future__ import annotations

import pytest

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from support.world import catalogue

#: acts once, and says so by its effects
DOES = """
machine: does
version: 1
summary: Act on a thing.
input: {thing: {type: string}}
limits: {steps: 2}
guards:
  acted: effects.exists(e, e.tool == "act" && e.status == "executed")
success: [acted]
initial: PROPOSING
states:
  PROPOSING: {choose: {act: ACTING}}
  ACTING: {call: act, with: proposal, then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}}
  FINDING: {reconcile: act, then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}}
"""
HEAD = """
machine: tiny
version: 1
summary: Act.
input: {thing: {type: string}}
limits: {steps: 9}
guards: {often: usage.steps > 3}
success: []
initial: ONE
states:
"""
USE = "  {name}: {{machine: does@1, with: {{thing: input.thing}}, then: {{SUCCEEDED: {then}, FAILED: FAILED}}}}\n"
ONCE = HEAD + USE.format(name="ONE", then="SUCCEEDED")
TWICE = HEAD + USE.format(name="ONE", then="TWO") + USE.format(name="TWO", then="SUCCEEDED")
AGAIN = HEAD + USE.format(name="ONE", then="MORE")
AGAIN += "  MORE: {choose: {look: stay, finish: SUCCEEDED}, then: [{when: often, goto: ONE}]}\n"


def told(holder: str, held: str = DOES) -> list[tuple[int, str]]:
    found = checked_catalogue(catalogue(holder, held=(held,)))
    assert found.report.errors == [], str(found.report)
    return [(f.mark.line + 1, f.message) for f in lint(found) if "effects are the task's" in f.message]


@pytest.mark.parametrize(
    ("holder", "line", "where"), [(TWICE, 12, "in `ONE` too"), (AGAIN, 11, "where it can be entered again")]
)
def test_a_success_that_can_hold_by_the_effect_of_another_use_is_a_finding(holder: str, line: int, where: str) -> None:
    text = f"`does` stands {where}, and its `acted` can hold by what it did before: effects are the task's"
    assert told(holder) == [(line, text)]


def test_one_use_that_is_entered_once_is_none() -> None:
    assert told(ONCE) == []


@pytest.mark.parametrize("holder", [TWICE, AGAIN])
def test_a_success_that_looks_at_its_own_input_is_none(holder: str) -> None:
    """Nor is one that reads no effects."""
    assert told(holder, DOES.replace("e.status == ", "e.key == input.thing && e.status == ")) == []
    assert told(holder, DOES.replace("success: [acted]", "success: []").replace("  acted:", "  unasked:")) == []
