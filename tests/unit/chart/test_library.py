"""The compiled class of python-statemachine: nothing in it but guarded transitions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from unit.chart.charts import machine, refund

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.library import Library
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.errors import GuardError, IllegalTransitionError


def waiting() -> CompiledMachine:
    """A machine with a state of each kind that is left to try."""
    return machine(
        "  A: {choose: {look: [{when: a, goto: A}], make: [{unless: proposed, refuse: no}, {goto: B}], finish: SUCCEEDED},"
        " then: [{when: [b, c], goto: C}]}\n"
        "  B: {call: make, with: proposal, then: {ok: C, failed: FAILED, blocked: FAILED, unknown: D}}\n"
        "  C: {wait: {for: 5s, at_most: 2}, then: {elapsed: A, exhausted: FAILED}}\n"
        "  D: {reconcile: make, then: {found: C, absent: B, failed: FAILED}}\n",
        "[a, d]",
        "at_most: {make: 2}\n",
    )


@pytest.fixture(params=[refund, waiting])
def compiled(request) -> CompiledMachine:
    """Each of them."""
    return request.param()


def transitions(compiled: CompiledMachine) -> list:
    """All of them but the way into the first state, which is taken only where nothing was restored."""
    chart = compiled.chart._library.chart
    found = [t for state in chart.states_map.values() for t in state.transitions]
    initial = [t for t in found if t.initial]
    assert [t.target.id for t in initial] == [compiled.definition.initial]
    return [t for t in found if not t.initial]


def test_the_flags_are_strict(compiled: CompiledMachine) -> None:
    """With the library's defaults an illegal event is ignored, and an error in a guard is taken for false."""
    chart = compiled.chart._library.chart
    assert chart.allow_event_without_transition is False
    assert chart.catch_errors_as_events is False


def test_there_is_no_transition_without_an_event(compiled: CompiledMachine) -> None:
    found = transitions(compiled)
    assert len(found) == len(compiled.chart.transitions)
    assert [t for t in found if not str(t.event)] == []
    assert {str(t.event) for t in found} == {t.event for t in compiled.chart.transitions}


def test_nothing_is_called_but_guards(compiled: CompiledMachine) -> None:
    """No action, validator or hook of a transition or a state; what the library adds by convention finds nothing."""
    for one in transitions(compiled):
        own = [spec for spec in one._specs if not spec.is_convention]
        assert {spec.group.name for spec in own} == {"COND"}, one
    for state in compiled.chart._library.chart.states_map.values():
        assert [spec for spec in state._specs if not spec.is_convention] == [], state
    facade = compiled.chart._library._facade(("working", compiled.definition.initial), bool)
    names = {name for name in dir(facade) if not name.startswith("__")} - {"ask", "state", "taken"}
    assert all(name.startswith(("guard_", "row_")) for name in names)


def test_the_library_has_the_states_of_the_file_and_the_ends_that_are_reached(compiled: CompiledMachine) -> None:
    ends = {t.target for t in compiled.chart.transitions} - {None} - set(compiled.definition.states)
    assert set(compiled.chart._library.chart.states_map) == {"working", *compiled.definition.states, *ends}


def test_there_is_no_listener_and_no_delay() -> None:
    compiled = refund()
    chart = compiled.chart._library.chart
    facade = compiled.chart._library._facade(("working", "INVESTIGATING"), bool)
    assert len(chart(facade)._listeners) == 0


def test_an_instance_that_was_used_before_decides_like_a_new_one() -> None:
    """After a move, a refusal, an event that is not there, a guard that errs, and an end."""
    compiled = waiting()
    chart = compiled.chart
    answers = {"a": False, "proposed": False, "b": False, "c": True}

    def ask(guard: str) -> bool:
        if guard == "d":
            raise GuardError(guard, "broken")
        return answers.get(guard, True)

    def outcomes(again: bool) -> list[object]:
        found: list[object] = []
        for leaves, event in (
            (("A",), "call.look"), (("A",), "call.make"), (("C",), "elapsed.C"), (("A",), "ok.make"),
            (("A",), "call.finish"), (("A",), "then.A"), (("B",), "failed.make"), (("B",), "ok.make"), (("A",), "call.look"),
        ):  # fmt: skip
            if not again:
                chart._library._idle.clear()
            try:
                found.append(chart.fire(leaves, event, ask))
            except (GuardError, IllegalTransitionError) as problem:
                found.append((type(problem), str(problem)))
        return found

    assert outcomes(again=True) == outcomes(again=False)
    assert len(chart._library._idle) == 1


def test_many_threads_share_a_chart() -> None:
    chart = waiting().chart
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: chart.fire(("C",), "elapsed.C", bool).after, range(400)))
    assert found == {("A",)}


def test_where_every_row_refuses_the_event_is_refused_and_says_what_and_where() -> None:
    """No definition is without a last row; were there one, nothing would be taken for a move."""
    rows = [Transition(0, "A", "routed.A", "FAILED", when=("a",))]
    library = Library("without_a_last_row", {"working": ("A",)}, (), ("A",), rows)
    with pytest.raises(IllegalTransitionError, match=r"^`routed\.A` is not a transition of working, A$"):
        library.decide(("working", "A"), "routed.A", lambda _: False)
    assert library.decide(("working", "A"), "routed.A", lambda _: True).configuration == ("FAILED",)
