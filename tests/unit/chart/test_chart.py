"""What is allowed now, and what follows from an event."""

from __future__ import annotations

import pytest
from unit.chart.charts import Given, anything, machine, refund

from statemachine_agent.chart.chart import Availability, Standing, is_end
from statemachine_agent.chart.transitions import IMPLIED_REFUSAL
from statemachine_agent.definition.names import ENDS
from statemachine_agent.errors import GuardError, IllegalTransitionError

TWO = "  A: {route: [%s, {goto: FAILED}]}\n"
AB = [(a, b) for a in (True, False) for b in (True, False)]


def answers(**given: bool) -> Given:
    return Given([n for n, v in given.items() if v], [n for n, v in given.items() if not v])


# ---------------------------------------------------------------- conditions


@pytest.mark.parametrize(("a", "b"), AB)
def test_unless_is_the_exact_opposite_of_when(a: bool, b: bool) -> None:
    """`unless: [a, b]` refuses only where both hold; the library's own list would mean: none may hold."""
    when = machine(TWO % "{when: [a, b], goto: SUCCEEDED}").chart
    unless = machine(TWO % "{unless: [a, b], goto: SUCCEEDED}").chart
    assert when.fire(("A",), "routed.A", answers(a=a, b=b)).after == (("SUCCEEDED",) if a and b else ("FAILED",))
    assert unless.fire(("A",), "routed.A", answers(a=a, b=b)).after == (("FAILED",) if a and b else ("SUCCEEDED",))


@pytest.mark.parametrize(("a", "b"), AB)
def test_a_guard_made_of_guards_is_one_question(a: bool, b: bool) -> None:
    chart = machine(TWO % "{unless: both, goto: SUCCEEDED}").chart
    move = chart.fire(("A",), "routed.A", Given(["both"] if a and b else [], [] if a and b else ["both"]))
    assert (move.asked, move.after) == ({"both": a and b}, ("FAILED",) if a and b else ("SUCCEEDED",))


def test_rows_are_tried_in_order_and_guards_read_as_far_as_needed() -> None:
    rows = "{when: [a, b], goto: SUCCEEDED}, {unless: [c, d], goto: DENIED}, {when: a, goto: CANCELLED}"
    chart = machine(TWO % rows).chart
    move = chart.fire(("A",), "routed.A", Given(false="ac"))
    assert (move.after, dict(move.asked)) == (("DENIED",), {"a": False, "c": False})
    move = chart.fire(("A",), "routed.A", Given(true="acd", false="b"))
    assert (move.after, list(move.asked)) == (("CANCELLED",), ["a", "b", "c", "d"])


def test_no_guard_is_asked_twice_in_one_event() -> None:
    given = Given(true="ab", false="cd")
    rows = (
        "{when: [a, c], goto: DENIED}, {when: [a, b, d], goto: DENIED},"
        " {unless: [a, b], goto: DENIED}, {when: [b, a], goto: SUCCEEDED}"
    )
    move = machine(TWO % rows).chart.fire(("A",), "routed.A", given)
    assert move.after == ("SUCCEEDED",)
    assert given.asked == ["a", "c", "b", "d"]


def test_no_guard_is_asked_for_another_event() -> None:
    given = Given(true="a")
    machine(TWO % "{when: a, goto: SUCCEEDED}").chart.fire(("A",), "exit.cancel", given)
    assert given.asked == []


# ---------------------------------------------------------------- moves


def test_a_move_is_told_as_data() -> None:
    move = refund().chart.fire(("VERIFYING",), "ok.get_refund", Given(["refund_confirmed"]))
    assert (move.event, move.before, move.after, move.entered) == (
        "ok.get_refund", ("VERIFYING",), ("NOTIFYING",), ("NOTIFYING",),
    )  # fmt: skip
    assert [t.confirms for t in move.taken] == ["issue_refund"]
    assert move.moved and move.refusal is None and move.asked == {"refund_confirmed": True}


def test_a_refusal_stays_and_gives_its_text() -> None:
    move = refund().chart.fire(("NOTIFYING",), "call.notify_customer", Given(false=["cites_refund"]))
    assert (move.after, move.entered, move.moved) == (("NOTIFYING",), (), False)
    assert move.refusal == "the message must cite the verified refund"


def test_where_no_row_holds_the_refusal_is_implied() -> None:
    chart = machine("  A: {choose: {make: [{when: a, goto: B}], look: stay}}\n  B: {route: SUCCEEDED}\n").chart
    assert chart.fire(("A",), "call.make", Given(false="a")).refusal == IMPLIED_REFUSAL


