"""The entry point: finds the command, runs it, and turns whatever goes wrong into one line and the right exit code.

A command's module is imported when it is asked for. It must not know what any command does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
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
    try:
        given = [_as_utf8(a) for a in (sys.argv[1:] if arguments is None else arguments)]
        result = cli.main(args=given, prog_name="sma", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SmaError as problem:
        _complain(str(problem))
        return problem.exit_code
    except click.ClickException as problem:
        _complain(problem.format_message(), usage=getattr(problem, "ctx", None))
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("stopped")
        return 130
    except BrokenPipeError:
        return _closed_pipe()
    except Exception as problem:
        if os.environ.get("SMA_DEBUG"):
            raise
        _complain(f"internal error: {type(problem).__name__}: {problem} (SMA_DEBUG=1 shows where; please report it)")
        return 70


def _as_utf8(argument: str) -> str:
    """An argument as it was typed: where the locale is not UTF-8, its bytes come as surrogates."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        raise click.UsageError(f"`{argument}` is not UTF-8 text") from None


def _complain(text: str, usage: Any = None) -> None:
    hint = f" (see `{usage.command_path} --help`)" if usage is not None else ""
    with suppress(OSError):  # nobody reads standard error either
        click.echo(f"sma: {visible(text, keep=chr(10))}{hint}", err=True)


def _closed_pipe() -> int:
    """Nobody reads any more: end quietly, as a program that is told so by a signal would."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return 141
