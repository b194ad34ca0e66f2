"""`config`: the settings in force, and where they come from. Values of variables are shown only as set or not."""

from __future__ import annotations

import click

from statemachine_agent.cli.options import json_option, project_of
from statemachine_agent.cli.output import say, show_json


@click.command()
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> int:  # noqa: FBT001
    """Show the settings in force."""
    project = project_of(context)
    values = project.settings.model_dump()
    values["variables"] = {
        name: "from the environment" if project.environ.get(name) else "default" if default else "not set"
        for name, default in project.settings.variables.items()
    }
    if as_json:
        show_json({"source": project.source, "folder": str(project.folder), "settings": values})
        return 0
    say(f"from {project.source}")
    for name, value in values.items():
        shown = ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else value
        say(f"  {name} = {shown}")
    return 0
