"""Expressions checked when a definition is loaded: all of them, each where it stands."""

from __future__ import annotations

from invalid.texts import MACHINE, PEOPLE, TOOLS

from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source
from support.playing import swap

INNER = """\
machine: inner
version: 2
summary: x
limits: {steps: 3}
input: {y: {type: string}}
guards: {own: evidence.look.id == input.y}
success: [own]
initial: X
states:
  X: {choose: {look: stay, finish: SUCCEEDED}, then: [{unless: own, goto: W}]}
  W: {wait: {until: timestamp(input.y), at_most: 2}, then: {elapsed: X, exhausted: FAILED}}
"""
OUTER = """\
machine: outer
version: 1
summary: x
limits: {steps: 9}
input: {x: {type: string}}
guards:
  a: input.x == "a"
  behind: %s
success: [a]
initial: IN
states:
  IN: {machine: inner@2, with: {y: input.x}, then: {SUCCEEDED: B, FAILED: FAILED}}
  B: {choose: {look: [{when: [a, behind], goto: A}], finish: SUCCEEDED}}
  A: {route: SUCCEEDED}
"""


def faults(machines: dict[str, str], tools: dict[str, str] = TOOLS) -> list[str]:
    """What is said of them, without what is only a warning."""
    catalogue = Catalogue.build(
        [Source(f"{name}.yaml", text) for name, text in machines.items()],
        [Source(f"{name}.yaml", text) for name, text in tools.items()],
        Source("people.yaml", PEOPLE),
    )
    return sorted(f"{f.file}: {f.message}" for f in checked_catalogue(catalogue).report.errors)


def test_every_machine_and_every_tool_is_told_its_own() -> None:
    """One mistake does not hide another, in whatever file it stands."""
    wrong = MACHINE.replace("call.args.n > 1", "call.args.n > false")
    other = wrong.replace("machine: m\n", "machine: other\n").replace("> false", "> true")
    tools = TOOLS | {
        "make": swap(TOOLS["make"], ("holds: result.ok", "holds: result.nok"), ("args.n > 10", "args.m > 10")),
        "more": swap(
            TOOLS["make"], ("tool: make", "tool: more"), ('"make:{id}"', '"more:{id}"'), ("args.n > 10", "args.o > 10")
        ),
    }
    assert faults({"m": wrong, "other": other}, tools) == [
        "m.yaml: `>` does not work on (int, bool)",
        "make.yaml: `args` has no field `m`",
        "make.yaml: `result` has no field `nok`",
        "more.yaml: `args` has no field `o`",
        "other.yaml: `>` does not work on (int, bool)",
    ]


def test_what_stands_in_a_machine_hides_no_fault_of_the_machine() -> None:
    """Guards of the inner one come first; those behind them are checked all the same, and the inner ones only at home."""
    assert faults({"inner": INNER, "outer": OUTER % "input.x == 'b'"}) == []
    assert faults({"inner": INNER, "outer": OUTER % "input.z == 'b'"}) == ["outer.yaml: `input` has no field `z`"]
