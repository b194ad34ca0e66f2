"""The picture is the chart: every transition is shown once, and nothing is shown that is no transition."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from unit.diagrams.making import MACHINES, refund

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.diagrams import Trail, diagram
from statemachine_agent.diagrams.build import picture_of
from statemachine_agent.diagrams.render import find_program
from statemachine_agent.errors import UsageError


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> CompiledMachine:
    return MACHINES[request.param]()


@dataclass(frozen=True)
class Drawn:
    """A DOT source as Graphviz itself reads it: numbers of the transitions by node and by arrow."""

    nodes: dict[str, list[int]]
    edges: list[tuple[str, str, list[int]]]
    #: arrows between bars and regions
    together: list[tuple[str, str]]
    #: the nodes of each cluster, those of clusters within it among them
    clusters: dict[str, set[str]]

    @classmethod
    def of(cls, source: bytes) -> Drawn:
        command = [find_program(), "-Kdot", "-Tjson0"]
        graph = json.loads(subprocess.run(command, input=source, capture_output=True, check=True).stdout, strict=False)
        names = {found["_gvid"]: found["name"] for found in graph["objects"]}
        groups = [found for found in graph["objects"] if "nodes" in found]
        clusters = {g["name"][8:]: {names[n] for n in g["nodes"]} for g in groups if g["name"].startswith("cluster_")}
        nodes = {found["name"]: numbers(found) for found in graph["objects"] if found not in groups}
        arrows = [(names[e["tail"]], names[e["head"]].partition("@")[0], e) for e in graph.get("edges", [])]
        edges = [(tail, head, numbers(e)) for tail, head, e in arrows if e["class"] != "together"]
        return cls(nodes, edges, [(tail, head) for tail, head, e in arrows if e["class"] == "together"], clusters)


def ends_of(machine: CompiledMachine, t: Transition) -> tuple[str, str]:
    """Where the arrow of a transition begins and ends: holders are left when they are done, and entered at their first."""
    tree, target = machine.chart.tree, t.target or ""
    while target in tree.first:
        target = tree.first[target]
    source = f"{t.source}_done" if t.source in tree.children else t.source
    return source, f"{target}_begun" if target in tree.parallel else target


def numbers(element: dict[str, Any]) -> list[int]:
    return [int(word[1:]) for word in element.get("class", "").split() if re.fullmatch(r"t\d+", word)]


def arrows(machine: CompiledMachine) -> list[Transition]:
    """What is to be an arrow: whatever leads somewhere but universal exits and the implied `cannot_continue`."""
    return [
        t
        for t in machine.chart.transitions
        if t.target and not (t.implied and (t.event.startswith("exit.") or t.event == "call.cannot_continue"))
    ]


def test_each_transition_is_in_exactly_one_place_of_the_picture(machine: CompiledMachine) -> None:
    shown = Counter(t.index for t in picture_of(machine).transitions())
    assert shown == Counter(range(len(machine.chart.transitions)))


def test_the_dot_source_shows_each_transition_once(machine: CompiledMachine) -> None:
    drawn = Drawn.of(diagram(machine, "dot"))
    shown = Counter(n for found in drawn.nodes.values() for n in found)
    shown += Counter(n for _, _, found in drawn.edges for n in found)
    assert shown == Counter(range(len(machine.chart.transitions)))


def test_every_arrow_of_the_dot_source_is_a_transition_and_the_other_way_round(machine: CompiledMachine) -> None:
    drawn = Drawn.of(diagram(machine, "dot"))
    for source, target, found in drawn.edges:
        assert found, f"{source} → {target} stands for no transition"
        for number in found:
            t = machine.chart.transitions[number]
            assert ends_of(machine, t) == (source, target)
    assert sorted(n for _, _, found in drawn.edges for n in found) == [t.index for t in arrows(machine)]
    assert {(source, target) for source, target, _ in drawn.edges} == {ends_of(machine, t) for t in arrows(machine)}


def test_rows_and_exits_stand_where_they_belong(machine: CompiledMachine) -> None:
    drawn = Drawn.of(diagram(machine, "dot"))
    for name, found in drawn.nodes.items():
        for number in found:
            t = machine.chart.transitions[number]
            if name == "note":
                assert t.implied
                assert t.event.startswith("exit.")
            else:
                assert t.source == name
    states = {name.partition("@")[0] for name in drawn.nodes} - {"note"}
    holders = {name for name in machine.chart.tree.children if name in machine.definition.all_states}
    bars = {f"{name}_begun" for name in machine.chart.tree.parallel}
    expected = {*machine.definition.all_states, *(ends_of(machine, t)[1] for t in arrows(machine)), *bars}
    assert states == (expected - holders) | {f"{name}_done" for name in holders}


def test_the_svg_keeps_the_numbers_of_the_transitions(machine: CompiledMachine) -> None:
    svg = diagram(machine, "svg").decode()
    shown = Counter(int(n) for c in re.findall(r'class="([^"]*)"', svg) for n in re.findall(r"\bt(\d+)", c))
    assert shown == Counter(range(len(machine.chart.transitions)))


def test_every_arrow_of_the_mermaid_text_is_a_transition_and_the_other_way_round(machine: CompiledMachine) -> None:
    found = re.findall(
        r"^ +(?:s_)?(\w+|\[\*\]) --> (?:s_)?(\w+|\[\*\])", diagram(machine, "mmd").decode(), re.MULTILINE
    )
    assert len(found) == len(set(found))
    gone = {(t.source, "[*]" if (t.target or "").endswith("_done") else t.target) for t in arrows(machine)}
    assert set(found) == gone | {("[*]", first) for first in machine.chart.tree.first.values()}


def test_the_markdown_has_a_row_for_each_transition_but_the_exits(machine: CompiledMachine) -> None:
    rows = diagram(machine, "md").decode().split("## Rows")[1].split("\n## ")[0]
    sources = re.findall(r"^\| `+([A-Z_0-9]+)`+ \|", rows, re.MULTILINE)
    assert Counter(sources) == Counter(t.source for t in machine.chart.transitions if not t.event.startswith("exit."))


def test_the_library_executes_the_transitions_that_are_drawn(machine: CompiledMachine) -> None:
    """The class that python-statemachine compiled, read by itself, against the chart's list."""

    def compiled(states: Any) -> Iterator[tuple[str, str, str | None, str]]:
        for state in states:
            for t in state.transitions:
                if t.event:  # the library's own step into the first state has none
                    target = t.target.id if t.target is not None else None
                    yield state.id, str(t.event), target, next(c for c in map(str, t.cond) if c.startswith("row_"))
            yield from compiled(state.states)

    found = sorted(compiled(machine.chart._library.chart.states), key=str)
    assert found == sorted(
        ((t.source, t.event, t.target, f"row_{t.index}") for t in machine.chart.transitions), key=str
    )


