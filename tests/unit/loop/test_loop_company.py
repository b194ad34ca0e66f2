"""Several calls of one proposal, on values alone: what is wrong with each of them beside the others, and what may be called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.loop.making import standing

from statemachine_agent.chart.chart import Availability, Macrostep, Standing
from statemachine_agent.loop.batch import Together, at_once, in_company, leads_on, together
from statemachine_agent.loop.call import Call, Finding
from statemachine_agent.loop.phases import Observation
from statemachine_agent.records import Usage
from support.peeks import GLANCE, PEEK, PEEKS
from support.playing import swap
from support.world import ACT, FIND, LOOK

#: as the tests of batches have it
TINY = swap(PEEKS, ("machine: peeks", "machine: tiny"), ("initial: LOOKING", "at_most: {look: 5}\ninitial: LOOKING"))
TEXTS = (LOOK, PEEK, GLANCE, ACT, FIND)
MIXED = Finding("invalid", "mixed", "it changes something: propose it alone, after what it depends on was read")
LEADS = Finding("invalid", "mixed", "its result may lead to another state: propose it alone")


def stand(state: str = "LOOKING", machine: str = TINY, texts: tuple[str, ...] = TEXTS, **head: Any) -> Observation:
    context, checkpoint = standing(state, machine=machine, texts=texts, **head)
    offered = tuple(Availability(tool, Standing.OFFERED) for tool in (*context.machine.tools, "finish"))
    return Observation(context, checkpoint, state, offered)


def calls(here: Observation, *tools: str, **more: Any) -> list[Call]:
    """One call of each of these tools, each of another thing; what is no tool has no manifest."""
    known = here.context.machine.tools
    return [Call(t, {"thing": f"t{n}"}, f"c{n}", manifest=known.get(t), **more) for n, t in enumerate(tools, 1)]


def found(here: Observation, *tools: str) -> list[Finding | None]:
    return [call.finding for call in in_company(here, calls(here, *tools))]


def test_a_single_call_has_no_company() -> None:
    """Whatever would be wrong with it beside another one; and reads that may stand together come back as they were."""
    here = stand(calls={"look": 9})
    for tools in (("act",), ("glance",), ("look",), ("nothing",), ()):
        assert in_company(here, calls(here, *tools)) == tuple(calls(here, *tools))
    here = stand()
    assert in_company(here, calls(here, "look", "peek", "look")) == tuple(calls(here, "look", "peek", "look"))


def test_a_write_and_what_leads_on_are_proposed_alone() -> None:
    """Control choices and what is no tool have their own fault already."""
    here = stand()
    assert found(here, "look", "act", "finish", "glance") == [None, MIXED, None, LEADS]
    moved, stayed = (
        Macrostep("call.look", ("LOOKING",), ("LOOKING",), (), {}, entered) for entered in (("LOOKING",), ())
    )
    one, other = calls(here, "look", "peek")
    both = in_company(here, [replace(one, move=moved), replace(other, move=stayed)])
    assert [c.finding for c in both] == [LEADS, None]


def test_two_equal_calls_are_one_too_many() -> None:
    """The same tool with the same arguments; each is told of the first one, unless something else is wrong with it."""
    here = stand()
    one = calls(here, "look")[0]
    other, thing, wrong = (
        replace(one, id="c2"),
        replace(one, id="c3", args={"thing": "x"}),
        replace(one, id="c4").but("x", "y", "z"),
    )
    peek = replace(calls(here, "peek")[0], id="c5")
    control = [Call("finish", {}, "c6"), Call("finish", {}, "c7")]
    same = Finding("invalid", "equal_calls", "it is the same call as c1 (`look`)")
    assert [c.finding for c in in_company(here, [one, other, thing, replace(other, id="c8")])] == [
        None,
        same,
        None,
        same,
    ]
    assert [c.finding for c in in_company(here, [one, wrong, peek])] == [None, wrong.finding, None]
    assert [c.finding for c in in_company(here, control)] == [None, None]


def test_calls_that_touch_the_same_are_proposed_one_after_the_other() -> None:
    """Each is told of all before it that it would meet, whichever of them changes something."""
    texts = (
        *(text + "touches: {reads: [thing]}\n" for text in (LOOK, PEEK)),
        GLANCE,
        ACT + "touches: {writes: [thing]}\n",
        FIND,
    )
    here = stand(texts=texts)
    meets = "it and {} touch the same thing: propose one after the other"
    assert found(here, "look", "peek", "act", "look") == [
        None,
        None,
        replace(MIXED, text=f"{MIXED.text}, and {meets.format('c1 (`look`)')}, and {meets.format('c2 (`peek`)')}"),
        Finding("invalid", "mixed", meets.format("c3 (`act`)")),
    ]
    assert found(here, "glance", "act", "find", "nothing") == [LEADS, MIXED, None, None]


@pytest.mark.parametrize(
    ("most", "text"),
    [
        (1, "this state takes one call at a time: propose them one after another"),
        (2, "this state takes 2 calls at once"),
    ],
)
def test_a_state_takes_so_many_at_once(most: int, text: str) -> None:
    """Those behind them are too many."""
    for machine in (
        swap(TINY, ("  LOOKING:\n", f"  LOOKING:\n    parallel_calls: {most}\n")),
        swap(TINY, ("initial: LOOKING", f"parallel_calls: {most}\ninitial: LOOKING")),
    ):
        here = stand(machine=machine)
        assert at_once(here) == most
        wanted = [None] * most + [Finding("invalid", "several_calls", text)] * (3 - most)
        assert found(here, "look", "peek", "look") == wanted
    assert at_once(stand()) == at_once(stand("ACTING")) == 4


def test_budgets_are_asked_for_all_of_them_before_the_first_begins() -> None:
    """Those that go beyond are told what is left; a tool at its limit is not offered at all, and is told so elsewhere."""
    few = Finding("refused", "tool_budget", "the tool budget is too small for it: 2 of 10 calls are left")
    assert found(stand(usage=Usage(tool_calls=8)), "look", "peek", "look") == [None, None, few]
    for left in (1, 2):
        here = stand(calls={"look": 5 - left, "peek": 100})
        over = Finding("refused", "at_most", f"calls of `look` that are left in this task: {left}")
        wanted = [None, None, None if left == 2 else over, over]
        assert found(here, "look", "peek", "look", "look") == wanted
    assert found(stand(calls={"look": 5}), "look", "look") == [None, None]
    here = stand(calls={"look": 4})
    several = [Call("look", {"thing": str(n)}, f"c{n}") for n in range(3)]
    assert [c.finding for c in in_company(here, several)] == [None, None, None]


def test_a_read_leads_on_where_one_of_its_rows_has_another_state_to_go_to() -> None:
    """Whether it holds now or not."""
    here = stand()
    assert [leads_on(here, tool) for tool in ("glance", "look", "peek", "nothing")] == [True, False, False, False]


def test_what_may_be_called_at_once_now() -> None:
    """Reads that are offered and lead nowhere; two of them, or one that can be asked in more than one way."""
    here = stand()
    assert together(here) == Together(4, ("look", "peek", "find"))
    assert together(replace(here, available=here.available[:1])) == Together(4, ("look",))
    assert together(replace(here, available=())) is None
    rows = TINY[TINY.index("        - {when: dark, refuse") : TINY.index("      peek: stay")]
    pinned = swap(
        TINY,
        (f"      look:\n{rows}", "      look: {with: {thing: input.thing}}\n"),
        ("  dark: call.args.thing", "  dark: input.thing"),
    )
    here = stand(machine=pinned)
    assert together(replace(here, available=here.available[:1])) is None
    here = stand(
        machine=swap(
            pinned, ("      peek: stay\n      glance", "      peek: {with: {thing: input.thing}}\n      glance")
        )
    )
    assert together(replace(here, available=here.available[:2])) == Together(4, ("look", "peek"))
    assert together(stand(usage=Usage(tool_calls=8))) == Together(2, ("look", "peek", "find"))
    assert together(stand(usage=Usage(tool_calls=9))) is None
