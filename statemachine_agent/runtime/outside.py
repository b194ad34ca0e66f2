"""Signals: what somebody outside tells a task that waits for it. It becomes evidence, untrusted as a whole.

It must not know who the outside is; what a signal says is never an instruction or a permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemachine_agent.canonical import canonical, digest
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.redaction import masked
from statemachine_agent.definition.states import WaitState
from statemachine_agent.errors import RefusedError, UsageError
from statemachine_agent.ids import new_id
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.draft import Draft
from statemachine_agent.policy import approvals
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint, Evidence, NoteRow
from statemachine_agent.runtime.answer import person_of
from statemachine_agent.runtime.drive import commit
from statemachine_agent.text import did_you_mean, one_line
from statemachine_agent.tools.arguments import as_json, faults_of

SIGNAL_SCOPE = "tasks:signal"

_MAX_BYTES = 262_144


class UnfitSignalError(UsageError):
    """What was sent is not what the machine declares; nothing was taken, and the task waits as before."""


async def receive(
    context: Context,
    checkpoint: Checkpoint,
    name: str,
    payload: Mapping[str, Any],
    who: Identity,
    *,
    signal_id: str | None = None,
    to_version: int | None = None,
) -> Checkpoint:
    """Record a signal and go where it leads; the same one that came before under the same id changes nothing."""
    try:
        check_may_signal(context, checkpoint, who)
        plain = masked(context.machine.masks.evidence.get(name, ()), _fitting(context, name, payload))
        if signal_id and (before := _received(checkpoint, name, signal_id)) is not None:
            if before.payload_hash == digest(plain):
                return checkpoint
            raise RefusedError(  # noqa: TRY301
                f"another `{name}` came under the id `{one_line(signal_id, 60)}`",
                hint="give each signal an id of its own",
                reason="id_reused",
            )
        state = _waiting_state(context, checkpoint, name)
        if to_version is not None and to_version != checkpoint.head.version:
            raise RefusedError(  # noqa: TRY301
                f"the task has gone on: it is at version {checkpoint.head.version}, and this answers version {to_version}",
                hint="look at what it asks now",
                reason="moved_on",
            )
    except RefusedError as problem:
        note = NoteRow(f"signal_refused:{problem.reason}", who.id[:200], who.established, one_line(name, 60))
        await context.store.note(checkpoint.task.no, [note])
        raise
    draft = Draft(context, checkpoint, "signal")
    draft.add_evidence(
        tool=name,
        purpose="signal",
        call_id="",
        request_id=signal_id or new_id(context.environment),
        attempt=1,
        source=f"signal from {one_line(who.id, 200)}",
        at=context.environment.now(),
        trust="mixed",
        payload=plain,
        payload_hash=digest(plain),
        asked={},
    )
    draft.rows.append(NoteRow(f"signal:{name}", who.id, who.established))
    draft.set_head(output=None)  # the question is answered
    draft.fire_outcome(f"received.{state}")
    transaction, after = draft.finish()
    await commit(context, transaction, after)
    return after


def _received(checkpoint: Checkpoint, name: str, signal_id: str) -> Evidence | None:
    """What came under that id."""
    return next((e for e in checkpoint.evidence if e.tool == name and e.request_id == signal_id), None)


def check_may_signal(context: Context, checkpoint: Checkpoint, who: Identity) -> None:
    """RefusedError unless it is the task's own actor, or somebody with the scope for it."""
    person = person_of(context, checkpoint, who)
    if who.id == checkpoint.task.actor["id"] or SIGNAL_SCOPE in person.scopes:
        return
    raise approvals.NotEntitledError(
        f"`{one_line(who.id, 60)}` may send nothing to this task",
        hint=f"its actor may, and whoever has the scope {SIGNAL_SCOPE}",
        reason="wrong_role",
    )


def _fitting(context: Context, name: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload as plain data; UnfitSignalError where it is not what the machine declares."""
    signals = context.machine.definition.signals
    if name not in signals:
        raise RefusedError(
            f"`{context.machine.name}` knows no signal `{one_line(name, 60)}`",
            hint=did_you_mean(name, signals),
            reason="unknown_signal",
        )
    faults = faults_of(signals[name], payload)
    if faults:
        text = "; ".join(str(f) for f in faults)
        raise UnfitSignalError(
            f"this is no `{name}`: {text}", hint=f"it holds: {', '.join(signals[name]) or 'nothing'}"
        )
    plain = as_json(payload)
    if len(canonical(plain)) > _MAX_BYTES:
        raise UnfitSignalError(f"the signal is larger than {_MAX_BYTES:,} bytes", hint="send less")
    return dict(plain)


def awaited(machine: CompiledMachine, checkpoint: Checkpoint) -> dict[str, str]:
    """The states that wait for somebody outside now, and the signal that each waits for."""
    states = {name: machine.state(name) for name in checkpoint.head.configuration}
    return {n: s.wait.signal for n, s in states.items() if isinstance(s, WaitState) and s.wait.signal is not None}


def _waiting_state(context: Context, checkpoint: Checkpoint, name: str) -> str:
    """The state that waits for the signal now."""
    head = checkpoint.head
    if head.status.is_end:
        raise RefusedError(f"the task has ended: {head.status}", hint="start a new one", reason="ended")
    for state, signal in awaited(context.machine, checkpoint).items():
        if signal == name:
            return state
    raise RefusedError(
        f"the task does not wait for `{name}` now; it is in {', '.join(head.configuration)}",
        hint="nothing was taken; send it when the task waits for it",
        reason="not_awaited",
    )