def test_the_note_of_exits_is_made_from_the_transitions() -> None:
    groups = picture_of(refund()).exits
    told = {(group.where, one.word, one.target) for group in groups for one in group.exits}
    some = "where a budget runs (all but AWAITING_APPROVAL and SETTLING)"
    assert ("from every working state", "cancel", "CANCELLED") in told
    assert (some, "budget", "BUDGET_EXHAUSTED") in told
    assert (some, "no progress", "NO_PROGRESS") in told
    assert len(told) == len({t.event for t in refund().chart.transitions if t.event.startswith("exit.")})


def test_the_main_line_goes_straight_down_to_success() -> None:
    picture = picture_of(refund())
    assert [node.name for node in picture.nodes if node.main] == [
        "INVESTIGATING", "REFUND_PROPOSED", "AWAITING_APPROVAL", "EXECUTING", "VERIFYING", "NOTIFYING", "SENDING",
    ]  # fmt: skip
    assert [e.target for e in picture.edges if e.main][-1] == "SUCCEEDED"


def test_an_approval_names_everybody_who_must_agree() -> None:
    """One boss by the machine; two and an auditor by the manifest's rule."""
    (node,) = (node for node in picture_of(MACHINES["hostile"]()).nodes if node.kind == "approval")
    assert node.facts == (
        "by boss",
        "also by another boss and auditor where a rule of change asks for it",
        "expires after 1h 30m",
    )


# ---------------------------------------------------------------- with the way of a task

WAY = {
    ("INVESTIGATING", "REFUND_PROPOSED"): 1,
    ("REFUND_PROPOSED", "AWAITING_APPROVAL"): 1,
    ("AWAITING_APPROVAL", "EXECUTING"): 1,
    ("EXECUTING", "RECONCILING"): 2,
    ("RECONCILING", "EXECUTING"): 2,
}


def test_a_trail_marks_where_the_task_is_and_counts_its_moves() -> None:
    picture = picture_of(refund(), Trail(("EXECUTING",), WAY))
    assert [node.name for node in picture.nodes if node.current] == ["EXECUTING"]
    assert {(e.source, e.target): e.visits for e in picture.edges if e.visits} == WAY
    for form in ("dot", "mmd"):
        text = diagram(refund(), form, Trail(("EXECUTING",), WAY)).decode()
        assert text.count("\N{MULTIPLICATION SIGN} 2") == 2
        assert "now" in text
    drawn = Drawn.of(diagram(refund(), "dot", Trail(("EXECUTING",), WAY)))
    assert {(s, t) for s, t, _ in drawn.edges} == {(t.source, t.target) for t in arrows(refund())}


@pytest.mark.parametrize("source", ["EXECUTING", "working"])
def test_an_exit_that_a_task_took_is_drawn_from_the_state_that_it_left(source: str) -> None:
    """The chart gives shared exits the source `working`; the state is the one entered more often than left."""
    trail = Trail(("CANCELLED",), {**WAY, (source, "CANCELLED"): 1})
    picture = picture_of(refund(), trail)
    (edge,) = (e for e in picture.edges if e.target == "CANCELLED")
    assert (edge.source, edge.visits, [line.on for line in edge.lines]) == ("EXECUTING", 1, ["cancel"])
    assert [end.name for end in picture.ends if end.current] == ["CANCELLED"]
    assert "working" not in Drawn.of(diagram(refund(), "dot", trail)).nodes


def test_an_end_is_marked_beside_the_state_that_the_task_came_from() -> None:
    way = {("INVESTIGATING", "REFUND_PROPOSED"): 1, ("REFUND_PROPOSED", "DENIED"): 1}
    source = diagram(refund(), "dot", Trail(("DENIED",), way)).decode()
    marked = [line.split()[0] for line in source.splitlines() if "● now" in line]
    assert marked == ['"DENIED@REFUND_PROPOSED"']


def test_an_end_without_a_way_is_marked_too() -> None:
    drawn = Drawn.of(diagram(refund(), "dot", Trail(("NO_PROGRESS",))))
    assert "NO_PROGRESS" in drawn.nodes
    assert "NO_PROGRESS" in ENDS


@pytest.mark.parametrize(
    "trail",
    [Trail(("ELSEWHERE",)), Trail((), {("INVESTIGATING", "EXECUTING"): 1}), Trail((), {("ELSEWHERE", "FAILED"): 1})],
)
def test_a_way_that_the_chart_does_not_have_is_no_arrow_but_an_error(trail: Trail) -> None:
    with pytest.raises(UsageError, match=r"ELSEWHERE|EXECUTING"):
        diagram(refund(), "dot", trail)
