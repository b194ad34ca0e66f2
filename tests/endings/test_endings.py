"""Each way in which a task ends or pauses, with its status and reason. All in a simulated world: no clock, no network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.errors import RefusedError
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from support.world import ACT, ANN, BAD, BOB, EVE, FIND, LOOK, LOOK_STEP, MACHINE, NONE, ONE, World, act_step, world

LOST = LostError("the line went dead", reason="unavailable")


def run_world(tmp_path: Path, body: Callable[[World], Awaitable[Any]], *steps: Any, **how: Any) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with world(tmp_path, *steps, environment=environment, **how) as here:
            return await body(here)

    return environment.run(main())


def ends(tmp_path: Path, *steps: Any, **how: Any) -> Checkpoint:
    return run_world(tmp_path, lambda here: here.run(), *steps, **how)


def test_verified_success(tmp_path: Path) -> None:
    """SUCCEEDED: the success guards hold on recorded evidence."""
    end = ends(tmp_path, LOOK_STEP, act_step())
    assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")


def test_no_actionable_next_step(tmp_path: Path) -> None:
    """FAILED/no_action: the model has nothing useful to propose."""
    end = ends(tmp_path, {"call": "cannot_continue", "with": {"reason": "no idea"}})
    assert (end.head.status, end.head.reason, end.head.output) == ("FAILED", "no_action", "no idea")


def test_clarification_needed(tmp_path: Path) -> None:
    """NEEDS_INPUT, with the question."""
    end = ends(tmp_path, {"call": "ask_user", "with": {"question": "Which thing?"}})
    assert (end.head.status, end.head.reason, end.head.output) == ("NEEDS_INPUT", "ask_user", "Which thing?")


def test_policy_denial_of_a_read(tmp_path: Path) -> None:
    """DENIED: the actor lacks the scope, and no re-prompting changes that."""
    end = run_world(tmp_path, lambda here: here.run(EVE), LOOK_STEP)
    assert (end.head.status, end.head.reason) == ("DENIED", "missing_scope")
    assert end.head.steps == 1


def test_policy_denial_of_a_write_is_read_by_its_route(tmp_path: Path) -> None:
    """DENIED with the machine's reason; nothing was sent, and the effect is given up."""
    look = LOOK.replace("scopes: [things:read]\n", "")

    async def body(here: World) -> Checkpoint:
        end = await here.run(EVE)
        assert not here.tools["act"].calls
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), texts=(look, ACT, FIND))
    assert (end.head.status, end.head.reason) == ("DENIED", "policy")
    assert [e.status for e in end.effects] == ["abandoned"]


def test_approval_required_is_the_one_pause(tmp_path: Path) -> None:
    """AWAITING_APPROVAL is not an end, and nothing has been sent."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        assert not here.tools["act"].calls
        return waiting

    waiting = run_world(tmp_path, body, LOOK_STEP, act_step(200))
    assert waiting.head.status == "AWAITING_APPROVAL"
    assert not waiting.head.status.is_end


def test_rejected_by_a_person(tmp_path: Path) -> None:
    """DENIED/rejected: the effect is rejected, nothing was sent."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        end = await here.runtime.reject(waiting.approvals[0].id, BOB, why="no")
        assert not here.tools["act"].calls
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(200))
    assert (end.head.status, end.head.reason) == ("DENIED", "rejected")
    assert [e.status for e in end.effects] == ["rejected"]


