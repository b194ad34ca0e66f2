"""Tool calls: the lines of group C that no other test holds (`held.py` says where the others are)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nested.test_regions import HEAD
from unit.tools.making import on_loop, outcome_of
from yaml import safe_load

from statemachine_agent import Environment
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.tools.mcp import McpBinding
from statemachine_agent.tools.outcome import Ok
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.withheld import Withheld
from support.cli import Here
from support.peeks import PEEKS, TEXTS, Raw
from support.playing import play, swap
from support.world import ANN, BOB, GOOD, LOOK_STEP, World, act_step

BROKEN = '{"thing": "8472'


def test_c3_broken_arguments_are_kept_as_they_came_and_the_next_request_is_whole(tmp_path: Path) -> None:
    """Ask C3: whoever reads the record sees what was really said; the model is told, and is asked again."""
    model = Raw(
        RawReply((RawCall("c1", "look", BROKEN),)),
        RawReply((RawCall("c2", "look", {"thing": "box"}),)),
        RawReply((RawCall("c3", "act", {"thing": "box", "amount": 10}),)),
    )

    async def body(here: World) -> None:
        end = await here.run()
        assert end.head.status == "SUCCEEDED"
        first = (await here.rows(end, "decision"))[0]
        assert (first["result"], first["error_class"]) == ("invalid", "malformed_arguments")
        assert first["response"]["calls"] == [{"id": "c1", "name": "look", "arguments": BROKEN}]
        assert [request.args for request in here.tools["look"].calls] == [{"thing": "box"}]

    play(tmp_path, body, model=model)
    assert "malformed_arguments" in (model.prompts[1].observation or "")
    assert BROKEN not in model.prompts[1].text, "what is broken is told of and not sent along"


#: a region that asks for a yes, and one that waits to be told something
BOTH = f"""{HEAD}
signals: {{go: {{}}}}
success: []
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT:
        initial: LOOKING
        states:
          LOOKING: {{choose: {{act: ASKING}}}}
          ASKING:
            approval: {{of: act, by: boss, expires: 1h}}
            then: {{approved: ACTING, rejected: done, expired: done}}
          ACTING:
            call: act
            with: proposal
            then: {{ok: done, failed: done, blocked: done, unknown: FINDING}}
          FINDING: {{reconcile: act, then: {{found: done, absent: done, failed: done}}}}
      RIGHT:
        initial: RESTING
        states:
          RESTING: {{wait: {{signal: go, expires: 2h}}, then: {{received: done, expired: done}}}}
    then: {{done: SUCCEEDED}}
"""


def test_c5_all_that_is_waited_for_is_listed_and_each_is_answered_by_itself(tmp_path: Path) -> None:
    """Ask C5: two tasks stand in two waits each; nobody has to answer one to be shown the others."""

    async def body(here: World) -> None:
        tasks = [await here.run(thing=thing) for thing in ("box", "hat")]
        pending = dict(await here.runtime.pending())
        assert pending.keys() == {task.task.id for task in tasks}
        assert [await here.runtime.awaited(task) for task in tasks] == [{"RESTING": "go"}] * 2
        box, hat = (task.task.id for task in tasks)
        await here.runtime.reject(pending[hat].id, BOB, why="not this one")
        assert dict(await here.runtime.pending()).keys() == {box}, "the one that was answered is gone, the other stays"
        await here.runtime.signal(box, "go", {}, ANN)
        await here.runtime.approve(pending[box].id, BOB)
        await here.runtime.signal(hat, "go", {}, ANN)
        ends = [await here.runtime.resume(one) for one in (box, hat)]
        assert [end.head.status for end in ends] == ["SUCCEEDED"] * 2
        assert [request.args["thing"] for request in here.tools["act"].calls] == ["box"]
        assert await here.runtime.pending() == []

    class Proposes(Raw):
        async def decide(self, prompt: Prompt) -> Reply:
            thing = next(quoted.value["thing"] for quoted in prompt.quoted if "thing" in quoted.value)
            self.replies = (RawReply((RawCall("c", "act", {"thing": thing, "amount": 200}),)),)
            return await super().decide(prompt)

    play(tmp_path, body, model=Proposes(), machine=BOTH)


#: needs neither a tool nor a model: it waits for a time, and to be told something
WAITS = """
machine: tiny
version: 1
summary: Wait for two things.
limits: {steps: 3}
signals: {go: {}}
success: []
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT: {initial: SLEEPING, states: {SLEEPING: {wait: {for: 3h}, then: {elapsed: done}}}}
      RIGHT:
        initial: RESTING
        states: {RESTING: {wait: {signal: go, expires: 2h}, then: {received: done, expired: done}}}
    then: {done: SUCCEEDED}
