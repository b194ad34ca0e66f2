"""Two real processes at the same task at the same moment: one effect each time, and the loser stops before a call of its own.

Both report that they are ready and are let go by one pipe, fifty times at each point. How often both reached the point is
printed; a test in which they never did fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Identity, Reach, Runtime, SqliteStore
from statemachine_agent.records import Checkpoint
from support import forks
from support.cli import DEADLINE
from support.racer import racing_catalogue, racing_model
from support.racing_tools import entries
from support.refund import ROOT

ROUNDS = 50
ANN = Identity("ann", "asserted")


class Racer:
    """One of the two."""

    def __init__(self, db: Path, gate: int, hold: int, ledger: Path) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        self.process = forks.Popen(
            [sys.executable, "-m", "support.racer", str(db), str(gate), str(hold)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[gate, hold],
            env={**os.environ, "PYTHONPATH": path, "RACE_LEDGER": str(ledger)},
        )

    def tell(self, task: str, gate: str | None, **more: Any) -> None:
        self.process.stdin.write(json.dumps({"task": task, "gate": gate, **more}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
        assert ready, "the racer says nothing"
        line = self.process.stdout.readline()
        assert line, f"the racer ended with {self.process.wait(5)}"
        return json.loads(line)


class Track:
    """Store, ledger and two racers."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "tasks.db"
        self.ledger = folder / "ledger"
        self.inner, self.outer = os.pipe()
        self.held, self.hold = os.pipe()
        self.racers = [Racer(self.db, self.inner, self.held, self.ledger) for _ in range(2)]

    def tasks(self, count: int) -> list[str]:
        async def main() -> list[str]:
            with SqliteStore(self.db) as store:
                reach = Reach(python_packages=frozenset({"support"}))
                async with Runtime(racing_catalogue(), store, racing_model(), reach=reach) as runtime:
                    made = [await runtime.start("tiny", {"thing": f"box{n}"}, ANN) for n in range(count)]
                    return [m.task.id for m in made]

        return asyncio.run(main())

    def waiting(self, count: int) -> list[Checkpoint]:
        """Tasks that wait for an approval."""

        async def main() -> list[Checkpoint]:
            with SqliteStore(self.db) as store:
                reach = Reach(python_packages=frozenset({"support"}))
                async with Runtime(racing_catalogue(), store, racing_model(200), reach=reach) as runtime:
                    return [await runtime.run("tiny", {"thing": f"box{n}"}, ANN) for n in range(count)]

        return asyncio.run(main())

    def answers(self, request: str) -> list[str]:
        """What happened to a request, in order."""
        with closing(sqlite3.connect(self.db, timeout=30)) as connection:
            found = connection.execute(
                "SELECT event FROM approval_event WHERE approval_id = ? ORDER BY key", (request,)
            )
            return [event for (event,) in found]

    def first_to_speak(self) -> Racer:
        """Whichever has something to say."""
        ready, _, _ = select.select([racer.process.stdout for racer in self.racers], [], [], DEADLINE)
        return next(racer for racer in self.racers if racer.process.stdout in ready)

    def let_go(self) -> None:
        os.write(self.outer, b"xx")

    def lose_lease(self, task: str) -> None:
        """As if its time had run out: the owner lives, and somebody else may take over."""
        with sqlite3.connect(self.db, timeout=30) as connection:
            connection.execute(
                "UPDATE lease SET until = '2000-01-01T00:00:00.000000Z' WHERE task_no ="
                " (SELECT no FROM task WHERE id = ?)",
                (task,),
            )
        connection.close()

    def close(self) -> None:
        for racer in self.racers:
            racer.process.stdin.close()
            racer.process.kill()
            racer.process.wait(20)
            racer.process.stdout.close()
        for end in (self.inner, self.outer, self.held, self.hold):
            os.close(end)


@pytest.fixture
def track(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Track]:
    monkeypatch.setenv("RACE_LEDGER", str(tmp_path / "ledger"))
    found = Track(tmp_path)
    yield found
    found.close()


def judge(track: Track, tasks: list[str], results: list[list[dict[str, Any]]], met: int, point: str) -> None:
    print(f"{point}: both reached the point in {met} of {len(tasks)} rounds")
    assert met == len(tasks)
    keys = [e["thing"] for e in entries()]
    assert len(keys) == len(set(keys)) == len(tasks), "one effect for each task"
    for pair in results:
        winners = [r for r in pair if r["done"]["code"] == 0]
        losers = [r for r in pair if r["done"]["code"] != 0]
        assert [r["done"]["status"] for r in winners] == ["SUCCEEDED"]
        assert [r["done"]["code"] for r in losers] == [20]


