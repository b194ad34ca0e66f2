"""Ends that few tasks come to: what changed between the proposal and the call, and what other tasks did meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.errors import LeaseLostError
from statemachine_agent.loop.context import LEASE, Event
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError
from support.playing import play, swap, to_its_end
from support.world import ACT, BAD, BOB, DONE, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, World, act_step

LOST = LostError("the line went dead", reason="timeout")
CHECKED = ACT + "precondition: {tool: look, with: {thing: args.thing}, holds: result.good, reason: gone}\n"
FINDING = MACHINE[MACHINE.index("  FINDING:") :]
ACTING = MACHINE[MACHINE.index("    call: act\n") : MACHINE.index("  FINDING:")]
#: what cannot be taken back and cannot be looked for either
IRREVERSIBLE = swap(
    ACT[: ACT.index("idempotency:")]
    + "idempotency: {key: 'act:{thing}:{amount}'}\napproval: [{by: boss, because: x}]\n",
    ("effect: write", "effect: irreversible"),
)


def ending(task: Checkpoint) -> tuple[str, str | None]:
    return str(task.head.status), task.head.reason


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{unless: first, refuse: only once}", "only once"),
        ("{unless: first, goto: DENIED}", "another row than the one that accepted it holds now"),
    ],
    ids=["refused by now", "another row holds"],
)
def test_stale_proposal(tmp_path: Path, row: str, said: str) -> None:
    """What was accepted on Monday's facts is judged again on those of the call; nobody's yes makes up for it."""
    machine = swap(
        MACHINE,
        ("guards:\n", "guards:\n  first: visits.ASKING == 0\n"),
        ("        - {goto: PROPOSED}", f"        - {row}\n        - {{goto: PROPOSED}}"),
    )

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        end = await here.runtime.resume(waiting.task.id)
        assert not here.tools["act"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(200), machine=machine)
    assert ending(end) == ("FAILED", "stale_proposal")
    assert (end.head.output, [e.status for e in end.effects]) == (said, ["abandoned"])


def meanwhile(here: World, tasks: list[Checkpoint]) -> None:
    """While the first task reads its precondition, a second one does the same thing to its end."""

    async def second(_request: object) -> object:
        here.tools["look"].plays[:] = [GOOD]
        tasks.append(await here.run())
        return GOOD

    here.tools["look"].plays[:] = [GOOD, second]


def test_key_taken(tmp_path: Path) -> None:
    """Two tasks about to send the same effect: one of them does, whatever the order in which they looked."""

    async def body(here: World) -> tuple[Checkpoint, Checkpoint]:
        others: list[Checkpoint] = []
        meanwhile(here, others)
        end = await here.run()
        assert [c.key for c in here.tools["act"].calls] == ["act:box:10"]
        rows = await here.rows(end, "call")
        assert [(r["purpose"], r["effect_key"]) for r in rows] == [("step", None), ("precondition", "act:box:10")]
        return end, others[0]

    end, other = play(tmp_path, body, LOOK_STEP, act_step(), texts=(LOOK, CHECKED, FIND))
    assert (ending(other), ending(end)) == (("SUCCEEDED", "completed"), ("FAILED", "key_taken"))
    assert end.head.output == "the effect `act:box:10` belongs to another task: nothing was written"
    assert [e.status for e in end.effects] == ["abandoned"]


def twice(tmp_path: Path, act: list[Any], *, change: str = "") -> tuple[Checkpoint, Checkpoint]:
    """Two tasks with the same action, one after the other; `change` edits the store in between."""

    async def body(here: World) -> tuple[Checkpoint, Checkpoint]:
        first = await here.run()
        if change:
            with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
                connection.execute(change)
                connection.commit()
        second = await here.run()
        assert len(here.tools["act"].calls) == 1
        return first, second

    return play(tmp_path, body, LOOK_STEP, act_step(), act=act, find=[{"items": [DONE, DONE]}])


def test_effect_done(tmp_path: Path) -> None:
    """Another task did it, and what the service answered is lost: it is neither done again nor taken for granted."""
    first, second = twice(tmp_path, [DONE], change="UPDATE effect SET receipt_hash = NULL")
    assert ending(second) == ("FAILED", "effect_done")
    assert second.head.output == f"`act:box:10` was executed by task {first.task.id}"


def test_effect_open(tmp_path: Path) -> None:
    """Another task of the same tenant sent it, and nobody knows what became of it: not sent again, and told by whom."""
    first, second = twice(tmp_path, [LOST])
    assert ending(second) == ("FAILED", "effect_open")
    assert second.head.output == f"the effect `act:box:10` of task {first.task.id} is still unknown"


def test_key_reused(tmp_path: Path) -> None:
    """One key for two amounts is a fault of the manifest: the second amount is not what the first receipt says."""
    act = swap(ACT, ("key: act:{thing}:{amount}", "key: act:{thing}"))
    amounts = iter((10, 20))

    async def body(here: World) -> tuple[Checkpoint, Checkpoint]:
        first = await here.run()
        second = await here.run()
        assert len(here.tools["act"].calls) == 1
        return first, second

    class Bargains:
        spec = "test"

        async def decide(self, prompt: Any) -> Any:
            from statemachine_agent import ScriptedModel  # noqa: PLC0415

            return await ScriptedModel.of(LOOK_STEP, act_step(next(amounts) if prompt.step > 1 else 1)).decide(prompt)

    first, second = play(tmp_path, body, model=Bargains(), texts=(LOOK, act, FIND))
    assert (ending(first), ending(second)) == (("SUCCEEDED", "completed"), ("FAILED", "key_reused"))
    assert second.head.output == f"the key `act:box` was used with other arguments by task {first.task.id}"


READS = "    call: look\n    with: {thing: evidence.look.note}\n    then: {ok: FAILED, failed: FAILED}\n"


@pytest.mark.parametrize(
    "pairs",
    [(("with: proposal", "with: {thing: evidence.look.note, amount: 10}"),), ((ACTING, READS), (FINDING, ""))],
    ids=["a write", "a read"],
)
def test_unresolved(tmp_path: Path, pairs: tuple[tuple[str, str], ...]) -> None:
    """A state's own arguments refer to what the service left out: nothing is called, and the path is named."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert (len(here.tools["act"].calls), len(here.tools["look"].calls)) == (0, 1)
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), machine=swap(MACHINE, *pairs))
    assert ending(end) == ("FAILED", "unresolved")
    assert end.head.output == "`evidence.look.note` is not there (`note` was not found)"


