"""The chart of states within states, of regions side by side, and of a machine that stands in another."""

from __future__ import annotations

from functools import cache

import pytest
from invalid.texts import PEOPLE, TOOLS
from unit.chart.charts import Given, anything, machine

from statemachine_agent.chart.chart import Availability, Standing
from statemachine_agent.chart.compile import (
    CompiledMachine,
    checked_catalogue,
    compile_machine,
    compile_texts,
    texts_of,
)
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

#: two regions with a model each
BOTH = """\
  A: {route: P}
  P:
    parallel: true
    states:
      L: {initial: L1, states: {L1: {choose: {look: [{when: a, goto: done}, {when: b, goto: L2}]}}, L2: {route: done}}}
      R: {initial: R1, states: {R1: {choose: {find: stay, make: [{when: b, goto: R2}]}}, R2: {route: done}}}
    then: {done: [{when: c, goto: SUCCEEDED}, {goto: Q}]}
  Q:
    initial: Q1
    states: {Q1: {route: [{when: d, goto: B}, {goto: done}]}}
    then: {done: FAILED}
  B: {reconcile: make, then: {found: SUCCEEDED, absent: A, failed: FAILED}}
"""


def test_the_tree_is_that_of_the_file_and_what_can_be_done_has_a_state_for_it() -> None:
    """Regions are done each by itself; what holds them is done when all are."""
    tree = machine(BOTH).chart.tree
    assert dict(tree.children) | {"": ()} == {
        "": (), "working": ("A", "P", "Q", "B"), "P": ("L", "R"), "L": ("L1", "L2", "L_done"), "R": ("R1", "R2", "R_done"),
        "Q": ("Q1", "Q_done"),
    }  # fmt: skip
    assert (tree.parallel, tree.first) == (frozenset({"P"}), {"working": "A", "L": "L1", "R": "R1", "Q": "Q1"})


def test_regions_move_one_at_a_time_and_their_holder_is_done_when_both_are() -> None:
    """Entering the holder enters both; an outcome of it is asked for only by its own event."""
    chart = machine(BOTH).chart
    assert chart.fire(("A",), "routed.A", anything).after == ("L1", "R1")
    one = chart.fire(("L1", "R1"), "ok.look", Given("a"))
    assert (one.after, one.entered) == (("L_done", "R1"), ("L_done",))
    two = chart.fire(("L_done", "R2"), "routed.R2", anything)
    assert (two.after, two.entered) == (("L_done", "R_done"), ("R_done",))
    assert chart.fire(("L_done", "R_done"), "done.P", Given(false="c")).after == ("Q1",)
    assert chart.fire(("Q1",), "routed.Q1", Given(false="d")).after == ("Q_done",)
    assert chart.fire(("Q_done",), "done.Q", anything).after == ("FAILED",)
    assert chart.fire(("B",), "absent.make", anything).after == ("A",)


def test_what_two_regions_offer_is_listed_once_and_each_region_lists_its_own() -> None:
    """In the order of the file; `only` gives what one of the active states offers."""
    chart = machine(BOTH).chart

    def offered(only: str | None = None) -> list[Availability]:
        return chart.available(("L1", "R1"), Given("b"), lambda _: False, only)

    assert [a.tool for a in offered()] == ["look", "cannot_continue", "find", "make"]
    assert [a.tool for a in offered("L1")] == ["look", "cannot_continue"]
    assert [a.tool for a in offered("R1")] == ["find", "make", "cannot_continue"]
    assert {a.standing for a in offered()} == {Standing.OFFERED}


def test_what_ends_all_regions_is_one_transition() -> None:
    """A budget is over for both at once; the end is told once."""
    move = machine(BOTH).chart.fire(("L1", "R1"), "exit.budget", anything)
    assert (move.after, [t.source for t in move.taken]) == (("BUDGET_EXHAUSTED",), ["L1"])


