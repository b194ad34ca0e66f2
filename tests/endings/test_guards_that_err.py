"""A guard that errs, wherever it is asked: the task ends FAILED/guard_error, and what had happened stays on record."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.records import Checkpoint, EffectStatus
from statemachine_agent.tools.outcome import LostError
from support.world import ANN, BOB, LOOK_STEP, MACHINE, World, act_step, world

#: `look` gave no note, so this is neither true nor false
MACHINE_WITH_BROKEN = MACHINE.replace("guards:\n", 'guards:\n  broken: evidence.look.note == "x"\n')
LOST = LostError("the line went dead", reason="unavailable")


def machine(row: str, broken: str) -> str:
    assert MACHINE_WITH_BROKEN.count(row) == 1
    return MACHINE_WITH_BROKEN.replace(row, broken)


def in_world(folder: Path, body: Any, *steps: Any, **how: Any) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with world(folder, *steps, environment=environment, **how) as here:
            return await body(here)

    return environment.run(main())


def assert_guard_error(end: Checkpoint) -> None:
    assert (end.head.status, end.head.reason) == ("FAILED", "guard_error")
    assert "`broken`" in (end.head.output or "")


def test_with_an_open_effect_it_ends_at_once_and_the_effect_stays_open(tmp_path: Path) -> None:
    """Nothing else would settle it: the guard would err again at every resume. `sma resolve` does."""
    erring = machine("unknown: FINDING}", "unknown: [{when: broken, goto: FINDING}, {goto: FINDING}]}")
    end = in_world(tmp_path, lambda w: w.run(), LOOK_STEP, act_step(), machine=erring, act=[LOST])
    assert_guard_error(end)
    assert [(e.tool, e.status) for e in end.open_effects] == [("act", EffectStatus.UNKNOWN)]


def test_in_a_reconciliation(tmp_path: Path) -> None:
    """What was found is recorded before the guard is asked."""
    erring = machine("{found: SUCCEEDED,", "{found: [{when: broken, goto: SUCCEEDED}, {goto: FAILED}],")
    one = {"items": [{"id": "a1"}]}
    end = in_world(tmp_path, lambda w: w.run(), LOOK_STEP, act_step(), machine=erring, act=[LOST], find=[one])
    assert_guard_error(end)
    assert [e.status for e in end.effects] == [EffectStatus.EXECUTED]


def test_behind_a_yes(tmp_path: Path) -> None:
    """Who said yes is on record; nothing is sent."""
    erring = machine("{approved: ACTING,", "{approved: [{when: broken, goto: ACTING}, {goto: DENIED}],")

    async def body(w: World) -> tuple[Checkpoint, int, list[Any]]:
        asked = await w.run()
        end = await w.runtime.approve(asked.approvals[0].id, BOB)
        events = [r["event"] for r in await w.rows(end, "approval_event")]
        return end, len(w.tools["act"].calls), events

    end, calls, events = in_world(tmp_path, body, LOOK_STEP, act_step(200), machine=erring)
    assert_guard_error(end)
    assert (calls, events) == (0, ["requested", "approved", "void"])


def test_behind_a_no(tmp_path: Path) -> None:
    erring = machine("rejected: DENIED,", "rejected: [{when: broken, goto: DENIED}, {goto: DENIED}],")

    async def body(w: World) -> Checkpoint:
        asked = await w.run()
        return await w.runtime.reject(asked.approvals[0].id, BOB, why="no")

    assert_guard_error(in_world(tmp_path, body, LOOK_STEP, act_step(200), machine=erring))


def test_when_a_timer_fires(tmp_path: Path) -> None:
    erring = machine("expired: NEEDS_INPUT}", "expired: [{when: broken, goto: NEEDS_INPUT}, {goto: FAILED}]}")

    async def body(w: World) -> Checkpoint:
        asked = await w.run()
        w.environment.advance(timedelta(hours=2).total_seconds())
        return await w.runtime.resume(asked.task.id)

    assert_guard_error(in_world(tmp_path, body, LOOK_STEP, act_step(200), machine=erring))


def test_before_the_first_step(tmp_path: Path) -> None:
    """A machine that begins with a route: the task exists, ended, with the reason; the starter gets no traceback."""
    erring = machine(
        "initial: LOOKING\nstates:\n",
        "initial: R\nstates:\n  R: {route: [{when: broken, goto: LOOKING}, {goto: LOOKING}]}\n",
    )
    end = in_world(tmp_path, lambda w: w.run(ANN), LOOK_STEP, machine=erring)
    assert_guard_error(end)
    assert (end.head.version, end.head.steps) == (0, 0)


def test_four_hundred_routes_in_a_row_are_a_list_not_a_recursion(tmp_path: Path) -> None:
    rows = "".join(f"  R{i}: {{route: [{{goto: {f'R{i + 1}' if i < 399 else 'LOOKING'}}}]}}\n" for i in range(400))
    long = MACHINE.replace("initial: LOOKING\nstates:\n", f"initial: R0\nstates:\n{rows}")
    end = in_world(tmp_path, lambda w: w.run(ANN), LOOK_STEP, act_step(), machine=long)
    assert end.head.status == "SUCCEEDED"
