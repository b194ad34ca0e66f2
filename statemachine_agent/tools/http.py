"""The HTTP binding: one request, no redirects, no proxy of the environment, hosts from a list, and whether it was sent.

"Sent" is what the connection itself reports: from the moment at which request headers began to be written, the request may
have reached the service. It must not know what the answer means for a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.manifest import Http, ToolManifest
from statemachine_agent.definition.template import TemplateError, fill_variables
from statemachine_agent.environment import Environment
from statemachine_agent.text import one_line
from statemachine_agent.tools import results
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import Reach, ToolRequest

#: what is read of an answer at the most, whatever the manifest says
HARD_LIMIT = 8 * 1024 * 1024


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
        """The parsed answer. NotSentError, RefusedByServiceError or LostError otherwise."""
        import httpx  # noqa: PLC0415  a tenth of a second that only HTTP tools pay

        http = manifest.binding.http
        assert http is not None  # noqa: S101  chosen by the caller
        prepared = self._prepare(httpx, http, request)
        sent = False

        async def trace(event: str, _info: Mapping[str, Any]) -> None:
            nonlocal sent
            sent = sent or event.endswith("send_request_headers.started")

        prepared.extensions["trace"] = trace
        try:
            async with self._environment.timeout(timeout):
                response = await self._client(httpx, manifest).send(prepared, stream=True)
                try:
                    body, whole = await _body(response, HARD_LIMIT)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise _failure(sent, f"no answer within {timeout:g} s", "timeout") from None
        except (httpx.HTTPError, OSError) as problem:
            text = one_line(f"{type(problem).__name__}: {problem}".rstrip(": "))
            raise _failure(sent, text, "unavailable") from None
        return _judge(manifest, response.status_code, body, whole=whole)

    def _client(self, httpx: Any, manifest: ToolManifest) -> Any:
        kept = manifest.is_read
        if kept not in self._clients:
            limits = httpx.Limits(max_keepalive_connections=16 if kept else 0)
            self._clients[kept] = httpx.AsyncClient(
                follow_redirects=False, trust_env=False, timeout=None, limits=limits
            )
        return self._clients[kept]

    def _prepare(self, httpx: Any, http: Http, request: ToolRequest) -> Any:
        """The request, ready to go; whatever is wrong with it is found before anything is sent."""
        template = http.template
        try:
            url = template.fill(request.args, self._reach.variable)
            headers = {name: fill_variables(value, self._reach.variable) for name, value in http.headers.items()}
        except TemplateError as problem:
            raise NotSentError(str(problem), reason="invalid_argument") from None
        self._check_host(url)
        headers["X-Request-Id"] = request.request_id
        if http.idempotency_header and request.key is not None:
            headers[http.idempotency_header] = request.key
        rest = {name: value for name, value in request.args.items() if name not in template.names}
        content = None
        if http.method in ("GET", "DELETE"):
            url += _query(httpx, rest, "&" if "?" in url else "?")
        else:
            content = canonical(rest)
            headers["Content-Type"] = "application/json"
        try:
            return httpx.Request(http.method, url, headers=headers, content=content)
        except (httpx.InvalidURL, ValueError, TypeError, UnicodeError) as problem:
            raise NotSentError(
                f"the request cannot be made: {one_line(str(problem))}", reason="invalid_argument"
            ) from None

    def _check_host(self, url: str) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if not {host, f"{host}:{port}"} & self._reach.hosts:
            raise NotSentError(
                f"the host {host}:{port} is not in the list",
                hint="add it to `hosts` in the settings",
                reason="host_not_allowed",
            )


def _query(httpx: Any, rest: Mapping[str, Any], mark: str) -> str:
    return mark + str(httpx.QueryParams({k: v for k, v in rest.items() if v is not None})) if rest else ""


async def _body(response: Any, limit: int) -> tuple[bytes, bool]:
    """The body, at most `limit` bytes of it, and whether that was all."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > limit:
            return b"".join(parts), False
        parts.append(part)
    return b"".join(parts), True


def _failure(sent: bool, text: str, error_class: str) -> NotSentError | LostError:  # noqa: FBT001
    return LostError(text, reason=error_class) if sent else NotSentError(text, reason=error_class)


def _judge(manifest: ToolManifest, status: int, body: bytes, *, whole: bool) -> object:
    """What an answer means: a result, a declared no, or nothing usable."""
    if status in manifest.errors:
        raise RefusedByServiceError(f"HTTP {status}: {_excerpt(body)}", reason=manifest.errors[status])
    if not 200 <= status < 300:  # noqa: PLR2004  the success family
        error_class = "unavailable" if status >= 500 else "rate_limited" if status == 429 else f"http_{status}"  # noqa: PLR2004
        raise LostError(f"HTTP {status}: {_excerpt(body)}", reason=error_class)
    if not whole:
        raise LostError(str(results.too_large(body, HARD_LIMIT, HARD_LIMIT)), reason="too_large")
    if manifest.is_read and len(body) > 4 * manifest.max_bytes:
        raise LostError(str(results.too_large(body, len(body), manifest.max_bytes)), reason="too_large")
    try:
        return results.parse(body)
    except results.BadResultError as problem:
        raise LostError(f"{problem.message}: {_excerpt(body)}", reason=problem.reason) from None


def _excerpt(body: bytes) -> str:
    return one_line(body[:400].decode(errors="replace"), 160) or "no text"
