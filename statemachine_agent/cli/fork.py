"""`fork`: a new task that begins where another one stood."""

from __future__ import annotations

import click

from statemachine_agent.cli.again import Again
from statemachine_agent.cli.named import machines_at
from statemachine_agent.cli.options import (
    db_option,
    identity_of,
    json_option,
    opened,
    project_of,
    run_async,
)
from statemachine_agent.cli.output import say, show_json
from statemachine_agent.cli.rest import awaited_in, show_rest, summary
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.spec import model_of
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.text import one_line


@click.command(short_help="Go back: a new task from a past version.")
@click.argument("task")
@click.option("--at", type=click.IntRange(0), required=True, metavar="N", help="The version to begin from.")
@click.option("--actor", metavar="ID", help="Whose task it is.")
@click.option(
    "--limit", "limits", multiple=True, metavar="NAME=VALUE", help="Another budget: `steps=12`; repeat for more."
)
@click.option(
    "--machine", metavar="FILE", help="As this file, folder or machine of the settings has it; else as the task began."
)
@click.option("--model", metavar="SPEC", help="What decides; else what decides in TASK.")
@db_option
@json_option
@click.pass_context
def fork(
    context: click.Context,
    task: str,
    at: int,
    actor: str | None,
    limits: tuple[str, ...],
    machine: str | None,
    model: str | None,
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Begin a new task as TASK stood at version N; nothing that happened is undone, and people are asked anew."""
    project = project_of(context)
    again = Again.of(context, db, identity=project.settings.identity)
    given = _limits(limits)
    if model is not None:  # what is wrong with it is said before there is a task
        model_of(model, Environment(), project.settings.models, project.environ)
    meant = machines_at(project, machine) if machine is not None else None

    async def main() -> tuple[Checkpoint, dict[str, str]]:
        async with opened(project, db, catalogue=meant.catalogue if meant else None) as runtime:
            name = None if meant is None else (await runtime.status(task)).task.machine
            if meant is not None and name not in meant.names:
                these = ", ".join(f"`{one}`" for one in meant.names)
                raise UsageError(
                    f"the task is of `{name}`, and `{one_line(str(machine), 200)}` stands for {these}",
                    hint="name a definition of the task's own machine",
                )
            made = await runtime.fork(
                task, at, identity_of(project, actor), machine=name, limits=given, model=model
            )  # fmt: skip
            return made, dict(await awaited_in(runtime.store, made))

    made, awaited = run_async(main())
    if as_json:
        show_json(summary(made, awaited))
        return 0
    say(f"task     {made.task.id} of {made.task.machine} for {made.task.actor['id']}, as {task} stood at version {at}")
    show_rest(made, again, awaited=awaited)
    if made.head.status is Status.RUNNING:
        say(f"next     {again('resume', made.task.id)}")
    return 0


def _limits(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given:
        name, mark, text = pair.partition("=")
        if not mark or name in found:
            what = "is given twice" if mark else "is not NAME=VALUE"
            raise UsageError(f"`--limit {pair}` {what}", hint="write --limit steps=12")
        found[name] = text
    return found