def test_approval_that_expires(tmp_path: Path) -> None:
    """NEEDS_INPUT/expired by the machine's own row, fired by resume; a late yes is refused."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        here.environment.advance(3600)
        with pytest.raises(RefusedError) as refused:
            await here.runtime.approve(waiting.approvals[0].id, BOB)
        assert refused.value.reason == "too_late"
        return await here.runtime.resume(waiting.task.id)

    end = run_world(tmp_path, body, LOOK_STEP, act_step(200))
    assert (end.head.status, end.head.reason) == ("NEEDS_INPUT", "expired")
    assert [e.status for e in end.effects] == ["abandoned"]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("steps: 2", "max_steps"),
        ("tokens: 50", "max_tokens"),
        ("tool_calls: 1", "max_tool_calls"),
        ("cost_usd: 0.01", "max_cost"),
    ],
)
def test_budget_exhausted(tmp_path: Path, limit: str, reason: str) -> None:
    """BUDGET_EXHAUSTED, with the budget that was used up; no model is called beyond it."""
    name, _, _ = limit.partition(":")
    machine = MACHINE.replace(
        "limits: {steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10, cost_usd: 1.00}",
        "limits: {" + ", ".join(x for x in ("steps: 6", "active_time: 60s") if not x.startswith(name)) + f", {limit}}}",
    )
    steps = [
        {**LOOK_STEP, "with": {"thing": f"box{i}"}, "tokens": {"input": 30, "output": 30}, "cost_usd": 0.02}
        for i in range(6)
    ]
    end = ends(tmp_path, *steps, machine=machine, look=[lambda r: {"good": True, "note": r.args["thing"]}])
    assert (end.head.status, end.head.reason) == ("BUDGET_EXHAUSTED", reason)
    assert end.head.steps == (2 if reason == "max_steps" else 1)


def test_deadline_counts_active_time_and_is_asked_after_the_observation(tmp_path: Path) -> None:
    """A slow tool cannot silently push the task past its deadline."""

    async def body(here: World) -> Checkpoint:
        async def slow(_request: object) -> dict:
            await here.environment.sleep(9)
            return {"good": True, "note": str(here.environment.now())}

        here.tools["look"].plays[:] = [slow]
        return await here.run()

    steps = [{**LOOK_STEP, "with": {"thing": f"t{i}"}} for i in range(6)]
    machine = MACHINE.replace("active_time: 60s", "active_time: 20s")
    end = run_world(tmp_path, body, *steps, machine=machine)
    assert (end.head.status, end.head.reason) == ("BUDGET_EXHAUSTED", "deadline")
    assert end.head.steps == 3
    assert 20_000 <= end.head.usage.active_ms < 30_000


def test_time_suspended_for_a_person_is_not_active_time(tmp_path: Path) -> None:
    """Fifty minutes of waiting do not count against sixty seconds."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        here.environment.advance(3000)
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        return await here.runtime.resume(waiting.task.id)

    end = run_world(tmp_path, body, LOOK_STEP, act_step(200))
    assert end.head.status == "SUCCEEDED"
    assert end.head.usage.active_ms < 1000


def test_dependency_failed(tmp_path: Path) -> None:
    """FAILED/dependency_failed: a read failed for good twice running."""
    steps = [{**LOOK_STEP, "with": {"thing": f"t{i}"}} for i in range(4)]
    end = ends(tmp_path, *steps, look=[NotSentError("no route", reason="unavailable")])
    assert (end.head.status, end.head.reason) == ("FAILED", "dependency_failed")
    assert end.head.steps == 2


def test_a_read_that_fails_once_is_an_observation(tmp_path: Path) -> None:
    """The model is told, and goes on."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        rows = await here.rows(end, "call")
        assert [(r["outcome"], r["attempt"]) for r in rows[:3]] == [("failed", 1), ("failed", 2), ("ok", 1)]
        assert len({r["request_id"] for r in rows}) == len(rows), "each attempt has an id of its own"
        return end

    error = NotSentError("no route", reason="unavailable")
    end = run_world(tmp_path, body, LOOK_STEP, LOOK_STEP, act_step(), look=[error, error, {"good": True}])
    assert end.head.status == "SUCCEEDED"


def test_model_failed(tmp_path: Path) -> None:
    """FAILED/model_failed after four attempts, which cost tokens and one step only."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        rows = await here.rows(end, "decision")
        assert [(r["attempt"], r["result"], r["error_class"]) for r in rows] == [
            (n, "failed", "model_unavailable") for n in (1, 2, 3, 4)
        ]
        assert all(r["input_tokens"] > 0 for r in rows), "an attempt of unknown cost books an estimate"
        return end

    end = run_world(tmp_path, body, {**LOOK_STEP, "fail": 9})
    assert (end.head.status, end.head.reason, end.head.steps) == ("FAILED", "model_failed", 1)


