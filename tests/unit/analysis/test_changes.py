"""What `sma diff` says of two machines: each kind of change in one line, and nothing for what means the same."""

from __future__ import annotations

import pytest

from statemachine_agent.analysis.changes import changes
from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE, catalogue


def told(machine: str = MACHINE, act: str = ACT, *more: str) -> list[str]:
    new = compile_machine(checked_catalogue(catalogue(machine, LOOK, act, FIND, *more)), "tiny")
    return [str(one) for one in changes(compile_machine(checked_catalogue(catalogue()), "tiny"), new)]


YES, NO = "when approval_required: goto ASKING", "when approval_not_required: goto ACTING"
ELSE = "goto DENIED (reason policy)"


@pytest.mark.parametrize(
    "change",
    [
        ("machine: tiny\n", "# of this shop\nmachine:   tiny\n"),
        ("finish: SUCCEEDED", "finish: [{goto: SUCCEEDED}]"),
        ("active_time: 60s", "active_time: 1m"),
        ("  looked: has(evidence.look)\n  good: evidence.look.good", "  good: evidence.look.good\n  looked: has(evidence.look)"),
        ("  finish: SUCCEEDED\n      ask_user: NEEDS_INPUT", "  ask_user: NEEDS_INPUT\n      finish: SUCCEEDED"),
        ("version: 1\nsummary", "version: 2\nsummary"),
    ],
    ids=["a comment", "the long form", "another unit", "the order of guards", "the order of tools", "its version"],
)  # fmt: skip
def test_what_means_the_same_is_no_change(change: tuple[str, str]) -> None:
    assert told(swap(MACHINE, change)) == []


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (("steps: 6", "steps: 8"), ["~ limits.steps: 6 → 8"]),
        (("cost_usd: 1.00", "cost_usd: 2.50"), ["~ limits.cost_usd: 1.0 → 2.5"]),
        (("success: [acted]", "success: [acted, good]"), ['~ success: ["acted"] → ["acted","good"]']),
        (("  good: evidence.look.good", "  good: evidence.look.good == true"),
         ["~ guards.good: evidence.look.good → evidence.look.good == true"]),
        (("  thing: {type: string}", "  thing: {type: string, maxLength: 9}"), ["+ input.thing.maxLength: 9"]),
        (("    brief: Look, then act.\n", ""), ["- LOOKING.brief: Look, then act."]),
        (("expires: 1h", "expires: 90m"), ["~ ASKING.approval.expires: 1h → 1h 30m"]),
        (("      look: stay", "      look: {with: {thing: input.thing}}"), ["+ LOOKING.choose.look.with.thing: input.thing"]),
        (("refuse: look first", "refuse: look at it"),
         ["~ LOOKING [call.act]: when not (looked): refuse, look first → when not (looked): refuse, look at it"]),
        (("      finish: SUCCEEDED\n", ""), ["- LOOKING [call.finish]: goto SUCCEEDED"]),
        (("      look: stay\n", "      look: stay\n      find: stay\n"),
         ["+ LOOKING [call.find]: stay", "+ LOOKING [ok.find]: stay"]),
        (("goto: DENIED, reason: bad_thing", "goto: FAILED, reason: bad"),
         ["~ LOOKING [then.LOOKING]: when bad: goto DENIED (reason bad_thing) → when bad: goto FAILED (reason bad)"]),
        (("      - {when: approval_required, goto: ASKING}\n      - {when: approval_not_required, goto: ACTING}\n",
          "      - {when: approval_not_required, goto: ACTING}\n      - {when: approval_required, goto: ASKING}\n"),
         [f"~ PROPOSED [routed.PROPOSED], tried in another order: {YES}; {NO}; {ELSE} → {NO}; {YES}; {ELSE}"]),
    ],
)  # fmt: skip
def test_a_change_of_a_machine(change: tuple[str, str], lines: list[str]) -> None:
    assert told(swap(MACHINE, change)) == lines


def test_states_come_and_go() -> None:
    """A state by its kind; the ways of one that is new or gone are not told one by one."""
    machine = swap(MACHINE, ("goto: ACTING}\n", "goto: PAUSING}\n"))
    machine += "  PAUSING:\n    wait: {for: 5m}\n    then: {elapsed: ACTING}\n"
    assert told(machine) == [
        "+ state PAUSING: wait",
        "~ PROPOSED [routed.PROPOSED]: when approval_not_required: goto ACTING → when approval_not_required: goto PAUSING",
    ]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (("when: args.amount > 100,", "when: args.amount > 200,"),
         ["~ tool act: approval[1].when: args.amount > 100 → args.amount > 200"]),
        (("  - {when: args.amount > 500, by: chief, because: rule 2}\n", ""),
         ["- tool act: approval[2].when: args.amount > 500", '- tool act: approval[2].by: ["chief"]',
          "- tool act: approval[2].because: rule 2"]),
        (("scopes: [things:write]", "scopes: [things:write, things:read]"),
         ['~ tool act: scopes: ["things:write"] → ["things:write","things:read"]']),
        (("key: act:{thing}:{amount}", "key: act:{thing}"),
         ["~ tool act: idempotency.key: act:{thing}:{amount} → act:{thing}"]),
        (("maximum: 1000", "maximum: 5000"), ["~ tool act: args.amount.maximum: 1000 → 5000"]),
    ],
)  # fmt: skip
def test_a_change_of_a_tool(change: tuple[str, str], lines: list[str]) -> None:
    assert told(MACHINE, swap(ACT, change)) == lines


def test_a_tool_comes() -> None:
    more = LOOK.replace("tool: look", "tool: glance")
    assert told(swap(MACHINE, ("      look: stay\n", "      look: stay\n      glance: stay\n")), ACT, more) == [
        "+ LOOKING [call.glance]: stay",
        "+ LOOKING [ok.glance]: stay",
        "+ tool glance: read",
    ]
