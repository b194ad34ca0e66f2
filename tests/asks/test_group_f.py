"""A definition that changes under tasks: the lines of group F that no other test holds (`held.py` says where the others are)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.errors import IllegalConfigurationError, StoreError
from statemachine_agent.records import Checkpoint
from support.playing import swap
from support.world import ANN, BOB, DONE, GOOD, LOOK, LOOK_STEP, MACHINE, ONE, World, act_step, world

Body = Callable[[World], Awaitable[Any]]


@pytest.fixture
def tell(tmp_path: Path) -> Callable[..., Any]:
    """Runs one body after the other on one store, each with a runtime and definitions of its own."""
    environment = SimulatedEnvironment()

    def told(body: Body, *steps: Any, **how: Any) -> Any:
        async def main() -> Any:
            async with world(tmp_path, *steps, environment=environment, **how) as here:
                assert not here.runtime.catalogue.report.errors, str(here.runtime.catalogue.report)
                return await body(here)

        return environment.run(main())

    return told


def alter(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "tasks.db")) as connection:
        assert connection.execute(statement, values).rowcount == 1
        connection.commit()


def test_f2_a_waiting_state_that_is_called_otherwise_by_now(tell: Callable[..., Any], tmp_path: Path) -> None:
    """Ask F2: the task goes on where it waited; a stored state that its own machine has not is named, and nothing is done."""
    renamed = swap(MACHINE, ("  ASKING:", "  HOLDING:"), ("goto: ASKING}", "goto: HOLDING}"))

    async def propose(here: World) -> Checkpoint:
        return await here.run()

    async def finish(here: World) -> None:
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
        assert len(here.tools["act"].calls) == 1

    async def lost(here: World) -> None:
        with pytest.raises(IllegalConfigurationError, match="the stored state `HOLDING` is no state of this machine"):
            await here.runtime.resume(other.task.id)
        with pytest.raises(IllegalConfigurationError, match="HOLDING"):
            await here.runtime.approve(other.approvals[0].id, BOB)
        assert not here.tools["act"].calls

    waiting = tell(propose, LOOK_STEP, act_step(200))
    assert waiting.head.configuration == ("ASKING",)
    tell(finish, machine=renamed)
    other = tell(propose, LOOK_STEP, act_step(201))
    alter(tmp_path, "UPDATE task SET configuration = ? WHERE id = ?", '["HOLDING"]', other.task.id)
    tell(lost, machine=renamed)


#: of the same name and version, and nothing of the other's shape
OTHER = """
machine: tiny
version: 1
summary: Only look.
input: {thing: {type: string}}
limits: {steps: 3}
success: []
initial: GLANCING
states:
  GLANCING:
    choose: {look: [{goto: SUCCEEDED}]}
"""


def test_f3_another_machine_under_the_same_name(tell: Callable[..., Any], tmp_path: Path) -> None:
    """Ask F3: a task belongs to the hash of what it began with; if other texts lie under that hash, it stops before anything."""

    async def propose(here: World) -> Checkpoint:
        return await here.run()

    async def finish(here: World) -> Checkpoint:
        fresh = await here.run()
        assert fresh.task.definition_hash != waiting.task.definition_hash
        assert (fresh.head.status, fresh.head.configuration) == ("SUCCEEDED", ("SUCCEEDED",))
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert end.task.definition_hash == waiting.task.definition_hash
        moves = [row["target"] for row in await here.rows(end, "transition")]
        assert moves[-2:] == ["ACTING", "SUCCEEDED"]
        return fresh

    async def swapped(here: World) -> None:
        for ask in (
            here.runtime.resume(later.task.id),
            here.runtime.approve(later.approvals[0].id, BOB),
            here.runtime.cancel(later.task.id, ANN),
        ):
            with pytest.raises(StoreError, match="was altered after it was stored"):
                await ask
        assert not any(tool.calls for tool in here.tools.values())

    waiting = tell(propose, LOOK_STEP, act_step(200))
    fresh = tell(finish, LOOK_STEP, machine=OTHER)
    later = tell(propose, LOOK_STEP, act_step(201))
    texts = "(SELECT texts_hash FROM definition WHERE hash = ?)"
    alter(
        tmp_path,
        f"UPDATE definition SET texts_hash = {texts} WHERE hash = ?",  # noqa: S608  the text above
        fresh.task.definition_hash,
        later.task.definition_hash,
    )
    tell(swapped)


ARRIVING = """\
  ARRIVING:
    route:
      - {when: late, goto: RESTING}
      - {goto: LOOKING}
  RESTING:
    wait: {signal: go, expires: 2h}
    then: {received: LOOKING, expired: NEEDS_INPUT}
