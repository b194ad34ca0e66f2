"""The way that a task went, from its history, for drawing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from statemachine_agent.chart.compile import CompiledMachine, compile_texts
from statemachine_agent.store.port import Store

if TYPE_CHECKING:
    from statemachine_agent.diagrams import Trail


async def trail_of(store: Store, task_id: str) -> tuple[CompiledMachine, Trail]:
    """The machine that the task pinned, and its moves, each with how often it was made."""
    from statemachine_agent.diagrams import Trail

    checkpoint = await store.load(task_id)
    machine = compile_texts(await store.definition(checkpoint.task.definition_hash))
    moves: Counter[tuple[str, str]] = Counter()
    for row in await store.history(task_id):
        if row["table"] == "transition" and row["target"]:
            moves[row["source"], row["target"]] += 1
    return machine, Trail(tuple(checkpoint.head.configuration), dict(moves))
