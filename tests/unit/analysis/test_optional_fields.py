"""Guards that read an optional field: whoever leaves out `has(…)` has a task that ends as FAILED some day."""

from __future__ import annotations

import pytest
from invalid.texts import TOOLS

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

NOTE = "{type: string, optional: true}"
LOOK = TOOLS["look"].replace(
    "returns: {",
    f"returns: {{note: {NOTE}, deep: {{optional: true, properties: {{id: {NOTE}, n: {{type: integer}}}}}},"
    f" list: {{type: array, items: {{type: object, properties: {{tag: {NOTE}}}}}}}, ",
)
LOOK = LOOK.replace("args: {id: {type: string}}", f"args: {{id: {{type: string}}, wide: {NOTE}}}")
MAKE = TOOLS["make"].replace("n: {type: integer}", f"n: {{type: integer}}, note: {NOTE}")


def findings(states: str, guards: str, success: str = "[]", make: str = MAKE, more: str = "") -> list[tuple[str, str]]:
    """Each finding that something optional may be absent: the sentence and the advice."""
    text = (
        f"machine: m\nversion: 1\nsummary: x\nlimits: {{steps: 9}}\ninput: {{id: {{type: string}}, extra: {NOTE}}}\n"
        f"signals: {{said: {{text: {NOTE}}}}}\nat_most: {{look: 9, make: 9}}\n{more}"
        f"guards:\n{guards}success: {success}\ninitial: A\nstates:\n{states}"
    )
    tools = [Source(f"{name}.yaml", tool) for name, tool in {**TOOLS, "look": LOOK, "make": make}.items()]
    catalogue = checked_catalogue(Catalogue.build([Source("m.yaml", text)], tools))
    assert catalogue.report.errors == [], str(catalogue.report)
    return [
        (f.message, f.advice) for f in lint(catalogue) if "may be absent" in f.message and "is not" not in f.message
    ]


LOOKED = "  A: {call: look, with: {id: input.id}, then: {ok: B, failed: FAILED}}\n"
ROUTE = "  B: {route: [{when: %s, goto: SUCCEEDED}, {goto: FAILED}]}\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("input.extra == 'x'", "input.extra"),
        ("evidence.look.note == 'x'", "evidence.look.note"),
        ("asked.look.wide == 'x'", "asked.look.wide"),
        ("has(evidence.look.deep) && evidence.look.deep.id == 'x'", "evidence.look.deep.id"),
        ("evidence.look.deep.n == 1", "evidence.look.deep"),
        ("has(evidence.look.deep.id)", "evidence.look.deep"),
        ("size(input.extra) > 3 || has(evidence.look.note)", "input.extra"),
    ],
)
def test_a_guard_that_does_not_ask_is_a_finding(text: str, path: str) -> None:
    """Of the input, of a result, of what it was asked with; on the way to a field too."""
    found = findings(LOOKED + ROUTE % "g", f"  g: {text}\n")
    advice = f"ask `has({path})` in a row above, or in the guard: `has(…) && …`"
    assert found == [(f"`g` reads `{path}`, which is optional and may be absent in `B`", advice)]


def test_of_each_element_of_a_list_it_is_asked_in_the_same_text() -> None:
    each = "evidence.look.list.exists(p, %sp.tag == 'x')"
    ((message, advice),) = findings(LOOKED + ROUTE % "g", f"  g: {each % ''}\n")
    assert message == "`g` reads `evidence.look.list[].tag`, which is optional and may be absent in `B`"
    assert advice == "ask for it in the same text: `has(x.tag) && …`"
    assert findings(LOOKED + ROUTE % "g", f"  g: {each % 'has(p.tag) && '}\n") == []
    one_of_them = "  a: evidence.look.list.exists(p, has(p.tag))\n  g: evidence.look.list.all(p, p.tag == 'x')\n"
    assert len(findings(LOOKED + ROUTE % "[a, g]", one_of_them)) == 1


@pytest.mark.parametrize(
    ("rows", "guards"),
    [
        ("[{when: g, goto: SUCCEEDED}, {goto: FAILED}]", "  g: has(input.extra) && input.extra == 'x'\n"),
        ("[{when: g, goto: SUCCEEDED}, {goto: FAILED}]", "  g: \"!has(input.extra) || input.extra == 'x'\"\n"),
        ("[{when: [a, g], goto: SUCCEEDED}, {goto: FAILED}]", "  a: has(input.extra)\n  g: input.extra == 'x'\n"),
        (
            "[{unless: a, goto: DENIED}, {when: g, goto: SUCCEEDED}, {goto: FAILED}]",
            "  a: has(input.extra)\n  g: input.extra == 'x'\n",
        ),
        (
            "[{when: a, goto: DENIED}, {when: g, goto: SUCCEEDED}, {goto: FAILED}]",
            "  a: '!has(input.extra)'\n  g: input.extra == 'x'\n",
        ),
    ],
    ids=["same text", "denied in it", "guard before", "row above", "the absent one goes elsewhere"],
)
def test_asking_anywhere_before_settles_it(rows: str, guards: str) -> None:
    assert findings(f"  A: {{route: {rows}}}\n", guards) == []


