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
from statemachine_agent.definition.schema import Properties
from statemachine_agent.errors import IllegalConfigurationError
from statemachine_agent.policy.action import policy_version
from statemachine_agent.records import Checkpoint, Evidence
from statemachine_agent.tools.arguments import faults_of


def misfits(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> list[str]:
    """What keeps a task that has nothing under way from going on under `new`, each in a sentence; empty where nothing does.

    Its effects are those of now, whichever version it stands at.
    """
    if old.hash == new.hash:
        return []
    hidden = list(_hidden(old, new))
    known = [] if hidden else [*_input(checkpoint, old, new), *_known(checkpoint, old, new)]
    return [
        *_place(checkpoint, old, new),
        *hidden,
        *known,
        *_done(checkpoint, old, new),
        *_waiting(checkpoint, old, new),
    ]


def carried(proposal: Mapping[str, Any], old: CompiledMachine, new: CompiledMachine) -> dict[str, Any] | None:
    """A proposal that waits, as the same one of `new`; None where it is none there."""
    tool, row = proposal["tool"], proposal["row"]
    was, now = old.tools.get(tool), new.tools.get(tool)
    if was is None or now is None or was != now or policy_version(old, was) != policy_version(new, now):
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
    gone = [name for name, times in checkpoint.head.visits.items() if times and new.state(name) is None]
    if gone:
        yield f"it was in `{gone[0]}`, which is no state any more: how often would be forgotten"
    try:
        new.chart.tree.full(leaves)
    except IllegalConfigurationError:
        yield f"nothing can stand in {', '.join(leaves)} any more"


def _hidden(old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    """What was masked is not there to be decided on, and what is to be masked was written: both machines mask the same."""
    if (set(old.masks.input), _paths(old)) != (set(new.masks.input), _paths(new)):
        yield "another part of what it knows is masked now"
    both = old.tools.keys() & new.tools.keys()
    touching = [name for name in old.tools if name in both and old.tools[name].touches != new.tools[name].touches]
    if touching:
        yield f"`{touching[0]}` touches something else now: what it made old would not be known"


def _paths(machine: CompiledMachine) -> Mapping[str, frozenset[str]]:
    """What is masked of evidence, by its name."""
    found = {name: frozenset(f"result.{path}" for path in paths) for name, paths in machine.masks.evidence.items()}
    for name, manifest in machine.tools.items():
        found[name] = found.get(name, frozenset()) | frozenset(manifest.redact)
    return {name: paths for name, paths in found.items() if paths}


def _input(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    """What was masked is not there to be judged."""
    hidden = {path.partition(".")[0] for path in old.masks.input}
    wanted, was = ({n: kind for n, kind in one.definition.input.items() if n not in hidden} for one in (new, old))
    given = {name: value for name, value in checkpoint.task.input.items() if name not in hidden}
    for fault in faults_of(wanted, given) if wanted != was else ():
        yield f"its input does not fit: {fault}"


def _known(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    """Every result, signal and answer that counts is one of its kind still, and so is what was asked for."""
    for found in checkpoint.known:
        (gave, asked), (gives, asks) = (_kinds(one, found) for one in (old, new))
        if gave is not None and gives is None:
            yield f"{found.name}, of `{found.tool}`, is nothing that it knows any more"
        faults = faults_of(gives, found.payload) if gives is not None and gives != gave else []
        faults += faults_of(asks, found.asked) if asks is not None and asks != asked else []
        if faults:
            yield f"{found.name}, of `{found.tool}`, is no result of it any more: {'; '.join(map(str, faults))}"


def _kinds(machine: CompiledMachine, found: Evidence) -> tuple[Properties | None, Properties | None]:
    """What a result is made of, and what was asked for it; None where the machine does not know it."""
    if found.tool in machine.definition.outside:
        return machine.definition.outside[found.tool], None
    manifest = machine.tools.get(found.tool)
    return (manifest.returns, manifest.args) if manifest is not None else (None, None)


def _done(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    """What happened must be found again under its key, by the tool that did it."""
    for effect in checkpoint.effects:
        was, now = old.tools.get(effect.tool), new.tools.get(effect.tool)
        if not effect.status.is_done or was is None:
            continue
        if now is None:
            yield f"`{effect.tool}` did `{effect.key}`, and is none of its tools any more: what takes its place would not know"
        elif was.args != now.args:
            yield f"`{effect.tool}` takes other arguments now: `{effect.key}`, which happened, may not be found"
        elif _key(was) != _key(now):
            yield f"`{effect.tool}` makes its key in another way: `{effect.key}`, which happened, would not be found"


def _waiting(checkpoint: Checkpoint, old: CompiledMachine, new: CompiledMachine) -> Iterator[str]:
    proposal = checkpoint.head.proposal
    if proposal is not None and carried(proposal, old, new) is None:
        yield f"its proposal of `{proposal['tool']}` waits, and the tool, its rules or the row that accepted it are others now"


def _key(manifest: ToolManifest) -> str:
    return manifest.idempotency.key if manifest.idempotency else ""


def _unnumbered(one: Transition) -> Transition:
    return replace(one, index=0)
