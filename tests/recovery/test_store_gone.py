"""The store's file is deleted under a working process: nothing is sent of which nobody could know afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemachine_agent.errors import StoreError
from statemachine_agent.loop.context import Event
from support.world import LOOK_STEP, act_step, simulated, world


@pytest.mark.parametrize("last", [0, 1, 2])
def test_an_effect_whose_intent_cannot_be_stored_is_not_sent(tmp_path: Path, last: int) -> None:
    """Deleted after each of the commits: started, looked, proposed; the one after that is the intent's."""

    async def main() -> None:
        async with world(tmp_path, LOOK_STEP, act_step()) as here:
            seen: list[int] = []

            def watcher(event: Event) -> None:
                if event.kind == "committed":
                    seen.append(event.data["checkpoint"].head.version)
                    if seen[-1] == last:
                        here.store.path.unlink()

            here.runtime.watch(watcher)
            with pytest.raises(StoreError, match="was deleted or replaced while it was in use"):
                await here.run()
            assert seen == list(range(last + 1))
            assert here.tools["act"].calls == []
            assert not here.store.path.exists(), "nobody made another"

    simulated(main)