@pytest.mark.parametrize("asking", ["has(input.extra) || input.id == 'x'", "'!has(input.extra)'", "has(input.id)"])
def test_what_is_not_surely_asked_does_not(asking: str) -> None:
    states = "  A: {route: [{when: [a, g], goto: SUCCEEDED}, {goto: FAILED}]}\n"
    assert len(findings(states, f"  a: {asking}\n  g: input.extra == 'x'\n")) == 1


def test_a_state_before_may_have_asked_until_it_is_read_anew() -> None:
    """What was seen of one result says nothing of the next; the input stays as it is."""
    guards = "  a: [has_input, has_note]\n  has_input: has(input.extra)\n  has_note: has(evidence.look.note)\n"
    guards += "  g: input.extra == evidence.look.note\n"
    asked = LOOKED + "  B: {route: [{unless: a, goto: DENIED}, {goto: C}]}\n"
    last = "  %s: {route: [{when: g, goto: SUCCEEDED}, {goto: FAILED}]}\n"
    assert findings(asked + last % "C", guards) == []
    again = "  C: {call: look, with: {id: input.id}, then: {ok: D, failed: FAILED}}\n"
    ((message, _),) = findings(asked + again + last % "D", guards)
    assert "`evidence.look.note`" in message


WRITES = (
    "  A: {choose: {make: [%s{when: g, goto: B}, {refuse: no}]}}\n"
    "  B: {route: [%s{goto: C}]}\n"
    "  C: {call: make, with: proposal, then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: D}}\n"
    "  D: {reconcile: make, then: {found: SUCCEEDED, absent: C, failed: FAILED}}\n"
)


def test_an_optional_argument_that_is_asked_for_when_it_is_proposed_is_there_in_the_proposal() -> None:
    guards = "  a: has(call.args.note)\n  g: call.args.note == 'x'\n  p: proposal.args.note == 'x'\n"
    later = "{when: p, goto: FAILED}, "
    assert findings(WRITES % ("{unless: a, refuse: say why}, ", later), guards) == []
    found = [message for message, _ in findings(WRITES % ("", later), guards)]
    assert [m.partition(",")[0] for m in found] == [
        "`g` reads `call.args.note`",
        "`p` reads `proposal.args.note`",
    ]


def test_a_refusal_of_a_read_holds_for_its_other_rows() -> None:
    guards = "  a: has(input.extra)\n  g: input.extra == evidence.look.id\n"
    states = "  A: {choose: {look: [%s{when: g, goto: SUCCEEDED}, {stay: true}]}}\n"
    assert findings(states % "{unless: a, refuse: there is nothing to look for}, ", guards) == []
    assert len(findings(states % "", guards)) == 1


def test_so_are_fields_of_signals_of_answers_and_of_success() -> None:
    wait = "  A: {wait: {signal: said, expires: 1d}, then: {received: B, expired: FAILED}}\n"
    ((message, _),) = findings(wait + ROUTE % "g", "  g: evidence.said.text == 'x'\n")
    assert "`evidence.said.text`" in message
    finish = "  A: {choose: {look: stay, finish: [{when: g, goto: SUCCEEDED}, {refuse: no}]}}\n"
    ((message, _),) = findings(finish, "  g: call.args.answer.why == 'x'\n", more=f"output: {{why: {NOTE}}}\n")
    assert "`call.args.answer.why`" in message
    ends = "  A: {choose: {look: stay, finish: SUCCEEDED}}\n"
    ((message, _),) = findings(ends, "  g: input.extra == 'x'\n", success="[g]")
    assert message == "`g` reads `input.extra`, which is optional and may be absent in `A`"
    assert findings(ends, "  a: has(input.extra)\n  g: input.extra == 'x'\n", success="[a, g]") == []


def test_the_time_of_a_wait_is_read_too() -> None:
    states = "  A: {wait: {until: timestamp(input.extra)}, then: {elapsed: SUCCEEDED}}\n"
    ((message, advice),) = findings(states, "  g: has(input.id)\n")
    assert message == "`until` reads `input.extra`, which may be absent in `A`"
    assert advice == "ask `has(input.extra)` in a row that leads here"
    asked = "  A: {route: [{when: a, goto: B}, {goto: FAILED}]}\n" + states.replace("A", "B", 1)
    assert findings(asked, "  a: has(input.extra)\n") == []


def test_conditions_of_a_manifest_ask_in_their_own_text() -> None:
    states = WRITES % ("", "")
    guards = "  g: call.args.n > 1\n"
    rule = MAKE.replace("when: args.n > 10", "when: %sargs.note == 'x'")
    held = MAKE.replace("holds: result.ok", "holds: %sresult.note == 'x'")
    for manifest, path in ((rule, "args.note"), (held, "result.note")):
        ((message, advice),) = findings(states, guards, make=manifest % "")
        assert message == f"this reads `{path}`, which is optional and may be absent"
        assert advice == f"ask `has({path})` first: `has(…) && …`"
        assert findings(states, guards, make=manifest % f"has({path}) && ") == []
