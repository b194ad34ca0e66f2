"""Many processes on one file: nothing is lost, nobody starves, and a process that dies takes nothing with it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from unit.store.making import begun, committed, full_step, new_task, on_loop
from unit.store.test_store_chain import first_fault
from unit.store.workers import children

from statemachine_agent.store.sqlite import SqliteStore

PROCESSES = 8
COMMITS = 200


def checked(path: Path) -> sqlite3.Connection:
    """The file, its chains followed and its pages checked."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    assert first_fault(connection) is None
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return connection


def test_eight_processes_commit_to_tasks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass
    names = [f"task-{n}" for n in range(PROCESSES)]
    with children(*(("commit_own", path, name, COMMITS) for name in names)) as all_of_them:
        for child in all_of_them:
            child.say()
        moments = [child.result() for child in all_of_them]
    with closing(checked(path)) as connection:
        versions = dict(connection.execute("SELECT id, version FROM task").fetchall())
        count = connection.execute("SELECT count(*) FROM evidence").fetchone()[0]
    assert versions == dict.fromkeys(names, COMMITS)
    assert count == PROCESSES * COMMITS
    start, end = max(m[0] for m in moments), min(m[-1] for m in moments)
    shares = [sum(start <= moment <= end for moment in m) for m in moments]
    longest = max(b - a for m in moments for a, b in itertools.pairwise(m))
    seconds = max(m[-1] for m in moments) - min(m[0] for m in moments)
    print(
        f"{PROCESSES}×{COMMITS} commits in {seconds:.1f} s; while all were at work they made"
        f" {min(shares)} to {max(shares)} each; the longest wait of one commit was {longest * 1000:.0f} ms"
    )
    assert longest < 5.0


@on_loop
async def test_eight_processes_fight_for_one_task(tmp_path: Path) -> None:
    path, each = tmp_path / "tasks.db", 25
    with SqliteStore(path) as store:
        await store.create(new_task())
        with children(*([("fight", path, "task-1", each)] * PROCESSES)) as all_of_them:
            for child in all_of_them:
                child.say()
            results = [child.result() for child in all_of_them]
        assert [r["done"] for r in results] == [each] * PROCESSES
        print(f"found it held, each process: {[r['held'] for r in results]} times")
        assert (await store.load("task-1")).head.version == PROCESSES * each
        rows = [r for r in await store.history("task-1") if r["table"] == "checkpoint"]
        assert [r["version"] for r in rows] == list(range(PROCESSES * each + 1))
        tokens = [r["token"] for r in rows]
        assert tokens == sorted(tokens) and len(set(tokens)) == len(tokens)  # one claim, one commit
        assert store._reader.execute("SELECT reclaims, owner FROM lease").fetchone()[:] == (0, None)
    checked(path).close()


@on_loop
async def test_a_reader_sees_only_committed_states_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with SqliteStore(path) as store:
        task, lease = await begun(store)
        with children(("read", path, "task-1", 1000)) as (reader,):
            reader.say()
            for number in range(1, 41):
                assert await asyncio.to_thread(reader.hear) == "25 more"
                reader.say()
                task = await committed(store, task, lease, *full_step(number, {"n": number}))
            *faults, last = reader.result()
    assert faults == []
    assert last in ("last 39", "last 40")  # the fortieth may have come after the last look


@on_loop
async def test_a_process_killed_while_it_commits_loses_nothing_that_was_said_to_be_durable(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with SqliteStore(path) as store:
        await store.create(new_task())
    with children(("nursery", path, "task-1")) as (nursery,):
        for number in range(50):
            nursery.say()
            pid = int(nursery.hear())
            said = [int(nursery.hear()) for _ in range(number % 3 + 1)]
            os.kill(pid, signal.SIGKILL)  # somewhere in the next commit
            while (line := nursery.hear()) != "dead":
                said.append(int(line))
            with closing(checked(path)) as connection:
                version, reclaims = connection.execute("SELECT version, reclaims FROM task, lease").fetchone()
                numbers = [r[0] for r in connection.execute("SELECT version FROM checkpoint ORDER BY key")]
            assert said[-1] <= version <= said[-1] + 1  # it may have got one further than it could say
            assert numbers == list(range(version + 1))
            assert reclaims == number
