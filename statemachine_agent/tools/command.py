"""The command binding: a program of the settings' list, without shell, input or environment, and ended with its group.

It prints one JSON object and ends with 0; that is an answer, and nothing else is. Whatever is wrong with a call is found
before the program starts. What has started may have done its work, however it ended. It must not know what the answer means
for a task.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.template import TemplateError
from statemachine_agent.environment import Environment
from statemachine_agent.text import one_line
from statemachine_agent.tools import results
from statemachine_agent.tools.outcome import LostError, NotSentError
from statemachine_agent.tools.request import Reach, ToolRequest

#: bytes of a write's answer that are kept to be read as JSON; the program is not ended for saying more
_ROOM = 1024 * 1024
_TOLD = 2_000  # bytes of what it said on standard error
_GLANCE = 0.01  # seconds between looks at a program that says nothing
_GRACE = 2.0  # seconds that a killed program may take to be gone


@dataclass
class _Run:
    """One program that was started, or is about to be."""

    words: list[str]
    room: int
    #: of a read: one byte too many ends it
    strict: bool
    #: set by whoever no longer waits
    given_up: bool = False
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    whole: bool = True
    status: int | None = None


class CommandBinding:
    """Starts programs, and sees to it that none of them stays."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Nothing is looked for yet."""
        self._reach = reach
        self._environment = environment

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """The object that the program printed. NotSentError or LostError otherwise."""
        run = _Run(self._words(manifest, request), manifest.max_bytes, manifest.is_read)
        if not manifest.is_read:
            run.room = max(_ROOM, manifest.max_bytes)
        work = asyncio.ensure_future(self._environment.in_thread(_run, run))
        try:
            async with self._environment.timeout(timeout):
                await asyncio.shield(work)
        except TimeoutError:
            await _give_up(run, work)
            raise LostError(f"no answer within {timeout:g} s, and it was killed", reason="timeout") from None
        except asyncio.CancelledError:
            with suppress(NotSentError):
                await _give_up(run, work)
            raise
        return _judge(manifest, run)

    def _words(self, manifest: ToolManifest, request: ToolRequest) -> list[str]:
        call = manifest.binding.call
        program = self._reach.programs.get(call.program)
        if program is None:
            raise NotSentError(
                f"`{one_line(call.program, 80)}` is not in the list",
                hint="add it to `commands` in the settings",
                reason="not_configured",
            )
        if sys.platform == "win32":
            raise NotSentError("programs are started on POSIX systems only", reason="not_configured")
        try:
            return [program, *call.fill(request.args, request.key)]
        except TemplateError as problem:
            raise NotSentError(str(problem), reason="invalid_argument") from None


async def _give_up(run: _Run, work: asyncio.Future[None]) -> None:
    """Have it killed, and see it gone; NotSentError where it was never started."""
    run.given_up = True
    done, _ = await asyncio.wait({work}, timeout=_GRACE)
    for one in done:
        problem = one.exception()
        if isinstance(problem, NotSentError):
            raise problem


def _run(run: _Run) -> None:
    """Start the program and hear it out; NotSentError where it cannot be started."""
    if run.given_up:
        raise NotSentError("no time was left", reason="timeout")
    try:
        process = subprocess.Popen(  # noqa: S603  a listed program, and no shell
            run.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env={}, cwd="/", close_fds=True, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise NotSentError(f"{run.words[0]} cannot be started: {one_line(why)}", reason="not_configured") from None
    with process:
        try:
            _hear(run, process)
        finally:
            _end_group(process)
        run.status = process.wait()


def _hear(run: _Run, process: subprocess.Popen[bytes]) -> None:
    """Until the program has ended and all it said was heard; who it left behind is not waited for."""
    with selectors.DefaultSelector() as selector:
        for stream, kept, most in ((process.stdout, run.out, run.room), (process.stderr, run.err, _TOLD)):
            assert stream is not None  # noqa: S101  both are pipes
            selector.register(stream, selectors.EVENT_READ, (kept, most))
        while not run.given_up:
            ready = selector.select(_GLANCE)
            if not ready and _has_ended(process):
                return
            for key, _ in ready:
                part = os.read(key.fd, 65_536)
                if not part:
                    selector.unregister(key.fileobj)
                    continue
                kept, most = key.data
                if kept is run.out and len(kept) + len(part) > most:
                    run.whole = False
                kept += part[: most - len(kept)]
            if run.strict and not run.whole:
                return


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """True once it has; its number stays taken, so that its group is still its own."""
    if sys.platform == "win32":
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all that it started and left in its group."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended already
        os.killpg(process.pid, signal.SIGKILL)


def _judge(manifest: ToolManifest, run: _Run) -> object:
    """The object on standard output of a program that ended with 0."""
    if not run.whole and run.strict:
        problem = results.too_large(manifest, bytes(run.out), whole=False)
        raise LostError(problem.message, reason=problem.reason)
    if run.status != 0:
        status = run.status or 0
        how = f"was ended by signal {-status}" if status < 0 else f"ended with {status}"
        raise LostError(f"the program {how}: {_excerpt(manifest, run.err)}", reason="exception")
    if not run.whole:
        raise LostError(f"the program said more than {run.room} bytes", reason="bad_result")
    try:
        return results.parse(bytes(run.out))
    except results.BadResultError as problem:
        raise LostError(f"{problem.message}: {_excerpt(manifest, run.out)}", reason=problem.reason) from None


def _excerpt(manifest: ToolManifest, said: bytearray) -> str:
    if manifest.redact:
        return "what it said is not shown, since some of the tool's results are masked"
    return one_line(bytes(said[:400]).decode(errors="replace"), 160) or "it said nothing"
