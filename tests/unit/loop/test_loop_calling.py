"""Calls under way: who is told what, how long each has, and what is kept of those that are cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from unit.loop.making import standing

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.loop import calling
from statemachine_agent.loop.context import Event, Stopwatch
from statemachine_agent.loop.phases import Observation
from statemachine_agent.records import Usage
from statemachine_agent.tools.outcome import Attempt, Failed, LostError, NotSentError, Ok
from statemachine_agent.tools.request import Reach, ToolRequest
from statemachine_agent.tools.toolbox import Toolbox
from support.playing import swap
from support.world import ACT, DONE, FIND, GOOD, LOOK

#: a read whose argument is not written down
MASKED = swap(LOOK, ("returns:\n", "redact: [args.thing]\ntimeout: 20s\nreturns:\n"))
BOX = {"thing": "box"}


class Here:
    """A task, its clock, and a service that does what `play` says after some seconds; its tries are a second apart."""

    def __init__(self, play: Callable[[ToolRequest], tuple[float, Any]], *, used: float = 0, look: str = LOOK) -> None:
        self.heard: list[Event] = []
        self.timeouts: list[tuple[str, float]] = []
        self.keys: list[str | None] = []
        self.play = play
        self.clock = SimulatedEnvironment()
        self.clock.uniform = lambda _low, high: high  # type: ignore[method-assign]
        usage = Usage(active_ms=int(used * 1000))
        context, checkpoint = standing(texts=(look, ACT, FIND), heard=self.heard, usage=usage)
        self.tools = context.machine.tools
        toolbox = Toolbox(Reach(), self.clock, dict.fromkeys(self.tools, self))
        context = replace(context, environment=self.clock, watch=Stopwatch(self.clock), toolbox=toolbox)
        self.observation = Observation(context, checkpoint, "LOOKING")
        self.start = self.clock.now()

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        self.timeouts.append((manifest.tool, timeout))
        self.keys.append(request.key)
        seconds, found = self.play(request)
        await asyncio.sleep(seconds)
        if isinstance(found, Exception):
            raise found
        return found

    def reads(self, *things: str) -> Any:
        return calling.read(self.observation, [(self.tools["look"], {"thing": thing}) for thing in things])

    def attempt(self, number: int, outcome: Any, *, after: float = 0, took: float = 0, of: str = "") -> Attempt:
        return Attempt(number, of, self.start + timedelta(seconds=after), int(took * 1000), outcome)

    def told(self, kind: str) -> list[Mapping[str, Any]]:
        assert {(e.kind, e.task_id) for e in self.heard} <= {("calling", "task-1"), ("called", "task-1")}
        return [e.data for e in self.heard if e.kind == kind]


def plain(attempts: tuple[Attempt, ...]) -> list[Attempt]:
    """Without the ids of requests, which are new each time."""
    assert all(a.request_id.startswith("req-") for a in attempts)
    return [replace(a, request_id="") for a in attempts]


CUT = Failed("cancelled", "it was not waited for any longer")


def test_a_write_is_told_before_and_after_it_is_sent() -> None:
    """With its key, its arguments, and the id under which the service knows the request."""
    here = Here(lambda _request: (2, DONE))
    args = {"thing": "box", "amount": 10}
    (attempt,) = here.clock.run(calling.call(here.observation, here.tools["act"], args, "act:box:10"))
    assert here.keys == ["act:box:10"]
    assert plain((attempt,)) == [here.attempt(1, Ok(DONE, attempt.outcome.size), took=2)]
    about = {"tool": "act", "args": args, "key": "act:box:10", "request_id": attempt.request_id, "attempt": 1}
    assert here.heard == [
        Event("calling", "task-1", about), Event("called", "task-1", {"tool": "act", "attempt": attempt}),
    ]  # fmt: skip


def test_each_try_is_told_with_its_number() -> None:
    """What is masked is not told; nor has a read a key."""
    answers = iter([(1, NotSentError("no route", reason="unavailable")), (3, GOOD)])
    here = Here(lambda _request: next(answers), look=MASKED)
    (attempts,) = here.clock.run(here.reads("secret"))
    assert plain(attempts) == [
        here.attempt(1, Failed("unavailable", "no route", retryable=True), took=1),
        here.attempt(2, Ok(GOOD, attempts[1].outcome.size), after=2, took=3),
    ]
    assert here.told("calling") == [
        {"tool": "look", "args": {"thing": "[redacted]"}, "key": None, "request_id": a.request_id, "attempt": a.number}
        for a in attempts
    ]
    assert here.told("called") == [{"tool": "look", "attempt": a} for a in attempts]


@pytest.mark.parametrize(("used", "read", "write"), [(0, 20, 10), (45, 15, 10), (55, 5, 10), (60, None, 10)])
def test_a_read_ends_with_the_tasks_time_and_a_write_is_waited_for(used: int, read: float | None, write: float) -> None:
    """At most as long as its own timeout; where no time is left a read is not sent, and a write has its timeout all the same."""
    here = Here(lambda request: (0, GOOD if request.key is None else DONE), used=used, look=MASKED)
    here.clock.run(here.reads("box"))
    here.clock.run(calling.call(here.observation, here.tools["act"], {"thing": "box", "amount": 10}, "act:box:10"))
    here.clock.run(calling.call(here.observation, here.tools["look"], BOX))
    sent = [] if read is None else [("look", read)]
    assert here.timeouts == [*sent, ("act", write), *sent]


def test_several_run_at_once_and_come_back_in_their_order() -> None:
    here = Here(
        lambda request: ({"a": 3, "b": 1, "c": 2}[request.args["thing"]], {"good": True, "note": request.args["thing"]})
    )
    found = here.clock.run(here.reads("a", "b", "c"))
    assert [attempts[0].outcome.payload["note"] for attempts in found] == ["a", "b", "c"]
    assert [attempts[0].latency_ms for attempts in found] == [3000, 1000, 2000]
    assert here.clock.monotonic() == 3


def cancelled(here: Here, step: Any, after: float) -> Any:
    """What the step gives that is told to end after so many seconds."""

    async def main() -> Any:
        running = asyncio.ensure_future(step)
        await asyncio.sleep(after)
        running.cancel()
        return await running

    return here.clock.run(main())


def test_of_several_what_is_over_is_kept_and_the_rest_is_cut_short() -> None:
    """One that ran ends as cancelled, with what is known of its try; one that only waited for another try ends as it stood."""
    gone = LostError("gone", reason="timeout")
    plays: dict[str, list[tuple[float, Any]]] = {
        "done": [(0.5, GOOD)], "waits": [(1, gone)], "again": [(0.25, gone), (9, GOOD)], "runs": [(9, GOOD)],
    }  # fmt: skip
    here = Here(lambda request: plays[request.args["thing"]].pop(0))
    done, waits, again, runs = cancelled(here, here.reads("done", "waits", "again", "runs"), 1.5)
    failed = Failed("timeout", "gone", retryable=True)
    assert plain(done) == [here.attempt(1, Ok(GOOD, done[0].outcome.size), took=0.5)]
    assert plain(waits) == [here.attempt(1, failed, took=1)]
    assert plain(again) == [here.attempt(1, failed, took=0.25), here.attempt(2, CUT, after=1.25, took=0.25)]
    assert plain(runs) == [here.attempt(1, CUT, took=1.5)]
    ids = {data["request_id"] for data in here.told("calling")}
    assert ids == {a.request_id for attempts in (done, waits, again, runs) for a in attempts}
    assert [d["attempt"] for d in here.told("called")][-2:] == [again[1], runs[0]]


def test_what_had_not_begun_ends_too() -> None:
    """Without a request: every call of a decision has a result."""
    here = Here(lambda _request: (9, GOOD))
    found = cancelled(here, here.reads("a", "b"), 0)
    assert found == ((here.attempt(1, CUT),),) * 2
    assert (here.timeouts, here.told("calling"), here.told("called")) == (
        [],
        [],
        [{"tool": "look", "attempt": found[0][0]}] * 2,
    )


def test_a_single_call_that_is_cut_short_is_none() -> None:
    """It is made again."""
    here = Here(lambda _request: (9, GOOD))
    with pytest.raises(asyncio.CancelledError):
        cancelled(here, here.reads("a"), 1)
    assert here.told("called") == []


def test_an_adapter_that_cancels_itself_ends_the_step_and_leaves_nothing_running() -> None:
    """Nobody told the step to end, so nothing is kept."""

    def play(request: ToolRequest) -> tuple[float, Any]:
        if request.args["thing"] == "bad":
            raise asyncio.CancelledError
        return 9, GOOD

    here = Here(play)

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await here.reads("slow", "bad")
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    here.clock.run(main())
    assert here.told("called") == []
