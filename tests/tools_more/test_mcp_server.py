"""`sma mcp` with the official client: a whole conversation with an approval elsewhere, and what a client cannot do."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from statemachine_agent.cli.main import run
from statemachine_agent.sandbox import Sandbox
from support import forks
from support.refund import ROOT

if TYPE_CHECKING:  # half a second in every process that only looks which tests there are
    import mcp

SETTINGS = str(ROOT / "statemachine-agent.toml")


@asynccontextmanager
async def served(
    db: Path, urls: Mapping[str, str], actor: str = "cust-3391", script: str = "conversation"
) -> AsyncIterator[mcp.Client]:
    """A client of `sma mcp`, which is a process of its own."""
    import mcp  # noqa: PLC0415

    words = ["-m", "statemachine_agent", "--settings", SETTINGS, "mcp", "--actor", actor, "--db", str(db)]
    words += ["--model", f"scripted:{ROOT}/scripts/{script}.yaml"]
    command, *words = [*forks.relayed(forks.HeavyPopen), *words]
    server = mcp.StdioServerParameters(command=command, args=words, env=dict(urls))
    async with mcp.Client(mcp.stdio_client(server, errlog=sys.__stderr__)) as client:
        yield client


async def asked(client: mcp.Client, tool: str, **arguments: Any) -> Any:
    """The answer, which is no error."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return json.loads(answer.content[0].text)


