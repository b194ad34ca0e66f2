"""The entry point: finds the command, runs it, and turns whatever goes wrong into one line and the right exit code.

A command's module is imported when it is asked for. It must not know what any command does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from statemachine_agent.errors import SmaError
from statemachine_agent.text import visible

#: command → module of `statemachine_agent.cli` that has it
COMMANDS = {
    "demo": "demo",
    "check": "definitions",
    "diagram": "definitions",
    "schema": "schema",
    "run": "running",
    "resume": "running",
    "cancel": "running",
    "tasks": "tasks",
    "show": "tasks",
    "trace": "tasks",
    "approvals": "approvals",
    "approve": "approvals",
    "reject": "approvals",
    "effects": "effects",
    "resolve": "effects",
    "sandbox": "sandbox",
    "config": "config",
    "token": "config",
}


class _Commands(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"statemachine_agent.cli.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from statemachine_agent.text import did_you_mean

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command `{visible(args[0])}` ({did_you_mean(args[0], COMMANDS)})")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="statemachine-agent", prog_name="sma")
@click.option("--settings", metavar="FILE", help="Settings to use instead of the nearest ones; `demo` for the demo's.")
@click.pass_context
def cli(context: click.Context, settings: str | None) -> None:
    """Agents whose behaviour is a state machine in a YAML file."""
    context.obj = settings
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process.

    At once: a thread that still waits for a person's input, or for a tool that hangs, holds locks that an interpreter being
    taken down would abort on.
    """
    code = run(arguments)
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character shows its escape
            stream.reconfigure(errors="backslashreplace")
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    as_json = False
    try:
        given = [_as_utf8(a) for a in (sys.argv[1:] if arguments is None else arguments)]
        as_json = "--json" in given
        result = cli.main(args=given, prog_name="sma", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        return _closed_pipe()
    except (Exception, KeyboardInterrupt) as problem:
        if os.environ.get("SMA_DEBUG") and not isinstance(problem, _EXPECTED):
            raise
        told = _told(problem)
        with suppress(OSError):  # nobody reads standard error either
            click.echo(json.dumps(told) if as_json else _line(told), err=True)
        code: int = told["exit_code"]
        return code


_EXPECTED = (SmaError, click.ClickException, click.Abort, KeyboardInterrupt)


def _told(problem: BaseException) -> dict[str, Any]:
    """What a person or a program is told of what went wrong."""
    match problem:
        case SmaError():
            told = {"error": problem.message, "hint": problem.hint, "reason": problem.reason}
            return {**told, "exit_code": problem.exit_code}
        case click.ClickException():
            at = getattr(problem, "ctx", None)
            hint = f"see `{at.command_path} --help`" if at is not None else None
            return {
                "error": problem.format_message(), "hint": hint, "reason": "usage", "exit_code": problem.exit_code
            }  # fmt: skip
        case click.Abort() | KeyboardInterrupt():
            return {"error": "stopped", "hint": None, "reason": "stopped", "exit_code": 130}
        case _:
            hint = "SMA_DEBUG=1 shows where; please report it"
            message = f"internal error: {type(problem).__name__}: {problem}"
            return {"error": message, "hint": hint, "reason": "internal", "exit_code": 70}


def _line(told: Mapping[str, Any]) -> str:
    hint = f" ({told['hint']})" if told["hint"] else ""
    return f"sma: {visible(told['error'], keep=chr(10))}{hint}"


def _as_utf8(argument: str) -> str:
    """An argument as it was typed: where the locale is not UTF-8, its bytes come as surrogates."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        raise click.UsageError(f"`{argument}` is not UTF-8 text") from None


def _closed_pipe() -> int:
    """Nobody reads any more: end quietly, as a program that is told so by a signal would."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return 141
