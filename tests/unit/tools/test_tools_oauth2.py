"""Access tokens: asked for once for all, replaced in time, sent where they belong, and found nowhere afterwards."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import pytest
from unit.tools.making import Clock, Service, answer, answering, on_loop, reach, read_tool, write_tool

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.token_source import TokenSource
from statemachine_agent.tools.outcome import Attempt, Blocked, Failed, Ok, Outcome, Unknown
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.toolbox import Toolbox

SECRET = "s3cr3t/of+the=desk"  # noqa: S105  an invented one
FIRST, SECOND = "first-token.7f3a", "second-token.91cc"
WITH = {"http": {"oauth2": "desk"}}


def given(token: object = FIRST, lasts: object = 3600, **more: object) -> bytes:
    """An answer with a token."""
    return answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": lasts, **more})


def source(**changes: Any) -> TokenSource:
    written = {"token_url": "${TOKENS}/token", "client_id": "agent", "client_secret": "${DESK_SECRET}", **changes}
    return TokenSource.model_validate(written)


def reached(tokens: str, environ: dict[str, str] | None = None, **changes: Any) -> Reach:
    more = {key: changes.pop(key) for key in ("hosts", "private_hosts") if key in changes}
    listed = {"TOKENS": tokens, "DESK_SECRET": "", "DESK_ID": ""}
    environ = {"DESK_SECRET": SECRET} if environ is None else environ
    return reach(listed, environ, token_sources={"desk": source(**changes)}, **more)


@dataclass
class Desk:
    """A service, the one that gives tokens for it, and a toolbox that knows both."""

    service: Service
    tokens: Service
    clock: Clock
    toolbox: Toolbox

    async def attempts(self, tool: ToolManifest, **call: Any) -> list[Attempt]:
        return await self.toolbox.call(tool, {}, **{"seconds": 60.0, **call})

    async def read(self, **changes: Any) -> Outcome:
        return (await self.attempts(read_tool(self.service.url, **{**WITH, **changes})))[-1].outcome

    async def write(self, **changes: Any) -> Outcome:
        return (await self.attempts(write_tool(self.service.url, **{**WITH, **changes}), key="w:1"))[-1].outcome

    @property
    def bearers(self) -> list[str | None]:
        return [r.headers.get("authorization") for r in self.service.requests]


@asynccontextmanager
async def desk(
    *tokens: bytes | None, answers: tuple[bytes | None, ...] = (), hold: bool = False, **changes: Any
) -> AsyncIterator[Desk]:
    async with answering(*(tokens or (given(),)), hold=hold) as giver, answering(*answers) as service:
        clock = Clock()
        toolbox = Toolbox(reached(giver.url, **changes), clock)
        try:
            yield Desk(service, giver, clock, toolbox)
        finally:
            await toolbox.close()


# ---------------------------------------------------------------- how it is asked for


@on_loop
async def test_a_token_is_asked_for_as_the_protocol_says_and_sent_with_the_request() -> None:
    async with desk(scope="loans:write loans:read", audience="https://desk.example") as found:
        assert await found.write() == Ok({"value": 1}, size=11)
        (asked,) = found.tokens.requests
        assert found.bearers == [f"Bearer {FIRST}"]
    assert asked.line == "POST /token HTTP/1.1"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["loans:write loans:read"],
        "audience": ["https://desk.example"],
    }
    kind, _, pair = asked.headers["authorization"].partition(" ")
    assert (kind, base64.b64decode(pair)) == ("Basic", b"agent:s3cr3t%2Fof%2Bthe%3Ddesk")


@on_loop
async def test_credentials_go_into_the_body_where_the_service_wants_them_there() -> None:
    async with desk(credentials="body", client_id="${DESK_ID}", environ={"DESK_SECRET": SECRET, "DESK_ID": "a b"}) as d:
        assert isinstance(await d.read(), Ok)
        (asked,) = d.tokens.requests
    form = parse_qs(asked.body.decode())
    assert (form["client_id"], form["client_secret"]) == (["a b"], [SECRET])
    assert "authorization" not in asked.headers


@on_loop
async def test_credentials_are_read_when_a_token_is_asked_for() -> None:
    environ = {"ELSE": "x"}
    async with desk(environ=environ) as found:
        blocked = await found.write()
        assert isinstance(blocked, Blocked) and blocked.reason == "not_configured"
        assert blocked.detail.endswith("`DESK_SECRET` has no value")
        for secret in ("one", "two"):
            environ["DESK_SECRET"] = secret
            found.clock.advance(3600)
            assert isinstance(await found.read(), Ok)
        pairs = [base64.b64decode(r.headers["authorization"].split()[1]) for r in found.tokens.requests]
    assert pairs == [b"agent:one", b"agent:two"]


@pytest.mark.parametrize("secret", [f"{SECRET}\n", f" {SECRET}", f"{SECRET}\r\nX: 1", f"{SECRET}\x00"])
@on_loop
async def test_a_credential_with_a_line_break_is_not_sent_and_never_shown(secret: str) -> None:
    async with desk(environ={"DESK_SECRET": secret}) as found:
        blocked = await found.write()
        assert found.tokens.requests == found.service.requests == []
    assert isinstance(blocked, Blocked) and blocked.reason == "not_configured"
    assert "`client_secret`" in blocked.detail and SECRET not in blocked.detail


@on_loop
async def test_a_manifest_that_names_no_source_gets_no_token() -> None:
    async with desk() as found:
        assert isinstance(await found.read(http={}), Ok)
        assert found.bearers == [None] and found.tokens.requests == []
        blocked = await found.write(http={"oauth2": "other"})
    assert isinstance(blocked, Blocked) and blocked.reason == "not_configured"
    assert blocked.detail == "`other` is no token source of the settings; add `[oauth2.other]`"


@on_loop
async def test_what_cannot_be_sent_asks_for_no_token() -> None:
    async with desk() as found:
        tool = write_tool("https://elsewhere.example/", **WITH)
        (attempt,) = await found.attempts(tool, key="w:1")
        assert isinstance(attempt.outcome, Blocked) and attempt.outcome.reason == "host_not_allowed"
        assert found.tokens.requests == []


def test_the_variables_of_a_source_are_wanted_before_a_task_begins() -> None:
    toolbox = Toolbox(reached("http://127.0.0.1:1"), Clock())
    assert toolbox.variables_of(read_tool("http://127.0.0.1", **WITH)) == ["TOKENS", "DESK_SECRET"]


# ---------------------------------------------------------------- how long it is kept


@pytest.mark.parametrize(
    ("lasts", "good", "over"),
    [(3600, 3539, 3541), (100, 89, 91), ("120", 107, 109), (None, 269, 271), (1e9, 86_339, 86_341), (0, None, 0)],
)
@on_loop
async def test_a_token_is_replaced_before_its_end(lasts: object, good: float | None, over: float) -> None:
    """A minute before, or a tenth of its life; without a life that is told, after some minutes; in any case after a day."""
    async with desk(given(FIRST, lasts), given(SECOND, lasts)) as found:
        await found.read()
        if good is not None:
            found.clock.advance(good)
            await found.read()
            assert found.bearers == [f"Bearer {FIRST}"] * 2
            found.clock.advance(-good)
        found.clock.advance(over)
        await found.read()
        assert found.bearers[-1] == f"Bearer {SECOND}"
        assert len(found.tokens.requests) == 2


@on_loop
async def test_calls_at_once_wait_for_one_token() -> None:
    async with desk() as found:
        outcomes = await asyncio.gather(*(found.read() for _ in range(20)))
        assert all(isinstance(o, Ok) for o in outcomes)
        assert len(found.tokens.requests) == 1 and len(found.service.requests) == 20


@on_loop
async def test_a_call_that_is_given_up_takes_the_token_from_nobody() -> None:
    async with desk() as found:
        first = asyncio.ensure_future(found.read())
        others = [asyncio.ensure_future(found.read()) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        assert all(isinstance(o, Ok) for o in await asyncio.gather(*others))
        assert len(found.tokens.requests) == 1


@on_loop
async def test_calls_at_once_are_all_told_that_there_is_no_token() -> None:
    async with desk(answer(400, {"error": "invalid_client"})) as found:
        outcomes = await asyncio.gather(*(found.write() for _ in range(5)))
        assert {o.reason for o in outcomes if isinstance(o, Blocked)} == {"token_refused"}
        assert len(found.tokens.requests) == 1
        await found.write()
        assert len(found.tokens.requests) == 2  # a failure is not kept


# ---------------------------------------------------------------- 401


@on_loop
async def test_a_token_that_is_not_taken_is_replaced_once() -> None:
    async with desk(given(FIRST), given(SECOND), answers=(answer(401), answer())) as found:
        assert isinstance(await found.read(), Ok)
        assert found.bearers == [f"Bearer {FIRST}", f"Bearer {SECOND}"]
        assert isinstance(await found.read(), Ok)
        assert found.bearers[-1] == f"Bearer {SECOND}"
        assert len(found.tokens.requests) == 2


@on_loop
async def test_a_write_whose_token_is_not_taken_is_sent_again_byte_for_byte() -> None:
    """401 says that nothing was done; the key, the body and the request's id stay the same."""
    async with desk(given(FIRST), given(SECOND), answers=(answer(401), answer())) as found:
        assert isinstance(await found.write(), Ok)
        first, second = found.service.requests
    assert (first.line, first.body) == (second.line, second.body)
    without = [{k: v for k, v in r.headers.items() if k != "authorization"} for r in (first, second)]
    assert without[0] == without[1]
    assert first.headers["idempotency-key"] == "w:1"


