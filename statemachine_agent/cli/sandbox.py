"""`sandbox`: the demo's services, each in its own process, until they are stopped."""

from __future__ import annotations

import re
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
@click.option("--fault", "faults", multiple=True, metavar="SERVICE=MODE", help="How its next request goes wrong.")
@click.pass_context
def sandbox(
    context: click.Context,
    folder: str | None,
    port: int | None,
    fresh: bool,  # noqa: FBT001
    faults: tuple[str, ...],
) -> int:
    """Start payments, refunds, policy and notifications on this machine, and stop them with Ctrl-C.

    \b
    --fault refunds=commit_then_drop makes the next write go wrong, --fault refunds.read=unavailable
    the next read (payments has reads only); several queue. The modes:
      commit_then_drop  do the work, then drop the connection without an answer
      drop_before       drop the connection without doing the work (drop, for reads)
      refuse            answer 422, nothing done
      queued, rejected  a new refund is given this status
      unavailable       answer 503, nothing done
      slow, slow_before answer 30 seconds later, or as many as in slow:5
      garbage           do the work, answer with what is no JSON
      huge              do the work, answer with two megabytes too much
    """  # noqa: D301  click wants the character
    from statemachine_agent.sandbox import (
        DEFAULT_PORTS,
        FolderInUse,
        PortInUse,
        Sandbox,
        ServiceNotStarted,
        control,
        forget,
    )

    project = project_of(context)
    place = Path(folder) if folder else project.path(project.settings.sandbox)
    wanted = [_fault(f) for f in faults]

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _StopError

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        if fresh:
            forget(place)
        ports = DEFAULT_PORTS if port is None else {name: port + n for n, name in enumerate(DEFAULT_PORTS)}
        with Sandbox(place, ports) as services:
            for service, mode, seconds, kind in wanted:
                control.set_fault(services.urls[f"{service.upper()}_URL"], mode, seconds=seconds, on=kind)
            for name, url in services.urls.items():
                say(f"{name}={url}")
            say(f"files in {place}; stop with Ctrl-C")
            signal.pause()
    except _StopError:
        say("stopped")
    except PortInUse as problem:
        hint = f"stop what uses it (another `sma sandbox`?); {problem.service} needs it"
        raise SandboxError(f"port {problem.port} is in use", hint=hint) from None
    except FolderInUse:
        hint = "stop that one, or name another folder with --dir"
        raise SandboxError(f"another sandbox keeps its files in {place}", hint=hint) from None
    except ServiceNotStarted as problem:
        raise SandboxError(str(problem), hint="name another folder with --dir") from None
    except control.ControlError as problem:
        raise UsageError(str(problem), hint="`sma sandbox --help` lists the modes") from None
    return 0


_SLOW = 30.0
_FAULT = re.compile(
    r"(?P<service>payments|refunds|policy|notifications)(?P<read>\.read)?=(?P<mode>[a-z_]+)(:(?P<seconds>[0-9]{1,3}))?"
)


def _fault(text: str) -> tuple[str, str, float | None, str]:
    """Service, mode, seconds of a slow mode, and which requests are meant."""
    found = _FAULT.fullmatch(text)
    if found is None:
        raise UsageError(f"`--fault {text}` is not SERVICE=MODE", hint="for example refunds=commit_then_drop")
    slow = float(found["seconds"] or _SLOW) if found["mode"].startswith("slow") or found["seconds"] else None
    kind = "read" if found["read"] or found["service"] == "payments" else "write"
    return found["service"], found["mode"], slow, kind