def test_staying_is_no_move_and_going_to_oneself_is() -> None:
    chart = machine("  A: {choose: {look: [{when: a, goto: A}], finish: SUCCEEDED}}\n").chart
    assert not chart.fire(("A",), "call.look", anything).moved
    assert not chart.fire(("A",), "ok.look", Given(false="a")).moved
    again = chart.fire(("A",), "ok.look", Given("a"))
    assert again.moved and again.entered == ("A",)


@pytest.mark.parametrize(
    ("true", "end", "reason"),
    [
        (["refund_verified", "customer_told", "effects_settled"], "SUCCEEDED", None),
        (["refund_verified"], "FAILED", "not_verified"),
        (["refund_verified", "customer_told"], "FAILED", "not_verified"),
    ],
)
def test_success_is_entered_only_while_its_conditions_hold(true: list[str], end: str, reason: str | None) -> None:
    move = refund().chart.fire(("SENDING",), "ok.notify_customer", Given(true, ["customer_told", "effects_settled"]))
    assert (move.after, [t.reason for t in move.taken]) == ((end,), [reason])
    assert is_end(move.after)


def test_finish_is_refused_while_success_does_not_hold() -> None:
    chart = machine("  A: {choose: {look: stay, finish: SUCCEEDED}}\n", "[a, b]").chart
    refused = chart.fire(("A",), "call.finish", Given("a", "b"))
    assert (refused.after, refused.refusal) == (
        ("A",), "completion rejected: not all of a, b hold on the recorded evidence",
    )  # fmt: skip
    assert chart.fire(("A",), "call.finish", Given("ab")).after == ("SUCCEEDED",)


def test_cancelling_works_everywhere() -> None:
    chart = refund().chart
    for name in refund().definition.states:
        assert not is_end((name,))
        assert chart.fire((name,), "exit.cancel", anything).after == ("CANCELLED",)


# ---------------------------------------------------------------- what is not a transition cannot happen


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("INVESTIGATING", "call.notify_customer"),
        ("INVESTIGATING", "call.finish"),
        ("INVESTIGATING", "ok.issue_refund"),
        ("EXECUTING", "call.issue_refund"),
        ("AWAITING_APPROVAL", "exit.budget"),
        ("SETTLING", "exit.no_progress"),
        ("VERIFYING", "unknown.get_refund"),
        ("INVESTIGATING", "call.issue_refund.twice"),
        ("INVESTIGATING", "call"),
        ("INVESTIGATING", "call.*"),
        ("INVESTIGATING", "*"),
        ("INVESTIGATING", ""),
        ("INVESTIGATING", "call.lookup_order call.issue_refund"),
        ("INVESTIGATING", "__init__"),
        ("INVESTIGATING", "row_0"),
    ],
)
def test_an_illegal_event_raises_and_asks_nothing(state: str, event: str) -> None:
    with pytest.raises(IllegalTransitionError) as caught:
        refund().chart.fire((state,), event, anything)
    assert caught.value.event == event
    assert caught.value.configuration == ("working", state)
    assert not refund().chart.accepts((state,), event)


@pytest.mark.parametrize("end", ENDS)
def test_nothing_leaves_an_end(end: str) -> None:
    """Also where no row of the machine leads to it, and the library has no such state."""
    for chart in (refund().chart, machine("  A: {wait: {for: 1s}, then: {elapsed: SUCCEEDED}}\n").chart):
        for event in {t.event for t in chart.transitions}:
            with pytest.raises(IllegalTransitionError):
                chart.fire((end,), event, anything)


def test_a_guard_error_comes_out_and_no_later_row_is_taken() -> None:
    """The broken guard is not counted as false: the row below it would open the way."""
    chart = machine(TWO % "{when: a, goto: DENIED}, {when: b, goto: SUCCEEDED}").chart
    given = Given("b", error="a")
    with pytest.raises(GuardError, match="guard `a`: broken"):
        chart.fire(("A",), "routed.A", given)
    assert given.asked == ["a"]
    assert chart.fire(("A",), "routed.A", Given("b", "a")).after == ("SUCCEEDED",)


def test_whatever_a_question_raises_comes_out_unchanged() -> None:
    chart = machine(TWO % "{when: a, goto: SUCCEEDED}").chart
    with pytest.raises(AssertionError, match=r"^a$"):
        chart.fire(("A",), "routed.A", anything)


