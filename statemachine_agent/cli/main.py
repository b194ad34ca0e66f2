"""The entry point: finds the command, runs it, and turns whatever goes wrong into one line and the right exit code.

A command's module is imported when it is asked for. It must not know what any command does.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from statemachine_agent.cli import streams
from statemachine_agent.errors import PlatformError, SmaError, UsageError
from statemachine_agent.text import squeezed, visible

#: command → module of `statemachine_agent.cli` that has it
COMMANDS = {
    "demo": "demo",
    "new": "new",
    "check": "definitions",
    "diagram": "definitions",
    "schema": "schema",
    "run": "running",
    "resume": "running",
    "cancel": "running",
    "fork": "fork",
    "diff": "diff",
    "reply": "signals",
    "signal": "signals",
    "talk": "signals",
    "tasks": "tasks",
    "show": "tasks",
    "trace": "tasks",
    "watch": "watch",
    "approvals": "approvals",
    "approve": "approvals",
    "reject": "approvals",
    "effects": "effects",
    "resolve": "effects",
    "tools": "tools",
    "mcp": "mcp",
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
    try:
        output = streams.guard()
        code = run(arguments)
        sys.stdout.flush()
        if output.problem is not None:
            code = _lost(output.problem)
        sys.stderr.flush()
    except KeyboardInterrupt:  # before or after the command, or once more while it was told
        code = _StoppedError.exit_code
    os._exit(code)


def _lost(problem: OSError) -> int:
    """The exit code where not all output could be written; a reader who went away needs no words."""
    if problem.errno == errno.EPIPE:
        return 141
    message = f"standard output cannot be written: {problem.strerror}"
    told = PlatformError(message, hint="the command was carried out; what it showed is lost", reason="output")
    click.echo(_line(told), err=True)
    return told.exit_code


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    as_json = False
    try:
        given = [_as_utf8(a) for a in (sys.argv[1:] if arguments is None else arguments)]
        as_json = "--json" in given
        result = cli.main(args=given, prog_name="sma", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (Exception, KeyboardInterrupt) as problem:
        if os.environ.get("SMA_DEBUG") and not isinstance(problem, _EXPECTED):
            raise
        told = _as_told(problem)
        click.echo(json.dumps(_object(told)) if as_json else _line(told), err=True)
        return told.exit_code


#: characters of a message that one still reads; what it quotes can be of any length
_LONGEST = 1000

_EXPECTED = (SmaError, click.ClickException, click.Abort, KeyboardInterrupt)


class _InternalError(SmaError):
    """A fault of our own."""

    exit_code = 70
    reason = "internal"


class _StoppedError(SmaError):
    """The command was stopped."""

    exit_code = 130
    reason = "stopped"


def _as_told(problem: BaseException) -> SmaError:
    """What a person or a program is told of what went wrong."""
    match problem:
        case SmaError():
            return problem
        case click.ClickException():
            at = getattr(problem, "ctx", None)
            return UsageError(
                problem.format_message(), hint=f"see `{at.command_path} --help`" if at is not None else None
            )
        case click.Abort() | KeyboardInterrupt():
            return _StoppedError("stopped")
        case RuntimeError(__cause__=KeyboardInterrupt()):  # as Python tells it where a class was just being made
            return _StoppedError("stopped")
        case OSError(strerror=str() as why):  # whatever a command did not foresee of files, memory, processes
            name = problem.filename
            where = f"{os.fsdecode(name)}: " if isinstance(name, str | bytes) else ""
            return PlatformError(f"{where}{why}", hint="the operating system refused it; see rights, space and limits")
        case _:
            hint = "SMA_DEBUG=1 shows where; please report it"
            return _InternalError(f"internal error: {type(problem).__name__}: {problem}", hint=hint)


def _object(told: SmaError) -> Mapping[str, Any]:
    return {"error": told.message, "hint": told.hint, "reason": told.reason, "exit_code": told.exit_code}


def _line(told: SmaError) -> str:
    """One line, whatever a text quotes; a report has lines of its own, which have been made safe one by one."""
    keep = "\n" if told.is_report else ""
    hint = f" ({told.hint})" if told.hint else ""
    return "sma: " + visible(told.message if keep else squeezed(told.message, _LONGEST), keep=keep) + visible(hint)


def _as_utf8(argument: str) -> str:
    """An argument as it was typed: where the locale is not UTF-8, its bytes come as surrogates."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        raise click.UsageError(f"`{argument}` is not UTF-8 text") from None
