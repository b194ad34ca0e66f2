"""Results that an executed write made old: those of reads that look at what it touches.

They stay on record, marked; for guards, references and prompts they are not there any more. It must not decide what follows.
"""

from __future__ import annotations

from dataclasses import replace

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.loop.draft import Draft


def make_old(draft: Draft, manifest: ToolManifest, seen: int) -> None:
    """An effect of `manifest` happened: what was read of the things that it touches is old, up to the result number `seen`."""
    reads = [tool for tool, other in draft.context.machine.tools.items() if manifest.makes_old(other)]
    if not reads or not seen:
        return
    draft.set_head(old={**draft.head.old, **dict.fromkeys(reads, seen)})
    evidence = tuple(replace(e, old=e.old or draft.head.is_old(e.tool, e.name)) for e in draft.checkpoint.evidence)
    draft.checkpoint = replace(draft.checkpoint, evidence=evidence)
