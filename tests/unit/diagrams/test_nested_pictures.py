"""States within states and regions side by side, as they are drawn: what holds what, where arrows begin and arrive."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from unit.diagrams.making import NESTING, large, nested, refund, three, two
from unit.diagrams.test_diagrams_complete import Drawn, arrows

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.diagrams import Trail, diagram, dot
from statemachine_agent.diagrams.build import picture_of
from statemachine_agent.diagrams.picture import Picture
from statemachine_agent.errors import UsageError


@pytest.fixture(params=NESTING)
def machine(request: pytest.FixtureRequest) -> CompiledMachine:
    return NESTING[request.param]()


def statement(source: bytes, beginning: str) -> str:
    """The one line of a DOT source that begins so."""
    (found,) = (line for line in source.decode().splitlines() if line.strip().startswith(beginning))
    return found


def heading(source: bytes, holder: str) -> str:
    """What the line below a cluster's beginning says of it."""
    lines = source.decode().splitlines()
    return lines[next(n for n, line in enumerate(lines) if f"subgraph cluster_{holder} {{" in line) + 1]


# ---------------------------------------------------------------- clusters


def test_each_state_lies_in_the_clusters_of_what_holds_it(machine: CompiledMachine) -> None:
    drawn, nesting = Drawn.of(diagram(machine, "dot")), machine.definition.nesting
    holders = {name for name in nesting.children if name}
    assert set(drawn.clusters) == holders
    for holder in holders:
        within = [*nesting.within(holder)]
        own = {name for name in within if name not in holders} | {f"{name}_done" for name in within if name in holders}
        bars = {f"{name}_begun" for name in within if nesting.is_parallel(name)}
        assert drawn.clusters[holder] == own | bars


def test_a_cluster_says_how_what_it_holds_goes_on() -> None:
    source = diagram(three(), "dot")
    told = {"CASE": "one at a time", "ALL": "side by side", "ONE": "region", "DEEP": "one at a time"}
    for holder, word in told.items():
        assert word in heading(source, holder)
        assert ("dashed" in heading(source, holder)) == (word == "region")


def test_what_a_task_is_in_first_is_its_start_and_what_else_begins_is_first() -> None:
    def marks(picture: Picture) -> dict[str, str]:
        return {one.name: one.mark for one in (*picture.nodes, *picture.holders) if one.mark}

    assert marks(picture_of(nested())) == dict.fromkeys(("LOOKING", "OUTER", "INNER"), "start")
    assert marks(picture_of(two())) == dict.fromkeys(("LOOKING", "WONDERING", "BOTH"), "start")
    firsts = dict.fromkeys(("LOOKING", "WEIGHING", "ASKING", "OPENING", "ALL"), "first")
    assert marks(picture_of(three())) == {"PLANNING": "start"} | firsts
    assert "first ► " in heading(diagram(three(), "dot"), "ALL")
    assert "start ► " in heading(diagram(two(), "dot"), "BOTH")


def test_a_machine_without_holders_is_drawn_as_ever() -> None:
    source = diagram(refund(), "dot").decode()
    assert "cluster" not in source
    assert "newrank" not in source
    assert "Within" not in diagram(refund(), "md").decode()


def test_the_note_stands_beside_a_tall_first_state_and_below_all_others() -> None:
    assert "rank=" not in diagram(refund(), "dot").decode()
    assert "rank=sink\n\t\tnote\n" in diagram(large(), "dot").decode()
    assert "rank=same\n\t\tnote\n\t\tSUCCEEDED\n" in diagram(two(), "dot").decode()


# ---------------------------------------------------------------- arrows


def test_regions_begin_at_one_bar_and_end_at_another() -> None:
    assert sorted(Drawn.of(diagram(two(), "dot")).together) == [
        ("BOTH_begun", "LOOKING"), ("BOTH_begun", "WONDERING"), ("LEFT_done", "BOTH_done"), ("RIGHT_done", "BOTH_done"),
    ]  # fmt: skip
    assert Drawn.of(diagram(nested(), "dot")).together == []
    note = re.sub(r"<[^>]*>", " ", statement(diagram(two(), "dot"), "note ["))
    assert "A bar is no state" in note
    assert "A bar is no state" not in re.sub(r"<[^>]*>", " ", statement(diagram(nested(), "dot"), "note ["))


