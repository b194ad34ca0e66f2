"""A chart is made once for each definition hash, for as long as somebody has it."""

from __future__ import annotations

from statemachine_agent.chart.compile import compile_machine
from support.world import MACHINE, catalogue


def test_the_same_texts_have_one_chart_and_another_text_has_its_own() -> None:
    """A task that starts does not pay for a chart that is there, and never gets one of another definition."""
    first, again = (compile_machine(catalogue(), "tiny") for _ in range(2))
    other = compile_machine(catalogue(MACHINE.replace("look first", "look before")), "tiny")
    assert first.hash == again.hash != other.hash
    assert first.chart is again.chart is not other.chart
    assert {t.refuse for t in other.chart.transitions} - {t.refuse for t in first.chart.transitions} == {"look before"}
