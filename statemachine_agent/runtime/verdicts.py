"""What a changed definition means for each task that is under way. Nothing is written.

Every task ends under the definition that it began with, whatever becomes of the files; what is judged is whether a fork of it
could go on under the other one, by trying to make it. It must not know how a definition changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.errors import SmaError
from statemachine_agent.loop.draft import Draft
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.runtime.fork import begin, check_may_fork, check_may_raise, under_way
from statemachine_agent.store.port import Store

#: more tasks than a person waits for
_ALL = 1_000_000
#: how many versions before its newest are tried for one that could be taken over
_BACK = 20


#: makes the draft of a task's fork, and says under what the task began
Begun = Callable[[Checkpoint], Awaitable[tuple[Draft, CompiledMachine]]]


@dataclass(frozen=True)
class Verdict:
    """`same`: it began with this very definition; `fits`: a fork of it could go on under this one; `stays`: it could not."""

    task: str
    machine: str
    version: int
    configuration: tuple[str, ...]
    verdict: str
    #: what says no; of one that fits, what its actor needs besides
    why: tuple[str, ...] = ()
    #: of one that stays, the newest earlier version of which a fork could go on; None where none of the last ones could
    earlier: int | None = None


async def verdicts(store: Store, machines: Mapping[str, CompiledMachine], begun: Begun) -> list[Verdict]:
    """A verdict for each task of these machines that has not ended, the oldest first; `begun` makes the draft of its fork."""
    return [await _verdict(now, machines[now.task.machine], begun) for now in await open_tasks(store, machines)]


async def open_tasks(store: Store, machines: Collection[str]) -> list[Checkpoint]:
    """The tasks of these machines that have not ended, the oldest first."""
    rows = [row for s in Status if not s.is_end for row in await store.tasks(status=s, limit=_ALL)] if machines else []
    return [await store.load(one) for one in sorted(str(row["id"]) for row in rows if row["machine"] in machines)]


async def _verdict(now: Checkpoint, machine: CompiledMachine, begun: Begun) -> Verdict:
    task, head = now.task, now.head
    about = (task.id, task.machine, head.version, head.configuration)
    if task.definition_hash == machine.hash:
        return Verdict(*about, "same")
    what = under_way(now)
    why = f"{what}, which it finishes itself" if what else await _refusal(now, head.version, begun)
    if why is None:
        return Verdict(*about, "fits", await _with(now, begun))
    earlier = None if now.open_effects else await _earlier(now, begun)
    return Verdict(*about, "stays", (why,), earlier)


async def _refusal(now: Checkpoint, at: int, begun: Begun) -> str | None:
    """Why a fork at that version could not be; None where it could."""
    try:
        draft, pinned = await begun(now)
        check_may_fork(now, draft.checkpoint.task.actor)
        await begin(draft, now, at, pinned)
    except SmaError as problem:
        return problem.message
    return None


async def _with(now: Checkpoint, begun: Begun) -> tuple[str, ...]:
    """What the task's actor needs for it."""
    try:
        draft, pinned = await begun(now)
        check_may_raise(draft.checkpoint.task.actor, pinned, draft.context.machine)
    except SmaError as problem:
        return (problem.message,)
    return ()


async def _earlier(now: Checkpoint, begun: Begun) -> int | None:
    for at in range(now.head.version - 1, max(-1, now.head.version - 1 - _BACK), -1):
        if await _refusal(now, at, begun) is None:
            return at
    return None
