"""What a chart says where nothing is said in the file: tools that no row lets through, waits, and the states around one."""

from __future__ import annotations

import pytest
from unit.chart.charts import Given, machine

from statemachine_agent.chart.chart import Availability, Standing
from statemachine_agent.chart.configuration import Tree
from statemachine_agent.chart.transitions import IMPLIED_REFUSAL

NESTED = Tree(
    {"": ("working", "FAILED"), "working": ("A", "P"), "P": ("L", "R"), "L": ("L1", "L2"), "R": ("R1", "R2")},
    parallel=frozenset({"P"}),
    first={"working": "A", "L": "L1", "R": "R1"},
)


def known(name: str) -> bool:
    """No guard reads what is proposed."""
    return False


def test_a_tool_that_no_row_lets_through_is_hidden_and_says_so() -> None:
    """The model reads that it is not possible now, under the tool's name."""
    chart = machine("  A: {choose: {make: [{when: a, goto: B}], look: stay}}\n  B: {route: SUCCEEDED}\n").chart
    found = chart.available(("A",), Given(false="a"), known)
    assert found[0] == Availability("make", Standing.HIDDEN, IMPLIED_REFUSAL)
    assert [(a.tool, a.standing) for a in found[1:]] == [("look", "offered"), ("cannot_continue", "offered")]


def test_a_row_that_only_the_proposal_can_judge_offers_the_tool() -> None:
    """Even before a row that refuses: it might be passed over."""
    rows = "[{when: proposed, goto: B}, {refuse: no}]"
    chart = machine(f"  A: {{choose: {{make: {rows}, look: stay}}}}\n  B: {{route: SUCCEEDED}}\n").chart
    found = chart.available(("A",), Given(), lambda name: name == "proposed")
    assert found[0] == Availability("make", Standing.OFFERED)


def test_a_wait_has_its_two_outcomes_under_its_own_name() -> None:
    """It elapses, or it was entered too often; both lead where the file says."""
    chart = machine(
        "  A: {choose: {look: [{goto: W}]}}\n"
        "  W: {wait: {for: 10m, at_most: 2}, then: {elapsed: A, exhausted: [{goto: FAILED, reason: enough}]}}\n"
    ).chart
    assert chart.fire(("W",), "elapsed.W", Given()).after == ("A",)
    move = chart.fire(("W",), "exhausted.W", Given())
    assert (move.after, [t.reason for t in move.taken]) == (("FAILED",), ["enough"])


@pytest.mark.parametrize(
    ("state", "leaves"),
    [
        ("A", ("A",)),
        ("R2", ("L1", "R2")),
        ("L2", ("L2", "R1")),
        ("L", ("L1", "R1")),
        ("P", ("L1", "R1")),
        ("working", ("A",)),
        ("FAILED", ("FAILED",)),
    ],
)
def test_around_a_state_the_regions_beside_it_stand_at_their_first_states(state: str, leaves: tuple[str, ...]) -> None:
    """A whole configuration, in the order of the file."""
    assert NESTED.around(state) == leaves
    assert state in NESTED.full(leaves)


def test_the_line_of_a_state_is_what_holds_it_the_nearest_first() -> None:
    """An end is held by nothing."""
    assert NESTED.line("R2") == ("R2", "R", "P", "working")
    assert NESTED.line("FAILED") == ("FAILED",)
