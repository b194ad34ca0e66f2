"""What `sma diff` says of two machines: each kind of change in one line, and nothing for what means the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from statemachine_agent.analysis.changes import changes
from statemachine_agent.chart.compile import CompiledMachine, checked_catalogue, compile_machine
from statemachine_agent.definition.redaction import Masks
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
        (("cost_usd: 1.00", "cost_usd: 2.50"), ["~ limits.cost_usd: 1 → 2.5"]),
        (("success: [acted]", "success: [acted, good]"), ['~ success: ["acted"] → ["acted","good"]']),
        (("  good: evidence.look.good", "  good: evidence.look.good == true"),
         ["~ guards.good: evidence.look.good → evidence.look.good == true"]),
        (("  thing: {type: string}", "  thing: {type: string, maxLength: 9}"), ["+ input.thing.maxLength: 9"]),
        (("    brief: Look, then act.\n", ""), ["- LOOKING.brief: Look, then act."]),
        (("expires: 1h", "expires: 90m"), ["~ ASKING.approval.expires: 1h → 1h 30m"]),
        (("      look: stay", "      look: {with: {thing: input.thing}}"), ["+ LOOKING.choose.look.with.thing: input.thing"]),
        (("refuse: look first", "refuse: look at it"),
         ["~ LOOKING [call.act] row 1 of 3: when not (looked): refuse, look first → when not (looked): refuse, look at it"]),
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
        f"~ PROPOSED [routed.PROPOSED] row 2 of 3: {NO} → {NO.replace('ACTING', 'PAUSING')}",
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


# ---------------------------------------------------------------- two texts side by side

LEND = """
machine: lend
version: 1
summary: Look, then end.
input: {thing: {type: string}}
limits: {steps: 6}
guards: {looked: has(evidence.look), twice: visits.A > 1}
success: []
initial: A
states:
  A:
    choose:
      ask_user:
        - {unless: looked, refuse: look first}
        - {when: twice, goto: NEEDS_INPUT}
      look: stay
"""
GIVE = """
tool: act
version: 1
summary: Act.
effect: read
source: things
binding: {python: "nowhere:act"}
args: {o: {type: object, optional: true}, l: {type: array, optional: true}, yes_no: {type: boolean, optional: true}}
returns: {}
"""
FIRST, SECOND = "when not (looked): refuse, look first", "when twice: goto NEEDS_INPUT"
ROWS = "        - {unless: looked, refuse: look first}\n        - {when: twice, goto: NEEDS_INPUT}\n"
FREE = "machine: lend\nversion: 1\nsummary: Act.\ninput: {x: {type: string}}\nlimits: {steps: 2}\nsuccess: []\ninitial: A\n"
FREE += "states: {A: {choose: {act: stay, finish: SUCCEEDED}}}\n"


def compiled(machine: str, *more: str, tool: str = GIVE) -> CompiledMachine:
    found = checked_catalogue(catalogue(machine, LOOK, tool, held=more))
    name = machine.partition("machine: ")[2].split()[0]
    return compile_machine(found, name)


def between(old: str, new: str, *, tool: tuple[str, str] = (GIVE, GIVE)) -> list[str]:
    return [str(one) for one in changes(*(compiled(m, tool=t) for m, t in zip((old, new), tool, strict=True)))]


def pinned(value: str) -> str:
    return swap(FREE, ("act: stay", f"act: {{with: {{{value}}}}}"))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("", "yes_no: false", "+ A.choose.act.with.yes_no: false"),
        ("yes_no: true", "yes_no: false", "~ A.choose.act.with.yes_no: true → false"),
        ("", "l: []", "+ A.choose.act.with.l: []"),
        ("", "o: {}", "+ A.choose.act.with.o: {}"),
        ("o: {a: 1}", 'o: {a: "1"}', '~ A.choose.act.with.o: {"a":1} → {"a":"1"}'),
        ("o: {a: true}", 'o: {a: "true"}', '~ A.choose.act.with.o: {"a":true} → {"a":"true"}'),
        ("o: {a.b: 1}", "o: {a: {b: 1}}", '~ A.choose.act.with.o: {"a.b":1} → {"a":{"b":1}}'),
        ("l: [{goto: x}]", "l: [{goto: y}]", '~ A.choose.act.with.l: [{"goto":"x"}] → [{"goto":"y"}]'),
    ],
)
def test_a_literal_is_told_whole(old: str, new: str, line: str) -> None:
    """What is pinned as false, empty or nested is pinned, and no two values look alike."""
    assert between(pinned(old) if old else FREE, pinned(new)) == [line]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("success: []", "retain: {input: []}\nsuccess: []", ["+ retain.input: []"]),
        ("success: []", "retain: {evidence: {act: []}}\nsuccess: []", ["+ retain.evidence.act: []"]),
        ("success: []", "signals: {come: {}}\nsuccess: []", ["+ signals.come: {}"]),
        ("success: []", "at_most: {act: 2}\nsuccess: []", ["+ at_most.act: 2"]),
        ("input: {x: {type: string}}", "input: {x: {type: string}, y: {}}", ["+ input.y.type: string"]),
        ("summary: Act.", 'summary: "Act. "', ['~ summary: Act. → "Act. "']),
        ("summary: Act.", 'summary: "7"', ['~ summary: Act. → "7"']),
        ("machine: lend", "machine: borrow", ["~ machine: lend → borrow"]),
    ],
)
def test_nothing_kept_is_not_everything_kept(old: str, new: str, lines: list[str]) -> None:
    """An empty list or mapping that says something is told, and so is a name; a text that could be misread is quoted."""
    assert between(FREE, swap(FREE, (old, new))) == lines


def test_an_object_of_nothing_is_not_any_object() -> None:
    new = swap(GIVE, ("{type: object, optional", "{type: object, properties: {}, optional"))
    assert between(FREE, FREE, tool=(GIVE, new)) == ["+ tool act: args.o.properties: {}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("input: {x: {type: string}}", "input: {x: {}}"),
        ("limits: {steps: 2}", "limits: {steps: 2, cost_usd: 1.0, active_time: 300s}"),
        ("limits: {steps: 2}", "limits: {cost_usd: 1, steps: 2}"),
        ("success: []", "retain: {evidence: {}}\nredact: []\nprogress: {stall: 3}\nsuccess: []"),
        ("act: stay", "act: {with: {}, rows: [{stay: true}]}"),
    ],
)
def test_what_is_written_as_it_is_anyway(old: str, new: str) -> None:
    """A default, and a type that is meant without being written, mean nothing."""
    assert between(FREE, swap(FREE, (old, new))) == []


def test_a_marked_text_that_looks_like_no_reference() -> None:
    marked = swap(GIVE, ("args: {", "args: {t: {type: string, optional: true}, "))
    texts = [pinned(f"t: {value}") for value in ("hello", "{text: hello}", "{text: input.x}", "input.x")]
    assert between(texts[0], texts[1], tool=(marked, marked)) == []
    assert between(texts[2], texts[3], tool=(marked, marked)) == ['~ A.choose.act.with.t: {"text":"input.x"} → input.x']


MORE = "        - {when: looked, refuse: no}\n"
SWAPPED = "".join(reversed(ROWS.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (MORE + ROWS, ["+ A [call.ask_user] row 1 of 3: when looked: refuse, no"]),
        (ROWS + MORE, ["+ A [call.ask_user] row 3 of 3: when looked: refuse, no"]),
        (SWAPPED, [f"~ A [call.ask_user], tried in another order: {FIRST}; {SECOND} → {SECOND}; {FIRST}"]),
        (SWAPPED + MORE,
         [f"+ A [call.ask_user] row 1 of 3: {SECOND}", f"- A [call.ask_user] row 2 of 2: {SECOND}",
          "+ A [call.ask_user] row 3 of 3: when looked: refuse, no"]),
        (ROWS + ROWS, []),
    ],
    ids=["before all", "behind all", "exchanged", "exchanged, and one more", "each twice"],
)  # fmt: skip
def test_rows_are_told_with_their_places(rows: str, lines: list[str]) -> None:
    """The first row that holds is taken: where one comes in decides what it means."""
    assert between(LEND, swap(LEND, (ROWS, rows))) == lines


INNER = """
machine: inner
version: 1
summary: Look.
input: {x: {type: string}}
limits: {steps: 2}
guards: {looked: has(evidence.look)}
success: [looked]
initial: A
states:
  A: {brief: Look., choose: {look: {with: {thing: input.x}}, finish: SUCCEEDED}}
