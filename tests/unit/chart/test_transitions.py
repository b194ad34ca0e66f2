"""Rows written out as transitions."""

from __future__ import annotations

import itertools

from unit.chart.charts import machine, refund

from statemachine_agent.chart.transitions import ACTIVE_EXITS, EXITS, IMPLIED_REFUSAL, WORKING, Transition
from statemachine_agent.definition.states import ApprovalState, CallState, WaitState


def lines(transitions: list[Transition]) -> list[str]:
    """Transitions as short lines."""
    return [
        " ".join(
            [
                t.event,
                *(f"when {g}" for g in t.when),
                *(["unless " + "+".join(t.unless)] if t.unless else []),
                *(f"success {g}" for g in t.success),
                f"-> {t.target}" if t.target else f"refuse {t.refuse!r}" if t.refuse is not None else "stay",
                *([t.reason] if t.reason else []),
                *([f"confirms {t.confirms}"] if t.confirms else []),
                *(["(implied)"] if t.implied else []),
            ]
        )
        for t in transitions
    ]


def of(chart, state: str, prefix: str = "") -> list[str]:
    return lines([t for t in chart.transitions if t.source == state and t.event.startswith(prefix)])


def test_the_order_of_the_file_is_the_order_of_trying() -> None:
    chart = refund().chart
    rows = of(chart, "INVESTIGATING", "call.issue_refund")
    assert [row.partition(" refuse ")[0] for row in rows] == [
        "call.issue_refund unless evidence_complete",
        "call.issue_refund unless customers_order+charged_twice+no_refund_yet+policy_applies",
        "call.issue_refund unless later_capture",
        "call.issue_refund -> REFUND_PROPOSED",
    ]
    assert rows[0].endswith("refuse 'look up the order, its refunds and the policy first'")
    assert [t.index for t in chart.transitions] == list(range(len(chart.transitions)))
    assert list(dict.fromkeys(t.source for t in chart.transitions)) == [*refund().definition.states, WORKING]


def test_a_route_an_outcome_and_a_wait() -> None:
    chart = refund().chart
    assert of(chart, "REFUND_PROPOSED", "routed.") == [
        "routed.REFUND_PROPOSED when approval_required -> AWAITING_APPROVAL",
        "routed.REFUND_PROPOSED when approval_not_required -> EXECUTING",
        "routed.REFUND_PROPOSED -> DENIED policy",
    ]
    assert of(chart, "VERIFYING", "ok.") == [
        "ok.get_refund when refund_confirmed -> NOTIFYING confirms issue_refund",
        "ok.get_refund when refund_rejected -> FAILED refund_rejected",
        "ok.get_refund -> SETTLING",
    ]
    assert of(chart, "SETTLING", "e")[:2] == ["elapsed.SETTLING -> VERIFYING", "exhausted.SETTLING -> FAILED"]
    assert of(chart, "AWAITING_APPROVAL")[0] == "approved.issue_refund -> EXECUTING"


def test_the_way_to_success_falls_through_to_not_verified() -> None:
    assert of(refund().chart, "SENDING", "ok.") == [
        "ok.notify_customer success refund_verified success customer_told success effects_settled -> SUCCEEDED",
        "ok.notify_customer -> FAILED not_verified (implied)",
    ]


def test_the_fall_through_keeps_the_condition_of_its_row() -> None:
    chart = machine("  A: {route: [{unless: [a, b], goto: SUCCEEDED, reason: done_it}, {goto: FAILED}]}\n", "[c]").chart
    assert of(chart, "A", "routed.") == [
        "routed.A unless a+b success c -> SUCCEEDED done_it",
        "routed.A unless a+b -> FAILED not_verified (implied)",
        "routed.A -> FAILED",
    ]


def test_finish_is_refused_while_success_does_not_hold() -> None:
    chart = machine(
        "  A: {choose: {look: stay, finish: [{when: d, refuse: not yet}, {goto: SUCCEEDED}]}}\n", "[a, b]"
    ).chart
    assert of(chart, "A", "call.finish") == [
        "call.finish when d refuse 'not yet'",
        "call.finish success a success b -> SUCCEEDED",
        "call.finish refuse 'completion rejected: not all of a, b hold on the recorded evidence' (implied)",
    ]


def test_without_conditions_of_success_nothing_is_added() -> None:
    assert of(machine("  A: {choose: {look: stay, finish: SUCCEEDED}}\n").chart, "A", "call.finish") == [
        "call.finish -> SUCCEEDED"
    ]


