"""Who may work on a task: one at a time, until it lets go, its time runs out, or it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from unit.store.making import ELSEWHERE, HOUR, begun, new_task, on_loop, step

from statemachine_agent.environment import Environment, ProcessIdentity, SimulatedEnvironment
from statemachine_agent.errors import LeaseLostError, StoreError, TaskHeldError, UnknownTaskError
from statemachine_agent.store.sqlite import SqliteStore

OTHER = replace(ELSEWHERE, pid=4712)
#: says who it is, and waits until it is killed or its standard input ends
CHILD = """
import sys
from statemachine_agent.environment import Environment
me = Environment().process()
print(me.host, me.pid, me.started, sep="\\t", flush=True)
sys.stdin.read()
"""


@on_loop
async def test_a_held_task_is_not_given_away_and_a_released_one_is(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        _, lease = await begun(store)
        for somebody in (OTHER, ELSEWHERE):
            with pytest.raises(TaskHeldError, match="task-1 is being worked on by process 4711 on elsewhere"):
                await store.claim("task-1", somebody, HOUR)
        await store.release(lease)
        again = await store.claim("task-1", OTHER, HOUR)
        assert (again.token, again.owner, again.reclaims) == (2, OTHER, 0)
        with pytest.raises(UnknownTaskError):
            await store.claim("task-2", OTHER, HOUR)


@on_loop
async def test_a_lease_ends_at_its_instant_and_not_before(tmp_path: Path) -> None:
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        await store.create(new_task())
        await store.claim("task-1", ELSEWHERE, 60.0)
        clock.advance(59.999)
        with pytest.raises(TaskHeldError):
            await store.claim("task-1", OTHER, 60.0)
        clock.advance(0.001)
        assert (await store.claim("task-1", OTHER, 60.0)).reclaims == 1


@on_loop
async def test_a_heartbeat_holds_from_now_on(tmp_path: Path) -> None:
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        await store.create(new_task())
        lease = await store.claim("task-1", ELSEWHERE, 60.0)
        for _ in range(3):
            clock.advance(50)
            await store.heartbeat(lease, 60.0)
        clock.advance(59)
        with pytest.raises(TaskHeldError):
            await store.claim("task-1", OTHER, 60.0)
        await store.release(lease)
        with pytest.raises(LeaseLostError):
            await store.heartbeat(lease, 60.0)


@on_loop
async def test_a_late_worker_whose_task_nobody_took_may_still_commit(tmp_path: Path) -> None:
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        task, lease = await begun(store)
        clock.advance(10 * HOUR)
        await store.commit(step(task), lease)
        await store.heartbeat(lease, HOUR)
        with pytest.raises(TaskHeldError):
            await store.claim("task-1", OTHER, HOUR)


@on_loop
async def test_losses_are_counted_until_somebody_ends_in_good_order(tmp_path: Path) -> None:
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        await store.create(new_task())
        found = []
        for _ in range(4):
            lease = await store.claim("task-1", ELSEWHERE, 60.0)
            found.append((lease.token, lease.reclaims))
            clock.advance(60)
        assert found == [(1, 0), (2, 1), (3, 2), (4, 3)]
        await store.release(lease)
        lease = await store.claim("task-1", ELSEWHERE, 60.0)
        assert (lease.token, lease.reclaims) == (5, 0)


@on_loop
async def test_giving_back_a_lost_lease_takes_nothing_from_its_new_owner(tmp_path: Path) -> None:
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        task, lost = await begun(store)
        clock.advance(HOUR)
        mine = await store.claim("task-1", OTHER, HOUR)
        await store.release(lost)
        with pytest.raises(TaskHeldError):
            await store.claim("task-1", ELSEWHERE, HOUR)
        await store.commit(step(task), mine)


@on_loop
async def test_claims_and_heartbeats_raise_no_version(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        _, lease = await begun(store)
        await store.heartbeat(lease, HOUR)
        await store.release(lease)
        assert (await store.load("task-1")).head.version == 0
        assert len(await store.history("task-1")) == 2


@contextmanager
def another_process() -> Iterator[tuple[ProcessIdentity, Callable[[], None]]]:
    """A process that lives, and what kills it: dead, and not yet buried."""
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None and child.stdout is not None

    def kill() -> None:
        child.kill()
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        else:
            child.wait()

    try:
        host, pid, started = child.stdout.readline().rstrip("\n").split("\t")
        yield ProcessIdentity(host, int(pid), started), kill
    finally:
        child.kill()
        child.communicate()


@on_loop
async def test_an_owner_that_was_killed_is_replaced_at_once(tmp_path: Path) -> None:
    me = Environment().process()
    with SqliteStore(tmp_path / "tasks.db") as store, another_process() as (worker, kill):
        task = await store.create(new_task())
        old = await store.claim("task-1", worker, 100 * HOUR)
        with pytest.raises(TaskHeldError, match=f"by process {worker.pid}"):  # it lives
            await store.claim("task-1", me, HOUR)
        kill()
        mine = await store.claim("task-1", me, HOUR)  # a zombie works no more
        assert (mine.token, mine.reclaims) == (2, 1)
        with pytest.raises(LeaseLostError):
            await store.commit(step(task), old)


@on_loop
async def test_the_owner_is_not_adopted_in_its_own_process(tmp_path: Path) -> None:
    me = Environment().process()
    with SqliteStore(tmp_path / "tasks.db") as store, SqliteStore(tmp_path / "tasks.db") as beside:
        await store.create(new_task())
        await store.claim("task-1", me, HOUR)
        for other in (store, beside):
            with pytest.raises(TaskHeldError, match=f"by process {os.getpid()}"):
                await other.claim("task-1", me, HOUR)


@on_loop
async def test_a_process_that_was_given_an_old_number_is_not_the_owner(tmp_path: Path) -> None:
    me = Environment().process()
    with SqliteStore(tmp_path / "tasks.db") as store:
        await store.create(new_task())
        await store.claim("task-1", replace(me, started="1"), 100 * HOUR)
        assert (await store.claim("task-1", me, HOUR)).reclaims == 1


@on_loop
async def test_of_an_owner_elsewhere_or_of_unknown_start_nothing_is_assumed(tmp_path: Path) -> None:
    me = Environment().process()
    with SqliteStore(tmp_path / "tasks.db") as store:
        for number, owner in enumerate((ELSEWHERE, replace(me, started="unknown"))):
            await store.create(new_task(f"task-{number}"))
            await store.claim(f"task-{number}", owner, HOUR)
            with pytest.raises(TaskHeldError):
                await store.claim(f"task-{number}", me, HOUR)


@pytest.mark.parametrize(("column", "value"), [("owner", "{}"), ("owner", "no json"), ("until", "tomorrow")])
@on_loop
async def test_a_lease_that_was_altered_is_nobodys_to_take(tmp_path: Path, column: str, value: str) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        await begun(store)
        await store._write(lambda c: c.execute(f"UPDATE lease SET {column} = ?", (value,)))  # noqa: S608
        with pytest.raises(StoreError, match="the lease of task task-1 cannot be read"):
            await store.claim("task-1", OTHER, HOUR)
