"""States within states and regions side by side, run through the whole runtime in a simulated world."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from statemachine_agent import ScriptedModel
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.records import Checkpoint, EffectStatus
from statemachine_agent.tools.outcome import LostError
from support.world import ACT, ANN, BOB, DONE, FIND, GOOD, LOOK, World, act_step, simulated, world

HEAD = """
machine: tiny
version: 1
summary: Look at a thing from two sides.
input: {thing: {type: string}}
limits: {steps: 12, active_time: 60s}
"""
ASK_ABOUT = LOOK.replace("tool: look", "tool: ask_about")

#: an investigation in two regions of a model each; one of them also acts
TWO = (
    HEAD
    + """
guards:
  looked: has(evidence.look)
  asked_about: has(evidence.ask_about)
  acted: effects.exists(e, e.tool == "act" && e.status in ["executed", "verified"])
signals: {go: {}}
success: [looked, asked_about]
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT:
        initial: LOOKING
        states:
          LOOKING:
            choose: {look: stay, act: PROPOSED}
          PROPOSED:
            route:
              - {when: approval_required, goto: ASKING}
              - {goto: ACTING}
          ASKING:
            approval: {of: act, by: boss, expires: 1h}
            then: {approved: ACTING, rejected: done, expired: done}
          ACTING:
            call: act
            with: proposal
            then: {ok: done, failed: done, blocked: done, unknown: FINDING}
          FINDING:
            reconcile: act
            then: {found: done, absent: done, failed: done}
      RIGHT:
        initial: WONDERING
        states:
          WONDERING:
            choose: {ask_about: stay}
            then: [{when: asked_about, goto: RESTING}]
          RESTING:
            wait: {signal: go, expires: 2h}
            then: {received: done, expired: done}
    then:
      done:
        - {when: acted, goto: SUCCEEDED}
        - {goto: DENIED, reason: not_done}
"""
)
TOOLS = (LOOK, ASK_ABOUT, ACT, FIND)
LOOK_STEP = {"call": "look", "with": {"thing": "box"}}
ASK_STEP = {"call": "ask_about", "with": {"thing": "box"}}


def run(folder: Path, body: Any, *steps: Any, machine: str = TWO, texts: tuple[str, ...] = TOOLS, **how: Any) -> Any:
    async def main() -> Any:
        async with world(folder, *steps, machine=machine, texts=texts, ask_about=[GOOD], **how) as here:
            return await body(here)

    return simulated(main)


def moves(rows: list[Any]) -> list[tuple[str, str]]:
    return [(r["source"], r["target"]) for r in rows]


def test_two_models_take_turns_and_what_ends_first_waits_for_the_other(tmp_path: Path) -> None:
    async def body(w: World) -> None:
        rests = await w.run()
        assert rests.head.configuration == ("LEFT_done", "RESTING")
        assert (rests.head.status, rests.head.steps) == ("WAITING", 3)
        decided = [r["state"] for r in await w.rows(rests, "decision")]
        assert decided == ["LOOKING", "WONDERING", "LOOKING"]
        end = await w.runtime.signal(rests.task.id, "go", {}, ANN)
        assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
        last = moves(await w.rows(end, "transition"))[-2:]
        assert last == [("RESTING", "RIGHT_done"), ("BOTH", "SUCCEEDED")]

    run(tmp_path, body, LOOK_STEP, ASK_STEP, act_step())


def test_one_region_waits_for_a_person_while_the_other_goes_on(tmp_path: Path) -> None:
    async def body(w: World) -> None:
        rests = await w.run()
        assert rests.head.configuration == ("ASKING", "RESTING")
        assert rests.head.status == "AWAITING_APPROVAL"
        assert {t.state for t in rests.timers} == {"ASKING", "RESTING"}
        waits = await w.runtime.signal(rests.task.id, "go", {}, ANN)
        assert waits.head.configuration == ("ASKING", "RIGHT_done")
        assert waits.approvals[0].status == "open", "a move of one region leaves the other's request alone"
        await w.runtime.approve(rests.approvals[0].id, BOB)
        end = await w.runtime.resume(rests.task.id)
        assert (end.head.status, len(w.tools["act"].calls)) == ("SUCCEEDED", 1)

    run(tmp_path, body, LOOK_STEP, ASK_STEP, act_step(200))


def test_the_timers_of_two_regions_fire_each_for_its_own(tmp_path: Path) -> None:
    async def body(w: World) -> None:
        rests = await w.run()
        w.environment.advance(timedelta(minutes=61).total_seconds())
        first = await w.runtime.resume(rests.task.id)
        assert first.head.configuration == ("LEFT_done", "RESTING")
        assert first.approvals[0].status == "expired"
        w.environment.advance(timedelta(hours=1).total_seconds())
        end = await w.runtime.resume(rests.task.id)
        assert (end.head.status, end.head.reason) == ("DENIED", "not_done")

    run(tmp_path, body, LOOK_STEP, ASK_STEP, act_step(200))


def test_a_tool_of_the_other_region_is_not_offered(tmp_path: Path) -> None:
    """Whose turn it is decides what can be proposed; the other region's tool is no choice of this one."""

    async def body(w: World) -> list[str]:
        end = await w.run()
        return [r["error_class"] for r in await w.rows(end, "decision")]

    errors = run(tmp_path, body, ASK_STEP, ASK_STEP, LOOK_STEP)
    assert errors[:2] == ["illegal_tool", None]


