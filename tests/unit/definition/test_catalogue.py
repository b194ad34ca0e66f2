"""All machines and manifests together: what a task pins, and what is refused."""

from __future__ import annotations

import pytest
from invalid.texts import MACHINE, PEOPLE, TOOLS

from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.faults import FaultyDefinitionError
from statemachine_agent.definition.source import Source
from statemachine_agent.errors import UsageError

UNRELATED = TOOLS["look"].replace("tool: look", "tool: unrelated")


def catalogue_of(machine: str = MACHINE, **tools: str) -> Catalogue:
    return Catalogue.build(
        [Source("m.yaml", machine)],
        [Source(f"{name}.yaml", text) for name, text in {**TOOLS, **tools}.items()],
        Source("people.yaml", PEOPLE),
    )


HASH = catalogue_of().definition_hash("m")


def test_the_hash_changes_with_every_text_that_a_task_depends_on() -> None:
    assert catalogue_of(MACHINE + "# more\n").definition_hash("m") != HASH
    for name, text in TOOLS.items():
        assert catalogue_of(**{name: text + "# more\n"}).definition_hash("m") != HASH, name


def test_the_hash_does_not_change_with_anything_else() -> None:
    assert catalogue_of().definition_hash("m") == HASH
    assert catalogue_of(unrelated=UNRELATED).definition_hash("m") == HASH
    moved = Catalogue.build(
        [Source("elsewhere.yaml", MACHINE)], [Source(f"x/{n}", t) for n, t in reversed(TOOLS.items())]
    )
    assert moved.definition_hash("m") == HASH


def test_the_tools_of_a_machine_are_those_it_names_and_those_behind_them() -> None:
    catalogue = catalogue_of(unrelated=UNRELATED)
    assert catalogue.used_tools(catalogue.machines["m"].definition) == ["look", "make", "find"]


def test_an_unknown_machine_is_a_usage_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no machine `n`"):
        catalogue_of().machine("n")
    with pytest.raises(UsageError, match="did you mean `m`"):
        catalogue_of().machine("M")


def test_a_machine_that_cannot_be_read_at_all_is_found_by_the_name_of_its_file() -> None:
    catalogue = Catalogue.build([Source("machines/lost.yaml", "machine: [\n")], [])
    with pytest.raises(FaultyDefinitionError, match=r"lost\.yaml:1:11"):
        catalogue.machine("lost")


def test_two_machines_of_one_name_are_both_refused() -> None:
    catalogue = Catalogue.build([Source("a.yaml", MACHINE), Source("b.yaml", MACHINE)], [])
    with pytest.raises(FaultyDefinitionError, match=r"b\.yaml:1:10: the machine `m` is there already"):
        catalogue.machine("m")


def test_without_people_roles_are_not_checked() -> None:
    texts = [Source(f"{name}.yaml", text) for name, text in TOOLS.items()]
    assert Catalogue.build([Source("m.yaml", MACHINE)], texts).report.faults == []
    nobody = Catalogue.build([Source("m.yaml", MACHINE)], texts, Source("p.yaml", "people: {}\n"))
    assert {f.message for f in nobody.report.faults} == {"nobody has the role `boss`"}


def test_without_settings_variables_are_not_checked() -> None:
    text = TOOLS["look"].replace('{python: "a:b"}', '{http: {url: "${ANY}/x"}}')
    tools = [Source("look.yaml", text)]
    assert Catalogue.build([], tools).report.faults == []
    assert len(Catalogue.build([], tools, variables=frozenset()).report.faults) == 1
