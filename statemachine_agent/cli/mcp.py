"""`mcp`: the runtime as an MCP server on standard input and output, for one actor whom no request can change.

Machines are listed, tasks of the actor's own started, looked at and answered. Nobody approves, rejects, settles or cancels
through it, and a task of somebody else is none. It must not know what a machine does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import click
from pydantic import Field

from statemachine_agent.cli.options import catalogue_of, db_option, identity_of, opened, project_of, run_async
from statemachine_agent.cli.output import plain
from statemachine_agent.cli.rest import summary
from statemachine_agent.errors import SmaError, TaskHeldError, UnknownTaskError, UsageError
from statemachine_agent.text import one_line

if TYPE_CHECKING:
    from statemachine_agent.policy.identity import Identity
    from statemachine_agent.records import Checkpoint
    from statemachine_agent.runtime.runtime import Runtime

_LONGEST = 60.0  # seconds that one request may wait for a task
_CLOSING = 10.0  # seconds for work that is under way when the client goes

Task = Annotated[str, Field(description="The id of a task that was started here, or for the same actor.")]
Wait = Annotated[
    float, Field(ge=0, le=_LONGEST, description="Seconds to wait for the task to end, or to wait for somebody.")
]


@click.command(short_help="The runtime as an MCP server.")
@click.option("--actor", metavar="ID", help="Who all tasks act for.")
@click.option(
    "--model",
    metavar="SPEC",
    help="What decides; else what the machine names, or the setting `model`. A person at the terminal cannot.",
)
@db_option
@click.pass_context
def mcp(context: click.Context, actor: str | None, model: str | None, db: str | None) -> int:
    """Serve MCP on standard input and output: list_machines, start, status, trace, reply; never an approval."""
    project = project_of(context)
    spec = project.model_spec(model)
    if spec == "ask":
        hint = "name another with --model or in the settings"
        raise UsageError("the model `ask` needs a terminal, and this one speaks MCP", hint=hint)
    catalogue = catalogue_of(project)

    def who() -> Identity:
        return identity_of(project, actor)

    who()

    async def main() -> None:
        async with opened(project, db, create=True, catalogue=catalogue) as runtime:
            desk = Desk(runtime, who, project.model_spec(None), model)
            try:
                await server_of(desk).run_stdio_async()
            finally:
                await desk.close()

    run_async(main())
    return 0


class Desk:
    """What a client can do, for one actor. Tasks run on in the background; the store knows where each stands."""

    def __init__(self, runtime: Runtime, who: Callable[[], Identity], otherwise: str, model: str | None) -> None:
        """`who` is asked anew for each request, so that a token that is over is over."""
        from statemachine_agent.definition.roster import Roster

        self._runtime = runtime
        self._who = who
        self._models = {"model": model, "otherwise": otherwise}
        self._roster = Roster(runtime.catalogue.people, runtime.catalogue.people_path)
        self._work: dict[str, asyncio.Task[None]] = {}
        self._problems: dict[str, str] = {}

    async def close(self) -> None:
        """Stop the work, not the tasks."""
        self._runtime.stop()
        if self._work:
            await asyncio.wait(self._work.values(), timeout=_CLOSING)

    def machines(self) -> list[dict[str, Any]]:
        """The machines that load, with what each takes."""
        from statemachine_agent.definition.schema import json_schema

        self._actor()
        catalogue = self._runtime.catalogue
        broken = {fault.file for fault in catalogue.report.errors}
        return [
            {
                "machine": name,
                "version": file.definition.version,
                "summary": file.definition.summary,
                "input": json_schema(file.definition.input),
            }
            for name, file in sorted(catalogue.machines.items())
            if file.document.source.name not in broken
        ]

    async def start(self, machine: str, given: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Start a task and run it."""
        created = await self._runtime.start(machine, given, self._who(), **self._models)
        self._go_on(created)
        return await self._rested(created.task.id, seconds)

    async def status(self, task: str, seconds: float) -> dict[str, Any]:
        """How a task stands; one that could go on does."""
        checkpoint = await self._mine(task)
        now = self._runtime.environment.now()
        if str(checkpoint.head.status) == "RUNNING" or any(timer.due_at <= now for timer in checkpoint.timers):
            self._go_on(checkpoint)
        return await self._rested(checkpoint.task.id, seconds)

    async def trace(self, task: str) -> list[dict[str, Any]]:
        """The history of a task."""
        from statemachine_agent.runtime.trace import trace_of

        checkpoint = await self._mine(task)
        return list(plain(trace_of(await self._runtime.store.history(checkpoint.task.id))))

    async def reply(self, task: str, text: str, version: int | None, seconds: float) -> dict[str, Any]:
        """Answer a task that waits for a reply, and run it on."""
        checkpoint = await self._mine(task)
        await self._runtime.reply(checkpoint.task.id, text, self._who(), to_version=version)
        self._go_on(checkpoint)
        return await self._rested(checkpoint.task.id, seconds)

    def _actor(self) -> Mapping[str, Any]:
        from statemachine_agent.policy.identity import actor_of

        return actor_of(self._roster.now(), self._who())

    async def _mine(self, task: str) -> Checkpoint:
        """A task of this actor; whatever else there is, is told of as if it were not there."""
        actor = self._actor()
        unknown = UnknownTaskError(f"there is no task `{one_line(task, 60)}` of yours", hint="`start` gives its id")
        try:
            found = await self._runtime.status(task)
        except UnknownTaskError:
            raise unknown from None
        if any(found.task.actor[key] != actor[key] for key in ("id", "tenant")):
            raise unknown
        return found

    def _go_on(self, checkpoint: Checkpoint) -> None:
        from statemachine_agent.runtime.deciding import ONLY

        task = checkpoint.task.id
        if checkpoint.task.model.removeprefix(ONLY) == "ask":
            self._problems[task] = "a person at a terminal decides in this task, and it goes on there"
        elif task not in self._work or self._work[task].done():
            self._problems.pop(task, None)
            self._work[task] = asyncio.create_task(self._run(task))

    async def _run(self, task: str) -> None:
        from statemachine_agent.runtime.drive import StoppedError

        try:
            await self._runtime.resume(task)
        except (TaskHeldError, StoppedError):  # another worker has it, or we are going
            pass
        except SmaError as problem:
            self._problems[task] = str(problem)
        except Exception as problem:  # noqa: BLE001  the server goes on; the task stands where it stood
            self._problems[task] = f"internal error: {type(problem).__name__}"

    async def _rested(self, task: str, seconds: float) -> dict[str, Any]:
        """How the task stands once its work is done, or after so many seconds."""
        if task in self._work:
            await asyncio.wait({self._work[task]}, timeout=min(max(seconds, 0), _LONGEST))
        checkpoint = await self._runtime.status(task)
        told = dict(plain(summary(checkpoint, await self._runtime.awaited(checkpoint))))
        if task in self._problems:
            told["problem"] = one_line(self._problems[task], 400)
        return told