def test_an_open_effect_of_one_region_is_looked_up_before_the_other_decides(tmp_path: Path) -> None:
    lost = LostError("the line went dead", reason="unavailable")

    async def body(w: World) -> None:
        rests = await w.run()
        assert [e.status for e in rests.effects] == [EffectStatus.EXECUTED]
        kinds = [r["purpose"] for r in await w.rows(rests, "call")]
        assert kinds == ["step", "call", "reconcile", "step"]

    wrong = {"call": "ask_about", "with": {"thing": 1}}
    run(tmp_path, body, LOOK_STEP, wrong, act_step(), ASK_STEP, act=[lost], find=[{"items": [DONE]}])


def test_cancelled_as_a_whole(tmp_path: Path) -> None:
    async def body(w: World) -> Checkpoint:
        rests = await w.run()
        return await w.runtime.cancel(rests.task.id, ANN)

    end = run(tmp_path, body, LOOK_STEP, ASK_STEP, act_step(200))
    assert (end.head.status, end.head.configuration, end.timers) == ("CANCELLED", ("CANCELLED",), ())
    assert end.approvals[0].status == "void"


def test_a_budget_ends_all_regions_with_one_transition(tmp_path: Path) -> None:
    async def body(w: World) -> None:
        end = await w.run()
        assert (end.head.status, end.head.reason) == ("BUDGET_EXHAUSTED", "max_steps")
        last = [r for r in await w.rows(end, "transition") if r["event"] == "exit.budget"]
        assert len(last) == 1

    short = TWO.replace("steps: 12", "steps: 2")
    run(tmp_path, body, LOOK_STEP, {"call": "ask_about", "with": {"thing": 1}}, machine=short)


NESTED = (
    HEAD
    + """
guards:
  looked: has(evidence.look)
  twice: visits.OUTER >= 2
success: []
initial: OUTER
states:
  OUTER:
    initial: INNER
    states:
      INNER:
        initial: LOOKING
        states:
          LOOKING: {choose: {look: done}}
        then: {done: SECOND}
      SECOND: {route: done}
    then:
      done:
        - {when: twice, goto: SUCCEEDED}
        - {goto: OUTER}
"""
)


def test_a_state_of_states_is_entered_at_its_first_and_left_when_it_is_done(tmp_path: Path) -> None:
    """Going to it again enters it again: from its first state, and counted."""

    async def body(w: World) -> Checkpoint:
        end = await w.run()
        names = ["INNER", "SECOND", "OUTER"]
        assert [(s, t) for s, t in moves(await w.rows(end, "transition")) if s in names] == [
            ("INNER", "SECOND"), ("SECOND", "OUTER_done"), ("OUTER", "OUTER"),
            ("INNER", "SECOND"), ("SECOND", "OUTER_done"), ("OUTER", "SUCCEEDED"),
        ]  # fmt: skip
        return end

    end = run(tmp_path, body, LOOK_STEP, LOOK_STEP, machine=NESTED)
    assert end.head.status == "SUCCEEDED"
    assert {n: end.head.visits[n] for n in ("OUTER", "INNER", "LOOKING", "SECOND")} == dict.fromkeys(
        ("OUTER", "INNER", "LOOKING", "SECOND"), 2
    )


def test_each_model_is_told_of_its_own_proposals(tmp_path: Path) -> None:
    """What the left one did wrong is told to the left one, though the right one decides in between."""
    script = ScriptedModel.of({"call": "nothing"}, {"call": "look", "with": {"thing": "box"}}, LOOK_STEP, ASK_STEP)
    told: list[tuple[str, str | None]] = []

    class Model:
        spec = "listens"

        async def decide(self, prompt: Prompt) -> Reply:
            told.append((prompt.state, prompt.observation))
            return await script.decide(prompt)

    run(tmp_path, lambda w: w.run(), model=Model())
    assert [state for state, _ in told[:4]] == ["LOOKING", "WONDERING", "LOOKING", "WONDERING"]
    first, second, third, fourth = [text or "" for _, text in told[:4]]
    assert (first, second) == ("", "")
    assert "`nothing`" in third
    assert "`look`" in fourth
    assert "`nothing`" not in fourth