def test_a_choose_list_without_end_ends_with_an_implied_refusal() -> None:
    chart = machine(
        "  A: {choose: {make: [{when: a, goto: B}], look: [{when: b, refuse: no}, {when: c, stay: true}]}}\n"
        "  B: {route: SUCCEEDED}\n"
    ).chart
    refusal = f"refuse '{IMPLIED_REFUSAL}' (implied)"
    assert of(chart, "A", "call.make") == ["call.make when a -> B", f"call.make {refusal}"]
    assert of(chart, "A", "call.look") == [
        "call.look when b refuse 'no'", "call.look when c stay", f"call.look {refusal}",
    ]  # fmt: skip


def test_for_a_read_refuse_is_judged_at_the_call_and_goto_at_the_result() -> None:
    chart = machine(
        "  A: {choose: {look: [{when: a, goto: B}, {when: b, refuse: no}, {when: c, stay: true}, {goto: C}]}}\n"
        "  B: {route: SUCCEEDED}\n  C: {route: FAILED}\n"
    ).chart
    assert of(chart, "A", "call.look") == ["call.look when b refuse 'no'", "call.look when c stay", "call.look stay"]
    assert of(chart, "A", "ok.look") == ["ok.look when a -> B", "ok.look when c stay", "ok.look -> C"]
    assert of(chart, "A", "failed.look") == ["failed.look stay (implied)"]


def test_a_read_whose_goto_does_not_hold_stays() -> None:
    chart = machine("  A: {choose: {look: [{when: a, goto: B}]}}\n  B: {route: SUCCEEDED}\n").chart
    assert of(chart, "A", "call.look") == ["call.look stay"]
    assert of(chart, "A", "ok.look") == ["ok.look when a -> B", "ok.look stay (implied)"]


def test_exits_by_evidence_have_an_implied_stay() -> None:
    chart = machine("  A: {choose: [look], then: [{when: a, goto: B}]}\n  B: {route: SUCCEEDED}\n").chart
    assert of(chart, "A", "then.") == ["then.A when a -> B", "then.A stay (implied)"]


def test_every_choose_can_give_up() -> None:
    chart = machine(
        "  A: {choose: {look: [{goto: B}]}}\n"
        "  B: {choose: {look: stay, cannot_continue: [{goto: DENIED, reason: gave_up}], finish: SUCCEEDED}}\n"
    ).chart
    assert of(chart, "A", "call.cannot") == ["call.cannot_continue -> FAILED no_action (implied)"]
    assert of(chart, "B", "call.cannot") == ["call.cannot_continue -> DENIED gave_up"]


def test_universal_exits_stand_where_a_budget_runs_and_the_last_three_everywhere() -> None:
    compiled = refund()
    for name, state in compiled.definition.states.items():
        written = [t for t in compiled.chart.transitions if t.source == name and t.event in ACTIVE_EXITS]
        assert all(t.implied for t in written), "nobody has to test what nobody wrote"
        exits = {t.event: t.target for t in written}
        only_denied = {"exit.denied": ACTIVE_EXITS["exit.denied"]} if isinstance(state, ApprovalState) else {}
        assert exits == (only_denied if isinstance(state, (ApprovalState, WaitState)) else ACTIVE_EXITS)
        for event, target in EXITS.items():
            assert [t.target for t in compiled.chart.rows((name,), event)] == [target]


def test_every_outcome_of_every_call_has_an_answer_whatever_the_guards_say() -> None:
    """Recording an outcome never fails: each list ends without a question."""
    rows = "[{when: a, goto: SUCCEEDED}, {unless: [b, c], goto: FAILED}, {goto: DENIED}]"
    small = machine(f"  A: {{call: look, with: {{id: input.x}}, then: {{ok: {rows}, failed: FAILED}}}}\n", "[d]")
    tried = 0
    for compiled in (refund(), small):
        calls = {n: s for n, s in compiled.definition.states.items() if isinstance(s, CallState)}
        for name, event in ((n, f"{outcome}.{s.call}") for n, s in calls.items() for outcome in s.then):
            guards = sorted({g for t in compiled.chart.rows((name,), event) for g in t.guards})
            for answers in itertools.product([True, False], repeat=len(guards)):
                move = compiled.chart.fire((name,), event, dict(zip(guards, answers, strict=True)).__getitem__)
                assert move.moved, (name, event, answers)
                tried += 1
    assert tried == 37
