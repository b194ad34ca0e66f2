"""Tools of MCP servers: real servers, on stdio and on loopback, and what one that changed, lies, dies or dawdles can do."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.tools.making import answer, answering, on_loop, outcome_of

from statemachine_agent import Environment, SimulatedEnvironment
from statemachine_agent.cli.main import run
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.settings import McpServer, load_project
from statemachine_agent.errors import SettingsError
from statemachine_agent.tools.mcp import McpBinding, Offered
from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.toolbox import Toolbox
from support import forks

SERVER = str(Path(__file__).with_name("shop_server.py"))
TOKEN = "something long enough"  # noqa: S105  of nobody


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def reach(server: McpServer, log: Path, **more: str) -> Reach:
    variables = {"SHOP_LOG": str(log), "SHOP_TOKEN": TOKEN, "SHOP_CHANGED": "", **more}
    return Reach(variables=variables, environ={}, servers={"shop": server})


def words() -> tuple[str, ...]:
    return (*forks.relayed(forks.HeavyPopen), SERVER, "stdio")


def on_stdio(log: Path, *names: str, **more: str) -> Reach:
    server = McpServer(command=words(), environment=("SHOP_LOG", "SHOP_TOKEN", *names))
    return reach(server, log, **more)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server on loopback, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("http") / "log"
    command, environ = [sys.executable, SERVER, "http", str(port)], {**os.environ, "SHOP_LOG": str(log)}
    with forks.HeavyPopen(command, env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                try:
                    socket.create_connection(("127.0.0.1", port), 0.2).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp", log
        finally:
            process.kill()


def read(name: str = "find_book", **changes: Any) -> ToolManifest:
    binding = {"mcp": {"server": "shop", "tool": name, **changes.pop("mcp", {})}}
    given: dict[str, Any] = {
        "tool": "find_it", "version": 1, "summary": "Finds.", "effect": "read", "source": "shop", "binding": binding,
        "args": {"isbn": {"type": "string"}}, "timeout": "30s",
        "returns": {"copy_id": {"type": "string"}, "shelf": {"type": "string"}},
    }  # fmt: skip
    return ToolManifest.model_validate({**given, **changes})


def write(name: str = "lend_copy", **changes: Any) -> ToolManifest:
    mcp = {"server": "shop", "tool": name, "key_argument": "request_key", **changes.pop("mcp", {})}
    given: dict[str, Any] = {
        "tool": "lend_it", "version": 1, "summary": "Lends.", "effect": "write", "source": "shop",
        "binding": {"mcp": mcp}, "args": {"copy_id": {"type": "string"}}, "timeout": "30s",
        "returns": {"loan_id": {"type": "string"}}, "idempotency": {"key": "l:{copy_id}", "replay": True},
        "approval": [],
    }  # fmt: skip
    return ToolManifest.model_validate({**given, **changes})


async def called(manifest: ToolManifest, reached: Reach, **args: Any) -> Any:
    key = None if manifest.is_read else "l:k"
    return await outcome_of(manifest, args, reached, clock=Environment(), key=key)


async def offers(reached: Reach) -> dict[str, Offered]:
    binding = McpBinding(reached, Environment())
    try:
        return {one.name: one for one in await binding.offered("shop", 30)}
    finally:
        await binding.close()


def calls(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if line != "started"] if log.exists() else []


# ---------------------------------------------------------------- calls


@on_loop
async def test_a_read_and_a_write_over_stdio(log: Path) -> None:
    """What `returns` does not name is dropped; the key goes where the manifest says."""
    found = await called(read(), on_stdio(log), isbn="978")
    assert isinstance(found, Ok), found
    assert found.payload == {"copy_id": "c7", "shelf": "B4"}
    found = await called(write(), on_stdio(log), copy_id="c7")
    assert isinstance(found, Ok) and found.payload == {"loan_id": "l-l:k"}, found
    assert calls(log) == ["find_book 978", "lend_copy c7 l:k"]


def test_a_read_and_a_write_over_http(address: tuple[str, Path]) -> None:
    url, log = address
    reached = reach(McpServer(url=url, headers={"Authorization": "Bearer ${SHOP_TOKEN}"}), log)
    before = len(calls(log))
    found = asyncio.run(called(read(), reached, isbn="978"))
    assert isinstance(found, Ok) and found.payload == {"copy_id": "c7", "shelf": "B4"}, found
    found = asyncio.run(called(write(), reached, copy_id="c9"))
    assert isinstance(found, Ok) and found.payload == {"loan_id": "l-l:k"}, found
    found = asyncio.run(called(read(), reached, isbn="none"))
    assert isinstance(found, Failed), found
    assert calls(log)[before:] == ["find_book 978", "lend_copy c9 l:k", "find_book none"]


def test_simulated_time_stands_still_during_a_call(address: tuple[str, Path]) -> None:
    url, log = address
    environment = SimulatedEnvironment()
    manifest = read(timeout="1s")
    reached = reach(McpServer(url=url), log)
    found = environment.run(outcome_of(manifest, {"isbn": "978"}, reached, clock=environment))
    assert isinstance(found, Ok), found


@pytest.mark.parametrize(
    ("tool", "isbn", "error_class", "told"),
    [
        ("find_book", "none", "exception", "the tool failed"),
        ("number", "978", "bad_result", "does not fit"),
        ("words", "978", "bad_result", "does not fit"),
        ("no_such", "978", "not_configured", "has no tool `no_such`"),
        ("burn_book", "978", "not_configured", "says that `burn_book` is no read"),
    ],
)
@on_loop
async def test_what_is_no_answer_of_a_read(log: Path, tool: str, isbn: str, error_class: str, told: str) -> None:
    """A server that says that a tool changes something is believed; one that says that it does not, is not asked."""
    found = await called(read(tool), on_stdio(log), isbn=isbn)
    assert isinstance(found, Failed) and found.error_class == error_class, found
    assert told in found.detail
    assert "burn_book 978" not in calls(log)


@pytest.mark.parametrize(("copy", "error_class"), [("fails", "exception"), ("dies", "unavailable")])
@on_loop
async def test_a_write_that_was_called_and_has_no_answer_is_unknown(log: Path, copy: str, error_class: str) -> None:
    found = await called(write(), on_stdio(log), copy_id=copy)
    assert isinstance(found, Unknown) and found.error_class == error_class, found
    assert calls(log) == [f"lend_copy {copy} l:k"]


def test_a_write_that_takes_too_long_is_unknown(address: tuple[str, Path]) -> None:
    url, log = address
    manifest = write(timeout="1s")
    found = asyncio.run(called(manifest, reach(McpServer(url=url), log), copy_id="slow"))
    assert isinstance(found, Unknown) and found.error_class == "timeout", found


# ---------------------------------------------------------------- schemas that changed


@on_loop
async def test_a_changed_schema_is_refused_before_anything_is_sent(log: Path) -> None:
    pinned = (await offers(on_stdio(log)))["changed"].schema_hash
    manifest = read("changed", mcp={"schema_hash": pinned})
    assert isinstance(await called(manifest, on_stdio(log), isbn="1"), Ok)
    now = on_stdio(log, "SHOP_CHANGED", SHOP_CHANGED="yes")
    found = await called(manifest, now, isbn="1")
    assert isinstance(found, Failed) and found.error_class == "schema_changed", found
    writing = write("changed", mcp={"schema_hash": pinned}, retry={"unsent": 3})
    found = await called(writing, now, copy_id="1")
    assert isinstance(found, Blocked) and found.reason == "schema_changed", found
    assert calls(log) == ["changed"]


# ---------------------------------------------------------------- servers that cannot be asked


@pytest.mark.parametrize(
    "server",
    [
        McpServer(command=("/no/such/program",)),
        McpServer(command=(sys.executable, "-c", "print('no protocol')")),
        McpServer(url="http://127.0.0.1:9/mcp"),
    ],
    ids=["no program", "no server", "nobody there"],
)
@on_loop
async def test_a_server_that_cannot_be_asked_was_sent_nothing(log: Path, server: McpServer) -> None:
    found = await called(write(retry={"unsent": 1}), reach(server, log), copy_id="c7")
    assert isinstance(found, Blocked) and found.reason == "unavailable", found
    assert "shop" in found.detail


@on_loop
async def test_a_server_that_says_nothing_was_sent_nothing(log: Path) -> None:
    silent = McpServer(command=(sys.executable, "-c", "input(); input()"))
    found = await called(write(timeout="1s"), reach(silent, log), copy_id="c7")
    assert isinstance(found, Blocked) and found.reason == "timeout", found


@on_loop
async def test_a_server_that_no_setting_names_is_not_asked(log: Path) -> None:
    found = await called(write(), Reach(environ={}), copy_id="c7")
    assert isinstance(found, Blocked) and found.reason == "not_configured"
    unset = reach(McpServer(command=words(), environment=("SHOP_LOG", "ELSEWHERE")), log)
    found = await called(write(), unset, copy_id="c7")
    assert isinstance(found, Blocked) and "ELSEWHERE" in found.detail
    assert calls(log) == []


@on_loop
async def test_a_variable_that_the_server_echoes_is_named_and_not_shown(log: Path) -> None:
    returns = {"secret": {"type": "string"}}
    found = await called(read(returns=returns), on_stdio(log), isbn="978")
    assert isinstance(found, Ok) and found.payload == {"secret": "${SHOP_TOKEN}"}, found


@on_loop
async def test_a_redirect_is_not_followed(log: Path) -> None:
    """Neither the call nor the header goes anywhere else, nor to another path of the same host."""
    async with answering(answer(307, b"", {"Location": "/elsewhere"})) as here:
        server = McpServer(url=f"{here.url}/mcp", headers={"Authorization": "Bearer ${SHOP_TOKEN}"})
        found = await called(write(retry={"unsent": 1}, timeout="5s"), reach(server, log), copy_id="c7")
        assert isinstance(found, Blocked), found
        assert here.requests and {one.line.split()[1] for one in here.requests} == {"/mcp"}


# ---------------------------------------------------------------- the settings


def test_what_a_call_needs_is_known_before_a_task_begins(log: Path) -> None:
    reached = reach(McpServer(url="http://127.0.0.1/mcp", headers={"A": "${SHOP_TOKEN}"}), log)
    assert Toolbox(reached, Environment()).variables_of(read()) == ["SHOP_TOKEN"]
    assert Toolbox(on_stdio(log), Environment()).variables_of(read()) == ["SHOP_LOG", "SHOP_TOKEN"]
    assert Toolbox(Reach(environ={}), Environment()).variables_of(read()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "exactly one of `command`, `url`"),
        ('command = ["x"]\nurl = "https://x"', "exactly one of `command`, `url`"),
        ("command = []", "mcp.shop.command"),
        ('url = "ftp://x"', "is no address"),
        ('url = "https://user:pass@x/mcp"', "is no address"),
        ('url = "https://x"\nenvironment = ["A"]', "`environment` is for programs"),
        ('command = ["x"]\nheaders = {A = "b"}', "`environment` is for programs"),
        ('comand = ["x"]', "did you mean `command`?"),
    ],
)
def test_a_server_of_the_settings_is_one_thing(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "statemachine-agent.toml").write_text(f"[mcp.shop]\n{text}\n")
    with pytest.raises(SettingsError) as found:
        load_project(tmp_path, {})
    assert told in str(found.value)


def test_check_tells_of_a_server_that_no_setting_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "statemachine-agent.toml").write_text('[mcp.shop]\ncommand = ["bin/shop", "a"]\n')
    assert load_project(tmp_path, {}).servers["shop"].command == (f"{tmp_path}/bin/shop", "a")
    for folder in ("machines", "tool_manifests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tool_manifests" / "t.yaml").write_text(
        "tool: t\nversion: 1\nsummary: S.\neffect: read\nsource: s\n"
        "binding: {mcp: {server: shopp, tool: t}}\nreturns: {y: {type: string}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert run(["check"]) == 0
    out = capsys.readouterr().out
    assert "t.yaml:6:25: warning: `shopp` is no MCP server of the settings" in out and "did you mean `shop`?" in out


@on_loop
async def test_a_protocol_error_is_not_quoted_where_something_is_masked(log: Path) -> None:
    """Its text is the server's own, as that of a tool that failed is."""
    quoting = await outcome_of(read("refuse"), {"isbn": "4711"}, on_stdio(log))
    masking = await outcome_of(read("refuse", redact=["shelf"]), {"isbn": "4711"}, on_stdio(log))
    assert "the card 4711" in getattr(quoting, "detail", "")
    assert "4711" not in str(masking)
    assert "its text is not shown" in getattr(masking, "detail", "")