def test_inference_retries_wait_under_their_bounds_and_cost_no_step(tmp_path: Path) -> None:
    """Three failures and an answer: three waits of at most 0.5, 1 and 2 seconds, one step."""

    async def body(here: World) -> Checkpoint:
        waits: list[float] = []
        sleep = here.environment.sleep

        async def noted(seconds: float) -> None:
            waits.append(seconds)
            await sleep(seconds)

        here.environment.sleep = noted  # type: ignore[method-assign]
        end = await here.run()
        drawn = [w for w in waits if w < 10]
        assert len(drawn) == 3
        assert all(0 <= w <= bound for w, bound in zip(drawn, (0.5, 1.0, 2.0), strict=True))
        return end

    end = run_world(tmp_path, body, {**LOOK_STEP, "fail": 3}, act_step())
    assert (end.head.status, end.head.steps) == ("SUCCEEDED", 2)


def test_guard_error_ends_the_task_naming_guard_and_field(tmp_path: Path) -> None:
    """FAILED/guard_error: an error is never true and never false."""
    machine = MACHINE.replace("good: evidence.look.good", "good: evidence.look.note == 'fine'")
    end = ends(tmp_path, LOOK_STEP, act_step(), machine=machine)
    assert (end.head.status, end.head.reason) == ("FAILED", "guard_error")
    assert "good" in (end.head.output or "") and "note" in (end.head.output or "")


def test_guard_error_behind_an_outcome_keeps_the_record(tmp_path: Path) -> None:
    """The effect happened and is on record; then the task ends."""
    machine = MACHINE.replace("acted: effects", "acted: evidence.find.items.size() == 1 && effects")
    end = ends(tmp_path, LOOK_STEP, act_step(), machine=machine)
    assert (end.head.status, end.head.reason) == ("FAILED", "guard_error")
    assert [e.status for e in end.effects] == ["executed"]
    assert [e.tool for e in end.evidence] == ["look", "act"]


def test_the_state_leaves_by_evidence_in_the_same_step(tmp_path: Path) -> None:
    """DENIED/bad_thing as soon as the evidence says so."""
    end = ends(tmp_path, LOOK_STEP, act_step(), look=[BAD])
    assert (end.head.status, end.head.reason, end.head.version, end.head.steps) == ("DENIED", "bad_thing", 1, 1)


def test_refused_by_the_service(tmp_path: Path) -> None:
    """FAILED with the service's reason: the effect is rejected, nothing is sent again."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert len(here.tools["act"].calls) == 1
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), act=[RefusedByServiceError("no", reason="rejected")])
    assert (end.head.status, end.head.reason) == ("FAILED", "rejected")
    assert [e.status for e in end.effects] == ["rejected"]


def test_nothing_could_be_sent(tmp_path: Path) -> None:
    """FAILED/unavailable by `blocked`: the effect is abandoned, nothing is reconciled."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert not here.tools["find"].calls
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), act=[NotSentError("no route", reason="unavailable")])
    assert (end.head.status, end.head.reason) == ("FAILED", "unavailable")
    assert [e.status for e in end.effects] == ["abandoned"]


def test_lost_and_found(tmp_path: Path) -> None:
    """Unknown, then found by key: one call, and the found result is the tool's evidence."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert len(here.tools["act"].calls) == 1
        assert here.tools["find"].calls[0].args == {"key": "act:box:10"}
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), act=[LOST], find=[ONE])
    assert end.head.status == "SUCCEEDED"
    assert [(e.status, e.receipt) for e in end.effects] == [("executed", {"id": "a1"})]
    assert end.evidence[-1].tool == "act"


def test_lost_and_absent_is_sent_again_under_the_same_key(tmp_path: Path) -> None:
    """Only a confirmed absence leads back to the call."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert [c.key for c in here.tools["act"].calls] == ["act:box:10", "act:box:10"]
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), act=[LOST, {"id": "a1"}], find=[NONE])
    assert end.head.status == "SUCCEEDED"
    assert [(e.status, e.attempt) for e in end.effects] == [("executed", 2)]


