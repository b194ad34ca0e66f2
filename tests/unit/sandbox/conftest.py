"""What the tests of the sandbox share: running services, and a plain HTTP call."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from statemachine_agent.sandbox import Sandbox, control

SECONDS = 10.0


@dataclass(frozen=True)
class Reply:
    """An answer as it came over the wire."""

    status: int
    content: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.content)


def send(
    method: str,
    url: str,
    body: object = None,
    key: str | None = None,
    raw: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """One request on a connection of its own; ``raw`` is a body that is not to be made JSON of."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=SECONDS)
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    given = {**(headers or {}), **({} if key is None else {"Idempotency-Key": key})}
    target = url.split(parts.netloc, 1)[1] or "/"
    try:
        connection.request(method, target, data, given)
        response = connection.getresponse()
        return Reply(response.status, response.read(), {name.lower(): text for name, text in response.getheaders()})
    finally:
        connection.close()


def dial(url: str) -> socket.socket:
    """A bare connection to the service at this address."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=SECONDS)


def post_and_leave(url: str, path: str, body: object, key: str) -> socket.socket:
    """Send a POST and return without waiting for its answer; the caller closes the connection."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\nContent-Length: {len(content)}\r\n\r\n"
    connection = dial(url)
    connection.sendall(head.encode() + content)
    return connection


def wait_until(condition: Callable[[], bool]) -> None:
    """Ask again and again until the condition holds; failing is an error, never a silent pass."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not happen in time"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def call() -> Callable[..., Reply]:
    return send


@pytest.fixture(scope="session")
def connect() -> Callable[[str], socket.socket]:
    return dial


@pytest.fixture(scope="session")
def post_without_waiting() -> Callable[[str, str, object, str], socket.socket]:
    return post_and_leave


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool]], None]:
    return wait_until


# One for each pytest-xdist worker; every test keeps to orders and keys of its own.
@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture
def urls(sandbox: Sandbox) -> Iterator[dict[str, str]]:
    """The addresses of services that behave; whatever a test makes them do ends with the test."""
    yield sandbox.urls
    for url in sandbox.urls.values():
        control.clear_faults(url)
