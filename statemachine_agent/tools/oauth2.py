"""Access tokens for HTTP tools: credentials are exchanged for a token that lives in this process's memory, and nowhere else.

However many calls want a token at once, one request asks for it; it is replaced before it expires. Until there is a token,
nothing was sent to a tool's service. It must not know tools, tasks or what a token opens.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

import httpx

from statemachine_agent.definition.template import fill_variables
from statemachine_agent.definition.token_source import TokenSource
from statemachine_agent.environment import Environment
from statemachine_agent.tools import results
from statemachine_agent.tools.network import Answer, Network
from statemachine_agent.tools.outcome import NotSentError
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.troubles import LineError, TokenError
from statemachine_agent.tools.withheld import Withheld

_ROOM = 64 * 1024  # bytes of an answer
_LONGEST = 16 * 1024  # characters of a token
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # what may stand behind `Bearer` (RFC 6750, section 2.1)
_UNTOLD = 300.0  # seconds that a token is kept whose service does not say for how long it is good
_DAY = 86_400.0  # and the longest that any is kept
_EARLY = 60.0  # seconds before its end that a token is replaced; never more than a tenth of its life
#: what a token service may say is wrong (RFC 6749, RFC 8707); its own words are never shown, for they may quote a secret
_SAID = frozenset({
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope", "invalid_target",
})  # fmt: skip
_BUSY = frozenset({408, 425, 429})  # statuses that may be better in a moment, beside 5xx


@dataclass(frozen=True)
class _Held:
    value: str = field(repr=False)
    #: on the clock that never goes back
    until: float


class Tokens:
    """The tokens of a process; close it with the connections that they came over."""

    def __init__(self, reach: Reach, environment: Environment, network: Network) -> None:
        """No token is asked for yet."""
        self._reach = reach
        self._environment = environment
        self._network = network
        self._held: dict[str, _Held] = {}
        self._asked: dict[str, asyncio.Task[_Held]] = {}

    async def close(self) -> None:
        """Stop asking, and forget all tokens."""
        asked = list(self._asked.values())
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        self._held.clear()

    async def token(self, name: str, rejected: str | None = None) -> str:
        """A token of the source `name`, another than the `rejected` one if there is one; TokenError otherwise."""
        held = self._held.get(name)
        if held is not None and held.value == rejected:
            del self._held[name]
        elif held is not None and self._environment.monotonic() < held.until:
            return held.value
        task = self._asked.get(name)
        if task is None:
            task = asyncio.ensure_future(self._fetched(name))
            self._asked[name] = task
            task.add_done_callback(lambda done: self._done(name, done))
        return (await asyncio.shield(task)).value  # who goes away does not take it from the others

    def _done(self, name: str, task: asyncio.Task[_Held]) -> None:
        self._asked.pop(name, None)
        if not task.cancelled() and task.exception() is None:
            self._held[name] = task.result()

    async def _fetched(self, name: str) -> _Held:
        source = self._reach.token_sources.get(name)
        if source is None:
            text = f"`{name}` is no token source of the settings; add `[oauth2.{name}]`"
            raise TokenError(text, reason="not_configured")
        try:
            request = self._request(source)
            self._network.pool(request.url, kept=False)
            started = self._environment.monotonic()
            answer = await self._answer(source, request)
            return _read(answer, started)
        except NotSentError as problem:
            where = self._reach.place(source.token_url)
            text = f"no token of `{name}` from {where}: {problem.message}"
            raise TokenError(text, hint=problem.hint, reason=problem.reason) from None

    async def _answer(self, source: TokenSource, request: httpx.Request) -> Answer:
        seconds = source.timeout.total_seconds()
        try:
            async with self._environment.timeout(seconds):
                return await self._network.send(request, kept=False, room=_ROOM)
        except TimeoutError:
            raise NotSentError(f"no answer within {seconds:g} s", reason="token_unavailable") from None
        except LineError as problem:
            secrets = Withheld()
            secrets.add(self._filled(source.client_secret, "client_secret"), source.client_secret)
            down = problem.reason == "unavailable"
            reason = "token_unavailable" if down else "token_refused"
            raise NotSentError(secrets.quoted(problem.message), reason=reason) from None

    def _request(self, source: TokenSource) -> httpx.Request:
        """The request; the credentials are read now."""
        form = {"grant_type": "client_credentials"}
        form |= {k: v for k, v in (("scope", source.scope), ("audience", source.audience)) if v is not None}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        who = self._filled(source.client_id, "client_id")
        secret = self._filled(source.client_secret, "client_secret")
        if source.credentials == "body":
            form |= {"client_id": who, "client_secret": secret}
        else:
            pair = f"{quote_plus(who)}:{quote_plus(secret)}"  # both are encoded first (RFC 6749, section 2.3.1)
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        address = fill_variables(source.token_url, self._reach.variable)
        try:
            made = httpx.Request("POST", address, headers=headers, content=urlencode(form).encode())
        except (httpx.InvalidURL, ValueError, TypeError):
            raise NotSentError("this is no address", reason="not_configured") from None
        if made.url.scheme not in ("http", "https") or not made.url.host or made.url.query or made.url.fragment:
            raise NotSentError("this is no address: write https://host/path", reason="not_configured")
        self._network.check(made.url)
        return made

    def _filled(self, text: str, key: str) -> str:
        found = fill_variables(text, self._reach.variable)
        if not found.isprintable() or found != found.strip():
            message = f"`{key}` holds what no credential can hold; look for a line break or a space at its end"
            raise NotSentError(message, reason="not_configured")
        return found


def _read(answer: Answer, started: float) -> _Held:
    """The token in an answer; NotSentError, never quoting the answer, where there is none."""
    body = _object(answer)
    if answer.status != 200:  # noqa: PLR2004  the only success that the protocol knows
        raise NotSentError(_refusal(answer.status, body), reason=_reason_of(answer.status))
    if not answer.whole:
        raise NotSentError(f"the answer has more than {_ROOM} bytes", reason="token_refused")
    if body is None:
        raise NotSentError("the answer is no JSON object", reason="token_refused")
    value, kind = body.get("access_token"), body.get("token_type", "bearer")
    if not isinstance(value, str) or not value:
        raise NotSentError("the answer holds no `access_token`", reason="token_refused")
    if len(value) > _LONGEST or not _TOKEN.fullmatch(value):
        raise NotSentError("its `access_token` is none that a header can hold", reason="token_refused")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NotSentError("its token is no bearer token", reason="token_refused")
    lasts = _seconds(body.get("expires_in"))
    return _Held(value, started + lasts - min(_EARLY, lasts / 10))


def _object(answer: Answer) -> Mapping[str, object] | None:
    if not answer.whole:
        return None
    try:
        found = results.parse(answer.body)
    except results.BadResultError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(given: object) -> float:
    """For how long a token is good; NotSentError for what is no number of seconds."""
    if given is None:
        return _UNTOLD
    if isinstance(given, str) and re.fullmatch(r"[0-9]{1,12}", given):  # some services write it so
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:  # which NaN is not either
        raise NotSentError("its `expires_in` is no number of seconds", reason="token_refused")
    return float(min(given, _DAY))


def _refusal(status: int, body: Mapping[str, object] | None) -> str:
    if 300 <= status < 400:  # noqa: PLR2004  the redirecting family
        return f"HTTP {status}, and redirects are not followed"
    said = body.get("error") if body is not None else None
    return f"HTTP {status}: {said}" if isinstance(said, str) and said in _SAID else f"HTTP {status}"


def _reason_of(status: int) -> str:
    return "token_unavailable" if status >= 500 or status in _BUSY else "token_refused"  # noqa: PLR2004  the failing family