def test_done_is_led_to_and_its_rows_leave_from_it() -> None:
    edges = {(source, target) for source, target, _ in Drawn.of(diagram(two(), "dot")).edges}
    assert {("ACTING", "LEFT_done"), ("RESTING", "RIGHT_done")} < edges
    assert {target for source, target in edges if source == "BOTH_done"} == {"SUCCEEDED", "FAILED", "DENIED"}
    edges = {(source, target) for source, target, _ in Drawn.of(diagram(nested(), "dot")).edges}
    assert edges == {
        ("LOOKING", "INNER_done"), ("INNER_done", "SECOND"), ("SECOND", "OUTER_done"),
        ("OUTER_done", "LOOKING"), ("OUTER_done", "SUCCEEDED"),
    }  # fmt: skip


def test_an_arrow_into_a_holder_arrives_where_it_begins() -> None:
    edges = {(source, target) for source, target, _ in Drawn.of(diagram(three(), "dot")).edges}
    assert {("PLANNING", "ALL_begun"), ("LOOKING", "WEIGHING"), ("ALL_done", "SUMMING")} < edges


def test_a_holder_entered_again_from_inside_is_named_beside_the_arrow() -> None:
    """The arrow stays within the border, and would look like one to the first state only."""
    assert "OUTER anew" in statement(diagram(nested(), "dot"), "OUTER_done -> LOOKING")
    assert "anew" not in diagram(three(), "dot").decode()


def test_the_main_line_goes_through_every_region_that_it_enters() -> None:
    picture = picture_of(three())
    main = {one.name for one in (*picture.nodes, *picture.holders) if one.main}
    every = {one.name for one in (*picture.nodes, *picture.holders)}
    assert main == every - {"PAUSING"}
    steps = {(edge.source, edge.target) for edge in picture.edges if edge.main}
    assert {("PLANNING", "CASE"), ("DEEP", "ONE_done"), ("ALL", "SUMMING"), ("CASE", "SUCCEEDED")} < steps


def test_with_many_arrows_the_rows_of_done_stand_where_they_leave(
    machine: CompiledMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dot, "_MANY", 0)
    source = diagram(machine, "dot")
    assert sorted(n for _, _, found in Drawn.of(source).edges for n in found) == [t.index for t in arrows(machine)]
    last = machine.definition.initial if machine is not three() else "CASE"
    assert "SUCCEEDED" in statement(source, f"{last}_done [")
    assert diagram(machine, "svg")


# ---------------------------------------------------------------- with the way of a task

LEFT = {("LOOKING", "PROPOSED"): 1, ("PROPOSED", "ACTING"): 1, ("ACTING", "LEFT_done"): 1}
WAY = {**LEFT, ("WONDERING", "RESTING"): 1}


def test_a_task_is_in_a_state_of_each_region_at_once() -> None:
    trail = Trail(("LEFT_done", "RESTING"), WAY)
    picture = picture_of(two(), trail)
    assert [node.name for node in picture.nodes if node.current] == ["RESTING"]
    assert [holder.name for holder in picture.holders if holder.current] == ["LEFT"]
    assert {(e.source, e.target): e.visits for e in picture.edges if e.visits} == WAY
    source = diagram(two(), "dot", trail)
    assert "● now" in statement(source, "LEFT_done [")
    assert "● now" in statement(source, "RESTING [")
    assert source.decode().count("● now") == 2
    assert 's_LEFT "' not in (text := diagram(two(), "mmd", trail).decode())
    assert 'state "LEFT (region, now)" as s_LEFT {' in text.replace("#40;", "(").replace("#41;", ")")


def test_the_rows_of_done_are_counted_as_any() -> None:
    way = {
        ("LOOKING", "INNER_done"): 2, ("INNER", "SECOND"): 2, ("SECOND", "OUTER_done"): 2,
        ("OUTER", "OUTER"): 1, ("OUTER", "SUCCEEDED"): 1,
    }  # fmt: skip
    picture = picture_of(nested(), Trail(("SUCCEEDED",), way))
    assert {(e.source, e.target): e.visits for e in picture.edges if e.visits} == way


