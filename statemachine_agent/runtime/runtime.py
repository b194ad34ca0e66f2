"""The runtime as a user holds it: start, run, fork, resume, approve, reject, resolve, signal, cancel, and the events on the way.

A web application embeds it by calling these on its own event loop. It owns no truth: that is the store's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from statemachine_agent.chart.compile import (
    CompiledMachine,
    checked_catalogue,
    compile_machine,
    compile_texts,
    texts_of,
)
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.redaction import masked
from statemachine_agent.definition.roster import Roster
from statemachine_agent.environment import Environment
from statemachine_agent.errors import RefusedError, StoreError, TaskHeldError, UsageError
from statemachine_agent.ids import new_id
from statemachine_agent.loop.context import LEASE, Context, Event, Stopwatch
from statemachine_agent.loop.draft import Draft
from statemachine_agent.policy.identity import Identity, actor_of
from statemachine_agent.records import Approval, Checkpoint, Head, Lease, NewTask, NoteRow, Status, Task
from statemachine_agent.runtime import answer, fork, outside
from statemachine_agent.runtime.deciding import ModelSource, deciders, stored_spec
from statemachine_agent.runtime.drive import Stop, commit, drive
from statemachine_agent.runtime.reaching import check_reach
from statemachine_agent.runtime.recover import fire_timers, recover
from statemachine_agent.runtime.verdicts import Verdict, verdicts
from statemachine_agent.store.port import Store
from statemachine_agent.text import one_line
from statemachine_agent.tools.arguments import faults_of
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.toolbox import Binding, Toolbox

_log = logging.getLogger(__name__)

#: seconds that a person's answer waits for a worker that holds the task
_PATIENCE = 5.0

#: events for those who asked for pieces only
_PIECES = ("piece", "cut_off")


class Runtime:
    """Runs the machines of a catalogue on a store. Close it to let go of connections; it is an async context manager."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        model: ModelSource | None = None,
        *,
        reach: Reach | None = None,
        environment: Environment | None = None,
        bindings: Mapping[str, Binding] | None = None,
    ) -> None:
        """`model` is one model for all tasks and states, or finds one by its name; `reach` is what tools may use."""
        self.catalogue = catalogue
        self.store = store
        self.environment = environment or Environment()
        self._model = model
        self._toolbox = Toolbox(reach or Reach(), self.environment, bindings)
        self._watchers: list[Callable[[Event], None]] = []
        self._listeners: list[Callable[[Event], None]] = []
        self._roster = Roster(catalogue.people, catalogue.people_path)
        self._stop = Stop()

    async def __aenter__(self) -> Runtime:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections; the store is its opener's to close."""
        await self._toolbox.close()

    def stop(self) -> None:
        """Stop the worker, not the tasks: no new effect is begun, leases are given back."""
        self._stop.set()

    # ------------------------------------------------------------ watching

    def watch(self, watcher: Callable[[Event], None], *, pieces: bool = False) -> None:
        """Have `watcher` called with every event, as it happens; what it raises is logged, and changes nothing.

        With `pieces`, a model that can is asked to answer piece by piece, and the watcher is told the words and the calls that
        are forming (`piece`), and that an attempt came to nothing (`cut_off`). They are for eyes only: what counts is
        what was `decided`.
        """
        self._watchers.append(watcher)
        if pieces:
            self._listeners.append(watcher)

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._watchers.append(queue.put_nowait)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.remove(queue.put_nowait)

    def _emit(self, event: Event) -> None:
        for watcher in list(self._listeners if event.kind in _PIECES else self._watchers):
            try:
                watcher(event)
            except Exception:  # noqa: BLE001  the work does not depend on who looks on
                _log.exception("a watcher failed on the event %s of task %s", event.kind, event.task_id)

    # ------------------------------------------------------------ tasks

    async def start(
        self,
        machine: str,
        inputs: Mapping[str, Any],
        actor: Identity,
        *,
        model: str | None = None,
        otherwise: str | None = None,
    ) -> Checkpoint:
        """Create a task at version 0; UsageError where the input does not fit, RefusedError for an unknown actor.

        `model` decides in all its states, whatever the machine names; `otherwise` only where the machine names none.
        """
        compiled = self._compiled(machine)
        faults = faults_of(compiled.definition.input, inputs)
        if faults:
            text = "; ".join(str(f) for f in faults)
            known = ", ".join(compiled.definition.input)
            raise UsageError(f"the input does not fit `{machine}`: {text}", hint=f"it takes: {known}")
        check_reach(self._toolbox, compiled)
        who = actor_of(self._roster.now(), actor)
        own = self._model.spec if self._model is not None and hasattr(self._model, "spec") else ""
        spec = stored_spec(compiled.definition, model, otherwise or own)
        draft = self._new(compiled, who, masked(compiled.masks.input, inputs), spec, "start")
        draft.begin()
        return await self._create(draft)

    async def fork(
        self,
        task_id: str,
        at: int,
        actor: Identity,
        *,
        machine: str | None = None,
        limits: Mapping[str, str] | None = None,
        model: str | None = None,
    ) -> Checkpoint:
        """Create a task that begins as another one stood at version `at`; RefusedError where it cannot.

        It is the same person's, and has what was known then; people are asked anew, and timers begin anew. Nothing is undone:
        what has happened until now is among its effects, and answered from the ledger. `machine` takes the definition of the
        catalogue instead of the pinned one; `limits` changes budgets, written as in a machine file. Whoever raises one, either
        way, needs the scope `tasks:limits`. `model` as in `start`.
        """
        if type(at) is not int:
            raise UsageError(f"a version is a whole number, not {type(at).__name__}")
        who = actor_of(self._roster.now(), actor)
        now = await self.store.load(task_id)
        pinned = await self._machine_of(now.task)
        wanted = pinned if machine is None else self._compiled(machine)
        compiled = fork.with_limits(wanted, {**pinned.limits, **(limits or {})})
        spec = stored_spec(compiled.definition, model, now.task.model)
        draft = self._new(compiled, who, now.task.input, spec, "fork")
        changed = "".join(f", {name} {text}" for name, text in (limits or {}).items())
        came = f"{now.task.id} version {at}{changed}"
        draft.rows.append(NoteRow("forked_from", actor.id, actor.established, came))
        await fork.go_back(draft, now, at, pinned)
        check_reach(self._toolbox, compiled)
        created = await self._create(draft)
        note = NoteRow("forked", actor.id, actor.established, f"version {at} as {created.task.id}")
        try:
            await self.store.note(now.task.no, [note])
        except StoreError as problem:  # of the one whose history is full, only the fork tells
            if problem.reason != "history_full":
                raise
        return created

    async def verdicts(self, machines: Mapping[str, CompiledMachine]) -> list[Verdict]:
        """For each task of these machines that has not ended, the oldest first: whether a fork of it could go on under one."""

        async def begun(now: Checkpoint) -> tuple[Draft, CompiledMachine]:
            task, pinned = now.task, await self._machine_of(now.task)
            who = actor_of(self._roster.now(), Identity(str(task.actor["id"]), str(task.actor["established"])))
            compiled = fork.with_limits(machines[task.machine], pinned.limits)
            check_reach(self._toolbox, compiled)
            return self._new(compiled, who, task.input, task.model, "fork"), pinned

        return await verdicts(self.store, machines, begun)

    def _new(
        self, compiled: CompiledMachine, who: Mapping[str, Any], inputs: Mapping[str, Any], spec: str, cause: str
    ) -> Draft:
        """The draft of a task that is none yet."""
        task = Task(
            0, new_id(self.environment), new_id(self.environment), compiled.name, compiled.definition.version,
            compiled.hash, who, inputs, spec, self.environment.now(),
        )  # fmt: skip
        return Draft(self._context(compiled), Checkpoint(task, Head(-1, Status.RUNNING, ())), cause)

    async def _create(self, draft: Draft) -> Checkpoint:
        transaction, made = draft.finish()
        task = made.task
        created = await self.store.create(
            NewTask(
                task.id,
                task.trace_id,
                task.machine,
                task.machine_version,
                task.definition_hash,
                texts_of(draft.context.machine),
                task.actor,
                task.input,
                task.model,
                task.started_at,
                transaction,
            )  # fmt: skip
        )
        self._emit(Event("committed", task.id, {"transaction": transaction, "checkpoint": created}))
        return created

    async def run(
        self,
        machine: str,
        inputs: Mapping[str, Any],
        actor: Identity,
        *,
        model: str | None = None,
        otherwise: str | None = None,
    ) -> Checkpoint:
        """Start a task, and run it until it ends or waits; models as in `start`."""
        created = await self.start(machine, inputs, actor, model=model, otherwise=otherwise)
        return await self.resume(created.task.id)

    async def resume(self, task_id: str) -> Checkpoint:
        """Recover, fire the timers that are due, and run on until the task ends or waits."""
        async with self._leased(task_id) as (context, checkpoint):
            model, models = deciders(context.machine.definition, checkpoint.task.model, self._model)
            working = replace(context, model=model, models=models)
            recovered = await recover(working, checkpoint)
            ready = await fire_timers(working, recovered)
            if ready.head.status is Status.RUNNING:  # what only waits, or has expired, calls nothing
                check_reach(self._toolbox, context.machine)
            return await drive(working, ready, self._stop)

    async def status(self, task_id: str) -> Checkpoint:
        """The task as it stands."""
        return await self.store.load(task_id)

    # ------------------------------------------------------------ people

    async def approve(self, approval_id: str, who: Identity, *, why: str | None = None) -> Checkpoint:
        """Say yes; RefusedError with its reason where that cannot be."""
        return await self._answer(approval_id, who, yes=True, why=why)

    async def reject(self, approval_id: str, who: Identity, *, why: str) -> Checkpoint:
        """Say no; one is enough."""
        return await self._answer(approval_id, who, yes=False, why=why)

    async def _answer(self, approval_id: str, who: Identity, *, yes: bool, why: str | None) -> Checkpoint:
        found = await self.store.approval(approval_id)
        if found is None:
            raise RefusedError(
                f"there is no request `{one_line(approval_id, 80)}`",
                hint="`sma approvals` lists them",
                reason="unknown_approval",
            )
        task_id, approval = found
        async with self._leased(task_id, patient=True) as (context, checkpoint):
            return await answer.answer(context, checkpoint, approval, who, yes=yes, why=why)

    async def pending(self) -> list[tuple[str, Approval]]:
        """The open requests: task id and request."""
        return [(row["task"], row["approval"]) for row in await self.store.approvals()]

    async def resolve(
        self, task_id: str, key: str, who: Identity, *, found: Mapping[str, Any] | None, why: str
    ) -> Checkpoint:
        """Settle an open effect of an ended task: what it gave, or (None) that it never happened."""
        async with self._leased(task_id, patient=True) as (context, checkpoint):
            return await answer.settle(context, checkpoint, key, who, found=found, why=why)

    async def signal(
        self,
        task_id: str,
        name: str,
        payload: Mapping[str, Any],
        who: Identity,
        *,
        signal_id: str | None = None,
        to_version: int | None = None,
    ) -> Checkpoint:
        """Tell a waiting task something from outside; RefusedError where it does not wait for that.

        The same `signal_id` is taken once, so that whoever sends may send again. With `to_version` it is an answer to what
        the task asked at that version, and to nothing later. The task goes on when it is resumed.
        """
        async with self._leased(task_id, patient=True) as (context, checkpoint):
            ready = await fire_timers(context, await recover(context, checkpoint))
            return await outside.receive(
                context, ready, name, payload, who, signal_id=signal_id, to_version=to_version
            )  # fmt: skip

    async def reply(self, task_id: str, text: str, who: Identity, *, to_version: int | None = None) -> Checkpoint:
        """The signal `reply` with a text: what somebody in a conversation says."""
        return await self.signal(task_id, "reply", {"text": text}, who, to_version=to_version)

    async def awaited(self, checkpoint: Checkpoint) -> Mapping[str, str]:
        """The states that wait for somebody outside now, and the signal that each waits for."""
        return outside.awaited(await self._machine_of(checkpoint.task), checkpoint)

    async def check_may_signal(self, task_id: str, who: Identity) -> None:
        """RefusedError where this person may send the task nothing."""
        checkpoint = await self.store.load(task_id)
        outside.check_may_signal(self._context(await self._machine_of(checkpoint.task)), checkpoint, who)

    async def cancel(self, task_id: str, who: Identity) -> Checkpoint:
        """Cancel a task: now, or at the next chance of whoever works on it; never while an effect is open."""
        checkpoint = await self.store.load(task_id)
        context = self._context(await self._machine_of(checkpoint.task))
        answer.check_may_cancel(context, checkpoint, who)
        if checkpoint.head.status.is_end:
            raise RefusedError(f"the task has ended: {checkpoint.head.status}", reason="ended")
        await self.store.note(checkpoint.task.no, [NoteRow("cancel_requested", who.id, who.established)])
        await self.store.request_cancel(checkpoint.task.no, {"by": who.id, "established": who.established})
        try:
            async with self._leased(task_id) as (context, claimed):
                recovered = await recover(context, claimed)
                if recovered.head.status.is_end:  # in the meantime, or by recovering
                    raise RefusedError(f"the task has ended: {recovered.head.status}", reason="ended")
                draft = Draft(context, recovered, "cancel")
                draft.leave("exit.cancel", "cancelled")
                transaction, after = draft.finish()
                await commit(context, transaction, after)
                return after
        except TaskHeldError:
            return await self.store.load(task_id)

    # ------------------------------------------------------------ within

    def _compiled(self, machine: str) -> CompiledMachine:
        """A machine of the catalogue, whose expressions are checked when the first task starts."""
        return compile_machine(checked_catalogue(self.catalogue), machine)

    def _context(self, machine: CompiledMachine, lease: Lease | None = None) -> Context:
        return Context(
            machine, self._roster, self._roster.now(), self.environment, self._toolbox, self.store,
            Stopwatch(self.environment), lease=lease, emit=self._emit, heard=bool(self._listeners),
        )  # fmt: skip

    async def _machine_of(self, task: Task) -> CompiledMachine:
        """The definition that the task pinned, compiled; StoreError where it is not what was pinned."""
        compiled = compile_texts(await self.store.definition(task.definition_hash))
        if compiled.hash != task.definition_hash:
            raise StoreError(
                f"the definition of task {task.id} was altered after it was stored", hint="restore a backup"
            )
        return compiled

    @asynccontextmanager
    async def _leased(self, task_id: str, *, patient: bool = False) -> AsyncIterator[tuple[Context, Checkpoint]]:
        """Hold the task's lease; with `patient`, wait a little for a worker that is about to let go."""
        deadline = self.environment.monotonic() + _PATIENCE
        while True:
            try:
                lease = await self.store.claim(task_id, self.environment.process(), LEASE)
                break
            except TaskHeldError:
                if not patient or self.environment.monotonic() >= deadline:
                    raise
                await self.environment.sleep(self.environment.uniform(0.02, 0.1))
        try:
            checkpoint = await self.store.load(lease.task_id)
            machine = await self._machine_of(checkpoint.task)
            machine.chart.tree.full(checkpoint.head.configuration)  # in a state that is none it would wait for ever
            yield self._context(machine, lease), checkpoint
        finally:
            await asyncio.shield(self.store.release(lease))
