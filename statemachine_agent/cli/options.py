"""Options that many commands share, and what they open: the settings in force, who is there, a runtime."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from statemachine_agent import files
from statemachine_agent.definition.settings import Project, demo_settings, load_project
from statemachine_agent.environment import Environment
from statemachine_agent.errors import SmaError, UsageError
from statemachine_agent.runtime.project import catalogue_of, open_project, open_store, reach_of

if TYPE_CHECKING:  # what only lists and shows does not pay for what runs
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.policy.identity import Identity
    from statemachine_agent.runtime.runtime import Runtime

__all__ = ["catalogue_of", "open_store", "reach_of"]  # passed on to the commands

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Show the result as JSON.")
db_option = click.option("--db", metavar="FILE", help="The store; else the setting `db`.")


def project_of(context: click.Context) -> Project:
    """The settings in force for this command."""
    import os

    named = context.find_root().obj
    if named is None:
        return load_project()
    path = demo_settings() if named == "demo" else Path(named)
    if files.is_absent(path):
        raise UsageError(f"--settings {named}: there is no such file", hint="name a TOML file, or `demo`")
    return load_project(environ={**os.environ, "SMA_SETTINGS": str(path)})


def opened(
    project: Project, db: str | None, *, create: bool = False, catalogue: Catalogue | None = None
) -> AbstractAsyncContextManager[Runtime]:
    """A runtime on the project's store, which most commands do not make."""
    return open_project(project, db=db, create=create, catalogue=catalogue)


def identity_of(project: Project, claim: str | None) -> Identity:
    """Who is at the command line, established as the settings say."""
    from statemachine_agent.policy.identity import establish, key_of

    how, token = project.settings.identity, project.environ.get("SMA_TOKEN")
    key = key_of(project.environ, project.settings.identity_key) if how == "token" and token else None
    return establish(claim, how, Environment(), token=token, key=key)


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end; nothing here handles signals."""
    return asyncio.run(main)


class Interrupted(SmaError):  # noqa: N818  it is no error of anybody's
    """The worker was stopped; the task goes on with `sma resume`."""

    reason = "stopped"

    def __init__(self, number: int, again: str) -> None:
        self.exit_code = 128 + number  # type: ignore[misc]
        super().__init__("stopped; the task was not", hint=f"go on with `{again}`")


@asynccontextmanager
async def stoppable(runtime: Runtime) -> AsyncIterator[list[int]]:
    """SIGINT and SIGTERM stop the worker, not the task; the list holds the signal that came."""
    came: list[int] = []
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if came:  # asked twice: do not wait for anything
            raise KeyboardInterrupt
        came.append(number)
        runtime.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError):  # not in this kind of loop or thread
            loop.add_signal_handler(number, stop, number)
    yield came