def test_an_exit_leaves_every_state_that_the_task_was_in() -> None:
    trail = Trail(("CANCELLED",), {**WAY, ("working", "CANCELLED"): 1})
    picture = picture_of(two(), trail)
    assert {(e.source, e.visits) for e in picture.edges if e.target == "CANCELLED"} == {
        ("LEFT_done", 1),
        ("RESTING", 1),
    }
    assert "s_LEFT --> s_CANCELLED" in diagram(two(), "mmd", trail).decode()


def test_an_exit_behind_regions_leaves_the_one_state_that_is_left() -> None:
    way = {
        ("PLANNING", "CASE"): 1, ("LOOKING", "DEEP"): 1, ("WEIGHING", "DEEP_done"): 1, ("DEEP", "ONE_done"): 1,
        ("ASKING", "TWO_done"): 1, ("OPENING", "LISTENING"): 1, ("LISTENING", "THREE_done"): 1, ("ALL", "SUMMING"): 1,
        ("working", "FAILED"): 1,
    }  # fmt: skip
    picture = picture_of(three(), Trail(("FAILED",), way))
    assert [(e.source, e.target) for e in picture.edges if e.visits and e.target == "FAILED"] == [("SUMMING", "FAILED")]


@pytest.mark.parametrize("name", ["OUTER", "working", "SECOND_done"])
def test_a_task_is_in_leaves_only(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        diagram(nested(), "dot", Trail((name,)))


# ---------------------------------------------------------------- Mermaid and Markdown


def test_mermaid_has_composite_states_in_balance(machine: CompiledMachine) -> None:
    text = diagram(machine, "mmd").decode()
    open_: list[str] = []
    closed: dict[str, list[str]] = {}
    for line in text.splitlines():
        if begun := re.fullmatch(r' +state ".*" as s_(\w+) \{', line):
            closed[begun[1]] = [*open_]
            open_.append(begun[1])
        elif line.strip() == "}":
            open_.pop()
    nesting = machine.definition.nesting
    assert open_ == []
    assert closed == {name: [*nesting.above(name)][::-1] for name in nesting.children if name}


def test_mermaid_parts_regions_by_lines_where_it_can_draw_them() -> None:
    """Not where one of them holds a holder; Mermaid 11 does not draw that."""
    assert re.findall(r"^ +--$", diagram(two(), "mmd").decode(), re.MULTILINE) == ["    --"]
    assert not re.findall(r"^ +--$", diagram(three(), "mmd").decode(), re.MULTILINE)


def test_mermaid_says_inside_a_state_where_it_begins_and_is_done() -> None:
    text = diagram(nested(), "mmd").decode()
    for line in (
        "  [*] --> s_OUTER",
        "    [*] --> s_INNER",
        "      s_LOOKING --> [*] : look ok",
        "    s_SECOND --> [*]",
    ):
        assert f"\n{line}\n" in text
    assert "\n  s_OUTER --> s_OUTER : done [otherwise]\n" in text


def test_the_table_says_what_lies_in_what_and_lists_the_rows_of_done() -> None:
    text = diagram(three(), "md").decode()
    for line in (
        "| `PLANNING` (start) |  | policy decides |  |",
        "| `ALL` (first) | `CASE` | side by side | begins with ONE, TWO and THREE |",
        "| `ONE` | `ALL` | region | begins with LOOKING |",
        '| `OPENING` (first) | `THREE` | waits | until now + duration("2h"), at most 3 times |',
        "| `LISTENING` | `THREE` | waits | for the signal go, up to 2h |",
        "| `DEEP` | done | when sure | → done |",
        "| `ALL` | done | otherwise | → DENIED |",
    ):
        assert f"\n{line}\n" in text, line


def test_a_picture_may_have_its_states_in_any_order() -> None:
    """What holds what is told by `holds` alone."""
    picture = picture_of(three())
    turned = replace(picture, nodes=picture.nodes[::-1], holders=picture.holders[::-1])
    assert dot.dot_of(turned) == dot.dot_of(picture)
