"""Manifests, a clock that only moves between attempts, and a service that answers what it is told, byte for byte."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

from statemachine_agent import Catalogue, SimulatedEnvironment
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.tools.outcome import Attempt, Outcome
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.toolbox import Toolbox
from support.refund import TOOLS

MINUTE = 60.0


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Clock(SimulatedEnvironment):
    """Time passes only where somebody sleeps between attempts, and takes none; connections and timeouts are real."""

    def __init__(self, seed: int = 8472) -> None:
        super().__init__(seed=seed)
        self.slept: list[float] = []
        self.bounds: list[tuple[float, float]] = []
        #: what a name leads to, once for each time that it is looked up; the last one for ever
        self.names: dict[str, list[list[str]]] = {}
        #: names that were looked up
        self.looked_up: list[str] = []
        #: done when somebody sleeps
        self.meanwhile: list[Callable[[], Coroutine[Any, Any, Any]]] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        if self.meanwhile:
            await self.meanwhile.pop(0)()

    async def addresses(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if host not in self.names:
            return await super().addresses(host, port)
        found = self.names[host]
        return found.pop(0) if len(found) > 1 else found[0]

    def uniform(self, low: float, high: float) -> float:
        self.bounds.append((low, high))
        return super().uniform(low, high)


@cache
def shipped() -> Mapping[str, ToolManifest]:
    catalogue = Catalogue.read([], [TOOLS])
    return {name: file.manifest for name, file in catalogue.tools.items()}


def hasty(name: str, seconds: float = 0.3) -> ToolManifest:
    """A shipped manifest with another timeout."""
    return shipped()[name].model_copy(update={"timeout": timedelta(seconds=seconds)})


def read_tool(url: str, **changes: Any) -> ToolManifest:
    """A read of one field `value`."""
    http = {"url": url, **changes.pop("http", {})}
    given = {
        "tool": "read_it", "version": 1, "summary": "Reads.", "effect": "read", "source": "a-service",
        "binding": {"http": http}, "returns": {"value": {"type": "integer"}},
    }  # fmt: skip
    return ToolManifest.model_validate({**given, **changes})


def write_tool(url: str, **changes: Any) -> ToolManifest:
    """A write of one argument `amount`."""
    http = {"method": "POST", "url": url, "idempotency_header": "Idempotency-Key", **changes.pop("http", {})}
    given = {
        "tool": "write_it", "version": 1, "summary": "Writes.", "effect": "write", "source": "a-service",
        "binding": {"http": http}, "args": {"amount": {"type": "integer", "optional": True}},
        "returns": {"value": {"type": "integer"}}, "idempotency": {"key": "w:{amount}", "replay": True},
        "approval": [], "errors": {"422": "rejected"}, "retry": {"unsent": 3},
    }  # fmt: skip
    return ToolManifest.model_validate({**given, **changes})


def python_tool(function: str, *, effect: str = "read", **changes: Any) -> ToolManifest:
    given = {
        "tool": "python_it", "version": 1, "summary": "Runs.", "effect": effect, "source": "a-package",
        "binding": {"python": function}, "returns": {"value": {"type": "integer"}},
    }  # fmt: skip
    return ToolManifest.model_validate({**given, **changes})


LOOPBACK = frozenset({"127.0.0.1", "localhost"})


def reach(variables: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None, **more: Any) -> Reach:
    given = {"variables": variables or {}, "hosts": LOOPBACK, "private_hosts": LOOPBACK, "environ": environ or {}}
    return Reach(**{**given, **more})


async def attempts_of(
    tool: ToolManifest,
    args: Mapping[str, Any],
    reached: Reach | None = None,
    *,
    clock: Any = None,
    bindings: Mapping[str, Any] | None = None,
    **call: Any,
) -> list[Attempt]:
    """All attempts of one call, on a toolbox of its own."""
    toolbox = Toolbox(reached or reach(), clock or Clock(), bindings)
    try:
        return await toolbox.call(tool, args, **{"seconds": MINUTE, **call})
    finally:
        await toolbox.close()


async def outcome_of(*args: Any, **kwargs: Any) -> Outcome:
    return (await attempts_of(*args, **kwargs))[-1].outcome


# ---------------------------------------------------------------- a service that says what it is told


def answer(status: int = 200, body: object = None, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer; `body` is bytes as they are, or a value to be written as JSON."""
    content = body if isinstance(body, bytes) else json.dumps({"value": 1} if body is None else body).encode()
    given = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    return "\r\n".join(lines).encode() + content


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Service:
    url: str
    requests: list[Request] = field(default_factory=list)


@asynccontextmanager
async def answering(
    *answers: bytes | None,
    hold: bool = False,
    port: int = 0,
    at_once: bytes | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Service]:
    """A service that gives these answers in turn, the last one for ever; None closes without one.

    `hold` keeps each connection open; `at_once` is said before anything is read, and is all that is said.
    """
    service = Service("")
    left = list(answers) or [answer()]
    forever = asyncio.Event()
    open_: set[asyncio.Task[Any] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.add(asyncio.current_task())
        try:
            if at_once is not None:
                writer.write(at_once)
                await reader.read(1)
                return
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            service.requests.append(Request(head[0], headers, body))
            said = left.pop(0) if len(left) > 1 else left[0]
            if said is not None:
                writer.write(said)
                await writer.drain()
            if hold:
                await forever.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=tls)
    service.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        forever.set()
        server.close()
        for _ in range(10):  # a connection that was just accepted comes to `serve` in a few turns of the loop
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*(task for task in open_ if task)), 5)


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def place(urls: Mapping[str, str], name: str) -> str:
    """How an error names the service behind a variable: the setting, and the host and port that it leads to."""
    return f"${{{name}}} ({urls[name].partition('://')[2]})"
