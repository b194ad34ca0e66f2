"""One writer for a process: many commits in one transaction of the database, each on its own merits."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from unit.store.making import ELSEWHERE, HOUR, begun, full_step, new_task, on_loop, step

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StaleVersionError, StoreError
from statemachine_agent.store import commits
from statemachine_agent.store.opening import connect
from statemachine_agent.store.sqlite import SqliteStore
from statemachine_agent.store.writer import Writer


class Gate:
    """Work that holds the writer until it is let go."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()

    def __call__(self, _: object) -> None:
        self.entered.set()
        assert self._open.wait(30)

    def let_go(self) -> None:
        self._open.set()


@on_loop
async def test_two_hundred_tasks_commit_at_once_and_a_failing_one_harms_none(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        held = [await begun(store, f"task-{n}") for n in range(200)]
        commits = []
        for number, (task, lease) in enumerate(held):
            transaction = step(task, *full_step(1, {"n": number}))
            if number % 10 == 3:  # from a version that never was
                transaction = step(task, expected_version=9)
            commits.append(store.commit(transaction, lease))
        results = await asyncio.gather(*commits, return_exceptions=True)
        for number, result in enumerate(results):
            assert isinstance(result, StaleVersionError) if number % 10 == 3 else result is None
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as beside:  # durable, not only remembered
            versions = dict(beside.execute("SELECT id, version FROM task").fetchall())
        assert versions == {f"task-{n}": 0 if n % 10 == 3 else 1 for n in range(200)}


@on_loop
async def test_what_waits_together_is_committed_together(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        gate = Gate()
        first = store._submit(gate)
        await asyncio.to_thread(gate.entered.wait)
        waiting = [asyncio.ensure_future(store.create(new_task(f"task-{n}"))) for n in range(50)]
        await asyncio.sleep(0)
        seen: list[str] = []
        watching = store._submit(lambda c: c.set_trace_callback(seen.append))
        gate.let_go()
        await asyncio.gather(*waiting)
        first.result()
        watching.result()
        await store.create(new_task("last"))
        assert seen.count("COMMIT") <= 2  # fifty tasks in one, the last in one
        assert len(await store.tasks()) == 51


@on_loop
async def test_a_commit_that_nobody_waits_for_any_more_does_not_stop_the_writer(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        gate = Gate()
        store._submit(gate)
        await asyncio.to_thread(gate.entered.wait)
        waiting = asyncio.ensure_future(store.create(new_task("left")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.let_go()
        async with asyncio.timeout(20):
            await store.create(new_task("next"))
        assert [t["id"] for t in await store.tasks()] == ["next"]  # it had not begun, and was not done


@on_loop
async def test_a_commit_that_is_cancelled_while_it_is_made_is_made(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        gate = Gate()
        writing = asyncio.ensure_future(store._write(lambda c: (c.execute("DELETE FROM note"), gate(c))))
        await asyncio.to_thread(gate.entered.wait)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        gate.let_go()
        async with asyncio.timeout(20):
            await store.create(new_task("next"))


class Slow(Environment):
    """The clock is asked in the middle of a claim; the answer takes until somebody lets go."""

    def __init__(self) -> None:
        self.gate = Gate()

    def now(self) -> datetime:
        self.gate(None)
        return super().now()


@on_loop
async def test_a_claim_that_is_cancelled_while_it_is_made_is_given_back(tmp_path: Path) -> None:
    environment = Slow()
    with SqliteStore(tmp_path / "tasks.db", environment) as store:
        await store.create(new_task())
        claiming = asyncio.ensure_future(store.claim("task-1", ELSEWHERE, HOUR))
        await asyncio.to_thread(environment.gate.entered.wait)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        environment.gate.let_go()
        async with asyncio.timeout(20):
            await held_by_nobody(store)
        assert (await store.claim("task-1", ELSEWHERE, HOUR)).token == 2


@on_loop
async def test_a_claim_that_came_to_nothing_is_not_given_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that was never begun, or was refused, after nobody waited for it: there is nothing to give, and nothing to tell."""
    environment = Slow()
    with SqliteStore(tmp_path / "tasks.db") as other, SqliteStore(tmp_path / "tasks.db", environment) as store:
        await begun(other)
        refused = asyncio.ensure_future(store.claim("task-1", ELSEWHERE, HOUR))
        await asyncio.to_thread(environment.gate.entered.wait)
        waiting = asyncio.ensure_future(store.claim("task-1", ELSEWHERE, HOUR))
        await asyncio.sleep(0)
        for claiming in (waiting, refused):
            claiming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claiming
        environment.gate.let_go()
    assert caplog.records == []


@on_loop
async def test_a_claim_that_ends_after_its_store_was_closed_is_left_to_run_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There is nobody left who could give it back, and nobody to tell."""
    environment = Slow()
    store = SqliteStore(tmp_path / "tasks.db", environment)
    await store.create(new_task())
    claiming = asyncio.ensure_future(store.claim("task-1", ELSEWHERE, HOUR))
    await asyncio.to_thread(environment.gate.entered.wait)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    closing = asyncio.ensure_future(asyncio.to_thread(store._close))
    while not store._closed:
        await asyncio.sleep(0)
    environment.gate.let_go()
    await closing
    assert caplog.records == []


async def held_by_nobody(store: SqliteStore) -> None:
    while store._reader.execute("SELECT count(*) FROM lease WHERE owner IS NULL").fetchone()[0] != 1:
        await asyncio.sleep(0.001)


@on_loop
async def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "tasks.db")
    gate = Gate()
    store._submit(gate)
    await asyncio.to_thread(gate.entered.wait)
    waiting = [asyncio.ensure_future(store.create(new_task(f"task-{n}"))) for n in range(300)]  # several transactions
    await asyncio.sleep(0)
    gate.let_go()
    await store.close()
    with SqliteStore(tmp_path / "tasks.db", create=False) as again:
        assert len(await again.tasks(limit=1000)) == 300
    await asyncio.gather(*waiting, return_exceptions=True)  # their answers could not be read any more


@on_loop
async def test_a_closed_store_says_that_it_is_closed(tmp_path: Path) -> None:
    before = writers()
    store = SqliteStore(tmp_path / "tasks.db")
    task, lease = await begun(store)
    assert len(writers() - before) == 1
    await store.close()
    await store.close()
    for use in (
        lambda: store.load("task-1"),
        lambda: store.commit(step(task), lease),
        lambda: store.create(new_task("t")),
        lambda: store.claim("task-1", ELSEWHERE, HOUR),
        store.tasks,
    ):
        with pytest.raises(StoreError, match="the store is closed"):
            await use()
    assert writers() <= before


def writers() -> set[threading.Thread]:
    """The threads of writers that are alive; other tests of this process may have left theirs."""
    return {t for t in threading.enumerate() if t.name == "sma-writer" and t.is_alive()}


@on_loop
async def test_what_fails_among_others_takes_back_its_own_and_nothing_of_theirs(tmp_path: Path) -> None:
    """Refused by the database, or for a reason of the package; those before and after it in the transaction are made."""

    def half(connection: sqlite3.Connection) -> None:
        commits.create(connection, new_task("half"))
        raise LookupError("not this one")

    with SqliteStore(tmp_path / "tasks.db") as store:
        gate = Gate()
        store._submit(gate)
        await asyncio.to_thread(gate.entered.wait)
        works = [lambda c, t=task: commits.create(c, new_task(t)) for task in ("task-1", "task-1", "task-2")]
        made, twice, failed, last = (store._submit(work) for work in (*works[:2], half, works[2]))
        gate.let_go()
        assert isinstance(await asyncio.to_thread(twice.exception, 20), StoreError)
        assert isinstance(await asyncio.to_thread(failed.exception, 20), LookupError)
        assert (made.result(20), last.result(20)) == (1, 2)
        assert [row["id"] for row in await store.tasks()] == ["task-2", "task-1"]


def test_a_transaction_that_can_neither_be_made_nor_taken_back_is_told_to_all_who_wait(tmp_path: Path) -> None:
    """A disk that fails fails twice; nobody waits for ever, and the writer can be closed."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *more: object) -> sqlite3.Cursor:  # type: ignore[override]
            if sql in ("COMMIT", "ROLLBACK"):
                problem = sqlite3.OperationalError("disk I/O error")
                problem.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
                raise problem
            return super().execute(sql, *more)  # type: ignore[arg-type]

    writer = Writer(lambda: sqlite3.connect(path, isolation_level=None, factory=Failing), Environment())
    found = writer.submit(lambda _: "done").exception(20)
    assert isinstance(found, StoreError) and found.reason == "disk_failed"
    writer.close()


def test_a_writer_that_cannot_connect_says_so_and_leaves_no_thread(tmp_path: Path) -> None:
    before = writers()
    with pytest.raises(StoreError, match="cannot be opened"):
        Writer(lambda: connect(tmp_path / "missing" / "tasks.db"), Environment())
    assert writers() <= before


def test_a_writer_that_was_closed_takes_no_more_work(tmp_path: Path) -> None:
    """Whoever came between the closing and the end would wait for ever."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass
    writer = Writer(lambda: connect(path), Environment())
    assert writer.submit(lambda _: "done").result(20) == "done"
    writer.close()
    with pytest.raises(StoreError) as caught:
        writer.submit(lambda _: "late")
    assert (caught.value.message, caught.value.reason) == ("the store is closed", "closed")


@on_loop
async def test_work_that_ends_the_transaction_itself_is_told_and_the_next_goes_on(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        with pytest.raises(StoreError):
            await store._write(lambda c: c.execute("ROLLBACK"))
        with pytest.raises(KeyboardInterrupt):
            await store._write(interrupt)
        await store.create(new_task())


def interrupt(_: sqlite3.Connection) -> None:
    raise KeyboardInterrupt


@on_loop
async def test_while_another_process_writes_readers_read_and_writers_wait(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        with closing(sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE task SET reason = 'half'")
            commit = asyncio.ensure_future(store.commit(step(task), lease))
            for _ in range(20):
                assert (await store.load("task-1")) == task
                await asyncio.sleep(0.001)
            assert not commit.done()
            other.execute("ROLLBACK")
        await commit
        assert (await store.load("task-1")).head.version == 1
