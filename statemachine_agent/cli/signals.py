"""`reply`, `signal`, `talk`: what somebody outside tells a task that waits for it."""

from __future__ import annotations

import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from statemachine_agent.cli.again import Again
from statemachine_agent.cli.forming import Forming, stream_option
from statemachine_agent.cli.options import (
    db_option,
    identity_of,
    json_option,
    opened,
    project_of,
    run_async,
    stoppable,
)
from statemachine_agent.cli.output import EXIT_CODES, complain, say, show_json
from statemachine_agent.cli.rest import show_rest, summary
from statemachine_agent.cli.running import passed_on
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.typed import UnreadableLineError, typed_line
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint
from statemachine_agent.runtime.outside import UnfitSignalError
from statemachine_agent.runtime.runtime import Runtime
from statemachine_agent.text import one_line
from statemachine_agent.tools.results import BadResultError, parse


@click.command(short_help="Send a task a signal.")
@click.argument("task")
@click.argument("name")
@click.argument("payload", default="{}")
@click.option("--id", "signal_id", metavar="TEXT", help="Taken once: sent again under the same id, nothing happens.")
@click.option("--to", "to_version", type=int, metavar="VERSION", help="It answers what the task asked at that version.")
@click.option("--as", "claim", metavar="WHO", help="Who sends it.")
@db_option
@json_option
@click.pass_context
def signal(
    context: click.Context,
    task: str,
    name: str,
    payload: str,
    signal_id: str | None,
    to_version: int | None,
    claim: str | None,
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Send TASK the signal NAME with PAYLOAD, a JSON object."""
    how = {"signal_id": signal_id, "to_version": to_version}
    return _send(context, task, name, _object(payload), how, claim, db, as_json=as_json)


@click.command(short_help="Answer a task that asked.")
@click.argument("task")
@click.argument("text")
@click.option("--id", "signal_id", metavar="TEXT", help="Taken once: sent again under the same id, nothing happens.")
@click.option("--to", "to_version", type=int, metavar="VERSION", help="It answers what the task asked at that version.")
@click.option("--as", "claim", metavar="WHO", help="Who answers.")
@db_option
@json_option
@click.pass_context
def reply(
    context: click.Context,
    task: str,
    text: str,
    signal_id: str | None,
    to_version: int | None,
    claim: str | None,
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Answer TASK with TEXT: the signal `reply`."""
    how = {"signal_id": signal_id, "to_version": to_version}
    return _send(context, task, "reply", {"text": text}, how, claim, db, as_json=as_json)


def _send(
    context: click.Context,
    task: str,
    name: str,
    payload: Mapping[str, Any],
    how: Mapping[str, Any],
    claim: str | None,
    db: str | None,
    *,
    as_json: bool,
) -> int:
    project = project_of(context)

    async def main() -> Checkpoint:
        async with opened(project, db) as runtime:
            return await runtime.signal(task, name, payload, identity_of(project, claim), **how)

    checkpoint = run_async(main())
    if as_json:
        show_json(summary(checkpoint))
    elif checkpoint.head.status.is_end:
        say(f"recorded; the task is {checkpoint.head.status} ({checkpoint.head.reason})")
    else:
        again = Again.of(context, db, identity=project.settings.identity)
        say(f"recorded; go on with: {again('resume', checkpoint.task.id)}")
    return 0


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = parse(text.encode(errors="replace"))
    except BadResultError:
        found = None
    if not isinstance(found, dict):
        hint = """write it like '{"key": "value"}', each key once"""
        raise UsageError(f"`{one_line(text, 60)}` is no JSON object", hint=hint)
    return found


@click.command(short_help="Talk with a task, line by line.")
@click.argument("task")
@click.option("--as", "claim", metavar="WHO", help="Who talks.")
@stream_option
@db_option
@click.pass_context
def talk(context: click.Context, task: str, claim: str | None, stream: bool, db: str | None) -> int:  # noqa: FBT001
    """Run TASK on, show what it asks, and send each typed line as its `reply`; Ctrl-D leaves it waiting."""
    project = project_of(context)
    again = Again.of(context, db, identity=project.settings.identity)

    async def main() -> tuple[Checkpoint, Mapping[str, str]]:
        async with opened(project, db) as runtime, stoppable(runtime):
            if stream:
                runtime.watch(Forming(), pieces=True)
            with passed_on(runtime, stream=stream):
                rested = await conversation(runtime, task, identity_of(project, claim))
            return rested, await runtime.awaited(rested)

    checkpoint, awaited = run_async(main())
    show_rest(checkpoint, again, awaited=awaited)
    return EXIT_CODES[checkpoint.head.status]


async def conversation(runtime: Runtime, task: str, who: Identity) -> Checkpoint:
    """Turn by turn, until the task no longer waits for a reply, or nobody says anything more."""
    environment = Environment()
    await runtime.check_may_signal(task, who)
    checkpoint = await runtime.resume(task)
    while "reply" in (await runtime.awaited(checkpoint)).values():
        say(f"agent    {checkpoint.head.output or '…'}")
        while line := await environment.in_thread(_line):
            try:
                await runtime.reply(task, line, who, to_version=checkpoint.head.version)
                break
            except UnfitSignalError as problem:  # the machine takes no such answer; the question stands
                complain(problem)
        if not line:
            break
        checkpoint = await runtime.resume(task)
    return checkpoint


def _line() -> str:
    """The next line with something in it; empty at the end of the input."""
    if sys.stdin is None:
        return ""
    _forget_typed_ahead()
    while True:
        if sys.stdin.isatty():
            print("you      ", end="", file=sys.stderr, flush=True)  # noqa: T201  a prompt, which is no output
        try:
            line = typed_line()
        except UnreadableLineError as problem:
            complain(problem)
            continue
        text = line.strip()
        if text or not line:
            if text and not sys.stdin.isatty():
                say(f"you      {text}")
            return text


def _forget_typed_ahead() -> None:
    """What was typed before a question was shown is no answer to it."""
    if sys.stdin.isatty():
        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
