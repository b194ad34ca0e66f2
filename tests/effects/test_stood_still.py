"""A worker that is stopped between its intent and the call (a laptop that sleeps) does not send when it wakes up."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.errors import LeaseLostError
from statemachine_agent.loop.context import LEASE, Event
from support.world import LOOK_STEP, NONE, act_step, world


@pytest.mark.parametrize(("seconds", "sent"), [(LEASE / 2 - 1, 1), (LEASE / 2 + 1, 0)], ids=["in time", "too late"])
def test_what_was_intended_long_ago_is_not_sent(tmp_path: Path, seconds: float, sent: int) -> None:
    """Somebody else may have taken over: exit 20, and the effect is asked for by whoever comes next."""
    environment = SimulatedEnvironment()

    def stand_still(event: Event) -> None:
        if event.kind == "committed" and event.data["transaction"].cause == "intent":
            environment.advance(seconds)

    async def main() -> None:
        async with world(tmp_path, LOOK_STEP, act_step(), environment=environment, find=[NONE]) as here:
            here.runtime.watch(stand_still)
            if sent:
                assert (await here.run()).head.status == "SUCCEEDED"
            else:
                with pytest.raises(LeaseLostError, match="nothing was sent") as problem:
                    await here.run()
                assert problem.value.exit_code == 20
            assert len(here.tools["act"].calls) == sent

    environment.run(main())


def test_the_next_worker_asks_and_then_sends(tmp_path: Path) -> None:
    """What the first one left intended is unknown, found absent, and done once."""
    environment = SimulatedEnvironment()
    stops = [LEASE]

    def stand_still(event: Event) -> None:
        if event.kind == "committed" and event.data["transaction"].cause == "intent" and stops:
            environment.advance(stops.pop())

    async def main() -> None:
        async with world(tmp_path, LOOK_STEP, act_step(), environment=environment, find=[NONE]) as here:
            here.runtime.watch(stand_still)
            with pytest.raises(LeaseLostError):
                await here.run()
            (task,) = await here.store.tasks()
            end = await here.runtime.resume(task["id"])
            assert (end.head.status, [e.status for e in end.effects]) == ("SUCCEEDED", ["executed"])
            assert (len(here.tools["find"].calls), len(here.tools["act"].calls)) == (1, 1)

    environment.run(main())