@on_loop
async def test_a_second_refusal_is_the_answer() -> None:
    async with desk(given(FIRST), given(SECOND), answers=(answer(401, {"no": 1}),)) as found:
        read, write = await found.read(), await found.write()
        assert isinstance(read, Failed) and read.error_class == "http_401"
        assert isinstance(write, Unknown) and write.error_class == "http_401"
    async with desk(given(FIRST), given(SECOND), answers=(answer(401),)) as found:
        declared = await found.write(errors={"401": "not_entitled"})
        assert isinstance(declared, Failed) and declared.error_class == "not_entitled"
        assert len(found.service.requests) == 2


@pytest.mark.parametrize("then", [given(FIRST), answer(500), answer(400), b"garbage"])
@on_loop
async def test_where_there_is_no_other_token_the_refusal_is_the_answer(then: bytes) -> None:
    """And a write that the service has seen is not called one that was never sent."""
    async with desk(given(FIRST), then, answers=(answer(401),)) as found:
        write = await found.write()
        assert isinstance(write, Unknown) and write.error_class == "http_401"
        assert len(found.service.requests) == 1


@on_loop
async def test_a_write_that_breaks_off_the_second_time_may_have_happened() -> None:
    async with desk(given(FIRST), given(SECOND), answers=(answer(401), None)) as found:
        write = await found.write(retry={"unsent": 3})
        assert isinstance(write, Unknown) and write.error_class == "unavailable"
        assert len(found.service.requests) == 2


