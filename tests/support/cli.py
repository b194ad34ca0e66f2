"""The command line in processes of its own, as a person runs it."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from statemachine_agent.cli.main import run
from support import forks
from support.refund import ROOT

#: seconds after which something that should happen is taken not to happen
DEADLINE = 30.0


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Sma:
    """`sma` with a store of its own, on the demo's settings, against given services."""

    folder: Path
    urls: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    #: an interpreter of its own for each, where how it starts is the point
    is_new: bool = False

    @property
    def db(self) -> Path:
        return self.folder / "tasks.db"

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SMA_", "PYTEST_"))}
        settings = str(ROOT / "statemachine-agent.toml")
        return {**kept, "SMA_SETTINGS": settings, "SMA_DB": str(self.db), **self.urls, **self.more}

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        popen = subprocess.Popen if self.is_new else forks.Popen
        return popen(
            [sys.executable, "-m", "statemachine_agent", *arguments],
            env=how.pop("env", self.environ),
            cwd=how.pop("cwd", self.folder),
            stdin=how.pop("stdin", subprocess.DEVNULL),
            stdout=how.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )

    def __call__(self, *arguments: str, input: str | None = None, **how: Any) -> Result:  # noqa: A002
        if input is not None:
            how["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **how)
        out, err = process.communicate(input, timeout=2 * DEADLINE)
        return Result(process.returncode, out or "", err)

    def propose(self, *more: str) -> tuple[str, str]:
        """Run refund 8472 to the approval: task and request."""
        result = self(
            "run",
            "refund",
            "-i",
            "order_id=8472",
            "-i",
            "message=charged twice",
            "--actor",
            "cust-3391",
            "--json",
            *more,
        )
        assert result.code == 3, result
        return result.json["task"], result.json["approvals"][0]["id"]

    def approve(self, request: str, who: str = "lead@example.com") -> None:
        result = self("approve", request, "--as", who)
        assert result.code == 0, result

    def show(self, task: str) -> dict[str, Any]:
        return self("show", task, "--json").json

    def tasks(self) -> list[dict[str, Any]]:
        """What there is; nothing while there is no store yet."""
        result = self("tasks", "--json") if self.db.exists() else None
        return result.json if result and result.code == 0 else []

    def is_held(self) -> bool:
        """Whether some process holds the lease of a task."""
        with closing(sqlite3.connect(self.db)) as connection:
            return connection.execute("SELECT count(*) FROM lease WHERE owner IS NOT NULL").fetchone()[0] > 0

    def trace(self, task: str) -> list[dict[str, Any]]:
        return self("trace", task, "--json").json


class Here(Sma):
    """The same in this process: the very entry point, without the half second that a new interpreter takes.

    For what does not depend on being a process. Input, signals and killing need a process of their own.
    """

    def __call__(self, *arguments: str, input: str | None = None, **how: Any) -> Result:  # noqa: A002
        if input is not None or how:
            return super().__call__(*arguments, input=input, **how)
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environ, clear=True),
            chdir(self.folder),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = run(arguments)
        return Result(code, out.getvalue(), err.getvalue())


def until(ready: Callable[[], Any], what: str) -> Any:
    """Wait for something that another process does; fail with `what` if it does not."""
    end, pause = time.monotonic() + DEADLINE, 0.002
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(pause)
        pause = min(1.5 * pause, 0.05)  # asking costs the other process time, too
    raise AssertionError(f"waited in vain for {what}")


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, and see that it was that."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == -signal.SIGKILL


@contextmanager
def write_lock(db: Path) -> Iterator[None]:
    """Hold the store's write lock, so that no other process can commit."""
    connection = sqlite3.connect(db, timeout=DEADLINE, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def free_ports() -> int:
    """The first of four ports that nobody uses; where to look depends on the process, since tests run in several."""
    for base in range(20000 + os.getpid() % 4000 * 8, 60000, 8):
        try:
            for port in range(base, base + 4):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")
