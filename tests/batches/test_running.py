"""Calls of a batch run side by side, none ends another, and all are recorded in the order of the proposal."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError, RefusedByServiceError
from support.peeks import GIVE_UP, PEEKS, TEXTS, Raw, after, batch, call, looks, rows_of
from support.playing import play, swap
from support.world import BAD, GOOD, Played, World, world

TIMEOUT = LostError("the line went dead", reason="timeout")
BOTH = batch(call("look", "c1"), call("peek", "c2"))


def run(folder: Path, body: Any, *steps: Any, machine: str = PEEKS, **how: Any) -> Any:
    return play(folder, body, *steps, machine=machine, texts=how.pop("texts", TEXTS), **how)


# ---------------------------------------------------------------- rule 4: at once, each for itself


def test_they_run_at_once(tmp_path: Path) -> None:
    """Three calls of three seconds take three seconds."""
    environment = SimulatedEnvironment()
    slow = [after(3, GOOD)]

    async def body(here: World) -> Checkpoint:
        end = await here.run(machine="peeks")
        (row,) = [r for r in await here.rows(end, "checkpoint") if r["version"] == 1]
        assert row["at"].startswith("2026-10-28T11:17:46"), row["at"]
        return end

    run(tmp_path, body, looks("abc"), GIVE_UP, environment=environment, look=slow)


def test_each_call_has_its_own_tries_and_request_ids(tmp_path: Path) -> None:
    """One is answered at once, one at its second try, one never."""
    plays: dict[str, list[Any]] = {"a": [GOOD], "b": [TIMEOUT, GOOD], "c": [TIMEOUT, TIMEOUT]}

    def by_thing(request: Any) -> Any:
        return plays[request.args["thing"]].pop(0)

    async def body(here: World) -> None:
        end = await here.run(machine="peeks")
        rows = await here.rows(end, "call")
        assert [(r["call_id"], r["attempt"], r["outcome"], r["error_class"], r["evidence"]) for r in rows] == [
            ("c1", 1, "ok", None, "ev-1"),
            ("c2", 1, "failed", "timeout", None),
            ("c2", 2, "ok", None, "ev-2"),
            ("c3", 1, "failed", "timeout", None),
            ("c3", 2, "failed", "timeout", None),
        ]
        assert len({r["request_id"] for r in rows}) == 5
        assert end.head.usage.tool_calls == 3

    run(tmp_path, body, looks("abc"), GIVE_UP, look=[by_thing])


@pytest.mark.parametrize(
    "problem",
    [TIMEOUT, RefusedByServiceError("no", reason="closed"), RuntimeError("smoke"), {"good": 7}],
    ids=["lost", "refused", "raised", "no fitting answer"],
)
def test_a_failure_cancels_nothing(tmp_path: Path, problem: Any) -> None:
    """The other is slower, and brings its result all the same; the model is told of both."""
    model = Raw()

    async def body(here: World) -> Checkpoint:
        end = await here.run(machine="peeks")
        rows = await rows_of(here, end)
        assert [r[:3] for r in rows if r[0] == "c2"] == [("c2", "peek", "ok")]
        assert {r[2] for r in rows if r[0] == "c1"} == {"failed"}
        assert [(e.name, e.tool, e.call_id) for e in end.evidence] == [("ev-1", "peek", "c2")]
        assert (end.head.reason, end.head.steps) == ("no_action", 2)
        return end

    calls = (RawCall("c1", "look", {"thing": "box"}), RawCall("c2", "peek", {"thing": "box"}))
    model.replies = (RawReply(calls),)
    run(tmp_path, body, model=model, look=[problem], peek=[after(5, GOOD)])
    told = model.prompts[1].observation
    assert told is not None
    assert told.startswith('c1 (`look`) {"thing":"box"}: failed (')
    assert told.endswith('; c2 (`peek`) {"thing":"box"}: ev-1')


def test_a_hung_member_ends_at_its_own_timeout(tmp_path: Path) -> None:
    """Twenty seconds of its own; the others, of ten seconds each, had answered long before."""

    async def body(here: World) -> None:
        end = await here.run(machine="peeks")
        rows = await here.rows(end, "call")
        assert [(r["call_id"], r["outcome"], r["error_class"]) for r in rows] == [
            ("c1", "ok", None),
            ("c2", "failed", "timeout"),
            ("c3", "ok", None),
        ]
        assert 20_000 <= rows[1]["latency_ms"] < 20_100
        assert end.head.usage.active_ms < 21_000

    three = batch(call("look", "c1", "a"), call("peek", "c2"), call("look", "c3", "b"))
    environment = SimulatedEnvironment()

    async def main() -> None:
        async with world(
            tmp_path, three, GIVE_UP, machine=PEEKS, texts=TEXTS, environment=environment, look=[after(1, GOOD)]
        ) as here:
            here.tools["peek"] = Hung([])  # type: ignore[index]
            here.runtime._toolbox._own["peek"] = here.tools["peek"]
            await body(here)

    environment.run(main())


class Hung(Played):
    """A tool that never answers; its binding gives up when it is told to."""

    async def send(self, manifest: Any, request: Any, timeout: float) -> Any:
        try:
            async with asyncio.timeout(timeout):
                await asyncio.Event().wait()
        except TimeoutError:
            raise LostError("no answer", reason="timeout") from None


def test_what_is_left_of_the_time_is_left_for_each(tmp_path: Path) -> None:
    """A member never takes longer than the task has."""
    machine = swap(PEEKS, ("active_time: 60s", "active_time: 5s"))

    async def body(here: World) -> Checkpoint:
        return await here.run(machine="peeks")

    end = run(tmp_path, body, BOTH, GIVE_UP, machine=machine, look=[GOOD], peek=[after(4, GOOD)])
    assert [e.tool for e in end.evidence] == ["look", "peek"]


def test_python_functions_run_in_threads_of_their_own(tmp_path: Path) -> None:
    """Two plain functions that wait for each other both come back."""
    meeting = threading.Barrier(2, timeout=10)
    environment = SimulatedEnvironment()

    def meet() -> Any:
        meeting.wait()
        return GOOD

    async def in_a_thread(_: Any) -> Any:
        return await environment.in_thread(meet)

    async def body(here: World) -> None:
        end = await here.run(machine="peeks")
        assert [r[2] for r in await rows_of(here, end)] == ["ok", "ok"]

    run(tmp_path, body, BOTH, GIVE_UP, environment=environment, look=[in_a_thread], peek=[in_a_thread])


# ---------------------------------------------------------------- rule 5: one transaction, in the order of the proposal


def test_which_was_faster_never_shows(tmp_path: Path) -> None:
    """The first takes longest, and the record reads as if they had come in order."""

    def by_thing(request: Any) -> Any:
        seconds = {"a": 5, "b": 1, "c": 3}[request.args["thing"]]
        return after(seconds, {"good": True, "note": request.args["thing"]})(request)

    async def body(here: World) -> list[Any]:
        end = await here.run(machine="peeks")
        rows = [r for r in await here.rows(end) if r["version"] == 1]
        assert [(e.name, e.call_id, e.asked["thing"], e.payload["note"]) for e in end.evidence] == [
            ("ev-1", "c1", "a", "a"),
            ("ev-2", "c2", "b", "b"),
            ("ev-3", "c3", "c", "c"),
        ]
        return [r["table"] for r in rows] + [r["event"] for r in rows if r["table"] == "transition"]

    order = run(tmp_path, body, looks("abc"), GIVE_UP, look=[by_thing])
    assert order[: order.index("checkpoint") + 1].count("decision") == 1
    assert [o for o in order if "." in o] == [
        "call.look", "call.look", "call.look", "ok.look", "ok.look", "ok.look", "then.LOOKING",
    ]  # fmt: skip


def test_one_step_one_version_one_of_tool_calls_each(tmp_path: Path) -> None:
    async def body(here: World) -> None:
        end = await here.run(machine="peeks")
        versions = await here.rows(end, "checkpoint")
        assert [(v["version"], v["cause"], v["steps"]) for v in versions] == [
            (0, "start", 0), (1, "step", 1), (2, "step", 2),
        ]  # fmt: skip
        assert (end.head.usage.tool_calls, end.head.calls) == (3, {"look": 3})

    run(tmp_path, body, looks("abc"), GIVE_UP)


def test_two_results_of_one_tool(tmp_path: Path) -> None:
    """The later in the proposal is the evidence; all are kept."""
    machine = swap(
        PEEKS,
        (
            "  both: has(evidence.look) && has(evidence.peek)",
            "  both: evidence.look.note == 'b' && results.look.size() == 2",
        ),
    )
    notes = [lambda r: {"good": True, "note": r.args["thing"]}]

    async def body(here: World) -> Checkpoint:
        return await here.run(machine="peeks")

    end = run(tmp_path, body, looks("ab"), GIVE_UP, machine=machine, look=notes)
    assert end.head.visits["SEEN"] == 1


# ---------------------------------------------------------------- rule 6: `then` once, on all results


def test_then_is_tried_once_on_the_results_of_all(tmp_path: Path) -> None:
    """Neither look nor peek alone would lead on."""

    async def body(here: World) -> None:
        end = await here.run(machine="peeks")
        events = [(r["event"], r["target"]) for r in await here.rows(end, "transition")]
        assert events == [
            ("call.look", None), ("call.peek", None), ("ok.look", None), ("ok.peek", None),
            ("then.LOOKING", "SEEN"), ("call.cannot_continue", "FAILED"),
        ]  # fmt: skip

    run(tmp_path, body, BOTH, GIVE_UP, peek=[GOOD])


def test_a_guard_that_errs_behind_one_of_them(tmp_path: Path) -> None:
    """All results are on record, and the task ends."""
    machine = swap(
        PEEKS,
        ("      peek: stay\n      glance", "      peek: [{when: noted, stay: true}, {stay: true}]\n      glance"),
        ("  peeked:", "  noted: '!has(evidence.peek) || evidence.peek.note == \"x\"'\n  peeked:"),
    )
    three = batch(call("look", "c1"), call("peek", "c2"), call("look", "c3", "b"))

    async def body(here: World) -> Checkpoint:
        end = await here.run(machine="peeks")
        assert len(await rows_of(here, end)) == 3
        return end

    end = run(tmp_path, body, three, GIVE_UP, machine=machine, peek=[GOOD])
    assert (end.head.status, end.head.reason, len(end.evidence)) == ("FAILED", "guard_error", 3)


# ---------------------------------------------------------------- progress


CIRCLES = swap(PEEKS, ("limits: {steps: 6", "progress: {repeat: 2, stall: 9}\nlimits: {steps: 9"))


def test_one_batch_in_any_order_is_one_action(tmp_path: Path) -> None:
    """Three times the same calls, each time in another order and under other ids: told, and then ended."""
    orders = ["abc", "cab", "bca", "acb"]
    steps = [batch(*(call("look", f"{o}-{t}", t) for t in o)) for o in orders]

    async def body(here: World) -> Checkpoint:
        return await here.run(machine="peeks")

    machine = swap(CIRCLES, ("tool_calls: 10", "tool_calls: 40"))
    end = run(
        tmp_path, body, *steps, GIVE_UP, machine=machine, look=[lambda r: {"good": True, "note": r.args["thing"]}]
    )
    assert (end.head.status, end.head.reason, end.head.steps) == ("NO_PROGRESS", "repeated_action", 4)


def test_a_refused_batch_in_any_order_is_one_action_too(tmp_path: Path) -> None:
    orders = [("a", "dark"), ("dark", "a"), ("a", "dark"), ("dark", "a")]
    steps = [batch(*(call("look", f"{n}-{t}", t) for t in o)) for n, o in enumerate(orders)]

    async def body(here: World) -> Checkpoint:
        return await here.run(machine="peeks")

    end = run(tmp_path, body, *steps, GIVE_UP, machine=CIRCLES)
    assert (end.head.status, end.head.reason, end.head.steps) == ("NO_PROGRESS", "repeated_action", 4)


def test_other_results_are_progress(tmp_path: Path) -> None:
    steps = [looks("ab")] * 4

    async def body(here: World) -> Checkpoint:
        return await here.run(machine="peeks")

    machine = swap(CIRCLES, ("tool_calls: 10", "tool_calls: 40"))
    end = run(tmp_path, body, *steps, GIVE_UP, machine=machine, look=[{"good": True, "note": str(n)} for n in range(9)])
    assert end.head.reason == "no_action"


def test_two_batches_that_fail_as_a_whole_end_the_task(tmp_path: Path) -> None:
    """One member that answers is enough to go on."""

    async def body(here: World) -> Checkpoint:
        return await here.run(machine="peeks")

    for name, peek, reason in (("all", TIMEOUT, "dependency_failed"), ("some", BAD, "no_action")):
        (tmp_path / name).mkdir()
        end = run(tmp_path / name, body, BOTH, BOTH, GIVE_UP, look=[TIMEOUT], peek=[peek])
        assert (end.head.status, end.head.reason) == ("FAILED", reason)


# ---------------------------------------------------------------- beside another region


REGIONS = """
machine: peeks
version: 1
summary: Look in one region, peek in the other.
input:
  thing: {type: string}
