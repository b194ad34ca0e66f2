"""Receipts of other tasks: each was kept as its own machine masks, and is taken over as this one does.

What the other did not keep is not there to be decided on: a mask would be taken for a text, and what was dropped for what
never was. It must not know why a receipt is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemachine_agent.chart.compile import compile_texts
from statemachine_agent.definition.faults import FaultyDefinitionError
from statemachine_agent.definition.redaction import field_at, hides, masked, unkept
from statemachine_agent.definition.schema import project
from statemachine_agent.loop.context import Context
from statemachine_agent.records import Task


async def taken(
    context: Context, tool: str, receipt: Mapping[str, Any], task: Task
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The receipt of `tool` as this machine may write it; and the fields that this machine keeps and that task did not."""
    manifest = context.machine.tools[tool]
    own = manifest.masked_results
    found: Any = project(manifest.returns, receipt)
    lost = dict.fromkeys(unkept(manifest.returns, found, own))
    try:
        other = compile_texts(await context.store.definition(task.definition_hash)).tools.get(tool)
    except FaultyDefinitionError:  # what it masked cannot be told any more
        return {}, ("what can be read of it",)
    for path in other.masked_results if other is not None else ():
        if field_at(manifest.returns, path) is not None and not hides(own, path):
            lost[path] = None
    return masked(own, found), tuple(lost)
