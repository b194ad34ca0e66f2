"""What a model or a tool is given is its own: whatever it does to it changes nothing of the task's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from effects import stubborn

from statemachine_agent import Catalogue, Reach, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.definition.source import Source
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Prompt, Reply, Spent
from statemachine_agent.records import Checkpoint
from support.world import ACT, ANN, FIND, LOOK, LOOK_STEP, MACHINE, PEOPLE, act_step, world


@pytest.fixture(autouse=True)
def fresh() -> None:
    stubborn.clear()


class Vandal:
    """It empties whatever it is shown, after it has kept a text of it, and proposes what makes sense."""

    spec = "vandal"

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def decide(self, prompt: Prompt) -> Reply:
        self.shown.append(repr((prompt.quoted, prompt.tools)))
        for quoted in prompt.quoted:
            quoted.value.clear()
        for tool in prompt.tools:
            tool.schema["properties"].clear()  # type: ignore[attr-defined]
        prompt.remaining.clear()  # type: ignore[attr-defined]
        prompt.unavailable.clear()  # type: ignore[attr-defined]
        step = (LOOK_STEP, LOOK_STEP, act_step())[prompt.step - 1]
        return Reply(RawReply((RawCall("c", step["call"], step["with"]),)), Spent(1, 1), self.spec)


def test_a_model_that_changes_its_prompt_changes_only_that(tmp_path: Path) -> None:
    """Input, evidence and schemas are as they were: for the guards, for the next prompt, and in the store."""
    environment, model = SimulatedEnvironment(), Vandal()

    async def main() -> Checkpoint:
        async with world(tmp_path, model=model, environment=environment) as here:
            end = await here.run()
            stored = await here.runtime.status(end.task.id)
            assert stored.task.input == end.task.input == {"thing": "box"}
            assert [e.payload for e in stored.evidence][:2] == [{"good": True}] * 2
            return end

    end = environment.run(main())
    assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
    for number, shown in enumerate(model.shown):
        assert "{'thing': 'box'}" in shown and "'properties': {'thing'" in shown
        assert shown.count("{'good': True}") == number


PARTS = "  parts: {type: object, properties: {names: {type: array, items: {type: string}}}}\n"
SPOILING_LOOK = LOOK.replace("nowhere:look", "effects.stubborn:spoil").replace("returns:", PARTS + "returns:")
SPOILING_ACT = (
    ACT.replace("nowhere:act", "effects.stubborn:spoil")
    .replace("  amount: {type: integer, minimum: 1, maximum: 1000}\n", PARTS)
    .replace("{thing}:{amount}", "{thing}")
)
SPOILING_ACT = SPOILING_ACT.split("approval:", maxsplit=1)[0] + "approval: []\nat_most: 3\n"
GIVEN: dict[str, Any] = {"thing": "box", "parts": {"names": ["lid"]}}


def test_a_tool_that_changes_its_arguments_changes_only_those(tmp_path: Path) -> None:
    """A read is recorded with what it was asked; a write that is sent again is sent as it was approved."""
    tools = (SPOILING_LOOK, SPOILING_ACT, FIND.replace("nowhere:", "effects.stubborn:"))
    environment = SimulatedEnvironment()

    async def main() -> tuple[Checkpoint, list[Any]]:
        sources = [Source(f"tool{n}.yaml", text) for n, text in enumerate(tools)]
        catalogue = Catalogue.build([Source("machine.yaml", MACHINE)], sources, PEOPLE)
        assert not catalogue.report.errors, str(catalogue.report)
        with SqliteStore(tmp_path / "tasks.db", environment) as store:
            model = ScriptedModel.of({"call": "look", "with": GIVEN}, {"call": "act", "with": GIVEN})
            reach = Reach(python_packages=frozenset({"effects"}))
            async with Runtime(catalogue, store, model, reach=reach, environment=environment) as runtime:
                end = await runtime.run("tiny", {"thing": "box"}, ANN)
                return end, [r["args"] for r in await store.history(end.task.id) if r["table"] == "call"]

    end, called = environment.run(main())
    assert end.head.status == "SUCCEEDED"
    assert stubborn.seen == [GIVEN] * 3
    assert [args for args in called if "parts" in args] == [GIVEN] * 3
    assert [e.asked for e in end.evidence if e.tool != "find"] == [GIVEN] * 2
    assert [e.args for e in end.effects] == [GIVEN]
