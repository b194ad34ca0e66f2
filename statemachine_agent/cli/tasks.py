"""`tasks`, `show`, `trace`: what there is, how one stands, and how it came there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from statemachine_agent.cli.again import Again
from statemachine_agent.cli.options import db_option, json_option, open_store, project_of, run_async
from statemachine_agent.cli.output import compact, say, show_json, table
from statemachine_agent.cli.rest import awaited_in, show_rest, summary
from statemachine_agent.cli.step import prompted, show_step
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.runtime.trace import trace_of
from statemachine_agent.text import did_you_mean, one_line


@click.command(short_help="List tasks.")
@click.option("--status", metavar="STATUS", help="Only those in this status.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
@db_option
@json_option
@click.pass_context
def tasks(context: click.Context, status: str | None, limit: int, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """List the newest tasks."""
    if status is not None and status.upper() not in Status.__members__:
        raise UsageError(f"there is no status `{status}`", hint=did_you_mean(status, Status.__members__))
    project = project_of(context)

    async def main() -> Any:
        with open_store(project, db) as store:
            return await store.tasks(status=status.upper() if status else None, limit=limit)

    rows = run_async(main())
    if as_json:
        show_json(rows)
        return 0
    table(
        ["id", "machine", "for", "status", "reason", "state", "version", "steps", "open effects", "updated"],
        [
            (
                r["id"], f"{r['machine']} {r['machine_version']}", r["actor_id"], r["status"], r["reason"] or "",
                ", ".join(r["configuration"]), r["version"], r["steps"], r["open_effects"] or "", r["updated_at"][:19],
            )
            for r in rows
        ],
        empty="there is no task",
    )  # fmt: skip
    return 0


@click.command(short_help="How a task stands.")
@click.argument("task")
@click.option(
    "--step", type=click.IntRange(1), metavar="N", help="What the model was shown at step N, and what it said."
)
@db_option
@json_option
@click.pass_context
def show(context: click.Context, task: str, step: int | None, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Show how TASK stands: status, evidence, effects, what it waits for; or one step of it."""
    project = project_of(context)
    if step is not None:
        with open_store(project, db) as store:
            show_step(run_async(prompted(store, task, step)), as_json=as_json)
        return 0

    async def main() -> tuple[Checkpoint, Any, Mapping[str, str]]:
        with open_store(project, db) as store:
            loaded = await store.load(task)
            return loaded, await store.history(task), await awaited_in(store, loaded)

    checkpoint, history, awaited = run_async(main())
    if as_json:
        show_json({**summary(checkpoint, awaited), "checkpoint": checkpoint})
        return 0
    one, head = checkpoint.task, checkpoint.head
    say(f"machine  {one.machine} {one.machine_version} (definition {one.definition_hash[:12]}), decided by {one.model}")
    say(f"for      {one.actor['id']} ({one.actor['established']}), since {one.started_at.isoformat()}")
    say(f"input    {compact(one.input, 300)}")
    say(f"state    {', '.join(head.configuration)}")
    usage = head.usage
    say(
        f"spent    {head.steps} steps, {usage.tokens:,} tokens, {usage.tool_calls} calls,"
        f" {usage.active_ms / 1000:.1f} s active, {usage.cost_usd} USD"
    )
    for found in checkpoint.evidence:
        marks = "".join(f", {mark}" for mark, holds in (("old", found.old), ("inherited", found.inherited)) if holds)
        say(f"{found.name:<8} {found.tool} from {found.source} ({found.purpose}{marks}): {compact(found.payload, 160)}")
    for effect in checkpoint.effects:
        receipt = f", receipt {compact(effect.receipt, 80)}" if effect.receipt is not None else ""
        marks = ", inherited" if effect.inherited else ""
        say(f"effect   {effect.key}: {effect.status}, attempt {effect.attempt}{marks}{receipt}")
    for approval in checkpoint.approvals:
        by = ", ".join(f"{a['by']} as {a['role']} ({a['established']})" for a in approval.answers)
        say(f"approval {approval.id} of {approval.tool}: {approval.status}{f' by {by}' if by else ''}")
    for row in history:
        if row["table"] == "note" and row["event"] in ("forked", "forked_from"):
            say(f"{row['event'].replace('_', ' '):<8} {row['why']}, by {row['by']}")
        if row["table"] == "approval_event" and row["why"]:
            say(f"{row['event']:<8} by {row['by']}: {one_line(row['why'], 300)}")
    if checkpoint.cancel_requested:
        say(f"cancel   asked for by {checkpoint.cancel_requested['by']}")
    again = Again.of(context, db, identity=project.settings.identity)
    show_rest(checkpoint, again, Environment().now(), history, awaited)
    return 0


@click.command(short_help="The history of a task.")
@click.argument("task")
@db_option
@json_option
@click.pass_context
def trace(context: click.Context, task: str, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Show the history of TASK: a line for each step, each call, and what followed."""
    project = project_of(context)

    async def main() -> Any:
        with open_store(project, db) as store:
            return await store.history(task)

    lines = trace_of(run_async(main()))
    if as_json:
        show_json(lines)
        return 0
    for line in lines:
        say(line_of(line))
    return 0


def line_of(line: Mapping[str, Any]) -> str:
    """A line of a trace as text."""
    return f"{line['index']:>4} v{line['version']:<3} {_text(line)}"


def _text(line: Mapping[str, Any]) -> str:
    error = f", {line['error_class']}" if line.get("error_class") else ""
    match line["kind"]:
        case "step":
            told = f": {one_line(line['feedback'], 120)}" if line["feedback"] else ""
            tokens = line["input_tokens"] + line["output_tokens"]
            return (
                f"step     {line['step']} {line['state']} {one_line(line['action'], 200)} {compact(line['arguments'], 100)} →"
                f" {line['result']}{error}, {tokens:,} tokens, {line['latency_ms']} ms, attempt {line['attempt']}{told}"
            )
        case "call":
            name = f" {line['evidence']}" if line["evidence"] else ""
            return (
                f"call     {line['action']} {compact(line['arguments'], 100)} → {line['outcome']}{name}{error},"
                f" {line['observation_bytes']} bytes, {line['latency_ms']} ms, attempt {line['attempt']} ({line['purpose']})"
                + (f": {one_line(line['detail'], 300)}" if line["detail"] else "")
            )
        case "evidence":
            return f"evidence {line['name']} {line['tool']} from {line['source']}: {compact(line['payload'], 100)}"
        case "effect":
            by = f" by {line['by']}" if line["by"] else ""
            why = f" ({line['reason']})" if line["reason"] else ""
            return f"effect   {line['effect_key']} {line['status']}{why}{by}"
        case "approval":
            by = f" by {line['by']} ({line['established']})" if line["by"] else ""
            why = "".join(f": {one_line(line[k], 200)}" for k in ("reason", "why") if line[k])
            return f"approval {line['approval_id']} {line['event']}{by}{why}"
        case "move":
            asked = ", ".join(f"{'' if held else 'not '}{name}" for name, held in line["asked"].items())
            return f"move     {line['source']} → {line['target']} [{line['event']}]{f' as {asked}' if asked else ''}"
        case "note":
            why = f": {one_line(line['why'], 300)}" if line["why"] else ""
            return f"note     {line['event']} by {line['by']}{why}"
        case _:
            reason = f" ({line['reason']})" if line["reason"] else ""
            where = ", ".join(line["configuration"])
            return (
                f"version  {line['version']} {line['cause']}: {line['status']}{reason} in {where},"
                f" step {line['steps']}, {line['tokens']:,} tokens"
            )
