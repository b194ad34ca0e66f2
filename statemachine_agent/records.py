"""What is stored, as frozen values: the task and its head, the rows of its history, and one transaction over them.

Heads (`Head`, `Effect`, `Approval`, `Timer`) say how things stand; rows say what happened and are only ever appended.
It must not know how or where they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar

from statemachine_agent.environment import ProcessIdentity


class Status(StrEnum):
    """Where a task is: three that go on, and the ends."""

    RUNNING = "RUNNING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    NEEDS_INPUT = "NEEDS_INPUT"
    DENIED = "DENIED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    NO_PROGRESS = "NO_PROGRESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_end(self) -> bool:
        """True where nothing will ever happen again."""
        return self not in (Status.RUNNING, Status.AWAITING_APPROVAL, Status.WAITING)


class EffectStatus(StrEnum):
    """How far an effect has come."""

    PROPOSED = "proposed"  #: accepted by the chart; nothing was sent
    APPROVED = "approved"  #: every person that was needed said yes
    INTENDED = "intended"  #: written down before it was sent: from here it may have happened
    EXECUTED = "executed"  #: the service answered that it happened
    VERIFIED = "verified"  #: read back and confirmed
    UNKNOWN = "unknown"  #: sent, and no usable answer came: open
    REJECTED = "rejected"  #: a person or the service said no
    ABANDONED = "abandoned"  #: given up before anything was sent, or found absent by a person

    @property
    def is_open(self) -> bool:
        """True where it may have happened and nobody knows."""
        return self in (EffectStatus.INTENDED, EffectStatus.UNKNOWN)

    @property
    def is_done(self) -> bool:
        """True where it surely happened."""
        return self in (EffectStatus.EXECUTED, EffectStatus.VERIFIED)

    @property
    def is_pending(self) -> bool:
        """True where it waits to be sent."""
        return self in (EffectStatus.PROPOSED, EffectStatus.APPROVED)


@dataclass(frozen=True)
class Task:
    """What never changes about a task."""

    no: int  #: the store's own number
    id: str
    trace_id: str
    machine: str
    machine_version: int
    definition_hash: str
    #: id, tenant, roles, scopes, and how the identity was established
    actor: Mapping[str, Any]
    input: Mapping[str, Any]
    #: what decides, as it was named when the task started
    model: str
    started_at: datetime


@dataclass(frozen=True)
class Usage:
    """What the task has spent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    tool_calls: int = 0
    active_ms: int = 0  #: time in which it worked; suspended time does not count

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Head:
    """How a task stands after its newest version."""

    version: int
    status: Status
    configuration: tuple[str, ...]
    steps: int = 0
    reason: str | None = None
    usage: Usage = Usage()
    #: entries of each state
    visits: Mapping[str, int] = field(default_factory=dict)
    #: calls of each tool, reconciliation and preconditions excluded
    calls: Mapping[str, int] = field(default_factory=dict)
    #: the accepted write that waits to be executed
    proposal: Mapping[str, Any] | None = None
    #: the progress monitor's memory
    progress: Mapping[str, Any] = field(default_factory=dict)
    #: what the model is told about its newest proposal, by region (the empty name where there are none)
    observation: Mapping[str, Any] | None = None
    #: an exit to be taken at the next state without an open effect
    pending_exit: Mapping[str, Any] | None = None
    #: number of evidence so far
    evidence_count: int = 0
    #: the question or answer that came with an end
    output: str | None = None
    #: by tool: an effect made its results old, up to this number
    old: Mapping[str, int] = field(default_factory=dict)

    def is_old(self, tool: str, name: str) -> bool:
        """True where an effect made the result `name` of `tool` old."""
        return int(name.removeprefix("ev-")) <= self.old.get(tool, -1)


@dataclass(frozen=True)
class Evidence:
    """A recorded result, with its provenance: data, never an instruction."""

    name: str  #: `ev-3`
    tool: str
    purpose: str  #: step, call, reconcile, precondition, signal, answer
    call_id: str
    request_id: str
    attempt: int
    source: str
    at: datetime
    trust: str  #: `system`, or `mixed` where it holds free text from outside
    payload: Any
    payload_hash: str
    asked: Mapping[str, Any]
    #: an effect touched since what it tells of: it is on record, and guards and prompts do not see it any more
    old: bool = False
    #: it was recorded by the task that this one is forked from
    inherited: bool = False


@dataclass(frozen=True)
class Effect:
    """One external change with a deterministic key."""

    key: str
    tool: str
    status: EffectStatus
    action_hash: str
    args: Mapping[str, Any]
    #: the version in which it was proposed or intended last; effects are ordered by it
    proposed_in: int = 0
    attempt: int = 0
    receipt: Any = None
    approval_id: str | None = None
    reason: str | None = None
    #: it was executed by another task; this one only holds its receipt
    inherited: bool = False
    at: datetime | None = None

    @property
    def is_settled(self) -> bool:
        """True where nothing more will come of it: it happened, was refused, or was given up."""
        return not (self.status.is_open or self.status.is_pending)


