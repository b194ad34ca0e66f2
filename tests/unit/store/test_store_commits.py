"""A commit is made by the holder of the lease, from the version that was read, and is whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.store.making import (
    ELSEWHERE,
    HOUR,
    PROPOSAL,
    STARTED,
    approval,
    begun,
    committed,
    effect,
    evidence,
    full_step,
    new_task,
    on_loop,
    step,
)

from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import LeaseLostError, StaleVersionError, StoreError
from statemachine_agent.records import EffectStatus, EvidenceRow, Lease, NoteRow, Status, Timer
from statemachine_agent.store.port import KeyTakenError
from statemachine_agent.store.sqlite import SqliteStore


async def everything(store: SqliteStore) -> list[list[tuple[object, ...]]]:
    """Every row of every table but the lease's."""
    tables = [r[0] for r in store._reader.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return [
        [tuple(row) for row in store._reader.execute(f"SELECT * FROM {table}")]  # noqa: S608  names from the schema
        for table in tables
        if table != "lease"
    ]


def large(task, **more):
    """A transaction that writes to every table."""
    return step(
        task,
        *full_step(1, {"something": "new"}),
        NoteRow("n"),
        effects=(effect("k:new", EffectStatus.INTENDED),),
        approvals=(approval("apr-new"),),
        timers={"A": Timer("A", "elapsed.A", STARTED)},
        head={"proposal": PROPOSAL},
        **more,
    )


@on_loop
async def test_a_stale_version_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store.commit(step(task), lease)
        before = await everything(store)
        for expected in (0, 2, -1):
            stale = replace(large(task), expected_version=expected)
            with pytest.raises(StaleVersionError, match=f"moved on from version {expected}: nothing was written"):
                await store.commit(stale, lease)
        assert await everything(store) == before


@on_loop
async def test_only_the_newest_token_writes(tmp_path: Path) -> None:
    clock = SimulatedEnvironment()
    with SqliteStore(tmp_path / "tasks.db", clock) as store:
        task, first = await begun(store)
        clock.advance(HOUR)
        second = await store.claim("task-1", replace(ELSEWHERE, pid=2), HOUR)
        assert (first.token, second.token) == (1, 2)
        before = await everything(store)
        with pytest.raises(LeaseLostError, match="was lost to another worker: nothing was written"):
            await store.commit(large(task), first)
        with pytest.raises(LeaseLostError):
            await store.heartbeat(first, HOUR)
        assert await everything(store) == before
        await store.commit(step(task), second)
        with pytest.raises(LeaseLostError):  # lost is lost, whatever version it says
            await store.commit(step(await store.load("task-1")), first)


@on_loop
async def test_a_lease_that_was_never_given_or_was_given_back_writes_nothing(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task = await store.create(new_task())
        before = await everything(store)
        for token in (0, 1, 2):
            with pytest.raises(LeaseLostError):
                await store.commit(large(task), Lease(task.task.no, "task-1", token, ELSEWHERE))
        lease = await store.claim("task-1", ELSEWHERE, HOUR)
        await store.release(lease)
        with pytest.raises(LeaseLostError):
            await store.commit(large(task), lease)
        assert await everything(store) == before


@on_loop
async def test_the_lease_of_one_task_does_not_write_to_another(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        _, lease = await begun(store, "task-1")
        other, _ = await begun(store, "task-2")
        before = await everything(store)
        with pytest.raises(StoreError, match="none of this task"):
            await store.commit(large(other), lease)
        assert await everything(store) == before


@on_loop
async def test_a_failure_in_the_last_row_takes_the_first_back(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        before = await everything(store)
        wrong = large(task)
        for broken in (
            replace(wrong, head=replace(wrong.head, version=7)),
            replace(wrong, head=replace(wrong.head, output="\ud800")),
            replace(wrong, rows=(*wrong.rows, EvidenceRow(replace(evidence(2, {}), attempt="x")))),  # a STRICT table
            replace(wrong, rows=(*wrong.rows, EvidenceRow(replace(evidence(2, {}), source=None)))),
        ):
            with pytest.raises(Exception, match=r".+"):
                await store.commit(broken, lease)
            assert await everything(store) == before
        await store.commit(wrong, lease)
        assert (await store.load("task-1")).head.version == 1


@on_loop
async def test_a_key_that_may_have_happened_belongs_to_one_task_of_the_store(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        one, lease_1 = await begun(store, "task-1")
        two, lease_2 = await begun(store, "task-2")
        one = await committed(store, one, lease_1, effects=(effect("refund:1", EffectStatus.PROPOSED),))
        two = await committed(store, two, lease_2, effects=(effect("refund:1", EffectStatus.APPROVED),))
        assert await store.effect_by_key("refund:1") is None  # proposing is free
        taken = (EffectStatus.INTENDED, EffectStatus.UNKNOWN, EffectStatus.EXECUTED, EffectStatus.VERIFIED)
        for status in taken:
            one = await committed(store, one, lease_1, effects=(effect("refund:1", status),))
            owner = await store.effect_by_key("refund:1")
            assert owner is not None and owner[0] == "task-1" and owner[1].status is status
            before = await everything(store)
            for wanted in taken:
                intent = step(two, *full_step(1, {}), effects=(effect("refund:1", wanted),))
                with pytest.raises(KeyTakenError, match="`refund:1` belongs to another task: nothing was written"):
                    await store.commit(intent, lease_2)
            assert await everything(store) == before
            two = await committed(store, two, lease_2, effects=(effect("refund:1", EffectStatus.PROPOSED),))


@pytest.mark.parametrize("changes", [{"tool": None}, {"key": None}, {"action_hash": None}])
@on_loop
async def test_an_effect_that_cannot_be_written_is_not_said_to_be_taken(
    tmp_path: Path, changes: dict[str, None]
) -> None:
    """Nobody else holds it: it lacks something, and trying under another key would not help."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        with pytest.raises(StoreError) as caught:
            await store.commit(step(task, effects=(replace(effect(), **changes),)), lease)
        assert caught.value.message == f"the database refused: NOT NULL constraint failed: effect.{next(iter(changes))}"
        assert await store.load("task-1") == task


@pytest.mark.parametrize("given_up", [EffectStatus.ABANDONED, EffectStatus.REJECTED])
@on_loop
async def test_a_key_that_was_given_up_is_free_again(tmp_path: Path, given_up: EffectStatus) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        one, lease_1 = await begun(store, "task-1")
        two, lease_2 = await begun(store, "task-2")
        one = await committed(store, one, lease_1, effects=(effect("refund:1", EffectStatus.INTENDED),))
        await store.commit(step(one, effects=(effect("refund:1", given_up),)), lease_1)
        sent = effect("refund:1", EffectStatus.INTENDED, attempt=1)
        await store.commit(step(two, effects=(sent,)), lease_2)
        assert await store.effect_by_key("refund:1") == ("task-2", sent)
        with pytest.raises(KeyTakenError):
            await store.commit(step(await store.load("task-1"), effects=(sent,)), lease_1)


@on_loop
async def test_a_task_that_holds_another_ones_receipt_does_not_own_the_key(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        one, lease_1 = await begun(store, "task-1")
        two, lease_2 = await begun(store, "task-2")
        done = effect("refund:1", EffectStatus.EXECUTED, receipt={"refund_id": "rf_1"})
        await store.commit(step(one, effects=(done,)), lease_1)
        copy = replace(done, inherited=True)
        two = await committed(store, two, lease_2, effects=(copy,))
        assert two.effects == (copy,)
        assert await store.effect_by_key("refund:1") == ("task-1", done)


@on_loop
async def test_a_task_may_try_its_own_key_again(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        for attempt, status in enumerate((EffectStatus.INTENDED, EffectStatus.UNKNOWN, EffectStatus.INTENDED), 1):
            task = await committed(store, task, lease, effects=(effect("refund:1", status, attempt=attempt),))
        (kept,) = task.effects
        assert (kept.status, kept.attempt) == (EffectStatus.INTENDED, 3)


@on_loop
async def test_versions_count_up_and_a_terminal_status_is_kept(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        for _ in range(3):
            task = await committed(store, task, lease)
        task = await committed(store, task, lease, head={"status": Status.SUCCEEDED, "configuration": ("SUCCEEDED",)})
        assert (task.head.version, task.head.steps, task.head.status.is_end) == (4, 4, True)
        rows = [r for r in await store.history("task-1") if r["table"] == "checkpoint"]
        assert [(r["version"], r["token"]) for r in rows] == [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1)]