def server_of(desk: Desk) -> Any:
    """The server, with exactly five tools."""
    try:
        library, errors = import_module("mcp.server"), import_module("mcp.server.mcpserver.exceptions")
    except ImportError:
        hint = "pip install 'statemachine-agent[mcp]'"
        raise UsageError("the library `mcp` is not installed", hint=hint) from None
    server = library.MCPServer("statemachine-agent", log_level="ERROR")

    def tool(work: Callable[..., Awaitable[Any]]) -> None:
        """A tool of the server; what was refused is told, and its reason."""

        @wraps(work)
        async def told(*args: Any, **kwargs: Any) -> Any:
            try:
                return await work(*args, **kwargs)
            except SmaError as problem:
                raise errors.ToolError(f"{one_line(str(problem), 600)} [{problem.reason}]") from None

        server.add_tool(told)

    @tool
    async def list_machines() -> dict[str, Any]:
        """The machines that can be started, with the JSON schema of what each takes."""
        return {"machines": desk.machines()}

    @tool
    async def start(machine: str, input: dict[str, Any], wait_seconds: Wait = 20) -> dict[str, Any]:  # noqa: A002
        """Start a task of a machine, and say how it stands. People approve elsewhere; ask for the status again later."""
        return await desk.start(machine, input, wait_seconds)

    @tool
    async def status(task: Task, wait_seconds: Wait = 0) -> dict[str, Any]:
        """How a task stands, and what it waits for; one that could go on does."""
        return await desk.status(task, wait_seconds)

    @tool
    async def trace(task: Task) -> dict[str, Any]:
        """The history of a task: each step, each call, and what followed."""
        return {"lines": await desk.trace(task)}

    @tool
    async def reply(task: Task, text: str, to_version: int | None = None, wait_seconds: Wait = 20) -> dict[str, Any]:
        """Answer a task that waits for a reply; with `to_version`, only what it asked at that version."""
        return await desk.reply(task, text, to_version, wait_seconds)

    return server
