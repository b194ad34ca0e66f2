"""One call of a decision, and what the model is told where it is not made.

A decision holds one call, or several reads at once; a control choice counts as one. It must not judge any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statemachine_agent.chart.chart import Macrostep
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.policy.action import Action
from statemachine_agent.text import one_line

_ROOM = 1_200  # characters that the faults of several calls have together


@dataclass(frozen=True)
class Finding:
    """Why a call was not admitted: told to the model, or the reason of an outcome."""

    #: invalid, refused, denied, blocked, failed, guard_error
    kind: str
    error_class: str
    text: str


@dataclass(frozen=True)
class Call:
    """One call that a model proposes, or that a state makes by itself."""

    #: the tool or control choice
    tool: str
    args: Mapping[str, Any]
    #: the id that the model gave it
    id: str = ""
    #: None for a control choice, and for what is no tool of the machine
    manifest: ToolManifest | None = None
    #: the chart's answer to `call.<tool>`
    move: Macrostep | None = None
    #: what it would change, where it is a write
    action: Action | None = None
    finding: Finding | None = None
    #: what the policy says against a write that is only proposed: its machine's route decides what follows
    denied: str | None = None

    def but(self, kind: str, error_class: str, text: str) -> Call:
        """The same with one more thing that is wrong with it; the first gives the class, the heavier one the kind."""
        before = self.finding
        if before is None:
            return replace(self, finding=Finding(kind, error_class, text))
        kind = before.kind if before.kind != "refused" else kind
        return replace(self, finding=Finding(kind, before.error_class, f"{before.text}, and {text}"))


def told(calls: Sequence[Call], offered: Sequence[str]) -> Finding | None:
    """What stands in the way of these calls, in one text for the model; None where nothing does.

    Of several all are made or none, so one finding names all that is wrong, each by the id of its call.
    """
    wrong = [call for call in calls if call.finding is not None]
    if not wrong or wrong[0].finding is None:
        return None
    first = wrong[0].finding
    if len(calls) == 1:
        return first if first.kind not in ("invalid", "refused") else _told(first, offered)
    kind = "refused" if all(call.finding and call.finding.kind == "refused" for call in wrong) else "invalid"
    return _told(Finding(kind, first.error_class, _all_that_is_wrong(calls)), offered)


def _told(finding: Finding, offered: Sequence[str]) -> Finding:
    what = f"invalid proposal ({finding.error_class})" if finding.kind == "invalid" else "refused"
    return replace(finding, text=f"{what}: {finding.text}. Allowed now: {', '.join(offered) or 'nothing'}")


def _all_that_is_wrong(calls: Sequence[Call]) -> str:
    by_text: dict[str, list[str]] = {}
    for call in calls:
        by_text.setdefault(call.finding.text if call.finding else "", []).append(named(call))
    right = by_text.pop("", [])
    room = _ROOM // len(by_text)
    faults = [one_line(f"{', '.join(names)}: {text}", room) for text, names in by_text.items()]
    if right:
        faults.append(one_line(f"nothing is wrong with {', '.join(right)}", room))
    return f"of {len(calls)} calls at once all are made or none, and none was made: {'; '.join(faults)}"


def named(call: Call) -> str:
    """A call for a sentence: its id, and its tool."""
    return f"{one_line(call.id, 40)} (`{one_line(call.tool, 40)}`)" if call.tool else one_line(call.id, 40)
