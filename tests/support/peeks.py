"""A machine with several reads, and what all tests of batches do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Prompt, Reply, Spent
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.request import ToolRequest
from support.playing import swap
from support.world import ACT, FIND, LOOK, World

#: another read, tried once, which may take longer
PEEK = swap(LOOK, ("tool: look", "tool: peek"), ("retry: {attempts: 2, backoff: 1s}", "timeout: 20s"))
#: a read that may lead on
GLANCE = swap(PEEK, ("tool: peek", "tool: glance"))
TEXTS = (LOOK, PEEK, GLANCE, ACT, FIND)

PEEKS = """
machine: peeks
version: 1
summary: Look at things, then do something to one of them.
input:
  thing: {type: string}
limits: {steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10, cost_usd: 1.00}
guards:
  bad: has(evidence.glance) && !evidence.glance.good
  dark: call.args.thing == "dark"
  peeked: has(evidence.peek)
  both: has(evidence.look) && has(evidence.peek)
  acted: effects.exists(e, e.tool == "act" && e.status in ["executed", "verified"])
success: [acted]
initial: LOOKING
states:
  LOOKING:
    choose:
      look:
        - {when: dark, refuse: nothing can be seen there}
        - {stay: true}
      peek: stay
      glance:
        - {when: bad, goto: DENIED}
        - {stay: true}
      act: ACTING
      finish: SUCCEEDED
    then:
      - {when: both, goto: SEEN}
  SEEN:
    choose:
      look: {rows: [{unless: peeked, refuse: peek first}, {stay: true}]}
      peek: stay
  ACTING:
    call: act
    with: proposal
    then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}
  FINDING:
    reconcile: act
    then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}
"""

GIVE_UP = {"call": "cannot_continue", "with": {"reason": "enough"}}


def call(tool: str, call_id: str, thing: str = "box", **more: Any) -> dict[str, Any]:
    return {"call": tool, "with": {"thing": thing, **more}, "id": call_id}


def batch(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"calls": list(calls)}


def looks(things: Sequence[str], tool: str = "look") -> dict[str, Any]:
    """One call for each thing, with `c1`, `c2` … as ids."""
    return batch(*(call(tool, f"c{n}", thing) for n, thing in enumerate(things, 1)))


async def rows_of(here: World, task: Checkpoint) -> list[tuple[str, str, str, str | None]]:
    """Each request on record: the call's id, its tool, outcome and error class."""
    return [(r["call_id"], r["tool"], r["outcome"], r["error_class"]) for r in await here.rows(task, "call")]


async def told_and_called(here: World) -> tuple[Checkpoint, list[str], int]:
    """The task run once, what its model was told, and how many calls reached any tool."""
    end = await here.run(machine="peeks")
    return end, await here.told(end), sum(len(tool.calls) for tool in here.tools.values())


def after(seconds: float, answer: Any) -> Any:
    """A play of a tool that takes its time."""

    async def play(_: ToolRequest) -> Any:
        await asyncio.sleep(seconds)
        return answer

    return play


class Raw:
    """A model that says these replies, then gives up; it keeps what it was shown."""

    spec = "test"

    def __init__(self, *replies: RawReply) -> None:
        self.replies = replies
        self.prompts: list[Prompt] = []

    async def decide(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        stop = RawReply((RawCall("z", "cannot_continue", {"reason": "enough"}),))
        said = self.replies[prompt.step - 1] if prompt.step <= len(self.replies) else stop
        return Reply(said, Spent(1, 1), self.spec)
