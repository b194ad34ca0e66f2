"""The public surface, only to be type-checked: what a user writes must be understood by a type checker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from statemachine_agent import (
    Catalogue,
    Checkpoint,
    Environment,
    Event,
    Identity,
    LostError,
    NotSentError,
    Reach,
    RefusedByServiceError,
    Runtime,
    ScriptedModel,
    SimulatedEnvironment,
    SmaError,
    SqliteStore,
    Status,
    ToolRequest,
    open_project,
)


async def use(folder: Path) -> Status:
    catalogue: Catalogue = Catalogue.read([folder], [folder], folder / "people.yaml")
    environment: Environment = SimulatedEnvironment()
    with SqliteStore(folder / "tasks.db", environment) as store:
        model = ScriptedModel.of({"call": "look"})
        async with Runtime(
            catalogue, store, model, reach=Reach({"URL": "http://x"}), environment=environment
        ) as runtime:
            inputs: Mapping[str, Any] = {"thing": "box"}
            task: Checkpoint = await runtime.run("tiny", inputs, Identity("ann", "application"))
            try:
                await runtime.approve(task.approvals[0].id, Identity("bob", "token"))
                await runtime.reject("apr-1", Identity("bob", "token"), why="no")
                await runtime.resolve(task.task.id, "key", Identity("bob", "token"), found=None, why="looked")
                await runtime.cancel(task.task.id, Identity("bob", "token"))
            except SmaError as problem:
                reason: str = problem.reason
                print(reason)
            events: AsyncIterator[Event] = runtime.events()
            async for event in events:
                print(event.kind, event.data)
            return (await runtime.resume(task.task.id)).head.status


async def opened(folder: Path) -> Status:
    async with open_project(folder, db=folder / "own.db") as runtime:
        return (await runtime.run("tiny", {"thing": "box"}, Identity("ann", "application"))).head.status


def book(isbn: str, call: ToolRequest) -> Mapping[str, Any]:
    """A Python tool of a user."""
    if call.key is None:
        raise NotSentError("no key", reason="no_key")
    if isbn in call.args:
        raise RefusedByServiceError("not that one", reason="not_that_one")
    raise LostError(f"{call.request_id} was not answered")
