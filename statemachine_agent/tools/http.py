"""The HTTP binding: one request, an access token where the manifest wants one, and whether the request was sent.

"Sent" is what the connection itself reports: from the moment at which request headers began to be written, the request may
have reached the service. Whatever is wrong with a request is found before that. It must not know what the answer means for
a task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.manifest import Http, ToolManifest
from statemachine_agent.definition.template import TemplateError, fill_variables
from statemachine_agent.environment import Environment
from statemachine_agent.errors import CanonicalError
from statemachine_agent.text import one_line
from statemachine_agent.tools import results
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import Reach, ToolRequest
from statemachine_agent.tools.troubles import LineError, TokenError
from statemachine_agent.tools.withheld import Withheld

if TYPE_CHECKING:
    import httpx

    from statemachine_agent.tools.network import Answer, Network
    from statemachine_agent.tools.oauth2 import Tokens

#: bytes that are read of an answer at the most, unless the manifest wants more
ROOM = 8 * 1024 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: headers that say how the connection is used, which is not the manifest's to say
_RESERVED = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})
#: troubles of which the address is not the reason, so that it need not be named
_ELSEWHERE = frozenset({"invalid_argument", "not_configured", "too_large"})
_UNAUTHORISED = 401


@dataclass
class _Call:
    """How far a call came."""

    manifest: ToolManifest
    request: httpx.Request
    #: values that must not be shown
    secrets: Withheld
    #: True from the moment at which the request may have reached the service
    sent: bool = False
    #: the source of a token that is waited for
    waits_for: str | None = None

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        self.sent = self.sent or event.endswith("send_request_headers.started")


class HttpBinding:
    """Sends requests over connections that are kept for reads and never reused for writes."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Connections are made when they are first needed."""
        self._reach = reach
        self._environment = environment
        self._outside: tuple[Network, Tokens] | None = None

    async def close(self) -> None:
        """Close all connections, and forget all tokens."""
        if self._outside is not None:
            network, tokens = self._outside
            await tokens.close()
            await network.close()

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """The parsed answer. NotSentError, RefusedByServiceError or LostError otherwise, saying where it was to go."""
        http = manifest.binding.http
        assert http is not None  # noqa: S101  chosen by the caller
        try:
            return await self._exchange(manifest, http, request, timeout)
        except (NotSentError, LostError) as problem:
            if problem.reason in _ELSEWHERE or isinstance(problem, TokenError):
                raise
            text = f"{self._reach.place(http.template.base)}: {problem.message}"
            raise type(problem)(text, hint=problem.hint, reason=problem.reason) from None

    async def _exchange(self, manifest: ToolManifest, http: Http, request: ToolRequest, timeout: float) -> object:
        network, tokens = self._opened()
        secrets = Withheld()
        call = _Call(manifest, self._prepare(network, http, request, secrets), secrets)
        network.pool(
            call.request.url, kept=manifest.is_read
        )  # its first one takes a while, which is not the service's time
        try:
            async with self._environment.timeout(timeout):
                answer = await self._answer(network, tokens, call, http.oauth2)
        except TimeoutError:
            raise _too_late(call, timeout) from None
        except LineError as problem:
            text = secrets.quoted(problem.message)
            if call.sent and manifest.redact:  # what a library says of an answer that it cannot read may quote it
                text = f"{text.partition(':')[0]}; {_UNTOLD}"
            if call.sent or problem.reason == "bad_result":
                raise LostError(text, reason=problem.reason) from None
            raise NotSentError(text, reason=problem.reason) from None
        return _judge(manifest, answer, secrets)

    async def _answer(self, network: Network, tokens: Tokens, call: _Call, source: str | None) -> Answer:
        """What the service says; with a token, what it says to another one where it did not take the first.

        401 says that the request was not applied (RFC 9110, section 15.5.2), so a write may be sent again, key and bytes
        the same. Where there is no other token, the 401 is the answer.
        """
        token = await self._with_token(tokens, call, source)
        answer = await self._once(network, call)
        if answer.status != _UNAUTHORISED or token is None:
            return answer
        try:
            other = await self._with_token(tokens, call, source, rejected=token)
        except TokenError:
            return answer
        return answer if other == token else await self._once(network, call)

    async def _with_token(
        self, tokens: Tokens, call: _Call, source: str | None, rejected: str | None = None
    ) -> str | None:
        """The token that the request now bears; None where its manifest wants none."""
        if source is None:
            return None
        call.waits_for = source
        token = await tokens.token(source, rejected)
        call.waits_for = None
        call.secrets.add(token, f"the token of {source}")
        call.request.headers["Authorization"] = f"Bearer {token}"
        return token

    @staticmethod
    async def _once(network: Network, call: _Call) -> Answer:
        manifest = call.manifest
        return await network.send(
            call.request, kept=manifest.is_read, room=max(ROOM, manifest.max_bytes), trace=call.trace
        )

    def _opened(self) -> tuple[Network, Tokens]:
        if self._outside is None:
            from statemachine_agent.tools.network import Network  # noqa: PLC0415  a tenth of a second
            from statemachine_agent.tools.oauth2 import Tokens  # noqa: PLC0415  that only HTTP tools pay

            network = Network(self._reach, self._environment)
            self._outside = network, Tokens(self._reach, self._environment, network)
        return self._outside

    def _prepare(self, network: Network, http: Http, request: ToolRequest, secrets: Withheld) -> httpx.Request:
        """The request, ready to go; `secrets` gets the values of the variables that stand in its headers and address."""
        import httpx  # noqa: PLC0415  imported with the network

        template = http.template
        rest = {name: request.args[name] for name in sorted(request.args) if name not in template.names}

        def secret(name: str) -> str:
            value = self._reach.variable(name)
            secrets.add(value, f"${{{name}}}")
            return value

        try:
            url = template.fill(request.args, self._reach.variable)
            secrets.add_address(template, self._reach.variable)
            content = None
            if http.method in ("GET", "DELETE"):
                url += _query(rest, "&" if "?" in url else "?")
            else:
                content = canonical(rest)
            given = {name: fill_variables(value, secret) for name, value in http.headers.items()}
            headers = self._headers(http, request, given)
            made = httpx.Request(http.method, url, headers=headers, content=content)
        except TemplateError as problem:
            raise NotSentError(str(problem), reason="invalid_argument") from None
        except (httpx.InvalidURL, CanonicalError, ValueError, TypeError) as problem:
            raise NotSentError(
                f"the request cannot be made: {secrets.quoted(one_line(str(problem)))}", reason="invalid_argument"
            ) from None
        network.check(made.url)
        return made

    @staticmethod
    def _headers(http: Http, request: ToolRequest, given: Mapping[str, str]) -> httpx.Headers:
        """The headers; NotSentError, never showing a value, where one could not be sent as it is."""
        import httpx  # noqa: PLC0415  imported with the network

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