@on_loop
async def test_many_calls_whose_token_is_not_taken_ask_for_one_other() -> None:
    async with desk(given(FIRST), given(SECOND), answers=(*[answer(401)] * 10, answer())) as found:
        outcomes = await asyncio.gather(*(found.read() for _ in range(10)))
        assert all(isinstance(o, Ok) for o in outcomes)
        assert len(found.tokens.requests) == 2


# ---------------------------------------------------------------- a service that gives none

HUGE = answer(200, b'{"access_token": "' + b"x" * 70_000 + b'"}')
NONE = [
    (answer(400, {"error": "invalid_client", "error_description": SECRET}), "HTTP 400: invalid_client"),
    (answer(401, {"error": SECRET}), "HTTP 401"),
    (answer(403, b"no"), "HTTP 403"),
    (answer(302, None, {"Location": "http://127.0.0.1:1/"}), "HTTP 302, and redirects are not followed"),
    (answer(307, None, {"Location": "/else"}), "HTTP 307, and redirects are not followed"),
    (answer(201, {"access_token": FIRST}), "HTTP 201"),
    (answer(200, b"<html>"), "the answer is no JSON object"),
    (answer(200, b"[]"), "the answer is no JSON object"),
    (answer(200, b'{"access_token": "a", "access_token": "b"}'), "the answer is no JSON object"),
    (answer(200, {}), "the answer holds no `access_token`"),
    (answer(200, {"access_token": ""}), "the answer holds no `access_token`"),
    (answer(200, {"access_token": 7}), "the answer holds no `access_token`"),
    (given(f"{FIRST}\r\nX: 1"), "its `access_token` is none that a header can hold"),
    (given(f"{FIRST} x"), "its `access_token` is none that a header can hold"),
    (given("é" * 9), "its `access_token` is none that a header can hold"),
    (given("x" * 20_000), "its `access_token` is none that a header can hold"),
    (answer(200, {"access_token": FIRST, "token_type": "mac"}), "its token is no bearer token"),
    (given(FIRST, -1), "its `expires_in` is no number of seconds"),
    (given(FIRST, "soon"), "its `expires_in` is no number of seconds"),
    (given(FIRST, True), "its `expires_in` is no number of seconds"),
    (HUGE, "the answer has more than 65536 bytes"),
    (answer(200, gzip.compress(b"{}")[:-4] + b"1234", {"Content-Encoding": "gzip"}), "the answer cannot be unpacked"),
]


