"""`Popen` for Python programs, without the third of a second in which each new interpreter imports the same modules.

A process of `support.fork_server`, one for all workers of a run, has imported them and forks. What comes of it is a process of
its own, with a number of its own, that can be killed. Whatever an interpreter looks at when it starts (`PYTHON…`, the
locale, its options), and every other program, is started in the usual way; so is everything under `REAL_PROCESSES=1`.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from statemachine_agent.sandbox import launch
from support import fork_order
from support.refund import ROOT

#: variables that an interpreter or the system's libraries read once, at the start
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")


class Popen(subprocess.Popen[Any]):
    """The same as `subprocess.Popen`."""

    #: what else is imported beforehand
    more: tuple[str, ...] = ()
    _news: socket.socket | None = None

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, *rest: Any
    ) -> None:
        cwd, env, *_, shell = rest[:5]
        ends = rest[5:11]
        restore_signals, gid, gids, uid, umask, new_session, group = rest[11:]
        usual = (executable, preexec_fn, close_fds, shell, gid, gids, uid, umask, group, restore_signals)
        order = _order(args, cwd, env) if usual == (None, None, True, False, None, None, None, -1, -1, True) else None
        if order is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, *rest)  # type: ignore[misc]
            return
        inner = [ends[0], ends[3], ends[5]]
        descriptors = [number if given == -1 else given for number, given in enumerate(inner)]
        told = {**order, "pass_fds": list(pass_fds), "new_session": new_session}
        self._news, self.pid = fork_order.asked(_server(self.more), told, [*descriptors, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _internal_poll(self, *more: Any, **some: Any) -> int | None:
        if self._news is None:
            return super()._internal_poll(*more, **some)  # type: ignore[misc]
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                process, status = self._try_wait(os.WNOHANG)
                if process == self.pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """What `os.waitpid` says of a child; the server waits for this one, and tells."""
        if self._news is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc]
        try:
            told = self._news.recv(8, socket.MSG_DONTWAIT if wait_flags else socket.MSG_WAITALL)
        except BlockingIOError:
            return 0, 0
        assert told, "the fork server is gone"
        self._news.close()
        return self.pid, int.from_bytes(told, "big")


class HeavyPopen(Popen):
    """For programs that import pytest or the library of MCP."""

    more = ("pytest", "hypothesis", "statemachine_agent.testing.generated", "mcp", "mcp.server.mcpserver")


def run(
    command: Sequence[str], popen: type[subprocess.Popen[Any]] = Popen, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """The same as `subprocess.run` with `capture_output` and `text`."""
    timeout, check = how.pop("timeout", None), how.pop("check", False)
    given, how["stdin"] = how.pop("input", None), how.pop("stdin", subprocess.PIPE)
    with popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how) as process:
        try:
            out, err = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def relayed(popen: type[Popen] = Popen) -> list[str]:
    """Stands for `python` in a command that not a test but the package or a library starts."""
    if _ALL_NEW:
        return [sys.executable]
    return [sys.executable, "-S", "-E", str(Path(__file__).with_name("relay.py")), _server(popen.more)]


def for_services() -> AbstractContextManager[Any]:
    """While it lasts, a `Sandbox` of this process starts its services so."""
    return mock.patch.object(launch, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Popen}))


def _order(command: Any, cwd: Any, env: Mapping[str, str] | None) -> dict[str, Any] | None:
    """What the server is told; nothing where only a new interpreter will do."""
    environ = dict(os.environ if env is None else env)
    if _ALL_NEW or isinstance(command, str) or os.fspath(command[0]) != sys.executable:
        return None
    try:
        folder = os.path.realpath(Path.cwd() if cwd is None else cwd, strict=True)
    except OSError:
        return None
    order = fork_order.order([os.fspath(word) for word in command[1:]], folder, environ)
    return order if _start(environ) == _STARTED else None


def _start(environ: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k.startswith(AT_START) and k != "PYTHONPATH"}


#: what the server is started with
_STARTED = _start(os.environ)
_ALL_NEW = bool(os.environ.get("REAL_PROCESSES"))


#: names a run of pytest-xdist, whose workers share their servers
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")
#: while they are open, the servers of this process stay
_LIVES: list[socket.socket] = []


@functools.cache
def _server(more: tuple[str, ...]) -> str:
    """Where a server with these modules listens; it ends when nobody is left who asked for it."""
    folder = _folder()
    place = str(folder / f"{zlib.crc32(repr(more).encode()):x}")
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _LIVES.append(_joined(place) or _started(place, more))
    return place


def _folder() -> Path:
    if _RUN is None:
        folder = Path(tempfile.mkdtemp(prefix="forks-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        folder = Path(tempfile.gettempdir(), f"forks-{_RUN}")
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _joined(place: str) -> socket.socket | None:
    """A line to the server that another worker has started."""
    ours = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        ours.connect(place)
        if fork_order.stay(ours):
            return ours
    ours.close()
    return None


def _started(place: str, more: tuple[str, ...]) -> socket.socket:
    """A line to a new server."""
    Path(place).unlink(missing_ok=True)
    ours, theirs = socket.socketpair()
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SMA_", "PYTEST_"))}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "support.fork_server", place, str(theirs.fileno()), *more],
            env={**environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)])},
            cwd=Path(ROOT.anchor), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
        )  # fmt: skip
    assert ours.recv(5, socket.MSG_WAITALL) == b"ready", "the fork server did not start"

    def end() -> None:
        for life in _LIVES:
            life.close()
        process.wait()
        for path in (place, f"{place}.lock"):
            Path(path).unlink(missing_ok=True)
        with suppress(OSError):  # something of another server is in it
            Path(place).parent.rmdir()

    atexit.register(end)
    return ours
