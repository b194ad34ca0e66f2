"""`sandbox`: the demo's services, each in its own process, until they are stopped."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import click

from statemachine_agent.cli.options import project_of
from statemachine_agent.cli.output import say
from statemachine_agent.errors import SmaError, UsageError


class SandboxError(SmaError):
    """The sandbox cannot run."""

    reason = "sandbox"


class _StopError(Exception):
    pass


@click.command(short_help="The demo's services.")
@click.option(
    "--dir", "folder", metavar="FOLDER", help="Where the services keep their files; else the setting `sandbox`."
)
@click.option("--port", type=click.IntRange(1, 65532), help="The first of the four ports, if not 8471.")
@click.option("--fresh", is_flag=True, help="Forget what the services remember.")
@click.option("--fault", "faults", multiple=True, metavar="SERVICE=MODE", help="For example refunds=commit_then_drop.")
@click.pass_context
def sandbox(
    context: click.Context,
    folder: str | None,
    port: int | None,
    fresh: bool,  # noqa: FBT001
    faults: tuple[str, ...],
) -> int:
    """Start payments, refunds, policy and notifications on this machine, and stop them with Ctrl-C."""
    from statemachine_agent.sandbox import DEFAULT_PORTS, PortInUse, Sandbox, ServiceNotStarted, control, forget

    project = project_of(context)
    place = Path(folder) if folder else project.path(project.settings.sandbox)
    if fresh:
        forget(place)
    wanted = [_fault(f) for f in faults]

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _StopError

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        ports = DEFAULT_PORTS if port is None else {name: port + n for n, name in enumerate(DEFAULT_PORTS)}
        with Sandbox(place, ports) as services:
            for service, mode in wanted:
                control.set_fault(services.urls[f"{service.upper()}_URL"], mode)
            for name, url in services.urls.items():
                say(f"{name}={url}")
            say(f"files in {place}; stop with Ctrl-C")
            signal.pause()
    except _StopError:
        say("stopped")
    except PortInUse as problem:
        hint = f"stop what uses it (another `sma sandbox`?); {problem.service} needs it"
        raise SandboxError(f"port {problem.port} is in use", hint=hint) from None
    except ServiceNotStarted as problem:
        raise SandboxError(str(problem), hint="name another folder with --dir") from None
    except control.ControlError as problem:
        raise UsageError(str(problem), hint="see the sandbox's fault modes") from None
    return 0


def _fault(text: str) -> tuple[str, str]:
    service, mark, mode = text.partition("=")
    if not mark or service not in ("payments", "refunds", "policy", "notifications"):
        raise UsageError(f"`--fault {text}` is not SERVICE=MODE", hint="for example refunds=commit_then_drop")
    return service, mode