def test_lost_and_absent_for_ever_is_bounded_by_at_most(tmp_path: Path) -> None:
    """Three calls, as the manifest says, then blocked/at_most; the history says why of each."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert len(here.tools["act"].calls) == 3
        told = [(r["status"], r["reason"]) for r in await here.rows(end, "effect_event")]
        once = [("intended", None), ("unknown", "unavailable"), ("proposed", "absent")]
        assert told == [("proposed", None), *once, *once, *once, ("abandoned", "at_most")]
        return end

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), act=[LOST], find=[NONE])
    assert (end.head.status, end.head.reason) == ("FAILED", "at_most")


@pytest.mark.parametrize(
    ("find", "reason"),
    [
        ([LOST], "unavailable"),
        ([{"items": [{"id": "a"}, {"id": "b"}]}], "in_doubt"),
        ([{"nonsense": 1}], "bad_result"),
    ],
    ids=["no answer", "two of them", "an answer of another form"],
)
def test_in_doubt_stops_for_a_person(tmp_path: Path, find: list, reason: str) -> None:
    """FAILED, and the effect stays open until a person settles it; never a second call."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert len(here.tools["act"].calls) == 1
        (row,) = await here.store.effects(only_open=True)
        assert (row["effect"].key, row["effect"].status) == ("act:box:10", "unknown")
        with pytest.raises(RefusedError) as refused:
            await here.runtime.resolve(end.task.id, "act:box:10", ANN, found=None, why="I looked")
        assert refused.value.reason == "own_task"
        settled = await here.runtime.resolve(end.task.id, "act:box:10", BOB, found={"id": "a9"}, why="I looked")
        assert (settled.effects[0].status, settled.effects[0].receipt) == ("executed", {"id": "a9"})
        assert not await here.store.effects(only_open=True)
        return settled

    end = run_world(tmp_path, body, LOOK_STEP, act_step(), act=[LOST], find=find)
    assert (end.head.status, end.head.reason) == ("FAILED", reason), "an ended task keeps its status"


def test_finish_without_success_is_refused_and_costs_its_step(tmp_path: Path) -> None:
    """BUDGET_EXHAUSTED at the limit, never a false success; and no sign of going in circles."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        told = await here.told(end)
        assert len(told) == 6
        assert all("completion rejected" in text and "acted" in text for text in told)
        return end

    step = {"call": "finish", "with": {"answer": "I have done it."}}
    end = run_world(tmp_path, body, *[step] * 6)
    assert (end.head.status, end.head.reason) == ("BUDGET_EXHAUSTED", "max_steps")


def test_text_without_a_call_is_never_completion(tmp_path: Path) -> None:
    """NO_PROGRESS: an invalid proposal, told why, corrected once, then over."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        told = await here.told(end)
        assert all("text_without_call" in text for text in told)
        return end

    end = run_world(tmp_path, body, *[{"say": "I have processed it."}] * 6)
    assert end.head.status == "NO_PROGRESS"
    assert end.head.steps == 4


@pytest.mark.parametrize(
    ("steps", "flag"),
    [
        ([LOOK_STEP] * 6, "repeated_action"),
        (
            [{**LOOK_STEP, "with": {"thing": t}} for t in ("8472", "08472", "8472 ", "0x2118", "8,472", "b")],
            "no_state_change",
        ),
        ([{"say": f"First I will look, then act ({i})."} for i in range(6)], "no_state_change"),
    ],
    ids=["repeat", "theatre", "plan only"],
)
def test_no_progress_after_one_correction(tmp_path: Path, steps: list, flag: str) -> None:
    """A flag brings one corrective observation; a flag after that ends the run."""

    async def body(here: World) -> Checkpoint:
        return await here.run()

    end = run_world(tmp_path, body, *steps)
    assert (end.head.status, end.head.reason) == ("NO_PROGRESS", flag)


def test_oscillation_between_two_calls(tmp_path: Path) -> None:
    """A-B-A-B, although each answer is a little different."""
    steps = [LOOK_STEP, {"call": "look", "with": {"thing": "bag"}}] * 3
    answers = [{"good": True, "note": str(n)} for n in range(9)]
    end = ends(tmp_path, *steps, look=answers)
    assert (end.head.status, end.head.reason, end.head.steps) == ("NO_PROGRESS", "oscillation", 5)


