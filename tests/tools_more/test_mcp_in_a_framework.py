"""A machine as the tool of another framework's agent: pydantic-ai's, which finds the tools of `sma mcp` and calls them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools_more.test_mcp_server import ORDER, served

from statemachine_agent import SqliteStore
from statemachine_agent.sandbox import Sandbox

if TYPE_CHECKING:  # the framework takes a second to import, in every process that only looks which tests there are
    import mcp
    from pydantic_ai import Tool
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models.function import AgentInfo


def tools_of(client: mcp.Client, listed: Any) -> list[Tool[None]]:
    """The server's tools as the framework's, word for word, and answered by the server."""
    from pydantic_ai import Tool  # noqa: PLC0415

    def tool(one: Any) -> Tool[None]:
        async def call(**arguments: Any) -> str:
            answer = await client.call_tool(one.name, arguments)
            return str(answer.content[0].text)

        return Tool.from_schema(call, one.name, one.description, one.input_schema)

    return [tool(one) for one in listed.tools]


def test_an_agent_of_another_framework_starts_a_task_and_waits_for_people(services: Sandbox, tmp_path: Path) -> None:
    """It sees five tools, none of which approves; the task that it started is in the store, and nothing was refunded."""
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart  # noqa: PLC0415
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415

    db = tmp_path / "tasks.db"
    offered: set[str] = set()

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Start, look, then ask for what is not there, as a model that wants to be done would."""
        offered.update(tool.name for tool in info.function_tools)
        told = [p for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
        match len(told):
            case 0:
                return ModelResponse([ToolCallPart("start", {"machine": "refund", "input": ORDER})])
            case 1:
                task = json.loads(str(told[0].content))["task"]
                return ModelResponse([ToolCallPart("status", {"task": task})])
            case _:
                return ModelResponse([TextPart(str(told[-1].content))])

    async def main() -> Any:
        async with served(db, services.urls, script="refund-8472") as client:
            agent = Agent(FunctionModel(model), tools=tools_of(client, await client.list_tools()))
            return (await agent.run("Order 8472 was charged twice.")).output

    told = json.loads(asyncio.run(main()))
    assert offered == {"list_machines", "start", "status", "trace", "reply"}
    assert (told["status"], [a["tool"] for a in told["approvals"]]) == ("AWAITING_APPROVAL", ["issue_refund"])
    with SqliteStore(db) as store:
        kept = asyncio.run(store.load(told["task"]))
    assert (kept.task.machine, kept.task.actor["id"]) == ("refund", "cust-3391")
    assert [(e.tool, e.status) for e in kept.effects] == [("issue_refund", "proposed")]
