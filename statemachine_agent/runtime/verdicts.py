"""What a changed definition means for each task that is under way. Nothing is written.

Every task ends under the definition that it began with, whatever becomes of the files; what is judged is whether it could be
taken over. It must not know how a definition changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statemachine_agent.chart.compile import CompiledMachine, compile_texts
from statemachine_agent.errors import SmaError
from statemachine_agent.records import Status
from statemachine_agent.runtime.fitting import misfits
from statemachine_agent.runtime.fork import under_way
from statemachine_agent.store.port import Store

#: more tasks than a person waits for
_ALL = 1_000_000


@dataclass(frozen=True)
class Verdict:
    """`same`: it began with this very definition; `fits`: a fork of it could go on under this one; `stays`: it could not."""

    task: str
    machine: str
    version: int
    configuration: tuple[str, ...]
    verdict: str
    #: what says no
    why: tuple[str, ...] = ()


async def verdicts(store: Store, machines: Mapping[str, CompiledMachine]) -> list[Verdict]:
    """A verdict for each task of these machines that has not ended, the oldest first."""
    open_ones = [row for s in Status if not s.is_end for row in await store.tasks(status=s, limit=_ALL)]
    rows = sorted((row for row in open_ones if row["machine"] in machines), key=lambda row: str(row["id"]))
    return [await _verdict(store, str(row["id"]), machines[row["machine"]]) for row in rows]


async def _verdict(store: Store, task_id: str, machine: CompiledMachine) -> Verdict:
    checkpoint = await store.load(task_id)
    task, head = checkpoint.task, checkpoint.head
    why: tuple[str, ...] = ()
    if task.definition_hash != machine.hash:
        try:
            old = compile_texts(await store.definition(task.definition_hash))
            what = under_way(checkpoint)
            why = (f"{what}, which it finishes itself",) if what else tuple(misfits(checkpoint, old, machine))
        except SmaError as problem:
            why = (problem.message,)
    word = "stays" if why else "same" if task.definition_hash == machine.hash else "fits"
    return Verdict(task.id, task.machine, head.version, head.configuration, word, why)
