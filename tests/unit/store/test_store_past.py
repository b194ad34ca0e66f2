"""A task as it stood: what a past version is read as is what was read when it was the newest one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.store.making import PROPOSAL, USAGE, approval, begun, committed, decision, effect, evidence, new_task, on_loop

from statemachine_agent.errors import SmaError, StoreError, UnknownTaskError, UnknownVersionError
from statemachine_agent.records import Checkpoint, Effect, EffectRow, EffectStatus, EvidenceRow, Lease, Status
from statemachine_agent.store.sqlite import SqliteStore

#: what is different in the head of each version, one part after the other
HEADS: tuple[dict[str, Any], ...] = (
    {"proposal": PROPOSAL, "visits": {"B": 2}, "usage": USAGE},
    {"proposal": None, "calls": {"lookup_order": 2}, "progress": {"stalled": 1}, "reason": "why"},
    {
        "observation": {"": "refused"},
        "pending_exit": {"event": "e", "reason": "r", "detail": None},
        "evidence_count": 3,
    },
    {"status": Status.NEEDS_INPUT, "configuration": ("A", "B"), "output": "which one?", "old": {"lookup_order": 1}},
)


def moved(sent: Effect, by: str | None = None) -> EffectRow:
    """The row that goes with an effect."""
    return EffectRow(sent.key, sent.tool, sent.status, sent.attempt, sent.action_hash, sent.reason, by)


async def with_effects(store: SqliteStore, task: Checkpoint, lease: Lease, *sent: Effect) -> Checkpoint:
    return await committed(store, task, lease, *map(moved, sent), effects=sent)


async def refused(store: SqliteStore, task_id: str, version: int) -> tuple[type[SmaError], str, str | None, str]:
    with pytest.raises(SmaError) as caught:
        await store.as_of(task_id, version)
    return type(caught.value), caught.value.message, caught.value.hint, caught.value.reason


@on_loop
async def test_every_version_is_read_as_it_was_when_it_was_the_newest(tmp_path: Path) -> None:
    """Its head with all of its parts, the results by then, and which of them were old; not what was asked of people."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        await begun(store, "another")
        task, lease = await begun(store)
        then = [task]
        for number, head in enumerate(HEADS, 1):
            found = EvidenceRow(evidence(number, {"n": number}))
            task = await committed(store, task, lease, decision(number), found, head=head, approvals=(approval(),))
            then.append(replace(task, approvals=()))
        await store.request_cancel(task.task.no, {"by": "cust-1", "established": "os"})
        assert [await store.as_of("task-1", version) for version in range(5)] == then
        assert [len(one.evidence) for one in then] == [0, 1, 2, 3, 4]
        assert [e.old for e in (await store.as_of("task-1", 4)).evidence] == [True, False, False, False]


@on_loop
async def test_an_effect_is_as_far_as_it_had_come(tmp_path: Path) -> None:
    """With its attempt and its reason; there is no receipt before it happened, and one that was not proposed yet is not there."""
    steps = (
        effect(reason="first"),
        effect(status=EffectStatus.INTENDED, attempt=1, proposed_in=2),
        effect(status=EffectStatus.UNKNOWN, attempt=1, proposed_in=2, reason="lost"),
        effect(status=EffectStatus.INTENDED, attempt=2, proposed_in=4),
        effect(status=EffectStatus.EXECUTED, attempt=2, proposed_in=4, receipt={"id": "rf_1"}),
    )
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        for one in steps:
            task = await with_effects(store, task, lease, one)
        assert task.effects == steps[-1:]
        found = [(await store.as_of("task-1", version)).effects for version in range(6)]
        assert found == [(), *((one,) for one in steps)]


@on_loop
async def test_effects_stand_in_the_order_in_which_they_were_proposed_then(tmp_path: Path) -> None:
    """One that was proposed again comes last from then on, and not before."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        one, two = effect("k:1"), effect("k:2", proposed_in=2)
        approved = replace(one, status=EffectStatus.APPROVED)
        again = replace(one, proposed_in=4)
        for sent in (one, two, approved, again):
            task = await with_effects(store, task, lease, sent)
        found = [(await store.as_of("task-1", version)).effects for version in range(1, 5)]
        assert found == [(one,), (one, two), (approved, two), (two, again)]


@on_loop
async def test_of_an_action_that_was_replaced_since_only_how_it_stood_is_known(tmp_path: Path) -> None:
    """What it would have done is not kept, and what was done later is not said of it."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        first = effect(status=EffectStatus.EXECUTED, receipt={"id": 1})
        task = await with_effects(store, task, lease, first)
        later = effect(status=EffectStatus.EXECUTED, receipt={"id": 2}, action_hash="b" * 64, args={"amount_inr": 9})
        await with_effects(store, task, lease, later)
        assert (await store.as_of("task-1", 1)).effects == (replace(first, args={}, receipt=None),)


@on_loop
async def test_a_version_that_there_is_not_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    """And one of a build that kept no heads, and one that was altered."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task = await store.create(new_task("0192f0c1-aaaa"))
        for version in (-1, 1):
            assert await refused(store, "aaaa", version) == (
                UnknownVersionError, f"task 0192f0c1-aaaa has no version {version}",
                "it has 0 to 0; `sma trace` lists them", UnknownVersionError.reason,
            )  # fmt: skip
        assert (await refused(store, "nobody", 0))[0] is UnknownTaskError
        assert await store.as_of("aaaa", 0) == task
        await store._write(lambda c: c.execute("UPDATE checkpoint SET head = zeroblob(32)").rowcount)
        assert await refused(store, "aaaa", 0) == (
            UnknownVersionError, "how task 0192f0c1-aaaa stood at version 0 was not kept",
            "an earlier build wrote it; take another version", UnknownVersionError.reason,
        )  # fmt: skip
        await store._write(lambda c: c.execute("UPDATE checkpoint SET head = (SELECT input_hash FROM task)").rowcount)
        kind, message, hint, reason = await refused(store, "aaaa", 0)
        assert (kind, hint, reason) == (StoreError, "it was altered; restore a backup", "altered")
        assert message.startswith("version 0 of task 0192f0c1-aaaa cannot be read: `{")
