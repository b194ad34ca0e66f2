"""A row is judged before it confirms anything: what asks for `verified` in it can never hold."""

from __future__ import annotations

import pytest
from invalid.texts import TOOLS

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

VERIFIED = 'effects.exists(e, e.tool == "make" && e.status == "verified")'
STATES = """\
  A: {choose: {make: B}}
  B: {call: make, with: proposal, then: {ok: D, failed: FAILED, blocked: FAILED, unknown: C}}
  C: {reconcile: make, then: {found: D, absent: B, failed: FAILED}}
  D: {call: look, with: {id: "1"}, then: {ok: [%s, {goto: FAILED}], failed: FAILED}}
"""


def findings(row: str, g: str = VERIFIED, success: str = "[]", more: str = "") -> list[str]:
    text = (
        "machine: m\nversion: 1\nsummary: x\nlimits: {steps: 9}\nat_most: {look: 5, make: 5}\n"
        f"guards:\n  g: {g}\n  both: [g, h]\n  h: has(evidence.look)\n"
        f"success: {success}\ninitial: A\nstates:\n{STATES % row}{more}"
    )
    tools = [Source(f"{name}.yaml", tool) for name, tool in TOOLS.items()]
    catalogue = checked_catalogue(Catalogue.build([Source("m.yaml", text)], tools))
    assert catalogue.report.errors == [], str(catalogue.report)
    return [f"{f.mark.line + 1} {f.level}: {f.message}" for f in lint(catalogue) if "confirms" in f.message]


FOUND = ["7 warning: `g` asks whether `make` is verified, and is read before the row's `confirms`"]


def test_a_row_that_asks_for_what_it_confirms_is_a_finding() -> None:
    assert findings("{when: g, confirms: make, goto: SUCCEEDED}") == FOUND
    assert findings("{when: both, confirms: make, goto: SUCCEEDED}") == FOUND
    assert findings("{when: g, goto: SUCCEEDED}") == []


def test_so_is_success_that_asks_for_it() -> None:
    assert findings("{when: h, confirms: make, goto: SUCCEEDED}", success="[g]") == FOUND
    assert findings("{when: h, confirms: make, goto: FAILED}", success="[g]") == []


@pytest.mark.parametrize(
    "g",
    [
        'effects.exists(e, e.tool == "make" && e.status in ["executed", "verified"])',
        'effects.exists(e, e.status == "verified" || e.status == "executed")',
        f"(!{VERIFIED})",
        'effects.exists(e, e.tool == "make")',
    ],
)
def test_what_holds_before_too_is_none(g: str) -> None:
    assert findings("{when: g, confirms: make, goto: SUCCEEDED}", g) == []


def test_nor_is_what_a_row_before_may_have_confirmed() -> None:
    then = "{ok: [{when: g, confirms: make, goto: SUCCEEDED}, {goto: FAILED}], failed: FAILED}"
    more = f'  E: {{call: look, with: {{id: "2"}}, then: {then}}}\n'
    assert findings("{when: h, confirms: make, goto: E}", more=more, success="[g]") == []


def test_to_be_confirmed_unless_it_is_already_is_no_finding() -> None:
    assert findings("{unless: g, confirms: make, goto: FAILED}") == []
