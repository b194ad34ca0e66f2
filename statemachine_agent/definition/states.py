"""The states of a machine, each of the kind of its one verb, with every short form written out.

It must not know the machine around them, tools, or how anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    Tag,
    model_validator,
)

from statemachine_agent.definition.model_choice import Chosen
from statemachine_agent.definition.names import AT_VERSION_PATTERN, CONTROLS
from statemachine_agent.definition.node import (
    Cel,
    Count,
    Duration,
    Lower,
    NameOrNames,
    Node,
    Text,
    Upper,
    as_list,
    complaint,
    in_schema,
)
from statemachine_agent.definition.rows import Row, Rows, Targets, WrittenRows
from statemachine_agent.definition.schema import Name, Properties, Property
from statemachine_agent.text import nearest, shorten

if TYPE_CHECKING:
    from statemachine_agent.definition.machine import MachineDefinition

#: a value of `with`: a reference (`input.isbn`), a literal, or `{text: …}` for a literal that looks like one
Given = Any

#: calls that one proposal may hold at most, whatever a machine says
MOST_AT_ONCE = 32
AtOnce = Annotated[StrictInt, Field(ge=1, le=MOST_AT_ONCE)]


def named_in(holder: str, name: str) -> str:
    """What a state or guard of another machine is called in the machine that holds it."""
    return f"{holder}__{name}"


class Choice(Node):
    """One tool (or control choice) of a `choose` state: what the machine fills in, and its rows."""

    #: arguments that the machine fills in; the model neither sees nor sends them
    pinned: Mapping[Name, Given] = Field(default_factory=dict, alias="with")
    #: what follows when it is proposed
    rows: Rows = (Row(stay=True),)


def _choice(value: Any) -> Any:
    """A target, `stay` or a list of rows is a choice without pinned arguments."""
    if value is None:
        raise complaint("nothing stands here", "write `stay`, a state, or a list of rows")
    if isinstance(value, dict) and not value.keys() & {"with", "rows"} and value.keys() & Row.keys():
        raise complaint("rows stand in a list", "begin the row with `- `")
    return {"rows": value} if isinstance(value, (str, list)) else value


def _choices(value: Any) -> Any:
    """A list of tools means: may call, stay here."""
    if isinstance(value, (list, dict)) and not value:
        raise complaint("`choose` offers nothing", "name at least one tool")
    if isinstance(value, list):
        if not all(isinstance(v, str) for v in value):
            raise complaint("a list under `choose` holds names of tools", "write a mapping to give a tool rows")
        twice = next((v for v in value if value.count(v) > 1), None)
        if twice is not None:
            raise complaint(f"the tool `{shorten(twice, 60)}` is named twice", "name each tool once")
        return {name: {} for name in value}
    return value


_WRITTEN_CHOICE = WrittenRows | Choice
_LISTED_CHOICES = Annotated[
    list[Lower],
    Field(min_length=1),
    in_schema(uniqueItems=True, allOf=[{"items": {"not": {"enum": [*CONTROLS]}}}]),
]
_NAMED_CHOICES = Annotated[dict[Lower, _WRITTEN_CHOICE], Field(min_length=1)]

Choices = Annotated[
    Mapping[Lower, Annotated[Choice, BeforeValidator(_choice)]],
    BeforeValidator(_choices, json_schema_input_type=_LISTED_CHOICES | _NAMED_CHOICES),
]


def _by_outcome(value: Any) -> Any:
    if isinstance(value, (str, list)):
        raise complaint("`then` names each outcome here", "write `outcome: STATE` for each")
    return value


NOT_A_TARGET = BeforeValidator(_by_outcome)


class ChooseState(Node):
    """The model makes one proposal per step among these."""

    kind: ClassVar[str] = "choose"
    #: what the model is told in this state; else the summary of the machine
    brief: Text | None = None
    #: what the model may propose: tools and control choices, each with what follows
    choose: Choices
    #: exits by evidence, tried after each recorded step
    then: Rows = ()
    #: how many independent reads one proposal may hold; else the machine's
    parallel_calls: AtOnce | None = None
    #: which model decides here; else the machine's
    model: Chosen | None = None


class RouteState(Node):
    """A deterministic branch: the first row that holds; no model, no tool."""

    kind: ClassVar[str] = "route"
    #: the first row that holds is taken; the last one holds always
    route: Targets


#: `with` of a `call`: the pending proposal, or arguments one by one
ProposalOrGiven = Annotated[
    Annotated[Literal["proposal"], Tag("one word")] | Annotated[Mapping[Name, Given], Tag("arguments")],
    Discriminator(lambda value: "one word" if isinstance(value, str) else "arguments"),
]


class CallState(Node):
    """Run one tool, then go by its outcome."""

    kind: ClassVar[str] = "call"
    #: the tool
    call: Lower
    #: `proposal`, or its arguments one by one
    given: ProposalOrGiven = Field(default_factory=dict, alias="with")
    #: where to, by outcome: a read has `ok` and `failed`, a write all four
    then: Annotated[Mapping[Literal["ok", "failed", "blocked", "unknown"], Targets], NOT_A_TARGET]


class ReconcileState(Node):
    """Ask the service whether an effect happened."""

    kind: ClassVar[str] = "reconcile"
    #: the write whose effect is looked up
    reconcile: Lower
    #: where to, by answer
    then: Annotated[Mapping[Literal["found", "absent", "failed"], Targets], NOT_A_TARGET]


Roles = Annotated[tuple[Lower, ...], Field(min_length=1), BeforeValidator(as_list, json_schema_input_type=NameOrNames)]


class ApprovalRequest(Node):
    """Who must say yes to what, and for how long the question stands."""

    #: the write that is pending
    of: Lower
    #: a role, or a list of roles, besides those that the manifest asks for
    by: Roles | None = None
    #: how long the question stands, and how long a yes is good for
    expires: Duration
    #: how often people are asked in one task; one more takes `exhausted` at once
    at_most: Count | None = None

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What can come of it."""
        ends = ("approved", "rejected", "expired")
        return (*ends, "exhausted") if self.at_most is not None else ends