"""
OUTER = """
machine: outer
version: 1
summary: Let another one look.
input: {x: {type: string}}
limits: {steps: 2}
success: []
initial: Q
states:
  Q:
    machine: inner@1
    with: {x: input.x}
    then: {SUCCEEDED: SUCCEEDED, FAILED: FAILED}
"""


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (("success: [looked]", "success: []"), ['~ Q.machine.success: ["looked"] → []']),
        (("success:", "output: {n: {type: integer}}\nsuccess:"), ["+ Q.machine.output.n.type: integer"]),
        (("x: {type: string}", "x: {type: string, untrusted: true}"), ["+ Q.machine.input.x.untrusted: true"]),
        (("brief: Look.", "brief: See."), ["~ Q__A.brief: Look. → See."]),
        (("success:", "redact: []\nsuccess:"), []),
    ],
)
def test_what_a_machine_within_asks_and_gives(change: tuple[str, str], lines: list[str]) -> None:
    """Its states and guards are the outer one's; what it wants of success, takes and answers is its own."""
    old, new = (compiled(OUTER, inner) for inner in (INNER, swap(INNER, change)))
    assert [str(one) for one in changes(old, new)] == lines


HEAD = FREE[: FREE.index("initial")] + "initial: P\nstates:\n"


def test_the_order_of_regions_is_who_is_served_first() -> None:
    regions = [
        f"      {n}1: {{initial: {n}2, states: {{{n}2: {{choose: {{{tool}: done}}}}}}}}\n"
        for n, tool in (("A", "look"), ("B", "act"))
    ]
    old, new = (
        f"{HEAD}  P:\n    parallel: true\n    states:\n{''.join(r)}    then: {{done: SUCCEEDED}}\n"
        for r in (regions, regions[::-1])
    )
    assert between(old, new) == ['~ P.regions, in their order: ["A1","B1"] → ["B1","A1"]']


def test_a_state_moves_out_of_another_one() -> None:
    holder = HEAD + "  P:\n    initial: A\n    then: {done: SUCCEEDED}\n    states:\n"
    holder += "      A: {choose: {look: B, act: done}}\n"
    moved = "  B: {choose: {look: SUCCEEDED}}\n"
    assert between(f"{holder}    {moved}", holder + moved) == ["- B.within: P"]


def test_what_nobody_foresaw_is_told_of_what_is_compiled() -> None:
    """A mask, or what must hold on the way to success, that no value of the file shows: never "the same meaning"."""
    old = compiled(FREE)
    new = replace(old, masks=Masks(input=("x",)))
    assert [str(one) for one in changes(old, new)] == ['~ as compiled: masked.input: [] → ["x"]']
