"""A machine as its author wrote it: states, guards, limits; frozen, with every short form written out.

It must not know tools, the chart, or how anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, StrictInt, Tag

from statemachine_agent.definition.node import Cel, Duration, Lower, Money, Node, Text, Upper, as_list, complaint
from statemachine_agent.definition.rows import Row, Rows
from statemachine_agent.definition.schema import Properties

#: a value of `with`: a reference (`input.order_id`), a literal, or `{text: …}` for a literal that looks like one
Given = Any

Count = Annotated[StrictInt, Field(ge=1)]


class Limits(Node):
    """Budgets of one task; a step is one decision of the model."""

    steps: Annotated[StrictInt, Field(ge=1, le=10_000)]
    #: time in which the task works; time suspended for a person or a timer does not count
    active_time: Duration = timedelta(minutes=5)
    tokens: Count = 200_000
    tool_calls: Count = 100
    cost_usd: Annotated[Money, Field(gt=0)] = Decimal("1.00")


class Progress(Node):
    """When a run counts as going in circles."""

    #: the same call with the same result more than this many times
    repeat: Count = 2
    #: no new fact for this many decisions
    stall: Count = 3
    #: A-B-A-B within this many decisions
    window: Annotated[StrictInt, Field(ge=4, le=100)] = 6


class Choice(Node):
    """One tool (or control choice) of a `choose` state: what the machine fills in, and its rows."""

    pinned: Mapping[Lower, Given] = Field(default_factory=dict, alias="with")
    rows: Rows = (Row(stay=True),)


def _choice(value: Any) -> Any:
    """A target, `stay` or a list of rows is a choice without pinned arguments."""
    return {"rows": value} if isinstance(value, (str, list)) else value


def _choices(value: Any) -> Any:
    """A list of tools means: may call, stay here."""
    if isinstance(value, list):
        if not all(isinstance(v, str) for v in value):
            raise complaint("a list under `choose` holds names of tools", "write a mapping to give a tool rows")
        if len(set(value)) != len(value):
            raise complaint("a tool is named twice", "name each tool once")
        return {name: {} for name in value}
    if isinstance(value, dict) and not value:
        raise complaint("`choose` offers nothing", "name at least one tool")
    return value


Choices = Annotated[
    Mapping[Lower, Annotated[Choice, BeforeValidator(_choice)]],
    BeforeValidator(_choices, json_schema_input_type=list[str] | dict[str, Choice]),
]


class ChooseState(Node):
    """The model makes one proposal per step among these."""

    not_built: ClassVar[frozenset[str]] = frozenset({"parallel_calls", "model"})
    kind: ClassVar[str] = "choose"
    brief: Text | None = None
    choose: Choices
    #: exits by evidence, tried after each recorded step
    then: Rows = ()


class RouteState(Node):
    """A deterministic branch: the first row that holds; no model, no tool."""

    kind: ClassVar[str] = "route"
    route: Rows


class CallState(Node):
    """Run one tool, then go by its outcome."""

    kind: ClassVar[str] = "call"
    call: Lower
    given: Literal["proposal"] | Mapping[Lower, Given] = Field(default_factory=dict, alias="with")
    then: Mapping[Literal["ok", "failed", "blocked", "unknown"], Rows]


class ReconcileState(Node):
    """Ask the service whether an effect happened."""

    kind: ClassVar[str] = "reconcile"
    reconcile: Lower
    then: Mapping[Literal["found", "absent", "failed"], Rows]


def _roles(value: Any) -> Any:
    return as_list(value)


Roles = Annotated[
    tuple[Lower, ...], Field(min_length=1), BeforeValidator(_roles, json_schema_input_type=str | list[str])
]


class ApprovalRequest(Node):
    """Who must say yes to what, and for how long the question stands."""

    not_built: ClassVar[frozenset[str]] = frozenset({"at_most"})
    of: Lower
    by: Roles | None = None
    expires: Duration


class ApprovalState(Node):
    """A durable wait for entitled people."""

    kind: ClassVar[str] = "approval"
    approval: ApprovalRequest
    then: Mapping[Literal["approved", "rejected", "expired"], Rows]


class Wait(Node):
    """For how long, and at most how many times."""

    not_built: ClassVar[frozenset[str]] = frozenset({"until", "signal", "expires"})
    duration: Duration = Field(alias="for")
    at_most: Count | None = None


class WaitState(Node):
    """A durable wait for time to pass."""

    kind: ClassVar[str] = "wait"
    wait: Wait
    then: Mapping[Literal["elapsed", "exhausted"], Rows]


VERBS = ("choose", "route", "call", "reconcile", "approval", "wait", "machine", "states")
_LATER = ("machine", "states")


def _state(value: Any) -> Any:
    if not isinstance(value, dict):
        raise complaint("a state is a mapping", f"give it one of {_words(VERBS)}")
    verbs = [v for v in VERBS if v in value]
    if len(verbs) != 1:
        has = "none of them" if not verbs else " and ".join(f"`{v}`" for v in verbs)
        raise complaint(f"a state has exactly one of {_words(VERBS)}; this has {has}", "give it one, and one only")
    if verbs[0] in _LATER:
        raise complaint(f"a state with `{verbs[0]}` is not built yet", "write its states beside the others")
    return value


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _verb(value: Any) -> str | None:
    if isinstance(value, Node):
        return str(getattr(type(value), "kind", None))
    return next((v for v in VERBS if v in value), None) if isinstance(value, dict) else None


State = ChooseState | RouteState | CallState | ReconcileState | ApprovalState | WaitState

StateNode = Annotated[
    Annotated[ChooseState, Tag("choose")]
    | Annotated[RouteState, Tag("route")]
    | Annotated[CallState, Tag("call")]
    | Annotated[ReconcileState, Tag("reconcile")]
    | Annotated[ApprovalState, Tag("approval")]
    | Annotated[WaitState, Tag("wait")],
    Discriminator(_verb),
    BeforeValidator(_state),
]


#: a guard is a CEL text, or a list of other guards that must all hold
Guard = Annotated[
    Annotated[Cel, Tag("cel")] | Annotated[tuple[Lower, ...], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "cel"),
]


class MachineDefinition(Node):
    """One machine file."""

    not_built: ClassVar[frozenset[str]] = frozenset(
        {"signals", "output", "retain", "redact", "model", "parallel_calls"}
    )

    machine: Lower
    version: Count
    summary: Text
    input: Properties = Field(default_factory=dict)
    limits: Limits
    guards: Mapping[Lower, Guard] = Field(default_factory=dict)
    #: SUCCEEDED can be entered only while all of these hold
    success: tuple[Lower, ...]
    properties: tuple[Mapping[str, Any], ...] = ()
    progress: Progress = Progress()
    #: calls of a tool per task
    at_most: Mapping[Lower, Count] = Field(default_factory=dict)
    initial: Upper
    states: Annotated[Mapping[Upper, StateNode], Field(min_length=1)]
