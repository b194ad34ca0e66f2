"""`effects`, `resolve`: the ledger of what tasks changed outside, and what people settle in it."""

from __future__ import annotations

import json
from typing import Any

import click

from statemachine_agent.cli.options import (
    db_option,
    identity_of,
    json_option,
    open_store,
    opened,
    project_of,
    run_async,
)
from statemachine_agent.cli.output import compact, say, show_json, table
from statemachine_agent.cli.rest import summary
from statemachine_agent.errors import UsageError
from statemachine_agent.records import Checkpoint


@click.command(short_help="The ledger of external changes.")
@click.option("--open", "only_open", is_flag=True, help="Only those that may have happened and nobody knows.")
@click.option("--task", metavar="TASK", help="Only those of one task.")
@db_option
@json_option
@click.pass_context
def effects(context: click.Context, only_open: bool, task: str | None, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """List external changes: their keys, how far they came, their receipts."""
    project = project_of(context)

    async def main() -> Any:
        with open_store(project, db) as store:
            task_id = (await store.load(task)).task.id if task else None
            return await store.effects(only_open=only_open, task_id=task_id)

    rows = run_async(main())
    if as_json:
        show_json(rows)
        return 0
    table(
        ["key", "tool", "status", "attempt", "task", "receipt", "reason"],
        [
            (
                r["effect"].key, r["effect"].tool, r["effect"].status, r["effect"].attempt, r["task"],
                compact(r["effect"].receipt, 60) if r["effect"].receipt is not None else "", r["effect"].reason or "",
            )
            for r in rows
        ],
        empty="no effect is open" if only_open else "there is no effect",
    )  # fmt: skip
    return 0


@click.command(short_help="Settle an open effect by hand.")
@click.argument("task")
@click.argument("key")
@click.option("--found", metavar="JSON", help="It happened: the tool's result.")
@click.option("--absent", is_flag=True, help="It never happened.")
@click.option("--as", "claim", metavar="WHO", help="Who settles it.")
@click.option("--why", metavar="TEXT", required=True, help="How you know; kept with it.")
@db_option
@json_option
@click.pass_context
def resolve(
    context: click.Context,
    task: str,
    key: str,
    found: str | None,
    absent: bool,  # noqa: FBT001
    claim: str | None,
    why: str,
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Settle the open effect KEY of the ended TASK, after looking at the service yourself."""
    if (found is None) != absent:
        raise UsageError("say either --found JSON or --absent", hint="look at the service first")
    project = project_of(context)
    result = _result(found)

    async def main() -> Checkpoint:
        async with opened(project, db) as runtime:
            return await runtime.resolve(task, key, identity_of(project, claim), found=result, why=why)

    checkpoint = run_async(main())
    if as_json:
        show_json(summary(checkpoint))
    else:
        effect = checkpoint.effect(key)
        say(f"settled: {key} is {effect.status if effect else 'unknown'}; the task stays {checkpoint.head.status}")
    return 0


def _result(found: str | None) -> Any:
    if found is None:
        return None
    try:
        value = json.loads(found)
    except (ValueError, RecursionError):
        raise UsageError("the text after --found is not JSON", hint='for example \'{"id": "a1"}\'') from None
    if not isinstance(value, dict):
        raise UsageError("the JSON after --found is no object", hint="give the tool's whole result")
    return value
