"""The values that pass from phase to phase, each holding the one before it; and the check that none is skipped.

It must not do any phase's work.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from statemachine_agent.chart.chart import Availability, Macrostep, Standing
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.errors import IllegalPhaseError
from statemachine_agent.loop.call import Call, Finding, told
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.draft import Draft
from statemachine_agent.models.decision import Decision
from statemachine_agent.models.port import ModelUnavailableError, Prompt, Reply
from statemachine_agent.records import Checkpoint, DecisionRow, Effect, Transaction
from statemachine_agent.tools.outcome import Attempt

T = TypeVar("T")


@dataclass(frozen=True)
class Observation:
    """Phase 1: where the task is, and what is possible there."""

    context: Context
    checkpoint: Checkpoint
    #: the active state whose turn it is
    state: str
    #: for a `choose`: how each of its tools stands now
    available: tuple[Availability, ...] = ()

    @property
    def offered(self) -> tuple[str, ...]:
        """What may be proposed now."""
        return tuple(a.tool for a in self.available if a.standing is Standing.OFFERED)


@dataclass(frozen=True)
class ModelInput:
    """Phase 2: what the model will be shown."""

    observation: Observation
    prompt: Prompt
    #: its text in parts, without the tag of the fence
    sections: Sequence[Sequence[str | None]] = ()


@dataclass(frozen=True)
class Planned:
    """What a `call` or `reconcile` state does, without a model."""

    tool: str
    args: Mapping[str, Any]
    #: `call` or `reconcile`
    purpose: str
    #: for a `reconcile`: the effect in question
    effect: Effect | None = None
    #: why the arguments could not be filled in
    fault: str | None = None


@dataclass(frozen=True)
class Proposal:
    """Phase 3: what the model said, or what the state plans; untrusted until checked."""

    observation: Observation
    #: the number of this decision; that of the newest one in a state without a model
    step: int
    reply: Reply | None = None
    planned: Planned | None = None
    prompt_hash: str = ""
    #: what the model was shown, in parts
    prompt: Sequence[Sequence[str | None]] = ()
    latency_ms: int = 0
    #: attempts at this decision that failed
    failed_attempts: tuple[DecisionRow, ...] = ()
    failure: ModelUnavailableError | None = None


@dataclass(frozen=True)
class CheckedCall:
    """Phase 4: a decision of the closed union: one call, or several reads, whose tools, arguments and rows are right."""

    proposal: Proposal
    decision: Decision | None = None
    #: none where there is no decision, or none that can be read
    calls: tuple[Call, ...] = ()
    #: what is wrong with the proposal as a whole
    fault: Finding | None = None

    @property
    def finding(self) -> Finding | None:
        """Why the proposal was not admitted."""
        return self.fault or told(self.calls, self.proposal.observation.offered)

    @property
    def move(self) -> Macrostep | None:
        """The chart's answer, where there is one call."""
        return self.calls[0].move if len(self.calls) == 1 else None


@dataclass(frozen=True)
class AuthorisedCall:
    """Phase 5: the same, with what the policy says against it."""

    checked: CheckedCall
    calls: tuple[Call, ...]
    #: the approval that covers a write
    approval_id: str | None = None

    @property
    def finding(self) -> Finding | None:
        """What stands in the way."""
        return self.checked.fault or told(self.calls, self.checked.proposal.observation.offered)


#: all attempts of one call; the outcome of the last one is the call's
Attempts = tuple[Attempt, ...]


@dataclass(frozen=True)
class LookedUp:
    """A read on behalf of a write: its precondition, or its reconciliation."""

    manifest: ToolManifest
    args: Mapping[str, Any]
    attempts: Attempts


@dataclass(frozen=True)
class Outcome:
    """Phase 6: what became of it."""

    authorised: AuthorisedCall
    #: the checkpoint to go on from: after the intent, where there was one
    checkpoint: Checkpoint
    #: of each call that was made, in the order of the proposal
    attempts: tuple[Attempts, ...] = ()
    #: looked up before the call, or instead of it; None where that was recorded with an intent
    looked_up: LookedUp | None = None
    #: for a reconciliation: found, absent, failed
    reconciled: str | None = None
    found: Mapping[str, Any] | None = None
    #: an earlier effect under the same key answered instead of the service
    receipt: Mapping[str, Any] | None = None
    #: the task that executed it
    receipt_of: str = ""
    finding: Finding | None = None

    @property
    def made(self) -> tuple[tuple[Call, Attempts], ...]:
        """The calls that were made, each with its attempts."""
        return tuple(zip(self.authorised.calls, self.attempts, strict=True)) if self.attempts else ()


@dataclass(frozen=True)
class Record:
    """Phase 7: everything written down, not yet committed."""

    outcome: Outcome
    draft: Draft


@dataclass(frozen=True)
class Verdict:
    """Phase 8: the transaction of the step, and the checkpoint that it makes."""

    transaction: Transaction
    checkpoint: Checkpoint


_MADE_BY = {
    Observation: "observe", ModelInput: "prompt", Proposal: "decide", CheckedCall: "validate",
    AuthorisedCall: "authorise", Outcome: "execute", Record: "record", Verdict: "terminate", Checkpoint: "the store",
}  # fmt: skip


def expect(value: object, wanted: type[T], phase: str) -> T:
    """`value` as what `phase` takes; IllegalPhaseError, at the caller's line, where a phase was skipped."""
    if isinstance(value, wanted):
        return value
    frame = sys._getframe(2)  # noqa: SLF001  the line that called the phase
    given = type(value)
    raise IllegalPhaseError(
        f"{frame.f_code.co_filename}:{frame.f_lineno}: `{phase}` takes a {wanted.__name__}, made by"
        f" `{_MADE_BY.get(wanted, '?')}`, and was given a {given.__name__}, made by `{_MADE_BY.get(given, 'nobody')}`"
    )
