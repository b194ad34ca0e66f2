"""Why an effect stands as it stands is kept with it, for whoever settles it later."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.store.making import begun, committed, effect, on_loop

from statemachine_agent.records import EffectStatus
from statemachine_agent.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (EffectStatus.UNKNOWN, "worker_lost"),
        (EffectStatus.ABANDONED, "absent"),
        (EffectStatus.EXECUTED, "done_before"),
        (EffectStatus.PROPOSED, None),
    ],
)
@on_loop
async def test_the_reason_of_an_effect_comes_back_with_it(
    tmp_path: Path, status: EffectStatus, reason: str | None
) -> None:
    """In the task, and in the ledger of all tasks."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        after = await committed(store, task, lease, effects=(effect(status=status, reason=reason),))
        assert [(e.status, e.reason) for e in after.effects] == [(status, reason)]
        assert [row["effect"].reason for row in await store.effects()] == [reason]
