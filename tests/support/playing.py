"""One small machine played to its end, in a simulated world, in one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.records import Checkpoint
from support.world import World, world


async def to_its_end(here: World) -> Checkpoint:
    """The task run once."""
    return await here.run()


def play(folder: Path, body: Callable[[World], Awaitable[Any]] = to_its_end, *steps: Any, **how: Any) -> Any:
    """What `body` gives in a world in which the model says `steps`; the definition has no fault."""
    environment = how.setdefault("environment", SimulatedEnvironment())

    async def main() -> Any:
        async with world(folder, *steps, **how) as here:
            assert not here.runtime.catalogue.report.errors, str(here.runtime.catalogue.report)
            return await body(here)

    return environment.run(main())


def swap(text: str, *pairs: tuple[str, str]) -> str:
    """`text` with each `(old, new)`; an old one that is not there is an error of the test."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text
