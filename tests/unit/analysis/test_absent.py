"""References to something optional: without it the tool is not called, and authors forget it."""

from __future__ import annotations

from invalid.texts import TOOLS

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

NOTE = "{type: string, optional: true}"
LOOK = TOOLS["look"].replace("returns: {", f"returns: {{note: {NOTE}, deep: {{properties: {{id: {NOTE}}}}}, ")
MAKE = TOOLS["make"].replace("n: {type: integer}", f"n: {{type: integer}}, note: {NOTE}")


def findings(states: str, guards: str = "", make: str = MAKE) -> list[str]:
    text = (
        "machine: m\nversion: 1\nsummary: x\nlimits: {steps: 9}\n"
        f"input: {{id: {{type: string}}, wish: {NOTE}}}\nat_most: {{look: 9, make: 9}}\n"
        f"guards:\n  seen: has(evidence.look)\n{guards}success: [seen]\ninitial: A\nstates:\n{states}"
    )
    tools = [Source(f"{name}.yaml", tool) for name, tool in {**TOOLS, "look": LOOK, "make": make}.items()]
    catalogue = checked_catalogue(Catalogue.build([Source("m.yaml", text)], tools))
    assert catalogue.report.errors == [], str(catalogue.report)
    return [f"{f.file}:{f.mark.line + 1} {f.level}: {f.message}" for f in lint(catalogue) if "absent" in f.message]


PINNED = "  A: {choose: {look: {with: {id: %s}}, finish: SUCCEEDED}}\n"
CALLED = "  A: {call: look, with: {id: %s}, then: {ok: SUCCEEDED, failed: FAILED}}\n"
WISH = "`input.wish` may be absent, and then `look` is not called"


def test_an_optional_input_that_fills_an_argument_is_a_finding() -> None:
    assert findings(PINNED % "input.wish") == [f"m.yaml:12 warning: {WISH}"]
    assert findings(CALLED % "input.wish") == [f"m.yaml:12 warning: {WISH}"]
    assert findings(PINNED % "input.id") == findings(CALLED % "now") == findings(PINNED % "a literal") == []


def test_so_is_an_optional_field_however_deep() -> None:
    for path in ("evidence.look.note", "evidence.look.deep.id"):
        assert findings(CALLED % path) == [f"m.yaml:12 warning: `{path}` may be absent, and then `look` is not called"]
    assert findings(CALLED % "evidence.look.id") == []


def test_a_guard_that_asks_for_it_settles_it() -> None:
    states = "  A: {route: [{when: wished, goto: B}, {goto: FAILED}]}\n" + (CALLED % "input.wish").replace("A", "B", 1)
    assert findings(states, "  wished: has( input.wish )\n") == []
    assert len(findings(states, "  wished: has(input.id)\n")) == 1


def test_an_optional_argument_that_a_look_up_needs_is_a_finding_in_the_manifest() -> None:
    states = PINNED % "input.id"
    assert findings(states, make=MAKE.replace("{id: args.id}", "{id: args.note}")) == [
        "make.yaml:10 warning: `args.note` may be absent, and then `look` is not asked"
    ]
    assert len(findings(states, make=MAKE.replace("{key: effect.key}", "{key: args.note}"))) == 1