"""
#: what was deployed at first: a machine in which a task can stand in five ways
FIRST = swap(
    MACHINE,
    ("guards:\n", "signals: {go: {}}\nguards:\n  late: input.thing == 'late'\n"),
    ("initial: LOOKING\nstates:\n", "initial: ARRIVING\nstates:\n" + ARRIVING),
    ("[good, same_thing]", "good"),
)
#: what is deployed later: other states, other tools in their place, and not one of the old names
SECOND = OTHER.replace("look:", "inspect:")
TOOLS = (LOOK.replace("tool: look", "tool: inspect"),)
THINGS = ("begun", "late", "asked", "answered", "sent")


async def stand(here: World, thing: str) -> Checkpoint:
    """A task that stands in the way that `thing` names."""
    runtime, task = here.runtime, await here.runtime.start("tiny", {"thing": thing}, ANN)
    if thing == "sent":
        working = asyncio.ensure_future(runtime.resume(task.task.id))
        await asyncio.sleep(1)
        working.cancel()  # its worker goes away while the service is at work
        with suppress(asyncio.CancelledError):
            await working
    elif thing != "begun":
        task = await runtime.resume(task.task.id)
    if thing == "answered":
        await runtime.approve(task.approvals[0].id, BOB)
    return await runtime.status(task.task.id)


def standing(tell: Callable[..., Any]) -> dict[str, Checkpoint]:
    """The five tasks, each in its way, under what was deployed at first."""

    async def hang(_: object) -> object:
        await asyncio.sleep(9)
        return DONE

    tasks = {}
    for thing in THINGS:

        async def begin(here: World, thing: str = thing) -> Checkpoint:
            return await stand(here, thing)

        amount = 20 if thing == "sent" else 200 + len(thing)
        tasks[thing] = tell(begin, LOOK_STEP, act_step(amount, thing), machine=FIRST, act=[hang])
    return tasks


def test_f6_a_verdict_for_each_task_before_a_deployment(tell: Callable[..., Any]) -> None:
    """Ask F6: nothing is deployed and nothing is changed, and of each task it is said whether the new version could take it."""
    renamed = swap(FIRST, ("  RESTING:", "  NAPPING:"), ("goto: RESTING}", "goto: NAPPING}"))
    raised = swap(FIRST, ("steps: 6", "steps: 7"))

    tasks = standing(tell)

    async def judge(here: World) -> dict[str, tuple[str, str]]:
        machine = compile_machine(checked_catalogue(here.runtime.catalogue), "tiny")
        found = {one.task: one for one in await here.runtime.verdicts({"tiny": machine})}
        for task in tasks.values():
            assert await here.runtime.status(task.task.id) == task
        return {thing: (found[t.task.id].verdict, "; ".join(found[t.task.id].why)) for thing, t in tasks.items()}

    under_way = {
        "answered": "`act:answered:208` was approved, which it finishes itself",
        "sent": "`act:sent:20` was intended, which it finishes itself",
    }
    assert tell(judge, machine=FIRST) == dict.fromkeys(THINGS, ("same", ""))
    stays = {thing: ("stays", why) for thing, why in under_way.items()}
    assert tell(judge, machine=raised) == dict.fromkeys(THINGS, ("fits", "")) | stays
    cannot = "the task cannot go on under tiny 1"
    late = {"late": ("stays", f"{cannot}: it stands in `RESTING`, which is no state any more")}
    assert tell(judge, machine=renamed) == dict.fromkeys(THINGS, ("fits", "")) | stays | late
    gone = tell(judge, machine=SECOND, texts=TOOLS)
    assert {
        thing: why.removeprefix(f"{cannot}: ").partition(",")[0]
        for thing, (_, why) in gone.items()
        if thing not in under_way
    } == {
        "begun": "it stands in `LOOKING`",
        "late": "it stands in `RESTING`",
        "asked": "it stands in `ASKING`",
    }


def test_f6_tasks_in_five_states_outlive_a_deployment(tell: Callable[..., Any]) -> None:
    """Ask F6: whatever stands in the files by now, and with their tools gone from there, each is finished as it began."""
    tasks = standing(tell)
    stood = {thing: (str(t.head.status), t.head.configuration[0]) for thing, t in tasks.items()}
    assert stood == {
        "begun": ("RUNNING", "LOOKING"),
        "late": ("WAITING", "RESTING"),
        "asked": ("AWAITING_APPROVAL", "ASKING"),
        "answered": ("RUNNING", "ACTING"),
        "sent": ("RUNNING", "ACTING"),
    }

    async def deployed(here: World) -> None:
        fresh = await here.run()
        assert (fresh.head.status, len(here.tools["inspect"].calls)) == ("SUCCEEDED", 1)

    async def finish(here: World) -> None:
        task = tasks[thing]
        if thing == "late":
            await here.runtime.signal(task.task.id, "go", {}, ANN)
        rests = await here.runtime.resume(task.task.id) if thing != "asked" else task
        if rests.head.status == "AWAITING_APPROVAL":
            await here.runtime.approve(rests.approvals[0].id, BOB)
            rests = await here.runtime.resume(task.task.id)
        assert (rests.head.status, rests.head.reason) == ("SUCCEEDED", "completed"), thing
        sent = [request.args["thing"] for request in here.tools["act"].calls]
        assert sent == ([] if thing == "sent" else [thing]), "what was sent before the deployment is looked up"

    tell(deployed, {"call": "inspect", "with": {"thing": "box"}}, machine=SECOND, texts=TOOLS, inspect=[GOOD])
    for thing in THINGS:
        steps = [LOOK_STEP, act_step(200 + len(thing), thing)]
        tell(finish, *steps, machine=SECOND, texts=TOOLS, find=[ONE])