async def refused(client: mcp.Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error, answer.content
    return str(answer.content[0].text)


def approve(db: Path, approval: str, urls: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, url in urls.items():
        monkeypatch.setenv(name, url)
    words = ["--settings", SETTINGS, "approve", approval, "--as", "lead@example.com", "--db", str(db)]
    assert run(words) == 0


ORDER = {"order_id": "8472", "message": "I was charged twice for order 8472."}


def test_a_conversation_with_an_approval_by_somebody_else(
    services: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "tasks.db"

    async def first() -> tuple[str, str]:
        async with served(db, services.urls) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed == {"list_machines", "start", "status", "trace", "reply"}
            machines = (await asked(client, "list_machines"))["machines"]
            found = next(one for one in machines if one["machine"] == "conversation")
            assert set(found["input"]["required"]) == {"order_id", "message"}
            told = await asked(client, "start", machine="conversation", input=ORDER)
            assert told["status"] == "WAITING" and told["waits_for"] == {"LISTENING": "reply"}, told
            assert "Is it the second one" in told["output"]
            task = told["task"]
            told = await asked(client, "reply", task=task, text="Yes, the second.", to_version=told["version"])
            assert told["waits_for"] == {"AWAITING_YES": "reply"}, told
            assert "gone on" in await refused(client, "reply", task=task, text="yes", to_version=1)
            told = await asked(client, "reply", task=task, text="yes")
            assert told["status"] == "AWAITING_APPROVAL", told
            assert (await asked(client, "status", task=task, wait_seconds=1))["status"] == "AWAITING_APPROVAL"
            return task, told["approvals"][0]["id"]

    task, approval = asyncio.run(first())
    approve(db, approval, services.urls, monkeypatch)

    async def second() -> None:
        async with served(db, services.urls) as client:
            told = await asked(client, "status", task=task, wait_seconds=30)
            assert told["status"] in ("SUCCEEDED", "FAILED") and "problem" not in told, told
            lines = (await asked(client, "trace", task=task))["lines"]
            assert {"step", "call", "effect", "approval", "version"} <= {line["kind"] for line in lines}
            by = {line["by"] for line in lines if line["kind"] == "approval" and line["by"]}
            assert by == {"lead@example.com"}

    asyncio.run(second())


def test_what_a_client_cannot_do(services: Sandbox, tmp_path: Path) -> None:
    db = tmp_path / "tasks.db"

    async def mine() -> str:
        async with served(db, services.urls) as client:
            for tool in ("approve", "reject", "resolve", "cancel", "resume", "signal", "tasks"):
                told = await refused(client, tool, task="x", approval="x")
                assert told == f"Unknown tool: {tool}"
            assert "the input does not fit" in await refused(client, "start", machine="conversation", input={})
            assert "there is no machine" in await refused(client, "start", machine="conversaton", input=ORDER)
            assert "Traceback" not in await refused(client, "start", machine="conversation")
            other = {**ORDER, "actor": "lead@example.com"}
            assert "the input does not fit" in await refused(client, "start", machine="conversation", input=other)
            told = await asked(client, "start", machine="conversation", input=ORDER, actor="lead@example.com")
            lines = (await asked(client, "trace", task=told["task"]))["lines"]
            assert "lead@example.com" not in json.dumps(lines)
            return str(told["task"])

    task = asyncio.run(mine())

    async def theirs() -> None:
        async with served(db, services.urls, actor="cust-1187") as client:
            for tool, more in (("status", {}), ("trace", {}), ("reply", {"text": "yes"})):
                told = await refused(client, tool, task=task, **more)
                nobody = await refused(client, tool, task="01999999-0000-7000-8000-000000000000", **more)
                assert re.sub(r"`[^`]+`", "`x`", told, count=1) == re.sub(r"`[^`]+`", "`x`", nobody, count=1)
                assert "of yours" in told

    asyncio.run(theirs())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mcp", "--actor", "cust-3391", "--model", "ask"], "needs a terminal"),
        (["mcp"], "nobody was named"),
    ],
)
def test_it_does_not_begin_without_an_actor_or_with_a_person_as_model(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--settings", SETTINGS, *words, "--db", str(tmp_path / "tasks.db")]) == 2
    assert told in capsys.readouterr().err
    assert not os.listdir(tmp_path)  # noqa: PTH208


def test_a_task_in_which_a_person_decides_goes_on_at_their_terminal(
    services: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "tasks.db"
    for name, url in services.urls.items():
        monkeypatch.setenv(name, url)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    given = [word for pair in ORDER.items() for word in ("-i", "=".join(pair))]
    words = ["run", "conversation", *given, "--actor", "cust-3391", "--model", "ask", "--db", str(db)]
    run(["--settings", SETTINGS, *words])
    run(["--settings", SETTINGS, "tasks", "--db", str(db), "--json"])
    out = capsys.readouterr().out
    task = json.loads(out[out.index("[\n") :])[0]["id"]

    async def main() -> None:
        async with served(db, services.urls) as client:
            told = await asked(client, "status", task=task, wait_seconds=5)
            assert told["status"] == "RUNNING" and "a person at a terminal decides" in told["problem"], told

    asyncio.run(main())


def test_what_a_tool_prints_does_not_reach_the_client(tmp_path: Path) -> None:
    """Standard output is the protocol's alone."""
    (tmp_path / "noisy.py").write_text(
        "import os\ndef say():\n    print('noise')\n    os.write(1, b'noise')\n    return {'y': 'x'}\n"
    )
    for folder in ("machines", "tool_manifests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "people.yaml").write_text("people:\n  anna: {tenant: t}\n")
    (tmp_path / "statemachine-agent.toml").write_text('identity = "asserted"\npython_packages = ["noisy"]\n')
    (tmp_path / "tool_manifests" / "say.yaml").write_text(
        "tool: say\nversion: 1\nsummary: S.\neffect: read\nsource: s\nbinding: {python: 'noisy:say'}\n"
        "returns: {y: {type: string}}\n"
    )
    (tmp_path / "machines" / "m.yaml").write_text(
        "machine: m\nversion: 1\nsummary: S.\nlimits: {steps: 2}\nsuccess: []\ninitial: A\nstates:\n"
        "  A: {call: say, then: {ok: SUCCEEDED, failed: FAILED}}\n"
    )
    (tmp_path / "script.yaml").write_text("script: s\nsteps: [{say: x}]\n")

    async def main() -> None:
        import mcp  # noqa: PLC0415

        words = ["-m", "statemachine_agent", "mcp", "--actor", "anna", "--model", "scripted:script.yaml"]
        server = mcp.StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path)
        async with mcp.Client(mcp.stdio_client(server, errlog=sys.__stderr__)) as client:
            told = await asked(client, "start", machine="m", input={})
            assert told["status"] == "SUCCEEDED", told

    asyncio.run(main())
