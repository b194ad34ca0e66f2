"""Connections of HTTP tools: to hosts of the list only, to the addresses that were looked at, and TLS unless it is this machine.

A name is looked up once, its addresses are judged, and one of those is connected to; the host of the request and of its
certificate stays the name. There is no code here that follows a redirect, asks a proxy or keeps a cookie. It must not know
what a request is for.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from statemachine_agent.bounds import PackingError, unpacking
from statemachine_agent.environment import Environment
from statemachine_agent.text import one_line, said_by
from statemachine_agent.tools.addresses import bracketed, is_listed, parsed, trouble
from statemachine_agent.tools.outcome import NotSentError
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.troubles import LineError

#: what a connection can meet; everything else is a mistake of ours
_TROUBLES = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)

_LAST_PORT = 65_535
_KEPT = 16  # connections that are kept for reads
_IDLE = 5.0  # seconds that they are kept
_TURN = 3.0  # seconds for each address of a name but the last

Trace = Callable[[str, Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Answer:
    """What a service answered."""

    status: int
    headers: httpx.Headers
    #: as much of the body as there was room for
    body: bytes
    #: False where there was more
    whole: bool


class Network:
    """Connections, kept for reads and never reused for anything else; close it."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Nothing is connected yet."""
        self._reach = reach
        self._environment = environment
        self._pools: dict[tuple[str, bool], httpcore.AsyncConnectionPool] = {}
        self._trusted: ssl.SSLContext | None = None

    async def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()

    def check(self, url: httpx.URL) -> None:
        """NotSentError unless the host that will be asked is in the list, and nobody's name stands before it."""
        host, port = _host(url), _port(url)
        if not 0 < port <= _LAST_PORT:
            raise NotSentError(f"{port} is no port", reason="invalid_argument")
        if not is_listed(host, port, self._reach.hosts):
            raise NotSentError(
                f"the host {bracketed(host)}:{port} is not in the list; add it to `hosts` in the settings",
                reason="host_not_allowed",
            )
        if url.userinfo:
            raise NotSentError("a name of a user stands before the host; use a header", reason="host_not_allowed")

    def pool(self, url: httpx.URL, *, kept: bool) -> httpcore.AsyncConnectionPool:
        """The connections for an address; the first one with TLS takes a while to make, which is no service's time."""
        plain = url.scheme == "http"
        if (url.scheme, kept) not in self._pools:
            self._pools[url.scheme, kept] = httpcore.AsyncConnectionPool(
                ssl_context=None if plain else self._context(),
                max_connections=None,
                max_keepalive_connections=_KEPT if kept else 0,
                keepalive_expiry=_IDLE,
                network_backend=_Checked(self._reach, self._environment, plain=plain),
            )
        return self._pools[url.scheme, kept]

    async def send(self, request: httpx.Request, *, kept: bool, room: int, trace: Trace | None = None) -> Answer:
        """The answer, at most `room` bytes of its body. NotSentError before anything is connected, LineError otherwise."""
        self.check(request.url)
        url = request.url
        made = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.content,
            extensions={"trace": trace} if trace is not None else {},
        )
        try:
            found = await self.pool(url, kept=kept).handle_async_request(made)
            headers = httpx.Headers(found.headers)
            try:
                body, whole = await _body(found, headers, room)
            finally:
                await found.aclose()
        except (NotSentError, LineError):
            raise
        except Exception as problem:  # noqa: BLE001  two libraries of many layers, and a service
            reason = "unavailable" if isinstance(problem, _TROUBLES) else "exception"
            raise LineError(said_by(problem), reason=reason) from None
        return Answer(found.status, headers, body, whole)

    def _context(self) -> ssl.SSLContext:
        """The authorities that are trusted: the public ones, and those of the settings."""
        if self._trusted is None:
            made = httpx.create_ssl_context(trust_env=False)
            if self._reach.ca_file is not None:
                try:
                    made.load_verify_locations(cafile=self._reach.ca_file)
                except (OSError, ValueError) as problem:
                    text = f"the certificates of `ca_file` cannot be read: {one_line(str(problem))}"
                    raise NotSentError(text, hint="name a PEM file", reason="not_configured") from None
            self._trusted = made
        return self._trusted


class _Checked(httpcore.AsyncNetworkBackend):
    """Looks a name up once, judges its addresses, and connects to one of them."""

    def __init__(self, reach: Reach, environment: Environment, *, plain: bool) -> None:
        self._reach = reach
        self._environment = environment
        self._plain = plain
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._looked_up(host, port)
        self._judge(host, port, addresses)
        for address in addresses[:-1]:
            try:
                async with self._environment.timeout(_TURN):
                    return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.NetworkError, httpcore.TimeoutException, TimeoutError):
                continue
        return await self._sockets.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def _looked_up(self, host: str, port: int) -> list[str]:
        if parsed(host) is not None:
            return [host]
        try:
            found = await self._environment.addresses(host, port)
        except OSError as problem:
            raise httpcore.ConnectError(f"{host} has no address: {problem}") from None
        if not found:
            raise httpcore.ConnectError(f"{host} has no address")
        return found

    def _judge(self, host: str, port: int, addresses: list[str]) -> None:
        """NotSentError where one of the addresses may not be reached: a name that leads here and there is not trusted."""
        found = [(text, parsed(text)) for text in addresses]
        # an address that stands in `hosts` itself was meant; only a name can lead where nobody meant it to
        meant = parsed(host) is not None or is_listed(host, port, self._reach.private_hosts)
        for text, address in found:
            what = "no address" if address is None else trouble(address)
            if what is not None and not meant:
                raise NotSentError(
                    f"{host} leads to {one_line(text, 60)} ({what}); if that is meant, list it under `private_hosts`",
                    reason="address_not_allowed",
                )
        if self._plain and not all(address is not None and address.is_loopback for _, address in found):
            raise NotSentError(
                f"{bracketed(host)}:{port} is not on this machine, so it is only asked over TLS; write https://",
                reason="tls_required",
            )


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode().lower()


def _port(url: httpx.URL) -> int:
    return url.port if url.port is not None else 443 if url.scheme == "https" else 80


async def _body(answer: httpcore.Response, headers: httpx.Headers, limit: int) -> tuple[bytes, bool]:
    """The body, at most `limit` bytes of it however it is packed, and whether that was all."""
    found, read = bytearray(), 0
    try:
        unpack = _unpacking(headers.get("content-encoding", ""))
        async for part in answer.aiter_stream():
            found += unpack(part, limit + 1 - len(found))
            read += len(part)
            if len(found) > limit or read > limit:  # what is packed may unpack to nothing for ever
                return bytes(found[:limit]), False
    except PackingError:
        raise LineError("the answer cannot be unpacked", reason="bad_result") from None
    return bytes(found), True


def _unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    """As a body is unpacked; what nobody here unpacks stays as it is, and is no JSON."""
    try:
        return unpacking(encoding)
    except PackingError:
        return unpacking("")