@pytest.mark.parametrize(("said", "told"), NONE)
@on_loop
async def test_an_answer_without_a_token_sends_nothing_and_is_not_quoted(said: bytes, told: str) -> None:
    async with desk(said) as found:
        write, read = await found.write(retry={"unsent": 3}), await found.read(retry={"attempts": 3})
        text = f"no token of `desk` from ${{TOKENS}}/token ({found.tokens.url.partition('://')[2]}): {told}"
        assert write == Blocked("token_refused", text)
        assert read == Failed("token_refused", text)
        assert found.service.requests == []
        assert len(found.tokens.requests) == 2  # it would say the same again


@pytest.mark.parametrize("errors", ["unavailable", "token_unavailable"])
@pytest.mark.parametrize("said", [answer(500), answer(503), answer(429), answer(408), None])
@on_loop
async def test_a_service_that_may_be_better_in_a_moment_is_asked_again(said: bytes | None, errors: str) -> None:
    """As one of the tool itself is: nothing was sent yet."""
    async with desk(said, said, given()) as found:
        assert isinstance(await found.write(retry={"unsent": 3}), Ok)
        assert len(found.tokens.requests) == 3
    async with desk(said) as found:
        write = await found.write(retry={"unsent": 2})
        assert isinstance(write, Blocked) and write.reason == "token_unavailable"
        read = await found.read(retry={"attempts": 2, "errors": [errors]})
        assert isinstance(read, Failed) and read.error_class == "token_unavailable"
        assert found.service.requests == [] and len(found.tokens.requests) == 4


@on_loop
async def test_a_service_that_is_down_or_silent_sends_nothing() -> None:
    async with desk() as found, answering(b"", hold=True) as silent:
        for tokens, timeout, told in (
            ("http://127.0.0.1:1", "10s", "ConnectError: All connection attempts failed"),
            (silent.url, "100ms", "no answer within 0.1 s"),
        ):
            toolbox = Toolbox(reached(tokens, timeout=timeout), Clock())
            (attempt,) = await toolbox.call(write_tool(found.service.url, retry={}, **WITH), {}, key="w:1", seconds=60)
            await toolbox.close()
            assert isinstance(attempt.outcome, Blocked) and attempt.outcome.reason == "token_unavailable"
            assert attempt.outcome.detail.endswith(told)
        assert found.service.requests == []


