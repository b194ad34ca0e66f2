"""Models that are slow, fail, or are a person: what an attempt costs, and what never leaves the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Runtime, SimulatedEnvironment
from statemachine_agent.errors import ModelError, UsageError
from statemachine_agent.loop.context import Event
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.fallback import FallbackModel
from statemachine_agent.models.port import ModelUnavailableError, Prompt, Reply, Spent
from statemachine_agent.records import Checkpoint
from support.playing import play, swap, to_its_end
from support.world import ANN, LOOK_STEP, MACHINE, World, act_step

#: time enough for four inferences of two minutes
PATIENT = swap(MACHINE, ("active_time: 60s", "active_time: 600s"))
ENOUGH = RawReply((RawCall("c", "cannot_continue", {"reason": "enough"}),))


class Does:
    """A model that does `plays`, one after another (an error, seconds to wait, or a reply), the last one for ever."""

    spec = "test"

    def __init__(self, environment: SimulatedEnvironment, *plays: Any, person: bool = False) -> None:
        self.environment = environment
        self.plays = list(plays)
        self.waits_for_person = person
        self.asked_at: list[float] = []

    async def decide(self, prompt: Prompt) -> Reply:
        self.asked_at.append(self.environment.monotonic())
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        if isinstance(play, Exception):
            raise play
        if not isinstance(play, RawReply):
            await self.environment.sleep(play)
        return Reply(play if isinstance(play, RawReply) else ENOUGH, Spent(7, 3), self.spec)


def decided(
    folder: Path, *plays: Any, machine: str = PATIENT, person: bool = False
) -> tuple[Checkpoint, list[Any], Does]:
    """The end, the rows of the decisions, and the model."""
    environment = SimulatedEnvironment()
    model = Does(environment, *plays, person=person)

    async def body(here: World) -> tuple[Checkpoint, list[Any]]:
        end = await here.run()
        return end, await here.rows(end, "decision")

    end, rows = play(folder, body, machine=machine, model=model, environment=environment)
    return end, rows, model


def test_without_a_model_nothing_is_lost(tmp_path: Path) -> None:
    """The task stays where it is, and goes on as soon as there is one."""

    async def body(here: World) -> Checkpoint:
        started = await here.runtime.start("tiny", {"thing": "box"}, ANN)
        async with Runtime(
            here.runtime.catalogue, here.store, environment=here.environment, bindings=here.tools
        ) as bare:
            with pytest.raises(ModelError, match="no model was given") as problem:
                await bare.resume(started.task.id)
            assert "--model" in (problem.value.hint or "")
        assert await here.runtime.status(started.task.id) == started
        return await here.runtime.resume(started.task.id)

    assert play(tmp_path, body, LOOK_STEP, act_step()).head.status == "SUCCEEDED"


def test_an_inference_is_given_up_after_two_minutes(tmp_path: Path) -> None:
    """Each attempt by itself; the row says how long it took, and what is told."""
    end, rows, _ = decided(tmp_path, 1000)
    assert (end.head.status, end.head.reason) == ("FAILED", "model_failed")
    assert [(r["attempt"], round(r["latency_ms"], -1), r["result"], r["retryable"]) for r in rows] == [
        (n, 120_000, "failed", 1) for n in (1, 2, 3, 4)
    ]
    assert {r["feedback"] for r in rows} == {end.head.output} == {"the model gave no answer in time"}
    assert end.head.usage.input_tokens == sum(r["input_tokens"] for r in rows) > 0


def test_an_inference_never_outlives_the_tasks_own_time(tmp_path: Path) -> None:
    """Sixty seconds of active time: given up then, and not asked again."""
    end, rows, _ = decided(tmp_path, 1000, machine=MACHINE)
    assert [(r["attempt"], r["latency_ms"]) for r in rows] == [(1, 60_000)]
    assert (end.head.status, end.head.reason) == ("FAILED", "model_failed")


def test_a_person_is_not_hurried_and_their_time_is_their_own(tmp_path: Path) -> None:
    """An hour of thinking in a task of sixty seconds."""
    end, rows, _ = decided(tmp_path, 3600, machine=MACHINE, person=True)
    assert (end.head.reason, len(rows)) == ("no_action", 1)
    assert end.head.usage.active_ms < 1000


def test_what_helps_nobody_is_not_tried_again(tmp_path: Path) -> None:
    """A wrong key is wrong the second time too."""
    end, rows, _ = decided(tmp_path, ModelUnavailableError("the key is wrong", retryable=False), ENOUGH)
    assert [(r["attempt"], r["retryable"], r["error_class"]) for r in rows] == [(1, 0, "model_unavailable")]
    assert (end.head.reason, end.head.output) == ("model_failed", "the key is wrong")


def test_a_provider_that_asks_for_time_gets_it(tmp_path: Path) -> None:
    """`retry_after` is a lower bound of the wait, and the answer that follows counts as the second attempt."""
    _, rows, model = decided(tmp_path, ModelUnavailableError("slowly", retry_after=30.0), ENOUGH)
    first, second = model.asked_at
    assert 30 <= second - first < 31
    assert [(r["attempt"], r["result"]) for r in rows] == [(1, "failed"), (2, "accepted")]


def test_a_wait_that_a_provider_asks_for_ends_with_the_tasks_time(tmp_path: Path) -> None:
    """A day is not waited for by a task that has a minute."""
    end, _, model = decided(tmp_path, ModelUnavailableError("tomorrow", retry_after=86_400.0), ENOUGH, machine=MACHINE)
    assert model.asked_at[-1] <= 61
    assert end.head.usage.active_ms <= 61_000


def test_an_adapter_that_raises_anything_is_a_failed_attempt(tmp_path: Path) -> None:
    """The provider's own error class is named, and never seen as a traceback."""
    end, rows, _ = decided(tmp_path, ZeroDivisionError("by nothing"), ENOUGH)
    assert [(r["result"], r["retryable"]) for r in rows] == [("failed", 0)]
    assert "the model raised" in (end.head.output or "") and "by nothing" in (end.head.output or "")


