"""Options that many commands share, and what they open: settings, catalogue, store, runtime."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from statemachine_agent import files
from statemachine_agent.definition.settings import Project, demo_settings, load_project
from statemachine_agent.environment import Environment
from statemachine_agent.errors import SmaError, UsageError
from statemachine_agent.store.sqlite import SqliteStore

if TYPE_CHECKING:  # what only lists and shows does not pay for what runs
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.policy.identity import Identity
    from statemachine_agent.runtime.runtime import Runtime
    from statemachine_agent.tools.request import Reach

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


def catalogue_of(project: Project) -> Catalogue:
    """All machines and manifests of the project."""
    from statemachine_agent.definition.catalogue import Catalogue

    return Catalogue.read(project.machines, project.tools, project.people, *project.listed)


def reach_of(project: Project, variables: Mapping[str, str] | None = None) -> Reach:
    """What the tools of the project may use."""
    from statemachine_agent.tools.request import Reach

    settings = project.settings
    return Reach(
        {**settings.variables, **(variables or {})},
        frozenset(settings.hosts),
        frozenset(settings.python_packages),
        project.environ,
        project.programs,
        project.servers,
        frozenset(settings.private_hosts),
        project.ca_file,
        settings.oauth2,
    )


def open_store(project: Project, db: str | None, *, create: bool = False) -> SqliteStore:
    """The store named by `--db`, else by the settings."""
    text = db or project.settings.db
    if "://" in text:
        raise UsageError(f"`{text}` names no file", hint="stores by URL are not built yet; name a file")
    return SqliteStore(Path(text) if db else project.path(text), create=create)


@asynccontextmanager
async def opened(
    project: Project, db: str | None, *, create: bool = False, catalogue: Catalogue | None = None
) -> AsyncIterator[Runtime]:
    """A runtime on the project's store. Python tools are found in the settings' folder too."""
    from statemachine_agent.models.spec import model_of
    from statemachine_agent.runtime.runtime import Runtime

    environment = Environment()
    if project.settings.python_packages and str(project.folder) not in sys.path:
        sys.path.insert(0, str(project.folder))
    with open_store(project, db, create=create) as store:
        async with Runtime(
            catalogue or catalogue_of(project),
            store,
            lambda spec: model_of(spec, environment, project.settings.models, project.environ),
            reach=reach_of(project),
            environment=environment,
        ) as runtime:
            yield runtime


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
