"""`schema`: what an editor needs to know of a kind of file. It must not know what the schema says."""

from __future__ import annotations

import json
from pathlib import Path

import click

from statemachine_agent.cli.output import say, show_json
from statemachine_agent.definition import schemas
from statemachine_agent.errors import UsageError
from statemachine_agent.text import did_you_mean


@click.command()
@click.argument("kind", metavar="{" + "|".join(schemas.KINDS) + "}")
@click.option("-o", "--output", metavar="FILE", help="Write it there instead of showing it.")
def schema(kind: str, output: str | None) -> int:
    """Show the JSON schema of a kind of file, by which an editor completes and checks."""
    if kind not in schemas.KINDS:
        raise UsageError(f"there is no kind of file `{kind}`", hint=did_you_mean(kind, schemas.KINDS))
    found = schemas.schema(kind)
    if output is None:
        show_json(found)
        return 0
    path = Path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{output} cannot be written: {problem.strerror}", hint="name another file") from None
    say(f"wrote {output}")
    return 0
