"""The disk: what happens when it is full, and how much of it a long task takes."""

from __future__ import annotations

import itertools
import random
from contextlib import closing
from pathlib import Path

import pytest
from unit.store.making import begun, committed, evidence, full_step, new_task, on_loop, step
from unit.store.test_store_processes import checked
from unit.store.workers import children

from statemachine_agent.errors import StoreError
from statemachine_agent.records import EvidenceRow
from statemachine_agent.store.sqlite import SqliteStore


def test_a_file_that_may_not_grow_stops_the_task_and_not_the_store(tmp_path: Path) -> None:
    """The operating system refuses to make any file of the process larger, in the middle of a commit."""
    path = tmp_path / "tasks.db"
    with children(("fill", path, "task-1")) as (child,):
        child.say()
        found = child.result()
    assert found["reason"] in ("disk_failed", "disk_full")
    assert "nothing was written" in found["message"]
    assert found["kept"]
    with closing(checked(path)) as connection:
        assert connection.execute("SELECT max(version) FROM task").fetchone()[0] == found["version"]


@on_loop
async def test_a_full_disk_is_named_and_everybody_who_waited_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    noise = random.Random(8472).randbytes(300_000).hex()  # noqa: S311  no compression helps
    with SqliteStore(path) as store:
        task, lease = await begun(store)
        before = await store.history("task-1")
        pages = await store._write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
        await store._write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 8}").fetchone())
        with pytest.raises(StoreError, match="the disk is full: nothing was written") as caught:
            await store.commit(step(task, *full_step(1, {"noise": noise})), lease)
        assert caught.value.reason == "disk_full"
        assert await store.load("task-1") == task
        assert await store.history("task-1") == before
        await store.commit(step(task), lease)  # something small still finds its place
        await store._write(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchone())
        task = await committed(store, await store.load("task-1"), lease, *full_step(1, {"noise": noise}))
        assert task.evidence[0].payload == {"noise": noise}
    checked(path).close()


def sizes_of(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in folder.iterdir()}


def used(store: SqliteStore) -> int:
    """Bytes of the store, what is still in the log included."""
    store._submit(lambda c: c.execute("SELECT 1").fetchone()).result()
    pages, size = (store._reader.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)


@on_loop
async def test_bytes_of_a_step_do_not_depend_on_how_long_the_task_is(tmp_path: Path) -> None:
    sizes, chance = [], random.Random(8472)  # noqa: S311
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        sizes.append(used(store))
        for number in range(1, 301):
            payload = {"n": number, "text": chance.randbytes(512).hex()}  # one kilobyte
            transaction = step(task, *full_step(number, payload), head={"evidence_count": number})
            await store.commit(transaction, lease)
            task = type(task)(task.task, transaction.head)
            if number % 100 == 0:
                sizes.append(used(store))
    first, _, last = (b - a for a, b in itertools.pairwise(sizes))
    print(f"bytes a step: the first hundred {first / 100:.0f}, the last {last / 100:.0f}")
    assert last < first * 1.1
    assert last / 100 < 4096


@on_loop
async def test_two_hundred_steps_of_ten_kilobytes_stay_small(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        for number in range(1, 201):
            payload = {
                "n": number,
                "rows": [{"order": number * 100 + n, "text": f"a line about {n}"} for n in range(200)],
            }
            transaction = step(task, EvidenceRow(evidence(number, payload)))
            await store.commit(transaction, lease)
            task = type(task)(task.task, transaction.head)
    assert sum(sizes_of(tmp_path).values()) < 6_000_000


@on_loop
async def test_the_log_beside_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        for number in range(400):
            await store.create(new_task(f"task-{number}", input={"n": number, "text": "x" * 200}))
        assert sizes_of(tmp_path)["tasks.db-wal"] < 8_000_000
    assert list(sizes_of(tmp_path)) == ["tasks.db"]  # the last one out puts everything away
