"""Two machines that share no tool and no word with the shipped one: nothing in the runtime knows a domain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Catalogue, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.errors import RefusedError
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.request import Reach
from support.gadgets import calls, plan

SMALL = Path(__file__).parent / "small"
GARDENER, DIRECTOR = Identity("gardener", "asserted"), Identity("director", "asserted")
ADA, BEN, CLEO = (Identity(n, "asserted") for n in ("ada", "ben", "cleo"))
BED = {"bed": "roses", "litres": 5}


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GADGETS", str(tmp_path))
    return tmp_path


@asynccontextmanager
async def small(box: Path, environment: SimulatedEnvironment, *steps: Mapping[str, Any]) -> AsyncIterator[Runtime]:
    catalogue = Catalogue.read(
        [SMALL / "greenhouse.yaml", SMALL / "launch.yaml"], [SMALL / "tools"], SMALL / "people.yaml"
    )
    with SqliteStore(box / "tasks.db", environment) as store:
        reach = Reach(python_packages=frozenset({"support"}))
        async with Runtime(catalogue, store, ScriptedModel.of(*steps), reach=reach, environment=environment) as runtime:
            yield runtime


def play(box: Path, body: Callable[[Runtime], Awaitable[Any]], *steps: Mapping[str, Any]) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with small(box, environment, *steps) as runtime:
            assert runtime.catalogue.report.errors == [], str(runtime.catalogue.report)
            return await body(runtime)

    return environment.run(main())


MEASURE, FINISH = {"call": "measure_soil"}, {"call": "finish", "with": {"answer": "The bed is moist."}}


def test_a_dry_bed_is_watered_once_and_found_moist(box: Path) -> None:
    """Read with a branch, write without approval, wait, read again, finish."""
    plan(box, "measure_soil", 0.1, 0.6)

    async def body(runtime: Runtime) -> Checkpoint:
        waiting = await runtime.run("greenhouse", BED, GARDENER)
        assert (waiting.head.status, waiting.head.configuration) == ("WAITING", ("SOAKING",))
        assert (await runtime.resume(waiting.task.id)).head.version == waiting.head.version
        runtime.environment.advance(600)
        return await runtime.resume(waiting.task.id)

    end = play(box, body, MEASURE, MEASURE, FINISH)
    assert (end.head.status, end.head.reason, end.head.output) == ("SUCCEEDED", "completed", "The bed is moist.")
    assert calls(box, "open_valve") == [{"bed": "roses", "litres": 5, "key": "water:roses:5"}]


def test_a_lost_answer_is_replayed_under_the_same_key(box: Path) -> None:
    """`replay: true`: the same request once more, and an answer means found."""
    plan(box, "measure_soil", 0.1)
    plan(box, "open_valve", "lost", "ok")

    async def body(runtime: Runtime) -> Checkpoint:
        return await runtime.run("greenhouse", BED, GARDENER)

    waiting = play(box, body, MEASURE)
    assert waiting.head.configuration == ("SOAKING",)
    assert [c["key"] for c in calls(box, "open_valve")] == ["water:roses:5"] * 2
    assert [e.status for e in waiting.effects] == ["executed"]


def test_the_wait_runs_out(box: Path) -> None:
    """The third entry of a wait that may be entered twice fires `exhausted` at once; the same effect is not run again."""
    plan(box, "measure_soil", 0.1)

    async def body(runtime: Runtime) -> Checkpoint:
        task = await runtime.run("greenhouse", BED, GARDENER)
        while not task.head.status.is_end:
            runtime.environment.advance(600)
            task = await runtime.resume(task.task.id)
        return task

    end = play(box, body, *[MEASURE] * 5)
    assert (end.head.status, end.head.reason) == ("FAILED", "exhausted")
    assert len(calls(box, "open_valve")) == 1, "the key was executed: its receipt answers"


def test_branches_of_a_read_are_judged_on_its_own_result(box: Path) -> None:
    """Flooded; frost; and an async tool."""
    plan(box, "measure_soil", 0.95)
    plan(box, "read_forecast", -3)

    async def body(runtime: Runtime) -> Checkpoint:
        return await runtime.run("greenhouse", BED, GARDENER)

    flooded = play(box, body, MEASURE)
    assert (flooded.head.status, flooded.head.reason) == ("FAILED", "flooded")
    (box / "tasks.db").unlink()
    frost = play(box, body, {"call": "read_forecast"})
    assert (frost.head.status, frost.head.reason) == ("DENIED", "frost")


TELEMETRY, IGNITE = {"call": "read_telemetry"}, {"call": "ignite", "with": {"rocket": "ares"}}


async def to_hold(runtime: Runtime) -> Checkpoint:
    hold = await runtime.run("launch", {"rocket": "ares"}, DIRECTOR)
    assert hold.head.status == "AWAITING_APPROVAL"
    assert hold.approvals[0].roles == ("engineer", "officer", "officer")
    return hold


def test_three_different_people_must_say_yes(box: Path) -> None:
    """An officer with two roles fills the one that is left; nobody counts twice."""

    async def body(runtime: Runtime) -> Checkpoint:
        hold = await to_hold(runtime)
        request = hold.approvals[0].id
        await runtime.approve(request, BEN)
        await runtime.approve(request, ADA)
        with pytest.raises(RefusedError) as refused:
            await runtime.approve(request, BEN)
        assert refused.value.reason == "already_answered"
        assert calls(box, "ignite") == []
        await runtime.approve(request, CLEO)
        return await runtime.resume(hold.task.id)

    end = play(box, body, TELEMETRY, IGNITE)
    assert end.head.status == "SUCCEEDED"
    assert len(calls(box, "ignite")) == 1


def test_what_cannot_be_undone_and_is_unknown_goes_to_a_person(box: Path) -> None:
    """Any exception of a write leaves open whether it happened: FAILED, open, settled by hand."""
    plan(box, "ignite", "explodes")

    async def body(runtime: Runtime) -> Checkpoint:
        hold = await to_hold(runtime)
        for who in (ADA, BEN, CLEO):
            await runtime.approve(hold.approvals[0].id, who)
        end = await runtime.resume(hold.task.id)
        assert (end.head.status, end.head.reason) == ("FAILED", "exception")
        return await runtime.resolve(end.task.id, "ignite:ares", CLEO, found=None, why="it stands there, cold")

    end = play(box, body, TELEMETRY, IGNITE)
    assert [e.status for e in end.effects] == ["abandoned"]
    assert len(calls(box, "ignite")) == 1


def test_cannot_continue_goes_where_the_machine_says(box: Path) -> None:
    """A control choice with a target of its own."""

    async def body(runtime: Runtime) -> Checkpoint:
        return await runtime.run("launch", {"rocket": "ares"}, DIRECTOR)

    end = play(box, body, {"call": "cannot_continue", "with": {"reason": "clouds"}})
    assert (end.head.status, end.head.reason, end.head.output) == ("CANCELLED", "cannot_continue", "clouds")


def test_implied_refusal(box: Path) -> None:
    """A list without a last row ends with: not possible now."""
    plan(box, "read_telemetry", False)

    async def body(runtime: Runtime) -> list[str]:
        end = await runtime.run("launch", {"rocket": "ares"}, DIRECTOR)
        rows = await runtime.store.history(end.task.id)
        return [r["feedback"] for r in rows if r["table"] == "decision" and r["feedback"]]

    told = play(box, body, TELEMETRY, IGNITE, {"call": "cannot_continue", "with": {"reason": "x"}})
    assert "not possible now" in told[0]
    assert calls(box, "ignite") == []