# ---------------------------------------------------------------- what the model may choose


def standing(chart, leaves, given: Given, unknown=("proposed", "mixed")) -> dict[str, Availability]:
    return {a.tool: a for a in chart.available(leaves, given, set(unknown).__contains__)}


def test_the_write_is_hidden_with_the_right_text_twice_then_offered() -> None:
    machine_ = refund()
    evidence = ("evidence_complete", "customers_order", "charged_twice", "no_refund_yet", "policy_applies")

    def of(true: tuple[str, ...]) -> Availability:
        given = Given(true, evidence)
        return standing(machine_.chart, ("INVESTIGATING",), given, machine_.call_guards)["issue_refund"]

    assert of(()) == Availability(
        "issue_refund", Standing.HIDDEN, "look up the order, its refunds and the policy first"
    )
    assert of(evidence[:3]) == Availability(
        "issue_refund", Standing.HIDDEN, "the evidence does not show a duplicate capture that the policy refunds"
    )
    assert of(evidence) == Availability("issue_refund", Standing.OFFERED)


def test_everything_that_a_state_offers_is_there_in_the_order_of_the_file() -> None:
    given = Given(false=["evidence_complete"])
    found = standing(refund().chart, ("INVESTIGATING",), given, refund().call_guards)
    assert list(found) == [
        "lookup_order", "get_refund_status", "search_policy", "issue_refund", "ask_user", "cannot_continue",
    ]  # fmt: skip
    assert [a.tool for a in found.values() if a.standing is Standing.HIDDEN] == ["issue_refund"]


@pytest.mark.parametrize("state", ["EXECUTING", "REFUND_PROPOSED", "AWAITING_APPROVAL", "SETTLING", "FAILED"])
def test_where_no_model_decides_nothing_is_offered(state: str) -> None:
    assert refund().chart.available((state,), anything, anything) == []


CHOOSE = "  A: {choose: {make: [%s], look: stay}}\n  B: {route: SUCCEEDED}\n"


@pytest.mark.parametrize(
    ("rows", "true", "false", "expected"),
    [
        ("{unless: proposed, refuse: no}, {goto: B}", "", "", Standing.OFFERED),
        ("{when: proposed, refuse: no}, {goto: B}", "", "", Standing.OFFERED),
        ("{when: a, refuse: no}, {when: proposed, goto: B}", "", "a", Standing.OFFERED),
        ("{when: a, refuse: no}, {when: proposed, goto: B}", "a", "", Standing.HIDDEN),
        ("{when: [proposed, a], goto: B}, {refuse: no}", "", "a", Standing.HIDDEN),
        ("{when: [proposed, a], goto: B}, {refuse: no}", "a", "", Standing.OFFERED),
        ("{unless: [proposed, a], refuse: no}, {goto: B}", "", "a", Standing.HIDDEN),
        ("{unless: [a, proposed], refuse: no}, {goto: B}", "a", "", Standing.OFFERED),
        ("{when: mixed, goto: B}, {refuse: no}", "", "", Standing.OFFERED),
        ("{when: a, goto: B}", "", "a", Standing.HIDDEN),
        ("{unless: [a, b], refuse: no}, {goto: B}", "ab", "", Standing.OFFERED),
        ("{unless: [a, b], refuse: no}, {goto: B}", "a", "b", Standing.HIDDEN),
    ],
)
def test_rows_are_read_in_three_values(rows: str, true: str, false: str, expected: Standing) -> None:
    chart = machine(CHOOSE % rows).chart
    assert standing(chart, ("A",), Given(true, false))["make"].standing is expected


def test_a_tool_hidden_by_no_row_says_not_possible_now() -> None:
    assert (
        standing(machine(CHOOSE % "{when: a, goto: B}").chart, ("A",), Given(false="a"))["make"].text == IMPLIED_REFUSAL
    )


def test_an_error_that_may_never_be_asked_for_does_not_end_the_task() -> None:
    """`proposed` stands before the broken guard, and may keep it from being read; where nothing does, the error comes out."""
    chart = machine(CHOOSE % "{when: [proposed, a], goto: B}, {refuse: no}").chart
    assert standing(chart, ("A",), Given(error="a"))["make"].standing is Standing.OFFERED
    chart = machine(CHOOSE % "{when: [a, proposed], goto: B}, {refuse: no}").chart
    with pytest.raises(GuardError):
        standing(chart, ("A",), Given(error="a"))
