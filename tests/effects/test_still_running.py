"""A function that was given up runs on in its thread: while it does, that there is no effect yet means nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from effects import stubborn

from statemachine_agent import Environment, Reach, Runtime, ScriptedModel, SqliteStore
from statemachine_agent.records import Checkpoint
from support.world import ACT, ANN, BOB, FIND, LOOK, LOOK_STEP, MACHINE, act_step, catalogue

HANG = ACT.replace('"nowhere:act"', '"effects.stubborn:hang"') + "timeout: 300ms\n"
REPLAYED = (
    HANG.split("  reconcile:", maxsplit=1)[0] + "  replay: true\napproval:" + HANG.split("approval:", maxsplit=1)[1]
)


@pytest.fixture(autouse=True)
def nothing_hangs_on() -> Iterator[None]:
    stubborn.clear()
    yield
    stubborn.over.set()


class LetsGo(Environment):
    """The real world, in which the function comes back as soon as somebody begins to wait for it."""

    async def sleep(self, seconds: float) -> None:
        if seconds < 1:  # not the heartbeat
            stubborn.over.set()
            await self.in_thread(stubborn.done.wait)
        await super().sleep(seconds)


@asynccontextmanager
async def runtime(folder: Path, act: str, environment: Environment | None = None) -> AsyncIterator[Runtime]:
    tools = (LOOK.replace("nowhere:", "effects.stubborn:"), act, FIND.replace("nowhere:", "effects.stubborn:"))
    environment = environment or Environment()
    with SqliteStore(folder / "tasks.db", environment) as store:
        model = ScriptedModel.of(LOOK_STEP, act_step())
        reach = Reach(python_packages=frozenset({"effects"}))
        async with Runtime(catalogue(MACHINE, *tools), store, model, reach=reach, environment=environment) as here:
            assert not here.catalogue.report.errors, str(here.catalogue.report)
            yield here


@pytest.mark.parametrize("act", [HANG, REPLAYED], ids=["looked up", "replayed"])
def test_a_call_that_still_runs_is_neither_absent_nor_sent_again(tmp_path: Path, act: str) -> None:
    """In doubt; a person settles it, and the effect that comes late is one and not two."""

    async def main() -> None:
        async with runtime(tmp_path, act) as here:
            end = await here.run("tiny", {"thing": "box"}, ANN)
            assert (end.head.status, end.head.reason) == ("FAILED", "in_doubt")
            assert end.head.output == "the call itself still runs in this process"
            assert [e.status for e in end.effects] == ["unknown"]
            assert stubborn.happened == []
            stubborn.over.set()
            await asyncio.to_thread(stubborn.done.wait)
            settled = await here.resolve(end.task.id, "act:box:10", BOB, found={"id": "late"}, why="it came late")
            assert [e.status for e in settled.effects] == ["executed"]

    asyncio.run(main())
    assert (len(stubborn.seen), stubborn.happened) == (1, ["act:box:10"])


def test_a_call_that_comes_back_in_time_is_found(tmp_path: Path) -> None:
    """The service is asked when the call has come back, and not before."""

    async def main() -> Checkpoint:
        async with runtime(tmp_path, HANG, LetsGo()) as here:
            return await here.run("tiny", {"thing": "box"}, ANN)

    end = asyncio.run(main())
    assert (end.head.status, [e.status for e in end.effects]) == ("SUCCEEDED", ["executed"])
    assert (len(stubborn.seen), stubborn.happened) == (1, ["act:box:10"])