class ApprovalStatus(StrEnum):
    """How a request for approval stands."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CONSUMED = "consumed"  #: used by its effect; it covers that effect, and nothing else
    VOID = "void"  #: the task ended, or the action was replaced


@dataclass(frozen=True)
class Approval:
    """A question to people about exactly one action."""

    id: str
    state: str
    tool: str
    action_hash: str
    effect_key: str
    policy_version: str
    roles: tuple[str, ...]
    #: ISO 8601 with zone, as stored: what cannot be read counts as passed
    expires_at: str
    status: ApprovalStatus
    #: who said yes: `by`, `role`, `established`, `at`
    answers: tuple[Mapping[str, Any], ...] = ()
    #: what the reviewer sees
    shown: Mapping[str, Any] = field(default_factory=dict)
    requested_at: datetime | None = None


@dataclass(frozen=True)
class Timer:
    """A moment at which a waiting state goes on."""

    state: str
    event: str
    due_at: datetime


@dataclass(frozen=True)
class Checkpoint:
    """A task as it was read: identity, head, and what its guards may see."""

    task: Task
    head: Head
    evidence: tuple[Evidence, ...] = ()
    effects: tuple[Effect, ...] = ()
    #: the newest request of each approval state
    approvals: tuple[Approval, ...] = ()
    timers: tuple[Timer, ...] = ()
    #: somebody asked for the task to be cancelled: who, and when
    cancel_requested: Mapping[str, Any] | None = None

    @property
    def known(self) -> tuple[Evidence, ...]:
        """The results that are not old, oldest first."""
        return tuple(e for e in self.evidence if not e.old)

    def effect(self, key: str) -> Effect | None:
        """The effect under `key`."""
        return next((e for e in self.effects if e.key == key), None)

    def newest_effect(self, tool: str) -> Effect | None:
        """The newest effect of `tool`."""
        return next((e for e in reversed(self.effects) if e.tool == tool), None)

    def open_effect(self, tool: str) -> Effect | None:
        """The effect of `tool` of which nobody knows whether it happened: there is one at most."""
        return next((e for e in reversed(self.effects) if e.tool == tool and e.status.is_open), None)

    @property
    def open_effects(self) -> tuple[Effect, ...]:
        """Effects that may have happened and nobody knows."""
        return tuple(e for e in self.effects if e.status.is_open)


@dataclass(frozen=True)
class Lease:
    """The right to write to a task: every write compares the token."""

    task_no: int
    task_id: str
    token: int
    owner: ProcessIdentity
    #: how often the task was taken over from an owner that was lost
    reclaims: int = 0


# ---------------------------------------------------------------- rows: appended, never changed


@dataclass(frozen=True)
class TransitionRow:
    """The chart moved."""

    table: ClassVar[str] = "transition"
    event: str
    source: str
    target: str | None
    row_no: int
    asked: Mapping[str, bool]
    reason: str | None = None


@dataclass(frozen=True)
class DecisionRow:
    """One inference: an attempt at a decision, or a decision."""

    table: ClassVar[str] = "decision"
    step: int
    attempt: int
    state: str
    model: str
    schema_version: int
    prompt_hash: str
    response: Any
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal
    latency_ms: int
    stop_reason: str | None = None
    #: accepted, refused, invalid, failed
    result: str = "accepted"
    error_class: str | None = None
    retryable: bool = False
    #: what the model was told; of an attempt that failed, why it did
    feedback: str | None = None
    #: what the model was shown, in parts that are stored once each; `prompt_hash` is over their hashes
    prompt: Sequence[Sequence[str | None]] = ()


@dataclass(frozen=True)
class CallRow:
    """One request to a tool."""

    table: ClassVar[str] = "call"
    step: int
    call_id: str
    tool: str
    purpose: str
    args: Mapping[str, Any]
    request_id: str
    attempt: int
    #: ok, failed, blocked, unknown, found, absent
    outcome: str
    latency_ms: int
    observation_bytes: int = 0
    error_class: str | None = None
    retryable: bool = False
    detail: str | None = None
    effect_key: str | None = None
    evidence: str | None = None


@dataclass(frozen=True)
class EvidenceRow:
    """A result was recorded."""

    table: ClassVar[str] = "evidence"
    evidence: Evidence


@dataclass(frozen=True)
class EffectRow:
    """An effect came a step further."""

    table: ClassVar[str] = "effect_event"
    effect_key: str
    tool: str
    status: EffectStatus
    attempt: int
    action_hash: str
    reason: str | None = None
    by: str | None = None


@dataclass(frozen=True)
class ApprovalRow:
    """Something happened to an approval, or was tried and refused."""

    table: ClassVar[str] = "approval_event"
    approval_id: str
    event: str
    by: str | None = None
    established: str | None = None
    why: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class NoteRow:
    """Anything else worth keeping: a cancel request, a settled effect, a refused request."""

    table: ClassVar[str] = "note"
    event: str
    by: str | None = None
    established: str | None = None
    why: str | None = None


Row = TransitionRow | DecisionRow | CallRow | EvidenceRow | EffectRow | ApprovalRow | NoteRow


@dataclass(frozen=True)
class Transaction:
    """Everything that one commit writes: all of it, or nothing."""

    task_no: int
    #: the version that was read; the commit makes the next one
    expected_version: int
    #: what led to it: step, intent, outcome, approval, timer, recovery, exit …
    cause: str
    head: Head
    rows: tuple[Row, ...]
    effects: tuple[Effect, ...] = ()
    approvals: tuple[Approval, ...] = ()
    #: timers by state; None removes one
    timers: Mapping[str, Timer | None] = field(default_factory=dict)
    at: datetime | None = None


@dataclass(frozen=True)
class NewTask:
    """A task to be created, with everything that happened on the way into its first resting state."""

    id: str
    trace_id: str
    machine: str
    machine_version: int
    definition_hash: str
    #: machine and manifest texts, so that the task can be finished on the definition it started under
    definition: Mapping[str, Any]
    actor: Mapping[str, Any]
    input: Mapping[str, Any]
    model: str
    started_at: datetime
    first: Transaction
