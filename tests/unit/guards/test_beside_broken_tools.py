"""What a guard reads of a tool that did not load could be anything: the guard is not blamed for it."""

from __future__ import annotations

from statemachine_agent.chart.compile import checked_catalogue
from support.world import ACT, FIND, LOOK, MACHINE, catalogue


def test_a_bare_field_of_a_broken_tool_may_be_true_or_false() -> None:
    """`good: evidence.look.good` is right as soon as `look` is: one fault is told, in the file that has it."""
    broken = LOOK.replace("effect: read", "effect: reed")
    report = checked_catalogue(catalogue(MACHINE, broken, ACT, FIND)).report
    assert {f.file for f in report.errors} == {"tool0.yaml"}