"""


def test_c5_a_program_is_told_of_every_wait_as_a_person_is(tmp_path: Path) -> None:
    """Ask C5: with `--json`, too, it is said what is waited for in each state, and until when."""
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "tiny.yaml").write_text(WAITS)
    (tmp_path / "people.yaml").write_text("people: {ann: {}}\n")
    (tmp_path / "statemachine-agent.toml").write_text('people = "people.yaml"\nidentity = "asserted"\n')
    sma = Here(tmp_path, more={"SMA_SETTINGS": str(tmp_path / "statemachine-agent.toml")})
    rests = sma("run", "tiny", "--actor", "ann", "--json")
    assert rests.code == 4, rests
    shown = sma.show(rests.json["task"])
    for told in (rests.json, shown):
        assert told["waits_for"] == {"RESTING": "go"}
        assert told["waits_until"].keys() == {"SLEEPING", "RESTING"}
    assert "for the signal go" in sma("show", shown["task"]).out


SEARCH = """
tool: {name}
version: 1
summary: Search one of two places.
effect: read
source: {server}
binding: {{mcp: {{server: {server}, tool: search}}}}
args: {{}}
returns: {{place: {{type: string}}}}
"""


class Desk:
    """What a connection to the MCP server `name` looks like from within: every server's tool is called `search`."""

    def __init__(self, name: str) -> None:
        self.name, self.session = name, self

    async def list_tools(self, cursor: object) -> Any:
        tool = SimpleNamespace(name="search", description="", input_schema={}, output_schema=None, annotations=None)
        return SimpleNamespace(tools=[tool], next_cursor=None)

    async def call_tool(self, name: str, arguments: object) -> Any:
        return SimpleNamespace(is_error=False, content=[], structured_content={"place": self.name})


@on_loop
async def test_c10_two_servers_may_call_their_tools_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask C10: each manifest names server and tool, and has a name of its own: the call reaches the server that is meant."""

    async def connected(_: McpBinding, server: str, visit: Any, *__: float) -> Any:
        return await visit(SimpleNamespace(sent=False, secrets=Withheld()), Desk(server))

    monkeypatch.setattr(McpBinding, "_connected", connected)
    places = []
    for server in ("shop", "annex"):
        manifest = ToolManifest.model_validate(safe_load(SEARCH.format(name=f"search_{server}", server=server)))
        found = await outcome_of(manifest, {}, Reach(), clock=Environment())
        assert isinstance(found, Ok), found
        places.append(found.payload)
    assert places == [{"place": "shop"}, {"place": "annex"}]


def test_c14_a_tool_that_was_called_as_often_as_it_may_stops_nobody_but_itself(tmp_path: Path) -> None:
    """Ask C14: two looks are allowed, the third is refused with the number, and the task goes on with the other tools."""
    machine = swap(PEEKS, ("initial:", "at_most: {look: 2}\ninitial:"))
    looks = [{**LOOK_STEP, "with": {"thing": thing}} for thing in ("a", "b", "c")]

    async def body(here: World) -> None:
        end = await here.run(machine="peeks")
        assert await here.told(end) == [
            "refused: it may be called 2 times in a task, and was. Allowed now: peek, glance, act, cannot_continue"
        ]
        assert end.head.status == "SUCCEEDED"
        assert {name: len(tool.calls) for name, tool in here.tools.items()} == {"look": 2, "glance": 1, "act": 1} | {
            "peek": 0,
            "find": 0,
        }

    glance = {"call": "glance", "with": {"thing": "box"}}
    play(tmp_path, body, *looks, glance, act_step(), machine=machine, texts=TEXTS, peek=[GOOD], glance=[GOOD])
