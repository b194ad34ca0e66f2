"""A project's runtime, as its settings say: for the command line, and for whoever embeds it.

What runs is imported when it is needed, so that what only lists and shows does not pay for it. It must not know commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from statemachine_agent import files
from statemachine_agent.definition.settings import Project, load_project
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.models.port import Model
    from statemachine_agent.runtime.deciding import ModelSource
    from statemachine_agent.runtime.runtime import Runtime
    from statemachine_agent.tools.request import Reach


@asynccontextmanager
async def open_project(
    where: Path | str | Project | None = None,
    *,
    db: Path | str | None = None,
    create: bool = True,
    catalogue: Catalogue | None = None,
    model: ModelSource | None = None,
) -> AsyncIterator[Runtime]:
    """The runtime of a project, on the settings that `sma` uses; its store is closed with it.

    `where` is a folder (its settings, or those above it), a settings file, or settings that were loaded; otherwise those that
    rule in the current folder. `db` names a store instead of the setting's; with `create` it is made where it is missing.
    `catalogue` and `model` stand in for what the settings name. SettingsError or UsageError where there are no usable
    settings, StoreError where the store cannot be opened.
    """
    from statemachine_agent.runtime.runtime import Runtime

    project, environment = project_at(where), Environment()
    find_python_tools(project)
    with open_store(project, db, create=create) as store:
        async with Runtime(
            catalogue or catalogue_of(project),
            store,
            model or _Models(project, environment),
            reach=reach_of(project),
            environment=environment,
        ) as runtime:
            yield runtime


@dataclass(frozen=True)
class _Models:
    """Finds models by name; the setting `model` decides for a task that names none."""

    project: Project
    environment: Environment

    @property
    def spec(self) -> str:
        """What a task keeps that is started without a model."""
        return self.project.model_spec(None)

    def __call__(self, spec: str) -> Model:
        from statemachine_agent.models.spec import model_of

        return model_of(spec, self.environment, self.project.settings.models, self.project.environ)


def project_at(where: Path | str | Project | None) -> Project:
    """The settings at `where`, as `open_project` takes it; what is named goes before SMA_SETTINGS."""
    if isinstance(where, Project):
        return where
    if where is None:
        return load_project()
    path = Path(where)
    kind, reason = files.look(path)
    if kind is files.Kind.NOTHING:
        raise UsageError(f"{path} {reason}", hint="name the folder of a project, or its settings file")
    environ = {name: value for name, value in os.environ.items() if name != "SMA_SETTINGS"}
    if kind is files.Kind.FOLDER:
        found = load_project(path, environ)
    else:
        found = load_project(environ={**environ, "SMA_SETTINGS": str(path)})
    return replace(found, environ=os.environ)  # variables of tools are read when they are needed


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


def find_python_tools(project: Project) -> None:
    """Let Python tools be found in the settings' folder too."""
    if project.settings.python_packages and str(project.folder) not in sys.path:
        sys.path.insert(0, str(project.folder))


def open_store(project: Project, db: Path | str | None, *, create: bool = False) -> SqliteStore:
    """The store `db`, else that of the settings."""
    text = str(db or project.settings.db)
    if "://" in text:
        raise UsageError(f"`{text}` names no file", hint="stores by URL are not built yet; name a file")
    return SqliteStore(Path(text) if db else project.path(text), create=create)
