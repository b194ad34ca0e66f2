"""`new`: a machine, its tools, a test and a diagram that work at once. It never writes over a file."""

from __future__ import annotations

from pathlib import Path

import click

from statemachine_agent import files
from statemachine_agent.cli.options import project_of
from statemachine_agent.cli.output import say
from statemachine_agent.cli.scaffold import Scaffold, check_name
from statemachine_agent.definition.settings import FILES, Project, load_project
from statemachine_agent.errors import UsageError


@click.command(short_help="Begin a machine that works at once.")
@click.argument("name")
@click.option("--folder", metavar="FOLDER", help="The project's folder; it is made where it is missing.")
@click.pass_context
def new(context: click.Context, name: str, folder: str | None) -> int:
    """Write a machine NAME with two tools, a test and a diagram, into the project here or in FOLDER."""
    check_name(name)
    project = project_of(context) if folder is None else _project_in(Path(folder))
    scaffold = Scaffold.of(project, name)
    scaffold.check()
    for path in scaffold.write():
        say(f"wrote {path}")
    for line in scaffold.notes:
        say(line)
    say()
    say("next:")
    for line in scaffold.next_commands(Path.cwd()):
        say(f"  {line}")
    return 0


def _project_in(folder: Path) -> Project:
    """The project whose settings lie in `folder` itself; one that is to begin where there are none."""
    kind, reason = files.look(folder)
    if kind in (files.Kind.FILE, files.Kind.OTHER):
        raise UsageError(f"{folder} {reason or 'is a file'}", hint="name a folder")
    found = load_project(folder)
    own = any(Path(found.source) == folder.absolute() / name for name in FILES)
    return found if own else Project(type(found.settings)(), folder.absolute(), "defaults", found.environ)
