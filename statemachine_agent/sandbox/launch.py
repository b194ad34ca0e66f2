"""Starts the four services, each in its own process, and stops them; must not know what they do."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from . import control

DEFAULT_PORTS: Mapping[str, int] = {"payments": 8471, "refunds": 8472, "policy": 8473, "notifications": 8474}
START_SECONDS = 15.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02


class PortInUse(RuntimeError):
    """Another process listens on the port that a service was to have."""

    def __init__(self, service: str, port: int) -> None:
        super().__init__(
            f"{service} cannot listen on port {port}: another process does; stop that process or choose another port"
        )
        self.service = service
        self.port = port


class FolderInUse(RuntimeError):
    """The services of another sandbox keep their files in the folder."""


class ServiceNotStarted(RuntimeError):
    """A service ended, or gave no sign of life in time, instead of starting."""

    def __init__(self, service: str, reason: str) -> None:
        super().__init__(f"{service} did not start: {reason}; its standard error may say more")
        self.service = service
        self.reason = reason


def forget(folder: Path) -> None:
    """Remove what the services remembered in ``folder``; only their own files, and FolderInUse while they use them."""
    if not folder.is_dir():
        return
    lock = _locked(folder)
    try:
        for name in DEFAULT_PORTS:
            for file in folder.glob(f"{name}.sqlite*"):
                file.unlink()
    finally:
        os.close(lock)


def _locked(folder: Path) -> int:
    """A lock on the folder, as the descriptor that holds it; it ends with the process at the latest."""
    lock = os.open(folder / "sandbox.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise FolderInUse(str(folder)) from None
    return lock


class Sandbox:
    """The four services, running between entering and leaving the ``with`` block.

    ``folder`` gets a SQLite file for each service and is created when missing; files that are there are continued.
    ``ports`` maps names of services to ports; a service without one takes any free port. However this process ends,
    even killed, the services end with it.
    """

    def __init__(self, folder: Path, ports: Mapping[str, int] | None = None) -> None:
        wanted = dict(ports or {})
        if unknown := sorted(set(wanted) - set(DEFAULT_PORTS)):
            raise ValueError(f"no such service: {', '.join(unknown)}; the services are {', '.join(DEFAULT_PORTS)}")
        self._folder = folder
        self._ports = {name: wanted.get(name, 0) for name in DEFAULT_PORTS}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._lock: int | None = None

    @property
    def urls(self) -> dict[str, str]:
        """``PAYMENTS_URL``, ``REFUNDS_URL``, ``POLICY_URL`` and ``NOTIFICATIONS_URL``, without a final slash."""
        return {f"{name.upper()}_URL": f"http://127.0.0.1:{port}" for name, port in self._ports.items()}

    @property
    def pids(self) -> dict[str, int]:
        """The process of each running service, by the name of the service."""
        return {name: process.pid for name, process in self._processes.items()}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self._folder)
        try:
            for name in DEFAULT_PORTS:
                self._launch(name)
            for name in DEFAULT_PORTS:
                self._await(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop every service this sandbox started and wait for its end; none running is fine."""
        for process in self._processes.values():
            process.terminate()
        for name in list(self._processes):
            self._bury(name)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def kill(self, service: str) -> None:
        """Kill one service as a crash would (SIGKILL) and wait until it is gone."""
        self._processes[service].kill()
        self._bury(service)

    def start(self, service: str) -> None:
        """Start a service that was killed, on the file and the port it had."""
        if service in self._processes:
            raise ValueError(f"{service} is running; kill it before starting it again")
        self._launch(service)
        self._await(service)

    def _launch(self, name: str) -> None:
        # The package may be a plain checkout, and the current folder may hold anything: the child finds this package
        # by PYTHONPATH alone (-P leaves the current folder out).
        root = str(Path(__file__).resolve().parents[2])
        search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-P", "-m", f"{__package__}.serve", name, "--watch-stdin"]
        command += ["--file", str(self._folder / f"{name}.sqlite"), "--port", str(self._ports[name])]
        self._processes[name] = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": search},
        )

    def _await(self, name: str) -> None:
        """Wait until the service has said its port and answers on it."""
        deadline = time.monotonic() + START_SECONDS
        process = self._processes[name]
        assert process.stdout is not None
        # Killing a silent child ends its output, so the read below cannot wait for longer than that.
        timer = threading.Timer(START_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        try:
            self._ports[name] = _reported_port(name, line)
            self._await_health(name, deadline)
        except BaseException:
            process.kill()
            self._bury(name)
            raise

    def _await_health(self, name: str, deadline: float) -> None:
        while True:
            try:
                control.health(self.urls[f"{name.upper()}_URL"])
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ServiceNotStarted(name, f"no answer within {START_SECONDS:g} s ({error})") from error
            time.sleep(POLL_SECONDS)

    def _bury(self, name: str) -> None:
        """Wait for a process that was told to end, insist if it does not, and let go of it."""
        process = self._processes.pop(name)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _reported_port(service: str, line: str) -> int:
    if not line:
        raise ServiceNotStarted(service, f"it ended, or was silent for {START_SECONDS:g} s")
    report = json.loads(line)
    if report.get("error") == "port_in_use":
        raise PortInUse(service, report["port"])
    if "error" in report:
        raise ServiceNotStarted(service, report["error"])
    return int(report["port"])
