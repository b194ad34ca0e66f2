"""Findings about machines that load, and that a reviewer should look at."""

from __future__ import annotations

import pytest
from invalid.texts import TOOLS

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

NOTE = "{type: string, untrusted: true}"
OTHER = TOOLS["look"].replace("tool: look", "tool: other")
OTHER = OTHER.replace("returns: {", f"returns: {{note: {NOTE}, notes: {{type: array, items: {NOTE}}}, ")


def findings(guards: str, states: str, success: str = "[]", more: str = "") -> list[str]:
    text = (
        "machine: m\nversion: 1\nsummary: x\nlimits: {steps: 9}\n"
        "input: {id: {type: string}, said: {type: string, untrusted: true}}\n"
        f"{more}guards:\n{guards}success: {success}\ninitial: A\nstates:\n{states}"
    )
    tools = [Source(f"{name}.yaml", tool) for name, tool in {**TOOLS, "other": OTHER}.items()]
    catalogue = checked_catalogue(Catalogue.build([Source("m.yaml", text)], tools))
    assert catalogue.report.errors == [], str(catalogue.report)
    found = [f for f in lint(catalogue) if "may not be there yet" not in f.message]  # `test_presence` is about those
    return [f"{f.mark.line + 1} {f.level}: {f.message}" for f in found]


BOTH = "  A: {choose: {look: %s, other: %s, finish: [{when: g, goto: SUCCEEDED}]}}\n"
JOIN = "  g: evidence.look.id == evidence.other.id\n"
PINNED = "{with: {id: input.id}}"


def test_a_guard_over_free_text_from_outside_is_a_finding() -> None:
    """`has` reads no text."""
    states = "  A: {choose: [look, other], then: [{when: [a, b, c, d], goto: SUCCEEDED}]}\n"
    guards = (
        "  a: evidence.other.note == 'yes'\n  b: has(evidence.other.note)\n"
        "  c: evidence.other.notes.exists(n, n == 'x')\n  d: input.said.contains('please')\n"
    )
    found = [f for f in findings(guards, states) if "free text" in f]
    assert found == [
        "7 warning: `a` reads `evidence.other.note`, which is free text from outside",
        "9 warning: `c` reads `evidence.other.notes`, which is free text from outside",
        "10 warning: `d` reads `input.said`, which is free text from outside",
    ]


def test_evidence_of_two_tools_that_may_be_about_two_things_is_a_finding() -> None:
    assert findings(JOIN, BOTH % ("stay", "stay")) == [
        "7 warning: evidence of `look` and `other` is joined, and `id` of `look` is the model's choice"
    ]


def test_pinning_or_comparing_what_was_asked_settles_it() -> None:
    assert findings(JOIN, BOTH % (PINNED, PINNED)) == []
    assert findings(JOIN, BOTH % (PINNED, "stay")) != []
    compared = "  g: evidence.look.id == evidence.other.id && asked.look.id == asked.other.id\n"
    assert findings(compared, BOTH % ("stay", "stay")) == []


def test_guards_of_one_row_and_of_success_are_joined_too() -> None:
    guards = "  one: evidence.look.id == 'x'\n  two: evidence.other.id == 'x'\n  g: [one, two]\n"
    assert len(findings(guards, BOTH % ("stay", "stay"))) == 1
    states = "  A: {choose: {look: stay, other: stay, finish: SUCCEEDED}}\n"
    assert len(findings(guards, states, success="[one, two]")) == 1
    assert findings(guards, states, success="[one]") == []


def test_properties_that_nobody_proves_yet_are_noted() -> None:
    found = findings(
        "  g: now == now\n", "  A: {route: SUCCEEDED}\n", more="properties: [{never: FAILED}]\n", success="[g]"
    )
    assert found == ["6 note: 1 properties are not proved yet"]


def test_a_machine_with_errors_is_not_studied() -> None:
    tools = [Source(f"{name}.yaml", tool) for name, tool in {**TOOLS, "other": OTHER}.items()]
    text = (
        "machine: m\nversion: 1\nsummary: x\nlimits: {steps: 9}\nguards:\n"
        + JOIN
        + "success: [g]\ninitial: B\nstates:\n"
    )
    catalogue = checked_catalogue(Catalogue.build([Source("m.yaml", text + "  A: {choose: [look, other]}\n")], tools))
    assert catalogue.report.errors
    assert lint(catalogue) == []


@pytest.mark.parametrize(
    ("people", "found"),
    [
        ("{ann: {scopes: [things:read, things:write]}}", []),
        (
            "{ann: {scopes: [things:read]}}",
            [("3", "nobody has the scope `things:raed`, which `look` needs", "did you mean `things:read`?")],
        ),
        ("{ann: {}}", [("3", "nobody has the scope `things:raed`, which `look` needs", "none is defined")]),
        (None, []),
    ],
    ids=["somebody has it", "misspelt", "nobody has any", "people are not known"],
)
def test_a_scope_that_nobody_has_is_a_finding(people: str | None, found: list[tuple[str, str, str]]) -> None:
    """A role that nobody has is a fault; a scope may be meant for people who are still to come."""
    scope = "things:read" if people and "write" in people else "things:raed"
    tools = [Source("look.yaml", TOOLS["look"].replace("version: 1\n", f"version: 1\nscopes: [{scope}]\n", 1))]
    who = Source("people.yaml", f"people: {people}\n") if people else None
    catalogue = checked_catalogue(Catalogue.build([], tools, who))
    assert catalogue.report.errors == []
    assert [(str(f.mark.line + 1), f.message, f.advice) for f in lint(catalogue)] == found