def test_invalid_arguments(tmp_path: Path) -> None:
    """A state's own arguments do not fit the manifest: blocked, with the argument named."""
    machine = swap(MACHINE, ("with: proposal", "with: {thing: evidence.look.note, amount: 10}"))
    act = swap(ACT, ("thing: {type: string}", 'thing: {type: string, pattern: "^[a-z]+$"}'))
    look = [{"good": True, "note": "BOX 7"}]
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(), machine=machine, texts=(LOOK, act, FIND), look=look)
    assert ending(end) == ("FAILED", "invalid_arguments")
    assert end.head.output == 'thing: "BOX 7" does not match "^[a-z]+$"'


def test_worker_lost(tmp_path: Path) -> None:
    """The worker went between intent and record: whoever resumes says so, and sends nothing that may have been sent."""
    environment = SimulatedEnvironment()

    def stand_still(event: Event) -> None:
        if event.kind == "committed" and event.data["transaction"].cause == "intent":
            environment.advance(LEASE)

    async def body(here: World) -> Checkpoint:
        here.runtime.watch(stand_still)
        with pytest.raises(LeaseLostError):
            waiting = await here.run()
            await here.runtime.approve(waiting.approvals[0].id, BOB)
            await here.runtime.resume(waiting.task.id)
        (task,) = await here.store.tasks()
        end = await here.runtime.resume(task["id"])
        assert not here.tools["act"].calls
        return end

    machine = swap(MACHINE, ("unknown: FINDING}", "unknown: FAILED}"), (FINDING, ""))
    texts = (LOOK, IRREVERSIBLE, FIND)
    end = play(tmp_path, body, LOOK_STEP, act_step(), machine=machine, texts=texts, environment=environment)
    assert ending(end) == ("FAILED", "worker_lost")
    assert [(e.status, e.reason) for e in end.effects] == [("unknown", "worker_lost")]


@pytest.mark.parametrize(
    ("look", "holds", "reason", "said"),
    [
        (BAD, "result.good", "gone", "the precondition does not hold: result.good"),
        (LOST, "result.good", "precondition_unreadable", "the precondition could not be read: the line went dead"),
        (GOOD, 'result.note == "x"', "precondition_unreadable", "there is no `result.note`"),
    ],
    ids=["no", "no answer", "neither yes nor no"],
)
def test_precondition_unreadable(tmp_path: Path, look: Any, holds: str, reason: str, said: str) -> None:
    """Read again just before the call: what is not surely right sends nothing, and the read is on record."""
    act = swap(CHECKED, ("holds: result.good", f"holds: '{holds}'"))

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert not here.tools["act"].calls
        rows = await here.rows(end, "call")
        assert [(r["purpose"], r["effect_key"]) for r in rows][1] == ("precondition", "act:box:10")
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), texts=(LOOK, act, FIND), look=[GOOD, look])
    assert ending(end) == ("FAILED", reason)
    assert said in (end.head.output or "")


@pytest.mark.parametrize(
    ("given", "said"),
    [("{thing: args.note}", "`args.note` is not there"), ("{thing: args.note, more: args.note}", "`args.note`")],
    ids=["not given", "twice"],
)
def test_precondition_unreadable_where_it_cannot_even_be_asked(tmp_path: Path, given: str, said: str) -> None:
    """An optional argument that the precondition refers to, and that nobody gave."""
    act = swap(
        CHECKED,
        ("args:\n", "args:\n  note: {type: string, optional: true}\n"),
        ("{thing: args.thing}, holds", f"{given}, holds"),
    )
    look = swap(LOOK, ("args:\n", "args:\n  more: {type: string, optional: true}\n"))
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(), texts=(look, act, FIND))
    assert ending(end) == ("FAILED", "precondition_unreadable")
    assert said in (end.head.output or "")


def test_precondition_unreadable_where_the_look_up_takes_no_such_argument(tmp_path: Path) -> None:
    """What is looked up by a part number is not looked up by a sentence."""
    look = swap(LOOK, ("thing: {type: string}", "thing: {type: string, maxLength: 3}"))
    act = swap(
        CHECKED,
        ("with: {thing: args.thing}", "with: {thing: args.where}"),
        ("args:\n", "args:\n  where: {type: string}\n"),
    )
    step = {"call": "act", "with": {"thing": "box", "amount": 10, "where": "in the cellar"}}

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert (len(here.tools["look"].calls), len(here.tools["act"].calls)) == (1, 0)
        return end

    end = play(tmp_path, body, LOOK_STEP, step, texts=(look, act, FIND))
    assert ending(end) == ("FAILED", "precondition_unreadable")
    assert "`look`: " in (end.head.output or "")
