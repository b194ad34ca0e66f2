"""The kit on machines whose states hold states and go on side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nested.test_regions import TOOLS, TWO

from statemachine_agent.testing import Subject, assert_illegal, assert_refused, machine_from_texts, random_walks, walk
from statemachine_agent.testing.coverage import illegal_pairs
from statemachine_agent.testing.generated import check_pair
from statemachine_agent.testing.standing import CHOICES
from statemachine_agent.testing.walking import close_all
from support.world import DONE, GOOD, PEOPLE


@pytest.fixture(scope="module")
def two() -> Subject:
    return machine_from_texts(TWO, *TOOLS, people=PEOPLE)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


def test_a_walk_through_two_regions(two: Subject) -> None:
    """The models take turns; a state that holds others is where its states are."""
    task = walk(two, {"thing": "box"}).lands_in("BOTH").lands_in("LOOKING").lands_in("WONDERING")
    task.offers("look", "act").forbids("ask_about").choose("look", thing="box").ok(GOOD)
    task.offers("ask_about").forbids("act").choose("ask_about", thing="box").ok(GOOD).lands_in("RESTING")
    task.choose("act", thing="box", amount=200).waits_for("boss").signal("go").lands_in("RIGHT_done")
    task.approve().ok(DONE).ends("SUCCEEDED", "completed")


def test_a_tool_of_the_region_beside_is_illegal_here(two: Subject) -> None:
    """The configuration has a transition for it, and this state has none."""
    assert_illegal(two, "LOOKING", "ask_about")
    assert_illegal(two, "WONDERING", "act")
    assert_illegal(two, "BOTH", "look")
    with pytest.raises(AssertionError, match="is a transition of WONDERING"):
        assert_illegal(two, "WONDERING", "ask_about")
    with pytest.raises(AssertionError, match="LOOKING accepts `act`"):
        assert_refused(two, "LOOKING", "act")


def test_every_pair(two: Subject) -> None:
    machine = two.compiled
    for state in machine.definition.all_states:
        for tool in (*machine.tools, *CHOICES):
            check_pair(two, state, tool)
    pairs = set(illegal_pairs(machine))
    assert ("LOOKING", "ask_about") in pairs and ("LOOKING", "look") not in pairs


def test_random_walks(two: Subject, seed: int) -> None:
    amounts = [{"thing": "box", "amount": a} for a in (5, 200, 600)]
    random_walks(two, examples=8, steps=25, seed_of_walks=seed, arguments={"act": amounts})
