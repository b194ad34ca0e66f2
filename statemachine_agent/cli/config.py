"""`config` and `token`: the settings in force, and tokens where they establish identities. No secret is ever shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from statemachine_agent.cli.options import json_option, project_of
from statemachine_agent.cli.output import say, show_json
from statemachine_agent.definition.named_models import NamedModel, key_names
from statemachine_agent.definition.settings import Project
from statemachine_agent.definition.token_source import TokenSource
from statemachine_agent.text import did_you_mean, one_line, visible


@click.command(short_help="The settings in force.")
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> int:  # noqa: FBT001
    """Show the settings in force."""
    project = project_of(context)
    values = project.settings.model_dump()
    values["variables"] = {
        name: "set in the environment" if project.environ.get(name) else default or "not set"
        for name, default in project.settings.variables.items()
    }
    values["oauth2"] = {name: _source(one, project.environ) for name, one in project.settings.oauth2.items()}
    values["models"] = {name: _model(one, project.environ) for name, one in project.settings.models.items()}
    if as_json:
        show_json({"source": project.source, "folder": str(project.folder), "settings": values})
        return 0
    say(f"from {project.source}")
    for name, value in values.items():
        if isinstance(value, dict):
            say(f"  {name}:")
            for key, one in value.items():
                say(f"    {key} = {_line(one) if isinstance(one, dict) else one}")
            continue
        shown = "not set" if value is None else value
        say(f"  {name} = {', '.join(map(str, value)) if isinstance(value, (tuple, list)) else shown}")
    return 0


def _model(named: NamedModel, environ: Mapping[str, str]) -> dict[str, Any]:
    """What is written of a model, times in seconds; of its key, where it is looked for and whether it is there."""
    found = named.model_dump(exclude_none=True)
    found["timeout"] = named.timeout.total_seconds()
    names = key_names(named)
    there = next((f"{name}, set in the environment" for name in names if environ.get(name, "").strip()), None)
    found["key"] = there or (f"{names[0]}, not set" if names else "none")
    return found


def _source(source: TokenSource, environ: Mapping[str, str]) -> dict[str, Any]:
    """What is written of a token source, times in seconds; of its secret, where it stands and whether it is there."""
    found = source.model_dump(exclude_none=True)
    found["timeout"] = source.timeout.total_seconds()
    found["client_secret"] = f"{source.secret}, {'set in the environment' if environ.get(source.secret) else 'not set'}"
    return found


def _line(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


@click.command(short_help="A token that shows who one is.")
@click.argument("person")
@click.option("--lasts", default="8h", show_default=True, help="For how long it is good: 30m, 8h, 7d.")
@click.pass_context
def token(context: click.Context, person: str, lasts: str) -> int:
    """Make a token by which PERSON is known, where `identity = "token"`; they put it into SMA_TOKEN."""
    from pydantic import TypeAdapter, ValidationError

    from statemachine_agent.definition.node import Duration
    from statemachine_agent.environment import Environment
    from statemachine_agent.errors import UsageError
    from statemachine_agent.policy.identity import key_of, mint

    project = project_of(context)
    try:
        duration = TypeAdapter(Duration).validate_python(lasts)
    except ValidationError:
        raise UsageError(f"`{lasts}` is not a duration", hint="write 30m, 8h or 7d") from None
    key = key_of(project.environ, project.settings.identity_key)
    say(mint(person, key, Environment().now() + duration))
    _warn_of_a_stranger(project, person)
    return 0


def _warn_of_a_stranger(project: Project, person: str) -> None:
    """One line where nobody of that name is listed: a slip, or somebody who is added later."""
    from statemachine_agent.definition.catalogue import Catalogue

    found = Catalogue.read(
        [], [], project.people
    ).people  # nobody where the file has faults, of which `sma check` tells
    if found is None or person not in found.people:
        hint = did_you_mean(person, found.people if found else ())
        text = f"nobody is called `{one_line(person, 60)}` in {project.settings.people} ({hint}): the token is worth nothing"
        click.echo(f"sma: {visible(text)} until they are listed there", err=True)
