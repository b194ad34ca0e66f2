"""Answers with a form: checked like arguments, readable in the rows of `finish`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.records import Checkpoint
from support.world import LOOK_STEP, MACHINE, simulated, world

FORMED = MACHINE.replace(
    "guards:\n",
    "output: {title: {type: string}, price: {type: number}}\nguards:\n  fair: call.args.answer.price < 10.0\n",
)
FORMED = FORMED.replace("success: [acted]", "success: []").replace(
    "finish: SUCCEEDED", "finish: [{unless: fair, refuse: too dear}, {goto: SUCCEEDED}]"
)


def run(folder: Path, *answers: Any, machine: str = FORMED) -> tuple[Checkpoint, list[str]]:
    async def main() -> tuple[Checkpoint, list[str]]:
        steps = [LOOK_STEP, *({"call": "finish", "with": {"answer": a}} for a in answers)]
        async with world(folder, *steps, machine=machine) as here:
            end = await here.run()
            return end, await here.told(end)

    return simulated(main)


def test_an_answer_of_the_form_is_the_output(tmp_path: Path) -> None:
    """A whole number is a number: the guard compares it as one."""
    end, told = run(tmp_path, {"title": "Emma", "price": 12}, {"title": "Emma", "price": 9})
    assert end.head.status == "SUCCEEDED"
    assert json.loads(end.head.output or "") == {"title": "Emma", "price": 9}
    assert "too dear" in told[0]


@pytest.mark.parametrize(
    "answer", ["Emma", {"title": "Emma"}, {"title": 1, "price": 1}, {"title": "a", "price": 1, "x": 2}, [], None]
)
def test_another_form_is_told_and_costs_its_step(tmp_path: Path, answer: Any) -> None:
    end, told = run(tmp_path, answer, {"title": "Emma", "price": 9})
    assert (end.head.status, end.head.steps) == ("SUCCEEDED", 3)
    assert len(told) == 1


def test_where_no_form_is_declared_the_answer_is_a_text(tmp_path: Path) -> None:
    plain = MACHINE.replace("success: [acted]", "success: []")
    end, told = run(tmp_path, {"title": "Emma"}, "Emma", machine=plain)
    assert (end.head.status, end.head.output) == ("SUCCEEDED", "Emma")
    assert "it is a text here" in told[0]
