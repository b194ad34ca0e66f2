"""`approvals`, `approve`, `reject`: the inbox of people who say yes or no."""

from __future__ import annotations

from typing import Any

import click

from statemachine_agent.cli.again import Again
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
from statemachine_agent.environment import Environment
from statemachine_agent.policy.approvals import has_expired
from statemachine_agent.records import Checkpoint


@click.command(short_help="What waits for an answer.")
@click.option("--all", "everything", is_flag=True, help="Answered and expired ones too.")
@db_option
@json_option
@click.pass_context
def approvals(context: click.Context, everything: bool, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """List the requests that wait for an answer."""
    project = project_of(context)

    async def main() -> Any:
        with open_store(project, db) as store:
            return await store.approvals(status=None if everything else "open")

    rows = run_async(main())
    if as_json:
        show_json(rows)
        return 0
    now = Environment().now()
    table(
        ["id", "task", "action", "key", "roles", "hash", "expires", "status"],
        [
            (
                r["approval"].id, r["task"], f"{r['approval'].tool} {compact(r['approval'].shown['args'], 80)}",
                r["approval"].effect_key, ", ".join(r["approval"].roles), r["approval"].action_hash[:12],
                r["approval"].expires_at,
                "expired" if r["approval"].status == "open" and has_expired(r["approval"], now) else r["approval"].status,
            )
            for r in rows
        ],
        empty="nothing waits for an answer",
    )  # fmt: skip
    return 0


@click.command(short_help="Say yes to an exact action.")
@click.argument("approval")
@click.option("--as", "claim", metavar="WHO", help="Who says yes.")
@click.option("--why", metavar="TEXT", help="Kept with the answer.")
@db_option
@json_option
@click.pass_context
def approve(
    context: click.Context,
    approval: str,
    claim: str | None,
    why: str | None,
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Say yes to the exact action of request APPROVAL."""
    return _answer(context, approval, claim, why, db, yes=True, as_json=as_json)


@click.command(short_help="Say no; one is enough.")
@click.argument("approval")
@click.option("--as", "claim", metavar="WHO", help="Who says no.")
@click.option("--why", metavar="TEXT", required=True, help="Kept with the answer.")
@db_option
@json_option
@click.pass_context
def reject(
    context: click.Context,
    approval: str,
    claim: str | None,
    why: str,
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Say no to request APPROVAL; one no is enough."""
    return _answer(context, approval, claim, why, db, yes=False, as_json=as_json)


def _answer(
    context: click.Context,
    approval: str,
    claim: str | None,
    why: str | None,
    db: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    project = project_of(context)

    async def main() -> Checkpoint:
        async with opened(project, db) as runtime:
            who = identity_of(project, claim)
            if yes:
                return await runtime.approve(approval, who, why=why)
            return await runtime.reject(approval, who, why=why or "")

    checkpoint = run_async(main())
    if as_json:
        show_json(summary(checkpoint))
        return 0
    request = next((a for a in checkpoint.approvals if a.id.endswith(approval)), None)
    left = len(request.roles) - len(request.answers) if request and str(request.status) == "open" else 0
    if left:
        say(f"recorded; {left} more {'person has' if left == 1 else 'people have'} to say yes")
    elif checkpoint.head.status.is_end:
        say(f"recorded; the task is {checkpoint.head.status} ({checkpoint.head.reason})")
    else:
        again = Again.of(context, db, identity=project.settings.identity)
        say(f"recorded; go on with: {again('resume', checkpoint.task.id)}")
    return 0
