"""Variables and secrets: read when a call is made, sent where the manifest says, and kept nowhere."""

from __future__ import annotations

from typing import Any

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