@on_loop
async def test_a_call_does_not_outlive_its_own_timeout_while_it_waits_for_a_token() -> None:
    async with desk(b"", hold=True) as found:
        write = await found.write(timeout="100ms", retry={})
        assert write == Blocked("token_unavailable", "no token of `desk` within 0.1 s")
        assert found.service.requests == []


# ---------------------------------------------------------------- where a token may come from


@pytest.mark.parametrize(
    ("token_url", "hosts", "reason"),
    [
        ("https://elsewhere.example/token", {"127.0.0.1"}, "host_not_allowed"),
        ("https://elsewhere.example/token", {"127.0.0.1", "elsewhere.example"}, "address_not_allowed"),
        ("http://10.0.0.1/token", {"127.0.0.1", "10.0.0.1"}, "tls_required"),
        ("http://8.8.8.8/token", {"127.0.0.1", "8.8.8.8"}, "tls_required"),
        ("${TOKENS}", {"127.0.0.1"}, "not_configured"),
    ],
)
@on_loop
async def test_what_holds_for_the_addresses_of_tools_holds_for_its_own(
    token_url: str, hosts: set[str], reason: str
) -> None:
    async with answering() as service:
        clock = Clock()
        clock.names["elsewhere.example"] = [["169.254.169.254"]]
        tokens = "http://me:pw@127.0.0.1" if reason == "invalid_argument" else "no address"
        toolbox = Toolbox(reached(tokens, token_url=token_url, hosts=frozenset(hosts)), clock)
        (attempt,) = await toolbox.call(write_tool(service.url, **WITH), {}, key="w:1", seconds=60)
        await toolbox.close()
        assert service.requests == []
    assert isinstance(attempt.outcome, Blocked) and attempt.outcome.reason == reason
    assert attempt.outcome.detail.startswith("no token of `desk` from ")


# ---------------------------------------------------------------- where it is found afterwards


@on_loop
async def test_neither_token_nor_secret_is_found_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    """Not in an outcome, a log, an error's text or its traceback, whatever a service echoes."""
    caplog.set_level(logging.DEBUG)
    echo = {"value": 1, "note": f"you sent Bearer {FIRST}", "more": FIRST.replace("/", "\\/")}
    returns = {"value": {"type": "integer"}, "note": {"type": "string"}}
    seen = []
    for status in (200, 401, 422, 500):
        async with desk(given(), answers=(answer(status, echo),)) as found:
            seen += await found.attempts(write_tool(found.service.url, returns=returns, **WITH), key="w:1")
            seen += await found.attempts(read_tool(found.service.url, returns=returns, **WITH))
            assert found.bearers[0] == f"Bearer {FIRST}"
            seen.append(repr(vars(found.toolbox._http._outside[1])))  # type: ignore[index, arg-type]
    async with desk(answer(400, {"error": SECRET})) as found:
        seen += await found.attempts(write_tool(found.service.url, **WITH), key="w:1")
    said = json.dumps([repr(one) for one in seen]) + caplog.text
    for hidden in (FIRST, SECRET, base64.b64encode(b"agent:s3cr3t%2Fof%2Bthe%3Ddesk").decode()):
        assert hidden not in said
    assert "you sent Bearer the token of desk" in said


@on_loop
async def test_an_error_that_is_raised_holds_no_secret_in_what_led_to_it() -> None:
    async with desk(answer(400, {"error": SECRET, "error_description": SECRET})) as found:
        await found.write()
        tokens = found.toolbox._http._outside[1]  # type: ignore[index]
        with pytest.raises(Exception, match="no token") as caught:
            await tokens.token("desk")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@on_loop
async def test_a_toolbox_that_is_closed_forgets_its_tokens_and_asks_for_none() -> None:
    async with desk(b"", hold=True) as found:
        call = asyncio.ensure_future(found.read())
        while not found.tokens.requests:
            await asyncio.sleep(0)
        await found.toolbox.close()
        with pytest.raises(asyncio.CancelledError):
            await call
    async with desk() as found:
        await found.read()
        await found.toolbox.close()
        assert found.toolbox._http._outside[1]._held == {}  # type: ignore[index]
