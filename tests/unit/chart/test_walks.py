"""Random walks: what is allowed and what happens are one thing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.chart.charts import machine, refund

from statemachine_agent.chart.chart import Chart, Macrostep, Standing, is_end
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.errors import IllegalTransitionError

MACHINES = [
    refund(),
    machine(
        "  A: {choose: {look: [{when: a, refuse: not now}, {when: b, goto: B}, {when: c, stay: true}],"
        " make: [{unless: [a, proposed], refuse: no}, {when: mixed, goto: C}], finish: [{when: d, goto: SUCCEEDED}]},"
        " then: [{unless: [a, b], goto: B}]}\n"
        "  B: {route: [{when: [a, b], goto: A}, {unless: c, goto: A}, {goto: SUCCEEDED}]}\n"
        "  C: {call: make, with: proposal, then: {ok: A, failed: B, blocked: B, unknown: D}}\n"
        "  D: {reconcile: make, then: {found: A, absent: C, failed: FAILED}}\n",
        "[b, c]",
        "at_most: {make: 2}\n",
    ),
]
TOOLS = ["look", "find", "make", "finish", "ask_user", "cannot_continue", *refund().tools]


def expected(rows: list[Transition], answers: dict[str, bool]) -> Transition:
    """The row that a reader of the file would say is taken: the first whose condition holds."""
    for row in rows:
        holds = all(answers[g] for g in (*row.when, *row.success))
        if holds and not (row.unless and all(answers[g] for g in row.unless)):
            return row
    raise AssertionError(rows)


def draw_answers(data: st.DataObject, compiled: CompiledMachine) -> dict[str, bool]:
    names = sorted({g for t in compiled.chart.transitions for g in t.guards})
    return {name: data.draw(st.booleans(), label=name) for name in names}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MACHINES), st.data())
def test_on_every_walk_the_first_row_that_holds_is_taken(compiled: CompiledMachine, data: st.DataObject) -> None:
    chart = compiled.chart
    leaves = chart.initial
    for _ in range(12):
        if is_end(leaves):
            break
        answers = draw_answers(data, compiled)
        _check_tools(chart, leaves, answers)
        events = sorted({t.event for t in chart.transitions if chart.accepts(leaves, t.event)})
        event = data.draw(st.sampled_from(events))
        asked: list[str] = []
        move = _fire(chart, leaves, event, answers, asked)
        row = expected(chart.rows(leaves, event), answers)
        assert move.taken == (row,)
        assert move.after == ((row.target,) if row.target else leaves)
        assert len(asked) == len(set(asked))
        leaves = chart.tree.leaves(chart.tree.full(move.after))


def _fire(chart: Chart, leaves: tuple[str, ...], event: str, answers: dict[str, bool], asked: list[str]) -> Macrostep:
    def ask(name: str) -> bool:
        asked.append(name)
        return answers[name]

    return chart.fire(leaves, event, ask)


def _check_tools(chart: Chart, leaves: tuple[str, ...], answers: dict[str, bool]) -> None:
    """A tool is allowed if and only if firing it does not raise; with everything known, offered if it is not refused."""
    known = {a.tool: a for a in chart.available(leaves, answers.__getitem__, lambda _: False)}
    for tool in TOOLS:
        event = f"call.{tool}"
        try:
            move = chart.fire(leaves, event, answers.__getitem__)
        except IllegalTransitionError:
            assert tool not in known
        else:
            assert (known[tool].standing is Standing.OFFERED) == (move.refusal is None)
            assert known[tool].text == (move.refusal or "")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_hidden_before_the_proposal_is_refused_after_it_whatever_it_is(data: st.DataObject) -> None:
    """Three values never hide a tool that some proposal could use, and never offer one that all are refused."""
    compiled = MACHINES[1]
    answers = draw_answers(data, compiled)
    leaves = ("A",)
    before = {
        a.tool: a for a in compiled.chart.available(leaves, answers.__getitem__, compiled.call_guards.__contains__)
    }
    for tool, available in before.items():
        outcomes = set()
        for proposed in (True, False):
            full = answers | {"proposed": proposed, "mixed": proposed and answers["a"]}
            outcomes.add(compiled.chart.fire(leaves, f"call.{tool}", full.__getitem__).refusal is None)
        if available.standing is Standing.HIDDEN:
            assert outcomes == {False}
        if outcomes == {True}:
            assert available.standing is Standing.OFFERED
