"""The HTTP binding: one request, no redirects, no proxy of the environment, hosts from a list, and whether it was sent.

"Sent" is what the connection itself reports: from the moment at which request headers began to be written, the request may
have reached the service. Whatever is wrong with a request is found before that. It must not know what the answer means for
a task.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.manifest import Http, ToolManifest
from statemachine_agent.definition.template import TemplateError, fill_variables
from statemachine_agent.environment import Environment
from statemachine_agent.errors import CanonicalError
from statemachine_agent.text import one_line
from statemachine_agent.tools import results
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import Reach, ToolRequest

#: bytes that are read of an answer at the most, unless the manifest wants more
ROOM = 8 * 1024 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: headers that say how the connection is used, which is not the manifest's to say
_RESERVED = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
_LAST_PORT = 65_535
#: troubles of which the address is not the reason, so that it need not be named
_ELSEWHERE = frozenset({"invalid_argument", "not_configured", "too_large"})
_SECRET = 8  # characters; a shorter value says too little to look for it in an answer


class _GarbledError(Exception):
    """A packed body that is not what it says."""


class HttpBinding:
    """Sends requests over connections that are kept for reads and never reused for writes."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Connections are made when they are first needed."""
        self._reach = reach
        self._environment = environment
        self._clients: dict[bool, Any] = {}

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """The parsed answer. NotSentError, RefusedByServiceError or LostError otherwise, saying where it was to go."""
        http = manifest.binding.http
        assert http is not None  # noqa: S101  chosen by the caller
        try:
            return await self._exchange(manifest, http, request, timeout)
        except (NotSentError, LostError) as problem:
            if problem.reason in _ELSEWHERE:
                raise
            text = f"{self._where(http)}: {problem.message}"
            raise type(problem)(text, hint=problem.hint, reason=problem.reason) from None

    async def _exchange(self, manifest: ToolManifest, http: Http, request: ToolRequest, timeout: float) -> object:
        import httpx  # noqa: PLC0415  a tenth of a second that only HTTP tools pay

        secrets: dict[str, str] = {}
        prepared = self._prepare(httpx, http, request, secrets)
        sent = False

        async def trace(event: str, _info: Mapping[str, Any]) -> None:
            nonlocal sent
            sent = sent or event.endswith("send_request_headers.started")

        prepared.extensions["trace"] = trace
        room = max(ROOM, manifest.max_bytes)
        client = self._client(httpx, manifest)  # the first one takes a while to make, which is not the service's time
        try:
            async with self._environment.timeout(timeout):
                response = await client.send(prepared, stream=True)
                try:
                    body, whole = await _body(response, room)
                finally:
                    await response.aclose()
        except _GarbledError:
            raise LostError("the answer cannot be unpacked", reason="bad_result") from None
        except TimeoutError:
            raise _failure(sent, f"no answer within {timeout:g} s", "timeout") from None
        except Exception as problem:  # noqa: BLE001  whatever it was, only the connection knows whether it was sent
            text = one_line(f"{type(problem).__name__}: {problem}".rstrip(": "))
            known = isinstance(problem, httpx.HTTPError | OSError)
            raise _failure(sent, text, "unavailable" if known else "exception") from None
        return _judge(manifest, response, _without(body, secrets), whole=whole)

    def _where(self, http: Http) -> str:
        """Where it goes: in the author's words, and the host and port that the settings make of them, never more of a value."""
        base = http.template.base
        with suppress(NotSentError, ValueError):
            found = urlsplit(fill_variables(base, self._reach.variable))
            host = (found.hostname or "").encode("idna").decode()
            if host and base != f"{found.scheme}://{found.netloc}":
                return one_line(f"{base} ({host}{f':{found.port}' if found.port else ''})")
        return base

    def _client(self, httpx: Any, manifest: ToolManifest) -> Any:
        kept = manifest.is_read
        if kept not in self._clients:
            limits = httpx.Limits(max_keepalive_connections=16 if kept else 0)
            self._clients[kept] = httpx.AsyncClient(
                follow_redirects=False, trust_env=False, timeout=None, limits=limits
            )
        return self._clients[kept]

    def _prepare(self, httpx: Any, http: Http, request: ToolRequest, secrets: dict[str, str]) -> Any:
        """The request, ready to go; `secrets` gets the values of the variables that stand in its headers."""
        template = http.template
        rest = {name: request.args[name] for name in sorted(request.args) if name not in template.names}

        def secret(name: str) -> str:
            value = self._reach.variable(name)
            secrets[value] = name
            return value

        try:
            url = template.fill(request.args, self._reach.variable)
            content = None
            if http.method in ("GET", "DELETE"):
                url += _query(httpx, rest, "&" if "?" in url else "?")
            else:
                content = canonical(rest)
            given = {name: fill_variables(value, secret) for name, value in http.headers.items()}
            headers = self._headers(httpx, http, request, given)
            made = httpx.Request(http.method, url, headers=headers, content=content)
        except TemplateError as problem:
            raise NotSentError(str(problem), reason="invalid_argument") from None
        except (httpx.InvalidURL, CanonicalError, ValueError, TypeError) as problem:
            raise NotSentError(
                f"the request cannot be made: {one_line(str(problem))}", reason="invalid_argument"
            ) from None
        self._check_host(made.url)
        return made

    @staticmethod
    def _headers(httpx: Any, http: Http, request: ToolRequest, given: Mapping[str, str]) -> Any:
        """The headers; NotSentError, never showing a value, where one could not be sent as it is."""
        headers = httpx.Headers({"Accept": "application/json", "Accept-Encoding": "identity"})
        if http.method not in ("GET", "DELETE"):
            headers["Content-Type"] = "application/json"
        ours = {"X-Request-Id": request.request_id}
        if http.idempotency_header and request.key is not None:
            ours[http.idempotency_header] = request.key
        for name, value in [*given.items(), *ours.items()]:
            if not _TOKEN.fullmatch(name) or name.lower() in _RESERVED:
                raise NotSentError(
                    f"`{one_line(name, 60)}` is no header that a manifest may set", reason="not_configured"
                )
            if not value.isascii() or not value.isprintable() or value != value.strip():
                raise NotSentError(
                    f"the value of the header `{name}` holds what no header can hold",
                    hint="look for a line break or a space at the end of a variable",
                    reason="not_configured",
                )
            headers[name] = value
        return headers

    def _check_host(self, url: Any) -> None:
        """The address that will be connected to is in the list."""
        host = url.raw_host.decode().lower()
        port = url.port or (443 if url.scheme == "https" else 80)
        shown = f"[{host}]" if ":" in host else host
        if not 0 < port <= _LAST_PORT:
            raise NotSentError(f"{port} is no port", reason="invalid_argument")
        if not {host, shown, f"{shown}:{port}"} & {h.lower() for h in self._reach.hosts}:
            raise NotSentError(
                f"the host {shown}:{port} is not in the list",
                hint="add it to `hosts` in the settings",
                reason="host_not_allowed",
            )