def test_contradictory_observations_asked_again_and_again(tmp_path: Path) -> None:
    """Two tools disagree and the model keeps asking both: no new fact comes of it."""
    machine = MACHINE.replace("look: stay", "look: stay\n      peek: stay")
    peek = LOOK.replace("tool: look", "tool: peek")

    steps = [LOOK_STEP, {"call": "peek", "with": {"thing": "box"}}] * 3
    end = ends(tmp_path, *steps, machine=machine, texts=(LOOK, peek, ACT, FIND), peek=[{"good": True, "note": "no"}])
    assert end.head.status == "NO_PROGRESS"


def test_progress_after_the_correction_is_forgiven(tmp_path: Path) -> None:
    """The model lost track, was told, and found its way."""
    end = ends(tmp_path, LOOK_STEP, LOOK_STEP, LOOK_STEP, act_step())
    assert end.head.status == "SUCCEEDED"


def test_cancelled(tmp_path: Path) -> None:
    """CANCELLED by its own actor while it waits; the request is void and the effect abandoned."""

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        with pytest.raises(RefusedError):
            await here.runtime.cancel(waiting.task.id, EVE)
        return await here.runtime.cancel(waiting.task.id, ANN)

    end = run_world(tmp_path, body, LOOK_STEP, act_step(200))
    assert (end.head.status, end.head.reason) == ("CANCELLED", "cancelled")
    assert [a.status for a in end.approvals] == ["void"]
    assert [e.status for e in end.effects] == ["abandoned"]


def test_cancel_while_an_effect_is_open_is_remembered(tmp_path: Path) -> None:
    """Money moves: the task is not over before it is known whether it did."""

    async def body(here: World) -> Checkpoint:
        async def cancelled_meanwhile(_request: object) -> object:
            (task,) = await here.store.tasks()
            await here.runtime.cancel(task["id"], ANN)
            return LOST

        here.tools["act"].plays[:] = [cancelled_meanwhile]
        end = await here.run()
        assert len(here.tools["find"].calls) == 1
        return end

    machine = MACHINE.replace("then: {found: SUCCEEDED,", "then: {found: LOOKING,")
    end = run_world(tmp_path, body, LOOK_STEP, act_step(), machine=machine, find=[ONE])
    assert (end.head.status, end.head.reason) == ("CANCELLED", "cancelled_after_effect")
    assert [e.status for e in end.effects] == ["executed"]


def test_not_verified(tmp_path: Path) -> None:
    """A row to SUCCEEDED while `success` does not hold ends FAILED/not_verified; the effect is on record."""
    machine = MACHINE.replace("success: [acted]", "success: [acted, bad]")
    end = ends(tmp_path, LOOK_STEP, act_step(), machine=machine)
    assert (end.head.status, end.head.reason) == ("FAILED", "not_verified")
    text = "has(evidence.look) && !evidence.look.good"
    assert end.head.output == f"`success` does not hold: `bad` is false: {text}"
    assert [e.status for e in end.effects] == ["executed"]


def test_crashing(tmp_path: Path) -> None:
    """FAILED/crashing after ten lost leases running."""

    async def body(here: World) -> Checkpoint:
        started = await here.runtime.start("tiny", {"thing": "box"}, ANN)
        for _ in range(11):
            await here.store.claim(started.task.id, here.environment.process(), 60)
            here.environment.advance(61)
        return await here.runtime.resume(started.task.id)

    end = run_world(tmp_path, body, LOOK_STEP)
    assert (end.head.status, end.head.reason) == ("FAILED", "crashing")


def test_a_number_that_is_whole_is_still_a_number(tmp_path: Path) -> None:
    """2.0 is stored as 2; a guard that computes with it computes with floats."""
    look = LOOK.replace("good: {type: boolean}", "good: {type: boolean}\n  weight: {type: number}")
    machine = MACHINE.replace("good: evidence.look.good", "good: evidence.look.weight * 1.5 + 0.5 >= 3.5")
    answer = {"good": True, "weight": 2.0}
    end = ends(tmp_path, LOOK_STEP, act_step(), machine=machine, texts=(look, ACT, FIND), look=[answer])
    assert end.head.status == "SUCCEEDED", end.head.output
