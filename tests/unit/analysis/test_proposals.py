"""Writes that are accepted and never run, and writes that may need a yes for which nobody is asked."""

from __future__ import annotations

import pytest

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE, catalogue

GONE = (
    ("  ASKING:\n    approval: {of: act, by: boss, expires: 1h}\n", ""),
    ("    then: {approved: ACTING, rejected: DENIED, expired: NEEDS_INPUT}\n", ""),
)
REQUIRED = "      - {when: approval_required, goto: ASKING}\n"


def findings(machine: str, act: str = ACT) -> list[tuple[int, str, str]]:
    """Each of these findings: its line, the sentence, the advice."""
    found = checked_catalogue(catalogue(machine, LOOK, act, FIND))
    assert found.report.errors == [], str(found.report)
    wanted = ("may need a yes", "never runs")
    return [(f.mark.line + 1, f.message, f.advice) for f in lint(found) if any(w in f.message for w in wanted)]


def line_of(machine: str, text: str) -> int:
    return machine[: machine.index(text)].count("\n") + 1


# ---------------------------------------------------------------- the yes


def test_a_machine_that_asks_is_no_finding() -> None:
    assert findings(MACHINE) == []


RULE = "`act` may need a yes (rule 1: `args.amount > 100`, and 1 more)"


def test_a_rule_in_the_manifest_and_no_state_that_asks() -> None:
    """The task would end as FAILED (approval_required) for the first large amount."""
    machine = swap(MACHINE, (REQUIRED, "      - {when: good, goto: ACTING}\n"), *GONE)
    ((line, message, advice),) = findings(machine)
    assert line == line_of(machine, "call: act")
    assert message == f"{RULE}, and no state asks for it: then the call is `blocked`"
    assert advice == (
        "add a `route` before it with `{when: approval_required, goto: ASKING}`,"
        " and `ASKING: {approval: {of: act, by: boss, expires: 1d}, then: …}`"
    )


@pytest.mark.parametrize(
    "row",
    [
        "{when: approval_required, goto: ACTING}",
        "{when: good, goto: ACTING}",
        "{unless: approval_not_required, goto: ACTING}",
    ],
)
def test_a_route_that_leads_past_the_question(row: str) -> None:
    """The state that asks is there, and a way to the call does not lead through it."""
    machine = swap(MACHINE, (REQUIRED, f"      - {row}\n"), ("goto: DENIED, reason: bad_thing", "goto: ASKING"))
    ((line, message, advice),) = findings(machine)
    assert line == line_of(machine, "call: act")
    assert message == f"{RULE}, and a way leads here without it: then the call is `blocked`"
    assert advice == "lead `{when: approval_required}` to the state with `approval: {of: act, …}`"


def test_a_machine_that_gives_up_where_a_yes_is_needed_is_no_finding() -> None:
    """Its author wants none of these calls."""
    assert findings(swap(MACHINE, (REQUIRED, "      - {when: approval_required, goto: DENIED}\n"), *GONE)) == []
    assert findings(swap(MACHINE, (REQUIRED, ""), *GONE)) == []  # the last row takes what needs a yes


def test_where_nobody_needs_to_say_yes_nobody_is_asked() -> None:
    free = ACT[: ACT.index("approval:")] + "approval: []\nat_most: 3\n"
    assert findings(swap(MACHINE, (REQUIRED, "      - {when: good, goto: ACTING}\n"), *GONE), free) == []


def test_a_call_that_no_model_proposes_can_have_no_yes() -> None:
    machine = swap(
        MACHINE,
        ("      look: stay\n", "      look: {rows: [{goto: ACTING}]}\n"),
        ("with: proposal", "with: {thing: input.thing, amount: 200}"),
        (MACHINE[MACHINE.index("      act:\n") : MACHINE.index("      finish:")], ""),
        (MACHINE[MACHINE.index("  PROPOSED:") : MACHINE.index("  ACTING:")], ""),
        ("  same_thing: call.args.thing == input.thing\n", ""),
    )
    ((_, message, _),) = findings(machine)
    assert message.startswith(f"{RULE}, and no state asks for it")


# ---------------------------------------------------------------- the call


@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED", "LATER"])
def test_an_accepted_write_that_leads_to_no_call_never_runs(end: str) -> None:
    """To an end, or to a state behind which nothing calls it."""
    later = "  LATER: {wait: {for: 1h}, then: {elapsed: SUCCEEDED}}\n  PROPOSED:"
    machine = swap(MACHINE, ("- {goto: PROPOSED}", f"- {{goto: {end}}}"), ("  PROPOSED:", later))
    other = "      - {when: bad, goto: LATER}\n      - {when: looked, goto: PROPOSED}"
    machine = swap(machine, ("      - {when: bad, goto: DENIED, reason: bad_thing}", other))
    ((line, message, advice),) = findings(machine)
    assert line == line_of(machine, f"- {{goto: {end}}}")
    assert message == f"no `call` of `act` is behind `{end}`, so what is accepted here never runs"
    assert advice == "go to the state that has `call: act`, or to one that leads there"


def test_a_way_back_to_where_it_is_proposed_anew_is_no_way_to_its_call() -> None:
    """The second proposal replaces the first."""
    again = "  LATER: {wait: {for: 1h}, then: {elapsed: AGAIN}}\n  AGAIN: {choose: {act: PROPOSED}}\n  PROPOSED:"
    machine = swap(MACHINE, ("        - {goto: PROPOSED}", "        - {goto: LATER}"), ("  PROPOSED:", again))
    ((line, message, _),) = findings(machine)
    assert line == line_of(machine, "- {goto: LATER}")
    assert "behind `LATER`" in message
    some = "        - {when: good, goto: PROPOSED}\n        - {goto: LATER}"
    assert findings(swap(machine, ("        - {goto: LATER}", some))) == []  # the author sends some of them back


def test_one_row_of_several_may_end_the_task_but_not_as_a_success() -> None:
    """An author who ends it as DENIED for some proposals means it."""
    row = "        - {when: bad, goto: %s}\n        - {goto: PROPOSED}"
    assert findings(swap(MACHINE, ("        - {goto: PROPOSED}", row % "DENIED"))) == []
    ((_, message, _),) = findings(swap(MACHINE, ("        - {goto: PROPOSED}", row % "SUCCEEDED")))
    assert "behind `SUCCEEDED`" in message
