"""Whether a task that began under one definition could go on under another one, and what of it says no.

What cannot be shown to fit does not: a task is never carried over in part. It must not know where the definitions come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.errors import IllegalConfigurationError
from statemachine_agent.policy.action import policy_version
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.arguments import faults_of
from statemachine_agent.tools.results import BadResultError, accept


def misfits(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> list[str]:
    """What keeps a task that has nothing under way from going on under `new`, each in a sentence; empty where nothing does."""
    if old.hash == new.hash:
        return []
    return [*_place(checkpoint, old, new), *_input(checkpoint, old, new), *_known(checkpoint, old, new),
            *_done(checkpoint, old, new), *_waiting(checkpoint, old, new)]  # fmt: skip


def carried(proposal: Mapping[str, Any], old: CompiledMachine, new: CompiledMachine) -> dict[str, Any] | None:
    """A proposal that waits, as the same one of `new`; None where it is none there."""
    tool, row = proposal["tool"], proposal["row"]
    was, now = old.tools.get(tool), new.tools.get(tool)
    if was is None or now is None or _text(old, tool) != _text(new, tool):
        return None
    if policy_version(old, was) != policy_version(new, now):
        return None
    accepted = _unnumbered(old.chart.transitions[row]) if row < len(old.chart.transitions) else None
    found = next((one.index for one in new.chart.transitions if _unnumbered(one) == accepted), None)
    return None if found is None else {**proposal, "row": found}


def _place(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    leaves = checkpoint.head.configuration
    for name in leaves:
        was, now = old.state(name), new.state(name)
        if was is not None and now is None:
            yield f"it stands in `{name}`, which is no state any more"
            return
        if type(was) is not type(now):
            yield f"it stands in `{name}`, which is a state of another kind now"
            return
    try:
        new.chart.tree.full(leaves)
    except IllegalConfigurationError:
        yield f"nothing can stand in {', '.join(leaves)} any more"


def _input(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    """What was masked is not there to be judged."""
    masked = {path.partition(".")[0] for path in (*old.masks.input, *new.masks.input)}
    wanted = {name: kind for name, kind in new.definition.input.items() if name not in masked}
    given = {name: value for name, value in checkpoint.task.input.items() if name not in masked}
    for fault in faults_of(wanted, given):
        yield f"its input does not fit: {fault}"


def _known(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    for found in checkpoint.known:
        was, now = old.tools.get(found.tool), new.tools.get(found.tool)
        if was is None or now is None or was.returns == now.returns:
            continue
        try:
            accept(now, found.payload)
        except BadResultError as problem:
            yield f"{found.name}, of `{found.tool}`, is no result of it any more: {problem.message}"


def _done(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    """What happened must be found again under its key."""
    for effect in checkpoint.effects:
        was, now = old.tools.get(effect.tool), new.tools.get(effect.tool)
        if effect.status.is_done and was is not None and now is not None and _key(was) != _key(now):
            yield f"`{effect.tool}` makes its key in another way: `{effect.key}`, which happened, would not be found"


def _waiting(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    proposal = checkpoint.head.proposal
    if proposal is not None and carried(proposal, old, new) is None:
        yield f"its proposal of `{proposal['tool']}` waits, and the tool, its rules or the row that accepted it are others now"


def _key(manifest: ToolManifest) -> str:
    return manifest.idempotency.key if manifest.idempotency else ""


def _text(machine: CompiledMachine, tool: str) -> str:
    return machine.tool_sources[tool].text


def _unnumbered(one: Transition) -> Transition:
    return replace(one, index=0)
