"""Calls under way: one or several at once, each with its own timeout, retries and request ids.

None of them waits for another, and none ends another. It must not know why they are made, nor what follows from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.loop.budget import seconds_left
from statemachine_agent.loop.context import Event
from statemachine_agent.loop.phases import Attempts, Observation
from statemachine_agent.tools.outcome import Attempt, Failed


async def call(
    observation: Observation, manifest: ToolManifest, args: Mapping[str, Any], key: str | None = None
) -> Attempts:
    """All attempts of one call."""
    (attempts,) = await at_once([_Running(observation, manifest, args, key)])
    return attempts


async def read(
    observation: Observation, calls: Sequence[tuple[ToolManifest, Mapping[str, Any]]]
) -> tuple[Attempts, ...]:
    """All attempts of each of these reads, in the order in which they are given, whichever ended first."""
    return await at_once([_Running(observation, manifest, args) for manifest, args in calls])


async def at_once(running: Sequence[_Running]) -> tuple[Attempts, ...]:
    """Run them side by side, to the end of the last one.

    Where the step is told to end meanwhile, a single call is dropped, to be made again. Of several, those that are over may
    have brought something: that is kept, the others end as cancelled, and the step goes on to its record.
    """
    tasks = [asyncio.ensure_future(one.run()) for one in running]
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        step = asyncio.current_task()
        if len(tasks) == 1 or step is None or not step.cancelling():
            raise
        step.uncancel()
        await asyncio.wait(tasks)
        for one in running:
            one.cut_short()
    finally:
        for task in tasks:
            task.cancel()
    return tuple(tuple(one.attempts) for one in running)


class _Running:
    """One call, and what is known of it so far."""

    def __init__(
        self, observation: Observation, manifest: ToolManifest, args: Mapping[str, Any], key: str | None = None
    ) -> None:
        self.attempts: list[Attempt] = []
        self._observation = observation
        self._manifest = manifest
        self._args = args
        self._key = key
        #: the attempt under way: its number, its request, and when it began
        self._begun: tuple[int, str, datetime, float] | None = None

    async def run(self) -> None:
        context = self._observation.context
        seconds = seconds_left(context, self._observation.checkpoint.head)
        if self._key is not None:
            seconds = max(seconds, self._manifest.timeout.total_seconds())  # what may have been sent is waited for
        await context.toolbox.call(
            self._manifest, self._args, key=self._key, seconds=seconds, on_request=self._begin, on_attempt=self._end
        )

    def cut_short(self) -> None:
        """What is under way or has not begun ends here, as cancelled; of all else the last try stands."""
        if self._begun is None and self.attempts:
            return
        clock = self._observation.context.environment
        number, request_id, at, since = self._begun or (1, "", clock.now(), clock.monotonic())
        latency = int((clock.monotonic() - since) * 1000)
        self._end(Attempt(number, request_id, at, latency, Failed("cancelled", "it was not waited for any longer")))

    def _begin(self, request_id: str, number: int) -> None:
        clock = self._observation.context.environment
        self._begun = (number, request_id, clock.now(), clock.monotonic())
        self._tell(
            "calling", args=self._manifest.recorded(self._args), key=self._key, request_id=request_id, attempt=number
        )

    def _end(self, attempt: Attempt) -> None:
        self._begun = None
        self.attempts.append(attempt)
        self._tell("called", attempt=attempt)

    def _tell(self, kind: str, **data: Any) -> None:
        task_id = self._observation.checkpoint.task.id
        self._observation.context.emit(Event(kind, task_id, {"tool": self._manifest.tool, **data}))