INNER = """\
machine: inner
version: 2
summary: x
limits: {steps: 3}
input: {y: {type: string}}
output: {verdict: {type: string}}
guards: {own: evidence.look.id == input.y}
success: [own]
initial: X
states:
  X: {choose: {look: stay, finish: [{goto: SUCCEEDED}], ask_user: NEEDS_INPUT}}
"""
OUTER = """\
machine: outer
version: 1
summary: x
limits: {steps: 9}
input: {x: {type: string}}
guards: {a: input.x == "a"}
success: [a]
initial: IN
states:
  IN: {machine: inner@2, with: {y: input.x}, then: {SUCCEEDED: B, NEEDS_INPUT: NEEDS_INPUT, FAILED: %s}}
  B: {choose: {look: stay, finish: [{goto: SUCCEEDED, reason: well}]}}
"""


@cache
def outer(failed: str = "DENIED", inner: str = INNER) -> CompiledMachine:
    """The machine that holds the other."""
    machines = [Source("outer.yaml", OUTER % failed), Source("inner.yaml", inner)]
    tools = [Source(f"{name}.yaml", tool) for name, tool in TOOLS.items()]
    catalogue = checked_catalogue(Catalogue.build(machines, tools, Source("people.yaml", PEOPLE)))
    assert not catalogue.report.errors, str(catalogue.report)
    return compile_machine(catalogue, "outer")


def test_what_the_inner_machine_calls_success_is_asked_of_its_own_guards() -> None:
    """Where it does not hold, `finish` is refused there; the holder's success is asked at its own end."""
    chart = outer().chart
    refused = chart.fire(("IN__X",), "call.finish", Given(false=["in__own"]))
    assert (refused.after, refused.refusal) == (
        ("IN__X",), "completion rejected: not all of in__own hold on the recorded evidence",
    )  # fmt: skip
    moved = chart.fire(("IN__X",), "call.finish", Given(["in__own"]))
    assert (moved.after, moved.asked) == (("IN__SUCCEEDED",), {"in__own": True})
    assert chart.fire(("IN__SUCCEEDED",), "routed.IN__SUCCEEDED", anything).after == ("B",)


def test_a_refused_end_keeps_nothing_of_the_row_that_led_there() -> None:
    """It has the text alone: a reason is of an end."""
    refused = outer().chart.fire(("B",), "call.finish", Given(false="a"))
    assert [(t.target, t.reason, t.confirms, t.implied) for t in refused.taken] == [(None, None, None, True)]
    assert [t.reason for t in outer().chart.fire(("B",), "call.finish", Given("a")).taken] == ["well"]


@pytest.mark.parametrize("led", ["DENIED", "B"])
def test_an_end_that_is_not_verified_is_the_failure_of_the_inner_machine(led: str) -> None:
    """The holder says what follows of it, as of any other failure there."""
    inner = INNER.replace("ask_user: NEEDS_INPUT}", "ask_user: NEEDS_INPUT}, then: [{goto: SUCCEEDED}]")
    chart = outer(led, inner).chart
    move = chart.fire(("IN__X",), "then.IN__X", Given(false=["in__own"]))
    assert (move.after, [t.reason for t in move.taken]) == (("IN__FAILED",), ["not_verified"])
    assert chart.fire(("IN__FAILED",), "routed.IN__FAILED", anything).after == (led,)


def test_finish_gives_what_the_machine_says_in_which_it_is_called() -> None:
    """The inner one has a form for it; the holder's is a text."""
    compiled = outer()
    assert compiled.finishing(("IN__X",)) == "IN__X"
    assert list(compiled.output(("IN__X",))) == ["verdict"]
    assert (compiled.finishing(("B",)), dict(compiled.output(("B",)))) == ("B", {})
    assert (compiled.finishing(("FAILED",)), dict(compiled.output(("FAILED",)))) == (None, {})


def test_the_inner_machines_text_is_pinned_with_the_task() -> None:
    """Both texts make the same machine again; one alone has none to pin."""
    texts = texts_of(outer())
    assert texts["machines"] == {"inner": {"name": "inner.yaml", "text": INNER}}
    assert compile_texts(texts).hash == outer().hash
    assert compile_texts(texts).chart.transitions == outer().chart.transitions
    assert "machines" not in texts_of(machine(BOTH))


def test_a_name_is_a_state_of_any_depth_and_an_end_is_none() -> None:
    """So the loop knows what to do next."""
    compiled = machine(BOTH)
    assert compiled.state("R2") is compiled.definition.all_states["R2"]
    assert (compiled.state("R_done"), compiled.state("FAILED")) == (None, None)
