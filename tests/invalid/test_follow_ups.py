"""A fault is told once: what refers to something that could not be read is not blamed for it."""

from __future__ import annotations

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
