"""Machines for the tests of the chart, and answers that a test chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from invalid.texts import PEOPLE, TOOLS

from statemachine_agent.chart.compile import CompiledMachine, checked_catalogue, compile_machine
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source
from statemachine_agent.errors import GuardError

ROOT = Path(__file__).parents[3]


@cache
def refund() -> CompiledMachine:
    """The shipped machine."""
    catalogue = Catalogue.read([ROOT / "machines"], [ROOT / "tool_manifests"], ROOT / "people.yaml")
    return compile_machine(checked_catalogue(catalogue), "refund")


@cache
def machine(states: str, success: str = "[]", more: str = "", **others: str) -> CompiledMachine:
    """A machine of these states with the guards a, b, c, d (which a test answers) and `proposed` (which reads the call).

    `others` are manifests in the place of the usual ones.
    """
    text = (
        "machine: m\nversion: 1\nsummary: x\nlimits: {steps: 9}\ninput: {x: {type: string}}\n"
        "guards:\n"
        + "".join(f"  {name}: input.x == '{name}'\n" for name in "abcd")
        + "  proposed: call.args.id == input.x\n  both: [a, b]\n  mixed: [a, proposed]\n"
        + f"success: {success}\ninitial: A\n{more}states:\n{states}"
    )
    tools = [Source(f"{name}.yaml", tool) for name, tool in {**TOOLS, **others}.items()]
    catalogue = checked_catalogue(Catalogue.build([Source("m.yaml", text)], tools, Source("people.yaml", PEOPLE)))
    assert not catalogue.report.errors, str(catalogue.report)
    return compile_machine(catalogue, "m")


class Given:
    """Answers that a test gives; every question is noted, and one that the test does not expect is an error."""

    def __init__(self, true: Iterable[str] = (), false: Iterable[str] = (), error: Iterable[str] = ()) -> None:
        self.answers: Mapping[str, bool] = {**dict.fromkeys(false, False), **dict.fromkeys(true, True)}
        self.error = set(error)
        self.asked: list[str] = []

    def __call__(self, name: str) -> bool:
        self.asked.append(name)
        if name in self.error or name not in self.answers:
            raise GuardError(name, "broken" if name in self.error else "not expected to be asked")
        return self.answers[name]


def anything(name: str) -> bool:
    """A question that must not be asked."""
    raise AssertionError(name)