class ApprovalState(Node):
    """A durable wait for entitled people."""

    kind: ClassVar[str] = "approval"
    #: what is asked
    approval: ApprovalRequest
    #: where to, by answer; `exhausted` stands there if `at_most` does
    then: Annotated[Mapping[Literal["approved", "rejected", "expired", "exhausted"], Targets], NOT_A_TARGET]


class Wait(Node):
    """For what: a time that passes, a time that comes, or a signal from outside; and at most how many times."""

    #: how long one wait is
    duration: Duration | None = Field(default=None, alias="for")
    #: a CEL expression that gives the time to wait for, read when the state is entered
    until: Cel | None = None
    #: a declared signal
    signal: Lower | None = None
    #: how long a signal is waited for
    expires: Duration | None = None
    #: entries of this state; one more takes `exhausted` at once
    at_most: Count | None = None

    @model_validator(mode="after")
    def _for_one_thing(self) -> Wait:
        given = [
            k for k, v in (("for", self.duration), ("until", self.until), ("signal", self.signal)) if v is not None
        ]
        if len(given) != 1:
            what = "none of them" if not given else " and ".join(f"`{k}`" for k in given)
            raise complaint(f"a wait has exactly one of `for`, `until`, `signal`; this has {what}", "write one of them")
        if self.signal is not None and self.expires is None:
            raise complaint("nothing says how long the signal is waited for", "add `expires: DURATION`")
        if self.signal is None and self.expires is not None:
            raise complaint("`expires` belongs to a `signal`", "remove it: a time comes by itself")
        return self

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What can come of it."""
        ends = ("received", "expired") if self.signal is not None else ("elapsed",)
        return (*ends, "exhausted") if self.at_most is not None else ends


class WaitState(Node):
    """A durable wait for time to pass, or for somebody outside."""

    kind: ClassVar[str] = "wait"
    #: for what, and how often
    wait: Wait
    #: where to: `elapsed`, or for a signal `received` and `expired`; `exhausted` stands there if `at_most` does
    then: Annotated[Mapping[Literal["elapsed", "received", "expired", "exhausted"], Targets], NOT_A_TARGET]


VERBS = ("choose", "route", "call", "reconcile", "approval", "wait", "machine", "states")


#: what stands beside a verb: none of it was meant to be one
_KEYS_BESIDE = frozenset({"brief", "then", "parallel_calls", "model", "with", "initial", "parallel"})


def _state(value: Any) -> Any:
    if not isinstance(value, dict):
        raise complaint("a state is a mapping", f"give it one of {_words(VERBS)}")
    verbs = [v for v in VERBS if v in value]
    if not verbs:
        strange = [str(k) for k in value if str(k) not in _KEYS_BESIDE]
        near = next((f"did you mean `{v}`?" for k in strange if (v := nearest(k, VERBS))), "give it one")
        raise complaint(f"a state has exactly one of {_words(VERBS)}; this has none of them", near)
    if len(verbs) > 1:
        has = " and ".join(f"`{v}`" for v in verbs)
        raise complaint(f"a state has exactly one of {_words(VERBS)}; this has {has}", "make two states of it")
    return value


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _verb(value: Any) -> str | None:
    if isinstance(value, Node):
        return f"{getattr(type(value), 'kind', None)} state"
    return next((f"{v} state" for v in VERBS if v in value), None) if isinstance(value, dict) else None


class CompoundState(Node):
    """States within a state: one of them at a time, or all at once as regions."""

    kind: ClassVar[str] = "states"
    #: the states that it holds; their names are unique in the whole machine
    states: Annotated[Mapping[Upper, StateNode], Field(min_length=1)]
    #: the first of them; not with `parallel`
    initial: Upper | None = None
    #: all of them go on side by side; each is a state of states itself
    parallel: StrictBool = False
    #: where to when one of its states leads to `done`, with `parallel` when all of them did; a region has none
    then: Annotated[Mapping[Literal["done"], Targets], NOT_A_TARGET] = Field(default_factory=dict)


MachineAtVersion = Annotated[str, StringConstraints(strict=True, pattern=AT_VERSION_PATTERN)]
End = Literal[
    "SUCCEEDED", "NEEDS_INPUT", "DENIED", "BUDGET_EXHAUSTED", "NO_PROGRESS", "FAILED", "CANCELLED"
]  # fmt: skip


class SubMachineState(Node):
    """Another machine in the place of a state; the catalogue puts its states here (see `inlining`)."""

    kind: ClassVar[str] = "machine"
    #: its name and version, as in `identity_check@1`
    machine: MachineAtVersion
    #: its input, one by one
    given: Mapping[Name, Given] = Field(default_factory=dict, alias="with")
    #: where to, by the end that it comes to
    then: Annotated[Mapping[End, Targets], NOT_A_TARGET, in_schema(minProperties=1)]

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.machine.partition("@")[0]

    @property
    def version(self) -> int:
        """The version that is meant."""
        return int(self.machine.partition("@")[2])


class Inlined(CompoundState):
    """Another machine as it stands in this one: its states under names of their own, its ends as branches.

    It is made, never read from a file.
    """

    #: the machine, complete with those that it holds itself
    of: Any
    #: what fills its input, as references into the task's own data
    given: Mapping[str, Given]
    #: for each end that it can come to, the `route` that says what follows
    ends: Mapping[str, str]

    @property
    def answer(self) -> Properties | None:
        """What its `finish` gives as evidence under its name; None where it offers none."""
        definition: MachineDefinition = self.of
        states = definition.all_states.values()
        finishes = any(isinstance(state, ChooseState) and "finish" in state.choose for state in states)
        return (definition.output or {"answer": Property(type="string")}) if finishes else None


State = (
    ChooseState | RouteState | CallState | ReconcileState | ApprovalState | WaitState | SubMachineState | CompoundState
)

StateNode = Annotated[
    Annotated[ChooseState, Tag("choose state")]
    | Annotated[RouteState, Tag("route state")]
    | Annotated[CallState, Tag("call state")]
    | Annotated[ReconcileState, Tag("reconcile state")]
    | Annotated[ApprovalState, Tag("approval state")]
    | Annotated[WaitState, Tag("wait state")]
    | Annotated[SubMachineState, Tag("machine state")]
    | Annotated[CompoundState, Tag("states state")],
    Discriminator(_verb),
    BeforeValidator(_state),
]


CompoundState.model_rebuild()
