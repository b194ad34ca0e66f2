"""Variables and secrets: read when a call is made, sent where the manifest says, and kept nowhere."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from unit.tools.making import Clock, answer, answering, attempts_of, on_loop, outcome_of, reach, read_tool, write_tool

from statemachine_agent.tools.outcome import Blocked, Failed, Ok
from statemachine_agent.tools.toolbox import Toolbox


@on_loop
async def test_variables_are_read_when_a_call_is_made_and_only_those_of_the_list() -> None:
    async with answering() as service:
        tool = write_tool("${URL}/", http={"headers": {"Authorization": "Bearer ${BEARER}"}})
        environ: dict[str, str] = {"UNLISTED": "x"}
        toolbox = Toolbox(reach({"URL": service.url, "BEARER": ""}, environ), Clock())

        async def blocked() -> str:
            (attempt,) = await toolbox.call(tool, {}, key="w:1", seconds=60)
            assert isinstance(attempt.outcome, Blocked) and attempt.outcome.reason == "not_configured"
            return attempt.outcome.detail

        assert await blocked() == "`BEARER` has no value"
        environ["BEARER"] = ""
        assert await blocked() == "`BEARER` has no value"
        environ["BEARER"] = "first"
        await toolbox.call(tool, {}, key="w:1", seconds=60)
        environ["BEARER"] = "second"
        await toolbox.call(tool, {}, key="w:1", seconds=60)
        assert [r.headers["authorization"] for r in service.requests] == ["Bearer first", "Bearer second"]
        await toolbox.close()
        unlisted = write_tool(f"{service.url}/", http={"headers": {"X": "${UNLISTED}"}})
        found = await outcome_of(unlisted, {}, reach({}, environ), key="w:1")
        assert found == Blocked("not_configured", "`UNLISTED` is not listed in the settings")
        assert isinstance(await outcome_of(read_tool("${NOT}/"), {}, reach({})), Failed)


SECRET = "sk-live-5f2c9a7e"  # noqa: S105  an invented one


@pytest.mark.parametrize(
    "secret", [f"{SECRET}\n", f" {SECRET}", f"{SECRET}\r\nX-Other: 1", f"{SECRET}é", f"{SECRET}\x00"]
)
@on_loop
async def test_a_value_that_no_header_can_hold_is_not_sent_and_never_shown(secret: str) -> None:
    async with answering() as service:
        tool = write_tool(service.url, http={"headers": {"Authorization": "${BEARER}"}})
        (attempt,) = await attempts_of(tool, {}, reach({"BEARER": secret}), key="w:1")
        assert isinstance(attempt.outcome, Blocked) and attempt.outcome.reason == "not_configured"
        assert "the header `Authorization`" in attempt.outcome.detail
        assert SECRET not in repr(attempt)
        assert service.requests == []


@pytest.mark.parametrize("status", [200, 201, 400, 401, 422, 500])
@on_loop
async def test_a_secret_that_a_service_echoes_is_kept_nowhere(status: int) -> None:
    echo = {"value": 1, "note": f"you sent Bearer {SECRET}"}
    returns = {"value": {"type": "integer"}, "note": {"type": "string"}}
    async with answering(answer(status, echo)) as service:
        tool = write_tool(service.url, returns=returns, http={"headers": {"Authorization": "Bearer ${BEARER}"}})
        attempts = await attempts_of(tool, {}, reach({"BEARER": SECRET}), key="w:1")
        assert service.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in repr(attempts)
    assert "you sent Bearer ${BEARER}" in repr(attempts)


KEY = "sk/live+5f2c9a7e"  # an invented one, of signs that are written differently


def written(text: str) -> dict[str, str]:
    """A text in the forms in which services write it."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in text)
    return {
        "as it is": text, "in capitals": text.upper(), "in an address": quote(text, safe=""),
        "in an address throughout": "".join(f"%{ord(c):02X}" for c in text), "in a form": quote_plus(text),
        "escaped": escaped, "in HTML": "".join(f"&#{ord(c)};" for c in text), "hexadecimal": text.encode().hex(),
        "in base64": base64.b64encode(text.encode()).decode(),
        "in base64 behind one sign": base64.b64encode(f"x{text}".encode()).decode(),
        "in base64 of addresses": base64.urlsafe_b64encode(f"xx{text}".encode()).decode(),
    }  # fmt: skip


