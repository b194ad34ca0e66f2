"""A run as it happens, line by line: state, proposal, ruling, calls, outcomes, tokens, version.

It must not know whether a person, a script or a provider decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemachine_agent.cli.output import compact, say
from statemachine_agent.loop.context import Event
from statemachine_agent.policy.ruling import Allow, Deny, RequireApproval
from statemachine_agent.records import (
    ApprovalRow,
    Checkpoint,
    DecisionRow,
    EffectRow,
    EvidenceRow,
    Transaction,
    TransitionRow,
)
from statemachine_agent.text import one_line
from statemachine_agent.tools.outcome import Attempt, Blocked, Failed, Ok, Unknown


class Live:
    """Prints the events of a run."""

    def __call__(self, event: Event) -> None:
        """One event."""
        match event.kind:
            case "decided":
                self._decided(event.data)
            case "ruled":
                self._ruled(event.data)
            case "calling":
                key = f"  key {event.data['key']}" if event.data["key"] else ""
                say(f"call     {event.data['tool']} {compact(event.data['args'], 100)}{key}", indent=9)
            case "called":
                self._called(event.data["attempt"])
            case "committed":
                self._committed(event.data["transaction"], event.data["checkpoint"])

    @staticmethod
    def _decided(data: Mapping[str, Any]) -> None:
        reply = data["reply"]
        proposals = [f"{one_line(c['name'], 60)} {compact(c['arguments'], 100)}" for c in reply["calls"]]
        text = "; ".join(proposals)
        if text:
            text = f"proposes {text}"
        elif reply["text"]:
            text = f"only says: {one_line(reply['text'], 200)}"
        else:
            text = "says nothing"
        spent = f"{data['tokens']:,} tokens"
        if data["options"] is not None:  # it chose from a list, here on this machine
            spent = f"1 of {data['options']:,} possible, {spent}, {data['latency_ms'] / 1000:.1f} s"
        say(f"step {data['step']:<3} {data['state']}: the model {text}  ({spent})")

    @staticmethod
    def _ruled(data: Mapping[str, Any]) -> None:
        match data["ruling"]:
            case Allow():
                text = "allowed"
            case Deny(detail=detail):
                text = f"denied: {detail}"
            case RequireApproval() if data["covered"]:
                text = "covered by the approval of exactly this action"
            case RequireApproval(by=by, because=because):
                text = f"needs the approval of {', '.join(by) or 'a person'} ({'; '.join(because)})"
            case other:
                text = str(other)
        say(f"ruling   {data['tool']}: {text}", indent=9)

    @staticmethod
    def _called(attempt: Attempt) -> None:
        match attempt.outcome:
            case Ok(size=size):
                text = f"ok, {size} bytes"
            case Failed(error_class=error_class, detail=detail):
                text = f"failed ({error_class}): {one_line(detail, 400)}"
            case Blocked(reason=reason, detail=detail):
                text = f"blocked ({reason}): {one_line(detail, 400)}"
            case Unknown(error_class=error_class, detail=detail):
                text = f"unknown ({error_class}): {one_line(detail, 400)}"
        say(f"outcome  {text}, {attempt.latency_ms} ms, attempt {attempt.number}", indent=9)

    def _committed(self, transaction: Transaction, checkpoint: Checkpoint) -> None:
        for row in transaction.rows:
            self._row(row)
        head = checkpoint.head
        where = ", ".join(head.configuration)
        reason = f" ({head.reason})" if head.reason else ""
        say(
            f"version {head.version:<2} {transaction.cause}: {where}{reason},"
            f" step {head.steps}, {head.usage.tokens:,} tokens",
            indent=9,
        )

    @staticmethod
    def _row(row: object) -> None:
        match row:
            case DecisionRow(result="failed"):  # of this nothing was told to the model, which is asked again
                say(
                    f"failed   attempt {row.attempt} ({row.error_class}): {one_line(row.feedback or '', 400)}", indent=9
                )
            case DecisionRow(feedback=str() as feedback):
                say(f"told     {one_line(feedback, 400)}", indent=9)
            case EvidenceRow(evidence=found):
                say(f"evidence {found.name} {found.tool} from {found.source}", indent=9)
            case EffectRow(reason="done_before"):
                say(
                    f"effect   {row.effect_key} was executed before, by task {row.by}: not sent, its receipt is used",
                    indent=9,
                )
            case EffectRow():
                say(f"effect   {row.effect_key} {row.status}", indent=9)
            case ApprovalRow():
                by = f" by {row.by}" if row.by else ""
                say(f"approval {row.approval_id} {row.event}{by}", indent=9)
            case TransitionRow(target=str() as target):
                say(f"move     {row.source} → {target}  [{row.event}]", indent=9)
            case _:
                pass
