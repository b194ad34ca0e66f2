"""A world for a whole run: the runtime on a store of its own, a simulated clock, no network, and tools that a test plays.

`run_task` is for plain tests, `world` for async ones. It must not decide what a tool answers.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.roster import Roster
from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import UsageError
from statemachine_agent.loop.context import Context, Stopwatch
from statemachine_agent.models.port import Model
from statemachine_agent.models.scripted import ScriptedModel
from statemachine_agent.records import ApprovalStatus, Checkpoint
from statemachine_agent.runtime.runtime import Runtime
from statemachine_agent.store.sqlite import SqliteStore
from statemachine_agent.testing.played import Played, played
from statemachine_agent.testing.record import Recorder
from statemachine_agent.testing.samples import with_sample
from statemachine_agent.testing.stores import new_store, temporary_folder
from statemachine_agent.testing.subject import Machine, Subject, as_subject
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.toolbox import Binding, Toolbox


class WatchedRuntime(Runtime):
    """The runtime on the machine under test, which is not compiled anew for each test; what it does counts as exercised."""

    def __init__(
        self,
        subject: Subject,
        store: SqliteStore,
        model: Model,
        environment: SimulatedEnvironment,
        bindings: Mapping[str, Binding],
        *,
        own_tools: bool = False,
        counts: bool = True,
    ) -> None:
        """`own_tools`: tools without a binding here are reached as their manifests say. `counts`: as exercised by tests."""
        reach = subject.reach if own_tools else Reach()
        super().__init__(subject.catalogue, store, model, reach=reach, environment=environment, bindings=bindings)
        self._subject = subject
        if counts:
            self.watch(Recorder(context_of(self, subject)))

    def _compiled(self, machine: str) -> CompiledMachine:
        return self._subject.compiled if machine == self._subject.name else super()._compiled(machine)


@dataclass
class World:
    """A runtime, its store, its clock, and the tools that are played."""

    subject: Subject
    runtime: Runtime
    store: SqliteStore
    environment: SimulatedEnvironment
    tools: Mapping[str, Played]

    async def run(self, inputs: Mapping[str, Any] | None = None, actor: str | None = None) -> Checkpoint:
        """Start a task and run it until it ends or waits; inputs that are not given are made up to fit."""
        filled = with_sample(self.subject.compiled.definition.input, inputs or {})
        return await self.runtime.run(self.subject.name, filled, self.subject.identity(actor))

    async def approve(self, waiting: Checkpoint, by: str) -> Checkpoint:
        """`by` says yes to what the task waits for, and it runs on; RefusedError where that cannot be."""
        request = next((a for a in waiting.approvals if a.status is ApprovalStatus.OPEN), None)
        if request is None:
            raise UsageError("nobody is asked for approval", hint="see the task's status")
        await self.runtime.approve(request.id, self.subject.identity(by))
        return await self.runtime.resume(waiting.task.id)

    async def rows(self, checkpoint: Checkpoint, *tables: str) -> list[Mapping[str, Any]]:
        """The history of a task: all of it, or its rows of these tables (`decision`, `call`, `transition` …)."""
        rows = await self.store.history(checkpoint.task.id)
        return [row for row in rows if not tables or row["table"] in tables]

    async def told(self, checkpoint: Checkpoint) -> list[str]:
        """What the model was told, decision by decision, where it was told anything."""
        rows = await self.rows(checkpoint, "decision")
        return [row["feedback"] for row in rows if row["feedback"] and row["result"] != "failed"]


@asynccontextmanager
async def world(
    machine: Machine,
    *steps: Mapping[str, Any],
    tools: Mapping[str, object] | None = None,
    model: Model | None = None,
    environment: SimulatedEnvironment | None = None,
    folder: Path | None = None,
    own_tools: bool = False,
) -> AsyncIterator[World]:
    """A world in which the model says `steps` (as in a script file), or `model` decides.

    `tools` plays each tool by name; UsageError for one that is missing, unless `own_tools` lets the rest run as their
    manifests say. The store lies in `folder`, or in a temporary one.
    """
    subject = as_subject(machine)
    plays = played(tools or {})
    _check_all_played(subject, plays, own_tools=own_tools)
    if own_tools and subject.folder is not None and str(subject.folder) not in sys.path:
        sys.path.insert(0, str(subject.folder))  # where `sma run` finds them, too
    clock = environment or SimulatedEnvironment()
    with temporary_folder("world") as temporary, new_store(folder or Path(temporary), clock) as store:
        decides = model or ScriptedModel.of(*steps)
        async with WatchedRuntime(subject, store, decides, clock, plays, own_tools=own_tools) as runtime:
            yield World(subject, runtime, store, clock, plays)


def run_task(
    machine: Machine,
    *steps: Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    actor: str | None = None,
    tools: Mapping[str, object] | None = None,
    model: Model | None = None,
    approve: tuple[str, ...] = (),
    own_tools: bool = False,
) -> Checkpoint:
    """Run one task until it ends or waits, and give its checkpoint; arguments as for `world`.

    Whenever it waits for approval, the next of `approve` says yes.
    """
    clock = SimulatedEnvironment()

    async def main() -> Checkpoint:
        async with world(machine, *steps, tools=tools, model=model, environment=clock, own_tools=own_tools) as here:
            task = await here.run(inputs, actor)
            for by in approve:
                task = await here.approve(task, by)
            return task

    return clock.run(main())


def _check_all_played(subject: Subject, plays: Mapping[str, Played], *, own_tools: bool) -> None:
    used = subject.compiled.tools
    unknown = [name for name in plays if name not in used]
    if unknown:
        raise UsageError(f"`{subject.name}` uses no tool `{unknown[0]}`", hint=f"it uses: {', '.join(used)}")
    missing = [name for name in used if name not in plays]
    if missing and not own_tools:
        raise UsageError(
            f"nobody plays {', '.join(missing)}",
            hint='add `tools={"' + missing[0] + '": {…}}`, or `own_tools=True` to call the real ones',
        )


def context_of(runtime: Runtime, subject: Subject) -> Context:
    """What the loop's functions may use, for whoever asks them the same again."""
    clock = runtime.environment
    roster = Roster(subject.people)
    toolbox = Toolbox(Reach(), clock)
    return Context(subject.compiled, roster, roster.now(), clock, toolbox, runtime.store, Stopwatch(clock))
