"""The shape of a machine: circles, and that size does not matter."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.check_graph import circles
from statemachine_agent.definition.source import Source

NAMES = "ABCDEF"
GRAPHS = st.fixed_dictionaries({name: st.sets(st.sampled_from(NAMES + "Z")) for name in NAMES})


@given(GRAPHS)
def test_circles_are_the_sets_of_states_that_reach_each_other(graph: dict[str, set[str]]) -> None:
    reach = {n: {t for t in ts if t in graph} for n, ts in graph.items()}
    for middle, one, other in itertools.product(NAMES, repeat=3):
        if middle in reach[one] and other in reach[middle]:
            reach[one].add(other)
    expected = {frozenset(m for m in NAMES if m in reach[n] and n in reach[m]) for n in NAMES if n in reach[n]}
    assert circles(graph) == sorted(expected, key=sorted)


def test_a_long_chain_needs_no_recursion() -> None:
    size = 20_000
    chain = {f"S{i}": {f"S{i + 1}"} for i in range(size)} | {f"S{size}": {"S0"}}
    assert [len(circle) for circle in circles(chain)] == [size + 1]


def test_a_large_circle_is_told_in_a_short_sentence() -> None:
    states = "".join(f"  S{i}: {{wait: {{for: 1s}}, then: {{elapsed: S{(i + 1) % 300}}}}}\n" for i in range(300))
    text = f"machine: m\nversion: 1\nsummary: x\nlimits: {{steps: 1}}\nsuccess: []\ninitial: S0\nstates:\n{states}"
    messages = [f.message for f in Catalogue.build([Source("m.yaml", text)], []).report.errors]
    assert messages == ["nothing bounds the circle `S0`, `S1`, `S10`, `S100`, `S101`, `S102` and 294 more"]
