"""A `number` compares as one wherever the runtime asks: 2 is 2.0, in rules, preconditions and look-ups as in guards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.records import Checkpoint
from support.world import ACT, BOB, FIND, LOOK, LOOK_STEP, MACHINE, World, world

#: the amount is a number, and whatever is computed with it has a point
ACT_OF_NUMBERS = (
    ACT.replace("amount: {type: integer, minimum: 1, maximum: 1000}", "amount: {type: number}")
    .replace("act:{thing}:{amount}", "act:{thing}")
    .replace("args.amount > 100,", "args.amount + 0.5 > 2.0,")
    .replace("args.amount > 500,", "args.amount - 0.5 > 500.0,")
    .replace("found: result.items.size() == 1", "found: result.total - args.amount / 2.0 > 1.0")
    .replace("absent: result.items.size() == 0", "absent: result.total + 0.5 < 2.0")
    + "precondition: {tool: look, with: {thing: args.thing}, holds: result.left > args.amount - 0.5, reason: short}\n"
)
LOOK_WITH_NUMBERS = LOOK.replace("returns:\n", "returns:\n  left: {type: number}\n")
FIND_WITH_NUMBERS = FIND.replace("returns:\n", "returns:\n  total: {type: number}\n")
ITEMS = [{"id": "a1"}]


def play(tmp_path: Path, amount: float, left: float, **tools: list[Any]) -> tuple[Checkpoint, int]:
    environment = SimulatedEnvironment()
    step = {"call": "act", "with": {"thing": "box", "amount": amount}}
    texts = (LOOK_WITH_NUMBERS, ACT_OF_NUMBERS, FIND_WITH_NUMBERS)

    async def body(here: World) -> tuple[Checkpoint, int]:
        assert not here.runtime.catalogue.report.errors, str(here.runtime.catalogue.report)
        task = await here.run()
        if task.head.status == "AWAITING_APPROVAL":
            assert task.approvals[0].roles == ("boss",)
            await here.runtime.approve(task.approvals[0].id, BOB)
            task = await here.runtime.resume(task.task.id)
        return task, len(task.approvals)

    async def main() -> tuple[Checkpoint, int]:
        looks = [{"good": True, "left": left}]
        async with world(
            tmp_path, LOOK_STEP, step, machine=MACHINE, texts=texts, environment=environment, look=looks, **tools
        ) as here:
            return await body(here)

    return environment.run(main())


@pytest.mark.parametrize(("amount", "asked"), [(1, 0), (1.0, 0), (2, 1), (2.0, 1), (1.6, 1)])
def test_a_rule_compares_a_whole_number_with_a_half(tmp_path: Path, amount: float, asked: int) -> None:
    task, approvals = play(tmp_path, amount, left=5)
    assert (task.head.status, approvals) == ("SUCCEEDED", asked)


@pytest.mark.parametrize(("left", "status", "reason"), [(1, "SUCCEEDED", "completed"), (0, "FAILED", "short")])
def test_a_precondition_compares_whole_numbers_of_both_sides(
    tmp_path: Path, left: float, status: str, reason: str
) -> None:
    task, _ = play(tmp_path, 1, left=left)
    assert (task.head.status, task.head.reason) == (status, reason)


@pytest.mark.parametrize(("total", "sent"), [(2, 1), (1, 2)], ids=["found", "absent"])
def test_a_look_up_compares_whole_numbers(tmp_path: Path, total: int, sent: int) -> None:
    answers = iter([TimeoutError(), {"id": "a1"}])
    calls: list[object] = []

    def act(request: object) -> dict[str, Any]:
        calls.append(request)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    task, _ = play(tmp_path, 1, left=5, act=[act], find=[{"total": total, "items": ITEMS}])
    assert (task.head.status, len(calls)) == ("SUCCEEDED", sent)