@pytest.mark.parametrize("form", written(KEY))
@pytest.mark.parametrize("status", [200, 400])
@on_loop
async def test_a_secret_is_found_in_every_form_that_is_looked_for(status: int, form: str) -> None:
    """In evidence, its keys included, and in what a failure quotes."""
    text = f"it was: {written(KEY)[form]}"
    body = answer(status, {"value": 1, "note": text, "more": {text: [text]}})
    returns = {"value": {"type": "integer"}, "note": {"type": "string"}, "more": {"type": "object"}}
    async with answering(body) as service:
        tool = read_tool(service.url, returns=returns, http={"headers": {"Authorization": "Bearer ${BEARER}"}})
        found = await outcome_of(tool, {}, reach({"BEARER": KEY}))
    assert isinstance(found, Ok if status == 200 else Failed)
    shown = json.dumps(found.payload) if isinstance(found, Ok) else found.detail
    assert "${BEARER}" in shown
    for one in written(KEY).values():
        assert one[4:-4] not in shown


@on_loop
async def test_a_secret_that_is_escaped_in_json_is_found_where_it_is_read() -> None:
    raw = "".join(f"\\u{ord(c):04x}" for c in KEY)
    body = f'{{"value": 1, "note": "{raw}", "n": {{"{raw}": 2}}}}'.encode()
    returns = {"value": {"type": "integer"}, "note": {"type": "string"}, "n": {"type": "object"}}
    async with answering(answer(200, body)) as service:
        tool = read_tool(service.url, returns=returns, http={"headers": {"Authorization": "${BEARER}"}})
        found = await outcome_of(tool, {}, reach({"BEARER": KEY}))
    assert isinstance(found, Ok) and found.payload == {"value": 1, "note": "${BEARER}", "n": {"${BEARER}": 2}}


@pytest.mark.parametrize("status", [200, 404])
@on_loop
async def test_the_path_of_a_variable_address_is_not_shown_and_its_host_is(status: int) -> None:
    """Who knows the path of a hook may use it. Where it leads, people see."""
    path = "/hooks/T024-5f2c9a7e"
    for said in (f"Cannot GET {path}/it", "T024-5f2c9a7e is unknown"):
        async with answering(answer(status, {"value": 1, "note": f"{said}; see http://127.0.0.1/help"})) as service:
            tool = read_tool("${HOOK}/it", returns={"value": {"type": "integer"}, "note": {"type": "string"}})
            found = await outcome_of(tool, {}, reach({"HOOK": f"{service.url}{path}"}))
        assert "5f2c9a7e" not in repr(found) and "${HOOK}" in repr(found)
        assert "see http://127.0.0.1/help" in repr(found)


@on_loop
async def test_a_port_that_is_no_number_is_not_shown() -> None:
    found = await outcome_of(read_tool("${URL}/x"), {}, reach({"URL": "http://127.0.0.1:SECRETPORT"}))
    assert isinstance(found, Failed) and "SECRETPORT" not in found.detail and "port" in found.detail


@on_loop
async def test_what_is_left_of_a_secret_where_a_text_was_cut_is_not_shown() -> None:
    """A message of a library quotes the broken answer, and cuts it within the key."""
    key = "k3y" * 40
    async with answering(f"{'x' * 60} {key} broken\r\n\r\n".encode()) as service:
        tool = read_tool(service.url, http={"headers": {"Authorization": "${BEARER}"}})
        found = await outcome_of(tool, {}, reach({"BEARER": key}))
    assert isinstance(found, Failed) and "k3yk3y" not in found.detail and "${BEARER}…" in found.detail


@on_loop
async def test_proxies_and_passwords_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    async with answering(answer(500)) as proxy, answering() as service:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert isinstance(await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1"), Ok)
        assert isinstance(await outcome_of(read_tool(service.url), {}), Ok)
        assert proxy.requests == []
        assert all("authorization" not in r.headers for r in service.requests)


@on_loop
async def test_cookies_of_one_answer_are_not_sent_with_the_next() -> None:
    async with answering(answer(200, None, {"Set-Cookie": "session=1"})) as service:
        toolbox = Toolbox(reach(), Clock())
        for _ in range(2):
            await toolbox.call(read_tool(service.url), {}, seconds=60)
        await toolbox.close()
        assert len(service.requests) == 2
        assert all("cookie" not in r.headers for r in service.requests)