limits: {steps: 6}
guards:
  looked: has(evidence.look)
  peeked: has(evidence.peek)
success: []
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT:
        initial: SEEING
        states:
          SEEING: {choose: [look], then: [{when: looked, goto: done}]}
      RIGHT:
        initial: PEERING
        states:
          PEERING: {choose: [peek], then: [{when: peeked, goto: done}]}
    then: {done: SUCCEEDED}
"""


def test_regions_take_turns_with_batches_of_their_own(tmp_path: Path) -> None:
    """A batch holds what its own region offers; a tool of the other region is not allowed in it."""

    async def body(here: World) -> Checkpoint:
        end = await here.run(machine="peeks")
        assert [r[:3] for r in await rows_of(here, end)] == [
            ("c1", "look", "ok"), ("c2", "look", "ok"), ("c1", "peek", "ok"), ("c2", "peek", "ok"),
        ]  # fmt: skip
        (told,) = await here.told(end)
        assert "c2 (`look`): `look` is not allowed here" in told
        return end

    mixed = batch(call("peek", "c1"), call("look", "c2"))
    steps = [looks("ab"), mixed, looks("cd", "peek")]
    end = run(tmp_path, body, *steps, machine=REGIONS, peek=[GOOD])
    assert (end.head.status, end.head.steps) == ("SUCCEEDED", 3)
