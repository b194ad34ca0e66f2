"""The one place through which time, chance, threads and process identity are reached, in a real and a simulated form.

Everything else asks an `Environment`; a test over the imports guards it. So a test can hold the clock, and a run can be
repeated with a seed. It must not know what anybody waits for.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import random
import secrets
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

if sys.platform != "win32":
    import pwd

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class ProcessIdentity:
    """A process of a host, told apart from a later one that was given the same number."""

    host: str
    pid: int
    #: when the process started, in the host's own words; two processes of one number differ here
    started: str


class Environment:
    """The real world. Times are UTC with zone; durations are seconds."""

    def now(self) -> datetime:
        """The wall clock."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """A clock that never goes back, for durations only."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding anybody up."""
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Wait in a thread of its own; never on the event loop."""
        time.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Cancel the body with TimeoutError after `seconds`; None never does."""
        return asyncio.timeout(seconds)

    def uniform(self, low: float, high: float) -> float:
        """A random number between the two."""
        return random.uniform(low, high)  # noqa: S311  spreads retries; nothing secret

    def random_bytes(self, count: int) -> bytes:
        """Random bytes that nobody can guess."""
        return secrets.token_bytes(count)

    def start_thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        """A daemon thread that runs `work`."""
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def lock(self) -> threading.Lock:
        """A lock between threads."""
        return threading.Lock()

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking `work` in a daemon thread of its own: one that hangs does not keep the process alive."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(*args, **kwargs))
            except BaseException as problem:  # noqa: BLE001  the waiter is told, whatever it was
                future.set_exception(problem)

        self.start_thread(run, name=f"tool-{getattr(work, '__name__', 'call')}")
        return await self.settled(future)

    async def settled(self, future: Future[T]) -> T:
        """Wait for work that another thread does."""
        return await asyncio.wrap_future(future)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses that a name leads to now, the best to try first; OSError where there are none."""
        return await self.in_thread(_addresses, host, port)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` on an event loop of its own, to its end."""
        return asyncio.run(main)

    def process(self) -> ProcessIdentity:
        """Who this process is."""
        pid = os.getpid()
        return ProcessIdentity(_host(), pid, _started(pid) or "unknown")

    def is_gone(self, process: ProcessIdentity) -> bool:
        """True only if `process` ran on this host and surely runs no more; where it cannot be told, False."""
        if process.host != _host():
            return False
        started = _started(process.pid)
        return started is None or process.started not in ("unknown", started)

    def user(self) -> str:
        """The operating system's name for who runs this process; never what LOGNAME or USER say, which anybody can set."""
        if sys.platform == "win32":
            return getpass.getuser()
        with suppress(KeyError):  # no such user in a container
            return pwd.getpwuid(os.getuid()).pw_name
        return str(os.getuid())


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(f"`{host}` is no name of a host") from None
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


def _host() -> str:
    """The host, this boot of it, and the name space in which its process numbers count (a container has its own)."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]"))
    return "/".join(parts)


def _started(pid: int) -> str | None:
    """When process `pid` of this host started; None if there is none; "unknown" where the host does not say."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            return None
        return None if fields[0] in ("Z", "X") else fields[19]  # a zombie works no more; field 22 is the start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return "unknown"
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(  # noqa: S603  a fixed program and a number
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=True
        )
        return answer.stdout.strip() or "unknown"
    return "unknown"


class SimulatedEnvironment(Environment):
    """A world whose clock stands still until somebody sleeps or a test moves it, and whose chance has a seed.

    Inside `run` the event loop's own time is the simulated one: when every task waits for time, the clock jumps to the
    next moment that somebody waits for. While a thread does real work, it stands still.
    """

    def __init__(self, start: datetime = datetime(2026, 10, 28, 11, 17, 43, tzinfo=UTC), seed: int = 1) -> None:
        """`start` is the first moment, `seed` the source of every random number."""
        self._start = start
        self._elapsed = 0.0
        self._random = random.Random(seed)  # noqa: S311  repeatable on purpose
        self._busy = 0

    def now(self) -> datetime:
        """The simulated wall clock."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since the simulation began."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._elapsed += seconds

    def uniform(self, low: float, high: float) -> float:
        """The next number of the seed."""
        return self._random.uniform(low, high)

    def random_bytes(self, count: int) -> bytes:
        """The next bytes of the seed."""
        return self._random.randbytes(count)

    async def settled(self, future: Future[T]) -> T:
        """Wait for real work; the simulated clock stands still meanwhile."""
        self._busy += 1
        try:
            return await super().settled(future)
        finally:
            self._busy -= 1

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` on a loop whose time is the simulated one."""
        with self.runner() as runner:
            return runner.run(main)

    def runner(self) -> asyncio.Runner:
        """A loop whose time is the simulated one, to be run piece by piece; between the pieces everything stands still."""
        return asyncio.Runner(loop_factory=lambda: _SimulatedLoop(self))

    @property
    def busy(self) -> bool:
        """True while a thread does real work that somebody waits for."""
        return self._busy > 0


class _SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self, environment: SimulatedEnvironment) -> None:
        super().__init__(_JumpingSelector(environment))
        self._environment = environment

    def time(self) -> float:
        return self._environment.monotonic()


class _JumpingSelector(selectors.DefaultSelector):
    """Where the real loop would wait for time to pass, it lets the simulated time pass at once."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        super().__init__()
        self._environment = environment

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self._environment.busy:
            return super().select(None if timeout is None or timeout > 0 else 0)
        ready = super().select(0)
        if not ready and timeout > 0:
            self._environment.advance(timeout)
        return ready
