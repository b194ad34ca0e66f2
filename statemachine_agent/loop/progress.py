"""The progress monitor: is the run going in circles. It reads fingerprints, never prose.

A flag first brings one corrective observation; a flag after that ends the run. A decision that brings a new fact and raises
no flag makes it forget. Its memory is a small mapping that is stored with the head; it must not know tools or states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemachine_agent.canonical import digest
from statemachine_agent.definition.machine import Progress

#: distinct (action, result) pairs that are remembered
_PAIRS = 64

CORRECTIONS = {
    "repeated_action": "you made this call before and got the same result; propose something else, or stop",
    "no_state_change": "nothing new came of your last proposals; propose something that brings a new fact, or stop",
    "oscillation": "you go back and forth between two calls; propose something else, or stop",
}


@dataclass(frozen=True)
class Seen:
    """What one decision did, as fingerprints."""

    #: the call and its arguments; None where nothing was called
    action: str | None
    #: what came back
    result: str
    #: True where a fact was recorded that was not known before, or the ledger or the state moved
    new_fact: bool


def fingerprint(value: object) -> str:
    """A short hash of canonical data."""
    return digest(value)[:12]


def observe(settings: Progress, memory: Mapping[str, Any], seen: Seen) -> tuple[dict[str, Any], str | None]:
    """The memory after one more decision, and a flag where it looks like a circle."""
    counts = dict(memory.get("pairs", {}))
    recent = list(memory.get("recent", []))
    times = 0
    if seen.action is not None:
        pair = f"{seen.action}:{seen.result}"
        times = counts[pair] = counts.pop(pair, 0) + 1
        recent = [*recent, seen.action][-settings.window :]
    while len(counts) > _PAIRS:
        counts.pop(next(iter(counts)))
    stalled = 0 if seen.new_fact else memory.get("stalled", 0) + 1
    flag = _flag(settings, times, stalled, recent if seen.action else ())
    corrected = bool(memory.get("corrected")) and (flag is not None or not seen.new_fact)
    return {"pairs": counts, "recent": recent, "stalled": stalled, "corrected": corrected}, flag


def _flag(settings: Progress, count: int, stalled: int, recent: Sequence[str]) -> str | None:
    if count > settings.repeat:
        return "repeated_action"
    if stalled >= settings.stall:
        return "no_state_change"
    if len(recent) >= 4 and recent[-1] == recent[-3] != recent[-2] == recent[-4]:  # noqa: PLR2004  A-B-A-B
        return "oscillation"
    return None
