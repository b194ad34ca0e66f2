"""Guards and files: the lines of group G that no other test holds (`held.py` says where the others are)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.faults import FaultyDefinitionError
from support.playing import play, swap
from support.world import ACT, FIND, LOOK, LOOK_STEP, MACHINE, World, act_step, catalogue, world

#: a read that knows a number, most of the time
COUNT = swap(
    LOOK, ("  good: {type: boolean}\n", "  good: {type: boolean}\n  amount: {type: integer, optional: true}\n")
)
TEXTS = (COUNT, ACT, FIND)
ROWS = """      - {when: approval_required, goto: ASKING}
      - {when: approval_not_required, goto: ACTING}
      - {goto: DENIED, reason: policy}
"""


def guarded(*rows: str, **guards: str) -> str:
    """The small machine, which decides by `guards` whether a person is asked before it acts."""
    texts = "".join(f"  {name}: {text}\n" for name, text in guards.items())
    return swap(MACHINE, ("guards:\n", f"guards:\n{texts}"), (ROWS, "".join(f"      - {row}\n" for row in rows)))


def faults(machine: str) -> list[str]:
    return [fault.message for fault in checked_catalogue(catalogue(machine, *TEXTS)).report.errors]


def test_g1_a_guard_without_its_limit_takes_no_way_at_all(tmp_path: Path) -> None:
    """Ask G1: neither the way above the limit nor the one below it; the end names guard and field, and nothing was sent."""
    machine = guarded(
        "{when: above, goto: ASKING}", "{goto: ACTING}", above="proposal.args.amount > evidence.look.amount"
    )

    async def body(here: World) -> None:
        end = await here.run()
        assert (end.head.status, end.head.reason) == ("FAILED", "guard_error")
        assert "`above`" in (end.head.output or "") and "amount" in (end.head.output or "")
        visited = [row["target"] for row in await here.rows(end, "transition")]
        assert "ASKING" not in visited and "ACTING" not in visited
        assert not here.tools["act"].calls and end.approvals == ()

    play(tmp_path, body, LOOK_STEP, act_step(), machine=machine, texts=TEXTS)


def test_g3_a_word_that_leads_nowhere_does_not_load_and_null_is_less_than_nothing(tmp_path: Path) -> None:
    """Ask G3: a misspelt name is found in the file, and a value that the service left empty is an error and no small number."""
    rows = ("{when: small, goto: ACTING}", "{goto: ASKING}")
    assert faults(guarded(*rows, small="evidence.look.amout < 1000")) == ["`evidence.look` has no field `amout`"]
    assert faults(guarded(*rows, small="evidense.look.amount < 1000")) != []
    machine = guarded(*rows, small="evidence.look.amount < 1000")

    async def body(here: World) -> None:
        end = await here.run()
        assert (end.head.status, end.head.reason) == ("FAILED", "guard_error")
        assert not here.tools["act"].calls

    play(tmp_path, body, LOOK_STEP, act_step(), machine=machine, texts=TEXTS, look=[{"good": True, "amount": None}])


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("    brief: Look, then act.\n", "    alowed_tools: [look]\n", "unknown key `alowed_tools`"),
        ("    call: act\n", "    invok: act\n", "a state has exactly one of"),
        ("reconcile: act\n", "compensate: act\n", "a state has exactly one of"),
        ("expired: NEEDS_INPUT", "lapsed: NEEDS_INPUT", "`lapsed` is not one of"),
    ],
    ids=["key", "kind", "another kind", "outcome"],
)
def test_g4_what_the_language_does_not_know_is_not_skipped(tmp_path: Path, right: str, wrong: str, told: str) -> None:
    """Ask G4: with one word that means nothing no task begins, and none is on record: no success without what was written."""

    async def main() -> None:
        machine = swap(MACHINE, (right, wrong))
        async with world(tmp_path, LOOK_STEP, act_step(), machine=machine, environment=environment) as here:
            with pytest.raises(FaultyDefinitionError, match=told):
                await here.run()
            assert await here.store.tasks() == []
            assert not any(tool.calls for tool in here.tools.values())

    environment = SimulatedEnvironment()
    environment.run(main())


def test_g9_between_two_conditions_nothing_falls_through(tmp_path: Path) -> None:
    """Ask G9: more than ten, less than ten, and it is ten: such a route does not load, such a proposal is refused."""
    words: dict[str, Any] = {"more": "evidence.look.amount > 10", "less": "evidence.look.amount < 10"}
    two = ("{when: more, goto: ASKING}", "{when: less, goto: ACTING}")
    assert faults(guarded(*two, **words)) == ["the list may end without an answer"]
    machine = swap(
        MACHINE,
        ("guards:\n", "guards:\n  more: call.args.amount > 10\n  less: call.args.amount < 10\n"),
        (
            "        - {goto: PROPOSED}\n",
            "        - {when: more, goto: PROPOSED}\n        - {when: less, goto: ACTING}\n",
        ),
    )

    async def body(here: World) -> None:
        end = await here.run()
        (told,) = await here.told(end)
        assert told.startswith("refused: ")
        assert (end.head.status, end.head.steps) == ("SUCCEEDED", 3)
        assert [request.args["amount"] for request in here.tools["act"].calls] == [9]

    play(tmp_path, body, LOOK_STEP, act_step(10), act_step(9), machine=machine, texts=TEXTS)