def test_at_the_claim(track: Track) -> None:
    """One claims; the other exits 20 before any call of its own: the first is held inside its tool until then."""
    tasks, results, met = track.tasks(ROUNDS), [], 0
    for task in tasks:
        for racer in track.racers:
            racer.tell(task, "claim", hold=True)
        met += all(racer.hear() == {"ready": "claim"} for racer in track.racers)
        track.let_go()
        loser = track.first_to_speak()
        lost = loser.hear()
        assert (lost["done"]["code"], lost["calls"]) == (20, 0)
        os.write(track.hold, b"x")
        (winner,) = (racer for racer in track.racers if racer is not loser)
        results.append([lost, winner.hear()])
    judge(track, tasks, results, met, "claim")


def test_at_the_intent(track: Track) -> None:
    """The first one's lease ran out and the second took over: the fencing token stops the first before it sends."""
    tasks, results, met = track.tasks(ROUNDS), [], 0
    for task in tasks:
        met += _both_at(track, task, "intent")
        track.let_go()
        results.append([racer.hear() for racer in track.racers])
        assert [r["done"]["code"] for r in results[-1]] == [20, 0]
        assert [r["calls"] for r in results[-1]] == [0, 1]
    judge(track, tasks, results, met, "intent")


def test_at_the_outcome(track: Track) -> None:
    """The first one has sent and cannot record it; the second finds it by key. Still one effect."""
    tasks, results, met = track.tasks(ROUNDS), [], 0
    for task in tasks:
        met += _both_at(track, task, "outcome")
        track.let_go()
        results.append([racer.hear() for racer in track.racers])
        assert [r["done"]["code"] for r in results[-1]] == [20, 0]
        assert [r["calls"] for r in results[-1]] == [1, 0]
    judge(track, tasks, results, met, "outcome")


def _both_at(track: Track, task: str, gate: str) -> bool:
    first, second = track.racers
    first.tell(task, gate)
    there = first.hear() == {"ready": gate}
    track.lose_lease(task)
    second.tell(task, gate)
    return there and second.hear() == {"ready": gate}


def test_late_while_the_first_is_inside_the_tool(track: Track) -> None:
    """It is held: exit 20, no call."""
    first, second = track.racers
    (task,) = track.tasks(1)
    first.tell(task, "outcome")
    assert first.hear() == {"ready": "outcome"}
    second.tell(task, None)
    late = second.hear()
    assert (late["done"], late["calls"]) == ({"status": "held", "code": 20}, 0)
    os.write(track.outer, b"x")
    assert first.hear()["done"]["status"] == "SUCCEEDED"
    assert len(entries()) == 1


def test_approving_and_expiring_in_the_same_instant(track: Track) -> None:
    """The first commit wins: the request is approved or has expired, never both; a yes that lost is `too_late`."""
    met, won = 0, {"approved": 0, "expired": 0}
    for task in track.waiting(ROUNDS):
        (request,) = task.approvals
        expires = datetime.fromisoformat(request.expires_at)
        approver, worker = track.racers
        approver.tell(task.task.id, "claim", approve=request.id, now=str(expires - timedelta(microseconds=1)))
        worker.tell(task.task.id, "claim", now=str(expires))
        met += all(racer.hear() == {"ready": "claim"} for racer in track.racers)
        track.let_go()
        yes, expiry = (racer.hear() for racer in track.racers)
        (first, *later) = [event for event in track.answers(request.id) if event != "requested"]
        won[first] += 1
        if first == "expired":
            assert (yes["done"], later) == ({"status": "too_late", "code": 1}, ["refused"])
            assert expiry["done"] == {"status": "NEEDS_INPUT", "code": 0}
        else:
            assert yes["done"]["code"] == 0
            # the worker lost the claim; or it came after the yes, at whose end nothing may be done with it any more
            ends = {"held": [], "FAILED": ["void"]}
            assert later == ends[expiry["done"]["status"]]
    print(f"both reached the claim in {met} of {ROUNDS} rounds; first: {won}")
    assert met == ROUNDS
    assert entries() == [], "nobody acted on an approval that had expired"
