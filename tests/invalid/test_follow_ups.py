"""A fault is told once: what refers to something that could not be read is not blamed for it."""

from __future__ import annotations

import re

import pytest
from invalid.texts import BROKEN_TOOLS, MACHINE, PEOPLE, TOOLS

from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.faults import FaultyDefinitionError
from statemachine_agent.definition.source import Source


def catalogue_of(machine: str = MACHINE, people: str = PEOPLE, **tools: str) -> Catalogue:
    texts = {**TOOLS, **tools}
    return checked_catalogue(
        Catalogue.build(
            [Source("m.yaml", machine)],
            [Source(f"{name}.yaml", text) for name, text in texts.items()],
            Source("people.yaml", people),
        )
    )


def test_the_machine_is_good_where_all_is() -> None:
    assert catalogue_of().report.faults == []


@pytest.mark.parametrize("fault", BROKEN_TOOLS)
@pytest.mark.parametrize("name", TOOLS)
def test_a_manifest_that_does_not_load_is_blamed_alone(name: str, fault: str) -> None:
    """Whatever the machine does with the tool: offer it, call it, ask about it, read its evidence."""
    broken = BROKEN_TOOLS[fault](TOOLS[name])
    catalogue = catalogue_of(**{name: broken})
    assert {f.file for f in catalogue.report.faults} == {f"{name}.yaml"}
    with pytest.raises(FaultyDefinitionError, match=f"{name}.yaml"):
        compile_machine(catalogue, "m")


def test_people_that_do_not_load_are_blamed_alone() -> None:
    catalogue = catalogue_of(people=PEOPLE.replace("roles", "rolls"))
    assert {f.file for f in catalogue.report.faults} == {"people.yaml"}
    with pytest.raises(FaultyDefinitionError, match=r"people\.yaml"):
        compile_machine(catalogue, "m")


def test_faults_of_the_machine_are_told_beside_those_of_its_tools() -> None:
    catalogue = catalogue_of(MACHINE.replace("FAILED", "FALED"), look=BROKEN_TOOLS["unknown key"](TOOLS["look"]))
    assert {f.file for f in catalogue.report.faults} == {"m.yaml", "look.yaml"}


def test_a_machine_is_refused_where_two_files_define_a_tool_of_it() -> None:
    catalogue = checked_catalogue(
        Catalogue.build(
            [Source("m.yaml", MACHINE)],
            [*(Source(f"{name}.yaml", text) for name, text in TOOLS.items()), Source("again.yaml", TOOLS["look"])],
        )
    )
    with pytest.raises(FaultyDefinitionError, match="the tool `look` is there already"):
        compile_machine(catalogue, "m")


def test_a_machine_whose_tools_are_good_loads_beside_a_broken_one() -> None:
    catalogue = catalogue_of(other="tool: other\nversion: one\n")
    assert {f.file for f in catalogue.report.faults} == {"other.yaml"}
    assert compile_machine(catalogue, "m").name == "m"


_VERB = re.compile(r"\b(choose|route|call|reconcile|approval)(?=:)")


@pytest.mark.parametrize(
    "verb", [found.span() for found in _VERB.finditer(MACHINE)], ids=lambda span: MACHINE[slice(*span)]
)
def test_a_misspelt_verb_is_told_alone(verb: tuple[int, int]) -> None:
    """Guards that read the tools and visits of that state, and states that only it leads to, are not blamed for it."""
    start, end = verb
    misspelt = MACHINE[start] + MACHINE[start + 2 : end]
    visited = MACHINE.replace("seen: ", "seen: visits.A + visits.B + visits.C + visits.D + visits.E + visits.F < 9 && ")
    assert catalogue_of(visited).report.faults == []
    shift = len(visited) - len(MACHINE)
    broken = visited[: start + shift] + misspelt + visited[end + shift :]
    (fault,) = catalogue_of(broken).report.faults
    assert fault.advice == f"did you mean `{MACHINE[start:end]}`?"


def test_a_state_within_a_state_that_cannot_be_read_is_there_all_the_same() -> None:
    """Rows and properties that name it, or what it holds, are not blamed."""
    held = "{G: {call: look, with: {id: effects.make.key}, then: {ok: done, failed: FAILED}}}"
    holder = f"  F: {{initial: G, stats: {held}, then: {{done: A}}}}\n"
    text = MACHINE[: MACHINE.index("  F: ")] + holder + "properties: [{end: SUCCEEDED, visits: [G]}]\n"
    (fault,) = catalogue_of(text).report.faults
    assert fault.advice == "did you mean `states`?"