def _query(rest: Mapping[str, Any], mark: str) -> str:
    """The arguments as a query: texts as they are, anything else as JSON, lists as repeated names."""
    import httpx  # noqa: PLC0415  imported with the network

    pairs: list[tuple[str, str | int | float | bool | None]] = [
        (name, one if isinstance(one, str) else canonical(one).decode())
        for name, value in rest.items()
        if value is not None
        for one in (value if isinstance(value, list | tuple) else [value])
    ]
    return mark + str(httpx.QueryParams(pairs)) if pairs else ""


def _too_late(call: _Call, timeout: float) -> NotSentError | LostError:
    if call.sent:
        return LostError(f"no answer within {timeout:g} s", reason="timeout")
    if call.waits_for is not None:
        return TokenError(f"no token of `{call.waits_for}` within {timeout:g} s", reason="token_unavailable")
    return NotSentError(f"no answer within {timeout:g} s", reason="timeout")


def _judge(manifest: ToolManifest, answer: Answer, secrets: Withheld) -> object:
    """What an answer means: a result, a declared no, or nothing usable; `secrets` are named in it instead of shown."""
    status, whole, body = answer.status, answer.whole, answer.body
    if status in manifest.errors:
        raise RefusedByServiceError(
            f"HTTP {status}: {_excerpt(manifest, body, secrets)}", reason=manifest.errors[status]
        )
    if not 200 <= status < 300:  # noqa: PLR2004  the success family
        error_class = "unavailable" if status >= 500 else "rate_limited" if status == 429 else f"http_{status}"  # noqa: PLR2004
        raise LostError(f"HTTP {status}: {_excerpt(manifest, body, secrets)}", reason=error_class)
    if not whole or (manifest.is_read and len(body) > 4 * manifest.max_bytes):
        announced = answer.headers.get("content-length", "")
        size = int(announced) if announced.isdecimal() and len(announced) < 16 else None  # noqa: PLR2004
        problem = results.too_large(manifest, body, size=size, whole=whole, secrets=secrets)
        raise LostError(problem.message, reason=problem.reason)
    if status == 204:  # noqa: PLR2004  no content, and none was promised
        return {}
    try:
        return secrets.without_in(results.parse(body))
    except (ValueError, RecursionError):
        raise LostError("the answer cannot be shown without what is withheld", reason="bad_result") from None
    except results.BadResultError as problem:
        raise LostError(f"{problem.message}: {_excerpt(manifest, body, secrets)}", reason=problem.reason) from None


_UNTOLD = "its text is not shown, since some of the tool's results are masked"


def _excerpt(manifest: ToolManifest, body: bytes, secrets: Withheld) -> str:
    if manifest.redact:
        return _UNTOLD
    return one_line(secrets.head(body, 400), 160) or "no text"
