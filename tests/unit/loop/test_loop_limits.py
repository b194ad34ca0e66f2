"""Budgets, the watch of active time, and what a proposal with a call that is not made is told: values in, values out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from unit.loop.making import standing

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.loop import budget
from statemachine_agent.loop.call import Call, Finding, named, told
from statemachine_agent.loop.context import Context, Stopwatch
from statemachine_agent.records import Head, Usage
from support.playing import swap
from support.world import MACHINE

#: limits that differ from each other
LIMITED = swap(
    MACHINE,
    ("limits: {steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10, cost_usd: 1.00}",
     "limits: {steps: 6, active_time: 60s, tokens: 1000, tool_calls: 10, cost_usd: 1.00}\nat_most: {look: 4}"),
)  # fmt: skip
#: one below each limit
NEARLY = {"input_tokens": 500, "output_tokens": 499, "cost_usd": Decimal("0.99"), "tool_calls": 9, "active_ms": 59_999}


def limited(steps: int = 5, calls: dict[str, int] | None = None, **usage: Any) -> tuple[Context, Head]:
    context, checkpoint = standing(machine=LIMITED, steps=steps, calls=calls or {}, usage=Usage(**usage))
    return context, checkpoint.head


# ---------------------------------------------------------------- budgets


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        ({}, None),
        ({"active_ms": 60_000}, "deadline"),
        ({"steps": 6}, "max_steps"),
        ({"output_tokens": 500}, "max_tokens"),
        ({"cost_usd": Decimal("1.00")}, "max_cost"),
        ({"tool_calls": 10}, "max_tool_calls"),
        ({"tool_calls": 11, "cost_usd": Decimal(2)}, "max_cost"),
        ({"tool_calls": 11, "cost_usd": Decimal(2), "input_tokens": 2000}, "max_tokens"),
        ({"tool_calls": 11, "input_tokens": 2000, "steps": 7}, "max_steps"),
        ({"active_ms": 70_000, "input_tokens": 2000, "steps": 7}, "deadline"),
    ],
)
def test_a_budget_is_used_up_when_nothing_of_it_is_left(used: dict[str, Any], reason: str | None) -> None:
    """Of several the first is named; where no decision would follow only time counts."""
    context, head = limited(**{**NEARLY, **used})
    assert budget.exhausted(context, head, before_decision=True) == reason
    assert budget.exhausted(context, head, before_decision=False) == (reason if reason == "deadline" else None)


def test_what_is_left_of_each_budget() -> None:
    """For the prompt and for people: whole seconds, and never less than nothing."""
    context, head = limited(2, {"look": 1, "act": 3}, input_tokens=100, output_tokens=50, tool_calls=3, active_ms=1_500)
    assert budget.remaining(context, head) == {"steps": 4, "tokens": 850, "tool_calls": 7, "seconds": 58}
    assert (budget.seconds_left(context, head), budget.tool_calls_left(context, head)) == (58.5, 7)
    context, head = limited(7, {"look": 9}, input_tokens=1_001, tool_calls=11, active_ms=61_000)
    assert budget.remaining(context, head) == {"steps": 0, "tokens": 0, "tool_calls": 0, "seconds": 0}
    assert (budget.seconds_left(context, head), budget.tool_calls_left(context, head)) == (0.0, 0)


@pytest.mark.parametrize(
    ("tool", "left"), [("look", 3), ("act", 0), ("find", None)], ids=["by the machine", "by the manifest", "by nobody"]
)
def test_how_often_a_tool_may_still_be_called(tool: str, left: int | None) -> None:
    context, head = limited(2, {"look": 1, "act": 5, "find": 100})
    assert budget.calls_left(context, head, tool) == left
    assert budget.calls_left(context, replace(head, calls={}), tool) == {"look": 4, "act": 3, "find": None}[tool]


def test_the_lap_that_runs_counts() -> None:
    """In milliseconds; a lap that ends begins the next one, and a clock that goes back takes nothing away."""
    clock = SimulatedEnvironment()
    clock.advance(100)
    watch = Stopwatch(clock)
    clock.advance(1.5)
    assert (watch.running_ms(), watch.running_ms(), watch.lap_ms(), watch.running_ms()) == (1500, 1500, 1500, 0)
    clock.advance(0.25)
    assert (watch.running_ms(), watch.lap_ms()) == (250, 250)
    clock.advance(-1)
    assert (watch.running_ms(), watch.lap_ms(), watch.running_ms()) == (0, 0, 0)
    context, head = limited(active_ms=58_000)
    context.environment.advance(1.25)  # type: ignore[attr-defined]
    assert (budget.active_ms(context, head), budget.seconds_left(context, head)) == (59_250, 0.75)
    context.environment.advance(0.75)  # type: ignore[attr-defined]
    assert budget.exhausted(context, head, before_decision=False) == "deadline"


def test_who_decides_in_a_state_and_who_there_is() -> None:
    """The model that the machine names, else the one that was given; people are read anew for each step."""
    context, _ = standing()
    one, other = object(), object()
    context = replace(context, model=one, models={"LOOKING": other})  # type: ignore[arg-type, dict-item]
    assert (context.model_in("LOOKING"), context.model_in("SEEN")) == (other, one)
    nobody = replace(context, people=replace_people(context))
    assert nobody.people != context.people
    assert nobody.renewed() == context


def replace_people(context: Context) -> Any:
    return type(context.people).model_validate({"people": {}})


# ---------------------------------------------------------------- what the model is told


def wrong(
    tool: str = "look", kind: str = "invalid", error: str = "illegal_tool", text: str = "no", call: str = "c1"
) -> Call:
    return Call(tool, {}, call, finding=Finding(kind, error, text))


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("invalid", "invalid", "invalid"), ("invalid", "refused", "invalid"), ("refused", "invalid", "invalid"),
        ("refused", "refused", "refused"), ("refused", "denied", "denied"), ("denied", "refused", "denied"),
    ],
)  # fmt: skip
def test_a_second_thing_that_is_wrong_is_told_with_the_first(first: str, second: str, kind: str) -> None:
    """The first gives the class, the heavier one the kind."""
    call = Call("look", {"thing": "box"}, "c1").but(first, "one", "it is this")
    assert call == Call("look", {"thing": "box"}, "c1", finding=Finding(first, "one", "it is this"))
    both = call.but(second, "other", "it is that")
    assert both == replace(call, finding=Finding(kind, "one", "it is this, and it is that"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("invalid", "invalid proposal (illegal_tool): no. Allowed now: look, act"),
        ("refused", "refused: no. Allowed now: look, act"),
        ("denied", "no"),
        ("blocked", "no"),
    ],
)
def test_one_call_is_told_with_what_is_allowed(kind: str, text: str) -> None:
    """Where the model can do better; what ends the task is told as it is."""
    assert told([wrong(kind=kind)], ["look", "act"]) == Finding(kind, "illegal_tool", text)


def test_where_nothing_is_allowed_that_is_said() -> None:
    """And where nothing is wrong there is nothing to say."""
    assert told([wrong()], []) == Finding(
        "invalid", "illegal_tool", "invalid proposal (illegal_tool): no. Allowed now: nothing"
    )
    assert told([Call("look", {}, "c1")], []) is None
    assert told([], ["look"]) is None


def test_of_several_each_is_named_once() -> None:
    """By what is wrong with them, those with the same together, and last those that are right."""
    calls = [
        Call("look", {}, "c1"), wrong(kind="refused", error="refused", text="not yet", call="c2"),
        wrong("peek", error="unknown", text="no tool", call="c3"), wrong(kind="refused", text="not yet", call="c4"),
        Call("", {}, "c5"),
    ]  # fmt: skip
    beginning = "of 5 calls at once all are made or none, and none was made: c2 (`look`), c4 (`look`): not yet; "
    assert told(calls, ["look"]) == Finding(
        "invalid", "refused",
        f"invalid proposal (refused): {beginning}c3 (`peek`): no tool; nothing is wrong with c1 (`look`), c5. Allowed now: look",
    )  # fmt: skip
    beginning = "of 2 calls at once all are made or none, and none was made: c2 (`look`), c4 (`look`): not yet"
    text = f"refused: {beginning}. Allowed now: look"
    assert told([calls[1], calls[3]], ["look"]) == Finding("refused", "refused", text)


def test_what_is_told_of_several_has_room_for_each() -> None:
    """Twelve hundred characters are shared by what is wrong with them; ids and names are cut at forty."""
    long = [wrong(text=letter * 2000, call=letter) for letter in "ab"]
    found = told([*long, Call("look", {}, "c" * 2000)], [])
    assert found is not None
    cut = [f"{letter} (`look`): {letter * 587}…" for letter in "ab"]
    right = f"nothing is wrong with {'c' * 39}… (`look`)"
    assert found.text == (
        "invalid proposal (illegal_tool): of 3 calls at once all are made or none, and none was made: "
        f"{cut[0]}; {cut[1]}; {right}. Allowed now: nothing"
    )
    many = told([wrong(call="bad"), *(Call("look", {}, f"c{n:02}") for n in range(30))], [])
    right = ", ".join(f"c{n:02} (`look`)" for n in range(30))
    assert many is not None and many.text.endswith(
        f"bad (`look`): no; nothing is wrong with {right}. Allowed now: nothing"
    )


def test_a_call_is_named_by_its_id_and_its_tool() -> None:
    assert named(Call("look", {}, "c1")) == "c1 (`look`)"
    assert named(Call("", {}, "number\n11")) == "number 11"
    assert named(Call("t" * 41, {}, "c" * 41)) == f"{'c' * 39}… (`{'t' * 39}…`)"
    assert named(Call("t" * 40, {}, "c" * 40)) == f"{'c' * 40} (`{'t' * 40}`)"
    assert named(Call("", {}, "c" * 41)) == "c" * 39 + "…"
