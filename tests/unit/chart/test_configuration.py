"""Which sets of states can be active together."""

from __future__ import annotations

import pytest
from unit.chart.charts import refund

from statemachine_agent.chart.configuration import Tree
from statemachine_agent.definition.names import ENDS
from statemachine_agent.errors import IllegalConfigurationError

NESTED = Tree(
    {"": ("working", "FAILED"), "working": ("A", "P"), "P": ("L", "R"), "L": ("L1", "L2"), "R": ("R1", "R2")},
    parallel=frozenset({"P"}),
)


def test_every_state_and_every_end_alone_is_a_configuration() -> None:
    tree = refund().chart.tree
    for name in refund().definition.states:
        assert tree.full((name,)) == ("working", name)
        assert tree.leaves(("working", name)) == (name,)
    for name in ENDS:
        assert tree.full((name,)) == (name,)


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ((), "no state is active"),
        (("NOWHERE",), "the stored state `NOWHERE` is no state of this machine"),
        (("INVESTIGATNG",), "did you mean `INVESTIGATING`"),
        (("INVESTIGATING", "EXECUTING"), "two states of `working` are active at once"),
        (("INVESTIGATING", "FAILED"), "two states of `the machine` are active at once"),
        (("FAILED", "DENIED"), "two states of `the machine` are active at once"),
        (("working",), "`working` is active without any of its states"),
        (("INVESTIGATING", "NOWHERE"), "the stored state `NOWHERE` is no state of this machine"),
    ],
)
def test_a_restored_configuration_must_be_legal(leaves: tuple[str, ...], message: str) -> None:
    with pytest.raises(IllegalConfigurationError) as caught:
        refund().chart.tree.full(leaves)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        (("A", "L1"), "`P` is active with 1 of its 2 regions"),
        (("L1",), "`P` is active with 1 of its 2 regions"),
        (("L1", "L2", "R1"), "two states of `L` are active at once"),
        (("P",), "`P` is active without any of its states"),
        (("L", "R"), "`L` is active without any of its states"),
        (("L1", "R"), "`R` is active without any of its states"),
        (("A", "FAILED"), "two states of `the machine` are active at once"),
    ],
)
def test_regions_are_all_active_or_none(leaves: tuple[str, ...], message: str) -> None:
    """The error names the state that holds what does not go together."""
    with pytest.raises(IllegalConfigurationError) as caught:
        NESTED.full(leaves)
    assert message == str(caught.value)


def test_ancestors_follow_from_leaves_in_the_order_of_the_file() -> None:
    assert NESTED.full(("R2", "L1")) == ("working", "P", "L", "L1", "R", "R2")
    assert NESTED.leaves({"R2", "R", "P", "working", "L", "L1"}) == ("L1", "R2")


@pytest.mark.parametrize(
    ("active", "message"),
    [
        ((), "no state is active"),
        (("working",), "no state is active"),
        (("A",), "A is no configuration"),
        (("NOWHERE", "working", "A"), "A, NOWHERE, working is no configuration"),
        (("working", "P", "L", "L1"), "`P` is active with 1 of its 2 regions"),
        (("working", "A", "L1"), "`P` is active with 1 of its 2 regions"),
        (("NOWHERE",), "no state is active"),
    ],
)
def test_what_the_library_says_is_checked_too(active: tuple[str, ...], message: str) -> None:
    """The error says what was active."""
    with pytest.raises(IllegalConfigurationError) as caught:
        NESTED.leaves(active)
    assert message == str(caught.value)