def _query(httpx: Any, rest: Mapping[str, Any], mark: str) -> str:
    """The arguments as a query: texts as they are, anything else as JSON, lists as repeated names."""
    pairs = [
        (name, one if isinstance(one, str) else canonical(one).decode())
        for name, value in rest.items()
        if value is not None
        for one in (value if isinstance(value, list | tuple) else [value])
    ]
    return mark + str(httpx.QueryParams(pairs)) if pairs else ""


async def _body(response: Any, limit: int) -> tuple[bytes, bool]:
    """The body, at most `limit` bytes of it however it is packed, and whether that was all."""
    unpack = _unpacking(response.headers.get("content-encoding", ""))
    found = bytearray()
    async for part in response.aiter_raw():
        found += unpack(part, limit + 1 - len(found))
        if len(found) > limit:
            return bytes(found[:limit]), False
    return bytes(found), True


def _unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    """How a body is unpacked, never to more than is asked for; what cannot be unpacked stays, and is no JSON."""
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return lambda part, _most: part
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: gzip or zlib, as its first bytes say

    def unpack(part: bytes, most: int) -> bytes:
        try:
            return unpacker.decompress(part, most)
        except zlib.error:
            raise _GarbledError from None

    return unpack


def _without(body: bytes, secrets: Mapping[str, str]) -> bytes:
    """The body, variables of the request's headers named instead of shown, should the service echo them."""
    for value, name in secrets.items():
        if len(value) >= _SECRET:
            body = body.replace(value.encode(), b"${%s}" % name.encode())
    return body


def _failure(sent: bool, text: str, error_class: str) -> NotSentError | LostError:  # noqa: FBT001
    return LostError(text, reason=error_class) if sent else NotSentError(text, reason=error_class)


def _judge(manifest: ToolManifest, response: Any, body: bytes, *, whole: bool) -> object:
    """What an answer means: a result, a declared no, or nothing usable."""
    status = response.status_code
    if status in manifest.errors:
        raise RefusedByServiceError(f"HTTP {status}: {_excerpt(manifest, body)}", reason=manifest.errors[status])
    if not 200 <= status < 300:  # noqa: PLR2004  the success family
        error_class = "unavailable" if status >= 500 else "rate_limited" if status == 429 else f"http_{status}"  # noqa: PLR2004
        raise LostError(f"HTTP {status}: {_excerpt(manifest, body)}", reason=error_class)
    if not whole or (manifest.is_read and len(body) > 4 * manifest.max_bytes):
        announced = response.headers.get("content-length", "")
        size = int(announced) if announced.isdecimal() and len(announced) < 16 else None  # noqa: PLR2004
        problem = results.too_large(manifest, body, size=size, whole=whole)
        raise LostError(problem.message, reason=problem.reason)
    if status == 204:  # noqa: PLR2004  no content, and none was promised
        return {}
    try:
        return results.parse(body)
    except results.BadResultError as problem:
        raise LostError(f"{problem.message}: {_excerpt(manifest, body)}", reason=problem.reason) from None


def _excerpt(manifest: ToolManifest, body: bytes) -> str:
    if manifest.redact:
        return "its text is not shown, since some of the tool's results are masked"
    return one_line(body[:400].decode(errors="replace"), 160) or "no text"
