"""Where a run stands still and asks the test: a model that is to decide, or a tool that is to answer.

The run is the runtime's own, on an event loop that only turns while nobody is asked. It must not know what a test wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import UsageError
from statemachine_agent.loop.context import Event
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.testing.played import Played
from statemachine_agent.tools.request import ToolRequest

T = TypeVar("T")


@dataclass
class Question:
    """Somebody waits for the test."""

    answer: asyncio.Future[Any]
    #: what a model is asked; None for a tool
    prompt: Prompt | None = None
    #: the tool that is called; None for a model
    manifest: ToolManifest | None = None
    request: ToolRequest | None = None


class Stage:
    """Turns the loop until somebody asks, or until there is nothing more to do."""

    def __init__(self, environment: SimulatedEnvironment, standing: Mapping[str, Played]) -> None:
        """Tools of `standing` answer by themselves. UsageError where an event loop runs already."""
        _check_no_loop()
        self._runner = environment.runner()
        self._standing = standing
        self._work: asyncio.Task[Any] | None = None
        self._arrived: asyncio.Event | None = None
        self._attempts: dict[str, int] = {}
        self._answers: dict[str, Any] = {}
        #: everybody who waits for the test now
        self.questions: list[Question] = []

    # ------------------------------------------------------------ turning

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do all of `work`, in which nobody asks."""
        return self._run(work)

    def begin(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Begin `work`, and turn until somebody asks; its result, or None where somebody does."""

        async def started() -> Any:
            self._arrived = asyncio.Event()
            self._work = asyncio.ensure_future(work)
            return await self._turned()

        return self._run(started())

    def go_on(self) -> Any:
        """Turn until somebody asks, or the work is done; its result, or None."""
        return self._run(self._turned())

    async def _turned(self) -> Any:
        assert self._work is not None and self._arrived is not None  # noqa: S101, PT018  begun before
        self._arrived.clear()
        while not self._work.done() and not self.questions:
            arrived = asyncio.ensure_future(self._arrived.wait())
            await asyncio.wait({self._work, arrived}, return_when=asyncio.FIRST_COMPLETED)
            arrived.cancel()
        return self._work.result() if self._work.done() else None

    def drop(self) -> None:
        """The worker is gone: nobody answers, and nobody waits any more."""

        async def dropped() -> None:
            if self._work is not None:
                self._work.cancel()
                await asyncio.wait({self._work})
            self.questions.clear()

        self._run(dropped())

    def close(self) -> None:
        """Let go of the loop."""
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            _check_no_loop()
        except UsageError:
            work.close()
            raise
        return self._runner.run(work)

    # ------------------------------------------------------------ asking

    def answer(self, question: Question, what: object) -> None:
        """Give the answer that somebody waits for; an exception is raised there."""
        self.questions.remove(question)
        if question.manifest is not None:
            self._answers[question.manifest.tool] = what
        if isinstance(what, BaseException):
            question.answer.set_exception(what)
        else:
            question.answer.set_result(what)

    async def _ask(self, **what: Any) -> Any:
        question = Question(asyncio.get_running_loop().create_future(), **what)
        self.questions.append(question)
        if self._arrived is not None:
            self._arrived.set()
        return await question.answer

    def watch(self, event: Event) -> None:
        """See which attempt a request is."""
        if event.kind == "calling":
            self._attempts[event.data["request_id"]] = event.data["attempt"]

    @property
    def waits_for_person(self) -> bool:
        """A test takes its time."""
        return True

    spec = "walk"

    async def decide(self, prompt: Prompt) -> Reply:
        """What the test lets the model say; part of what a model is."""
        reply: Reply = await self._ask(prompt=prompt)
        return reply

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """What the test lets a tool answer; part of what a binding is. Another attempt at one call gets the same."""
        if manifest.tool in self._standing:
            return await self._standing[manifest.tool].send(manifest, request, timeout)
        if self._attempts.get(request.request_id, 1) > 1:
            again = self._answers[manifest.tool]
            if isinstance(again, BaseException):
                raise again
            return again
        return await self._ask(manifest=manifest, request=request)


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("a walk is for plain test functions", hint="in an async test, use `world`")
