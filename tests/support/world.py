"""Small machines from texts, with tools that a test plays, in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from statemachine_agent import Catalogue, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.people import People
from statemachine_agent.definition.source import Source
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint
from statemachine_agent.testing.stores import new_store
from statemachine_agent.tools.request import Reach, ToolRequest

ANN = Identity("ann", "asserted")
BOB = Identity("bob", "asserted")
CEO = Identity("ceo", "asserted")
EVE = Identity("eve", "asserted")

PEOPLE = People.model_validate(
    {
        "people": {
            "ann": {"scopes": ["things:read", "things:write", "tasks:limits"]},
            "bob": {"roles": ["boss"], "scopes": ["effects:resolve", "tasks:cancel"]},
            "ceo": {"roles": ["boss", "chief"]},
            "eve": {"roles": ["clerk"]},
        }
    }
)

#: a read, a write and its look-up; `python:` is never imported, since the tests play the tools
LOOK = """
tool: look
version: 1
summary: Look at a thing.
effect: read
source: things
scopes: [things:read]
binding: {python: "nowhere:look"}
args:
  thing: {type: string}
returns:
  good: {type: boolean}
  note: {type: string, optional: true, untrusted: true}
retry: {attempts: 2, backoff: 1s}
"""
ACT = """
tool: act
version: 1
summary: Do something to a thing.
effect: write
source: things
scopes: [things:write]
binding: {python: "nowhere:act"}
args:
  thing: {type: string}
  amount: {type: integer, minimum: 1, maximum: 1000}
returns:
  id: {type: string}
idempotency:
  key: act:{thing}:{amount}
  reconcile:
    tool: find
    with: {key: effect.key}
    found: result.items.size() == 1
    absent: result.items.size() == 0
    result: result.items[0]
approval:
  - {when: args.amount > 100, by: boss, because: rule 1}
  - {when: args.amount > 500, by: chief, because: rule 2}
at_most: 3
"""
FIND = """
tool: find
version: 1
summary: Find what was done under a key.
effect: read
source: things
binding: {python: "nowhere:find"}
args:
  key: {type: string}
returns:
  items:
    type: array
    items:
      type: object
      properties:
        id: {type: string}
"""
MACHINE = """
machine: tiny
version: 1
summary: Look at a thing, then do something to it.
input:
  thing: {type: string}
limits: {steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10, cost_usd: 1.00}
guards:
  looked: has(evidence.look)
  good: evidence.look.good
  bad: has(evidence.look) && !evidence.look.good
  same_thing: call.args.thing == input.thing
  acted: effects.exists(e, e.tool == "act" && e.status in ["executed", "verified"])
success: [acted]
initial: LOOKING
states:
  LOOKING:
    brief: Look, then act.
    choose:
      look: stay
      act:
        - {unless: looked, refuse: look first}
        - {unless: [good, same_thing], refuse: not this thing}
        - {goto: PROPOSED}
      finish: SUCCEEDED
      ask_user: NEEDS_INPUT
    then:
      - {when: bad, goto: DENIED, reason: bad_thing}
  PROPOSED:
    route:
      - {when: approval_required, goto: ASKING}
      - {when: approval_not_required, goto: ACTING}
      - {goto: DENIED, reason: policy}
  ASKING:
    approval: {of: act, by: boss, expires: 1h}
    then: {approved: ACTING, rejected: DENIED, expired: NEEDS_INPUT}
  ACTING:
    call: act
    with: proposal
    then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}
  FINDING:
    reconcile: act
    then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}
"""


@dataclass
class Played:
    """A tool that a test plays: each call takes the next of `plays` (the last one for ever)."""

    plays: list[Any]
    calls: list[ToolRequest] = field(default_factory=list)

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        self.calls.append(request)
        play = self.plays[min(len(self.calls), len(self.plays)) - 1]
        if callable(play):
            play = play(request)
            if asyncio.iscoroutine(play):
                play = await play
        if isinstance(play, BaseException):
            raise play
        return play


@lru_cache(maxsize=64)
def catalogue(machine: str = MACHINE, *tools: str, held: tuple[str, ...] = ()) -> Catalogue:
    """The catalogue of these texts; the same one for the same texts, since most tests look at how a machine runs."""
    texts = tools or (LOOK, ACT, FIND)
    sources = [Source(f"tool{i}.yaml", dedent(t)) for i, t in enumerate(texts)]
    machines = [Source(f"machine{i or ''}.yaml", dedent(t)) for i, t in enumerate((machine, *held))]
    return Catalogue.build(machines, sources, PEOPLE)


@dataclass
class World:
    """A runtime, its store, and the played tools."""

    runtime: Runtime
    store: SqliteStore
    environment: SimulatedEnvironment
    tools: Mapping[str, Played]

    async def run(self, actor: Identity = ANN, machine: str = "tiny", **inputs: Any) -> Checkpoint:
        return await self.runtime.run(machine, inputs or {"thing": "box"}, actor)

    async def rows(self, checkpoint: Checkpoint, *tables: str) -> list[Mapping[str, Any]]:
        rows = await self.store.history(checkpoint.task.id)
        return [r for r in rows if not tables or r["table"] in tables]

    async def told(self, checkpoint: Checkpoint) -> list[str]:
        """What the model was told, step by step, where it was told anything."""
        return [r["feedback"] for r in await self.rows(checkpoint, "decision") if r["feedback"]]


GOOD = {"good": True}
BAD = {"good": False}
DONE = {"id": "a1"}
NONE = {"items": []}
ONE = {"items": [DONE]}


def _store(folder: Path, environment: SimulatedEnvironment) -> SqliteStore:
    folder.mkdir(parents=True, exist_ok=True)
    return new_store(folder, environment)


@asynccontextmanager
async def world(
    folder: Path,
    *steps: Mapping[str, Any],
    machine: str = MACHINE,
    texts: tuple[str, ...] = (),
    held: tuple[str, ...] = (),
    model: Any = None,
    environment: SimulatedEnvironment | None = None,
    **tools: list[Any],
) -> AsyncIterator[World]:
    """A world in which the model says `steps`; `look=[…]` plays a tool."""
    environment = environment or SimulatedEnvironment()
    played = {"look": Played([GOOD]), "act": Played([DONE]), "find": Played([NONE])}
    played.update({name: Played(plays) for name, plays in tools.items()})
    with _store(folder, environment) as store:
        async with Runtime(
            catalogue(machine, *texts, held=held),
            store,
            model or ScriptedModel.of(*steps),
            environment=environment,
            reach=Reach(python_packages=frozenset({"nowhere"})),  # of tools that nobody plays, and nobody calls
            bindings=played,
        ) as runtime:
            yield World(runtime, store, environment, played)


def simulated(main: Callable[[], Any], environment: SimulatedEnvironment | None = None) -> Any:
    """Run `main` on the simulated loop."""
    return (environment or SimulatedEnvironment()).run(main())


LOOK_STEP = {"call": "look", "with": {"thing": "box"}}


def act_step(amount: int = 10, thing: str = "box") -> dict[str, Any]:
    return {"call": "act", "with": {"thing": thing, "amount": amount}}