def test_nobody_there_to_ask_is_not_an_inference(tmp_path: Path) -> None:
    """The caller is told, and the task is as it was: no attempt, no step, no cost."""
    environment = SimulatedEnvironment()
    model = Does(environment, UsageError("nobody is there to ask"))

    async def body(here: World) -> None:
        with pytest.raises(UsageError, match="nobody is there"):
            await here.run()
        (task,) = await here.store.tasks()
        after = await here.runtime.status(task["id"])
        assert (after.head.status, after.head.steps, after.head.version) == ("RUNNING", 0, 0)
        assert await here.rows(after, "decision") == []

    play(tmp_path, body, model=model, environment=environment)


def test_who_looks_on_is_told_each_decision(tmp_path: Path) -> None:
    """State, step, reply and tokens, as it happens."""
    events: list[Event] = []

    async def body(here: World) -> Checkpoint:
        here.runtime.watch(events.append)
        return await to_its_end(here)

    step = {**LOOK_STEP, "tokens": {"input": 30, "output": 12}}
    task = play(tmp_path, body, step, act_step())
    told = [e for e in events if e.kind == "decided"]
    assert [(e.task_id, e.data["state"], e.data["step"], e.data["tokens"]) for e in told] == [
        (task.task.id, "LOOKING", 1, 42),
        (task.task.id, "LOOKING", 2, 0),
    ]
    assert told[0].data["reply"]["calls"][0]["name"] == "look"
    assert told[0].data["latency_ms"] == 0


def test_a_failed_attempt_stands_under_the_name_of_whoever_was_asked(tmp_path: Path) -> None:
    """Behind a fallback too: two attempts of the first, then one of the second."""
    environment = SimulatedEnvironment()
    gone = ModelUnavailableError("not now")
    first, second = Does(environment, gone), Does(environment, gone, ENOUGH)
    first.spec, second.spec = "first", "second"

    async def body(here: World) -> list[Any]:
        return await here.rows(await here.run(), "decision")

    model = FallbackModel(first, second)
    rows = play(tmp_path, body, machine=PATIENT, model=model, environment=environment)
    assert [(r["model"], r["result"]) for r in rows] == [
        ("first", "failed"), ("first", "failed"), ("second", "failed"), ("second", "accepted"),
    ]  # fmt: skip
