"""A machine as its author wrote it: input, guards, limits and its states; frozen, with every short form written out.

It must not know tools, the chart, or how anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import (
    Discriminator,
    Field,
    StrictInt,
    Tag,
)

from statemachine_agent.definition.model_choice import Chosen, ModelChoice
from statemachine_agent.definition.nesting import Nesting
from statemachine_agent.definition.node import (
    Cel,
    Count,
    Duration,
    Lower,
    Money,
    Node,
    Text,
    Upper,
)
from statemachine_agent.definition.properties import PromiseNode
from statemachine_agent.definition.redaction import Retain, RootedPath
from statemachine_agent.definition.schema import Properties
from statemachine_agent.definition.states import AtOnce, ChooseState, Inlined, State, StateNode, named_in


class Limits(Node):
    """Budgets of one task; a step is one decision of the model."""

    #: decisions of the model, accepted or not
    steps: Annotated[StrictInt, Field(ge=1, le=10_000)]
    #: time in which the task works; time suspended for a person or a timer does not count
    active_time: Duration = timedelta(minutes=5)
    #: tokens of all decisions together, read and written
    tokens: Count = 200_000
    #: calls of tools; look-ups on behalf of a write are not counted
    tool_calls: Count = 100
    #: what the model may cost
    cost_usd: Annotated[Money, Field(gt=0)] = Decimal("1.00")


class Progress(Node):
    """When a run counts as going in circles."""

    #: the same call with the same result more than this many times
    repeat: Count = 2
    #: no new fact for this many decisions
    stall: Count = 3
    #: A-B-A-B within this many decisions
    window: Annotated[StrictInt, Field(ge=4, le=100)] = 6


#: a guard is a CEL text, or a list of other guards that must all hold
Guard = Annotated[
    Annotated[Cel, Tag("an expression")] | Annotated[tuple[Lower, ...], Field(min_length=1), Tag("guards")],
    Discriminator(lambda value: "guards" if isinstance(value, (list, tuple)) else "an expression"),
]


class MachineDefinition(Node):
    """One machine file."""

    stand_in: ClassVar[Mapping[str, object]] = {
        "version": 1, "summary": "-", "limits": {"steps": 1}, "success": [], "initial": "X",
    }  # fmt: skip

    #: its name, as in `sma run NAME`
    machine: Lower
    #: raise it with every change; a task is finished on the text that it began with
    version: Count
    #: one sentence for people, and for the model where a state has no `brief`
    summary: Text
    #: what a task is started with: name to description of the value
    input: Properties = Field(default_factory=dict)
    #: budgets of one task
    limits: Limits
    #: events from outside that a `wait` may wait for: name to what such an event holds, which becomes evidence
    signals: Mapping[Lower, Properties] = Field(default_factory=dict)
    #: what `finish` gives as its answer; left out: a text
    output: Properties = Field(default_factory=dict)
    #: named conditions over what is recorded; rows and `success` name them
    guards: Mapping[Lower, Guard] = Field(default_factory=dict)
    #: SUCCEEDED can be entered only while all of these hold
    success: tuple[Lower, ...]
    #: promises about every path; their names are checked, and they are not proved yet
    properties: tuple[PromiseNode, ...] = ()
    #: texts that are masked before anything is written: `input.message`, `evidence.lookup.accounts[].number`
    redact: tuple[RootedPath, ...] = ()
    #: of what is named here, what is kept; the rest of it is never written
    retain: Retain = Retain()
    #: when a run counts as going in circles
    progress: Progress = Progress()
    #: calls of a tool per task; the tighter of this and the manifest counts
    at_most: Mapping[Lower, Count] = Field(default_factory=dict)
    #: how many independent reads one proposal may hold; 1: one call at a time
    parallel_calls: AtOnce = 4
    #: which model decides; left out: the one that a task is started with
    model: Chosen | None = None
    #: the state in which a task begins
    initial: Upper
    #: name to state; a state is of the kind of its one verb
    states: Annotated[Mapping[Upper, StateNode], Field(min_length=1)]

    @cached_property
    def nesting(self) -> Nesting:
        """Which states hold which."""
        return Nesting.of(self.states)

    @property
    def all_states(self) -> Mapping[str, State]:
        """Every state by its name, also those that lie in others; what holds stands before what it holds."""
        return self.nesting.states

    @cached_property
    def inlined(self) -> Mapping[str, Inlined]:
        """The states in whose place another machine stands."""
        return {name: state for name, state in self.all_states.items() if isinstance(state, Inlined)}

    @property
    def models(self) -> Mapping[str, ModelChoice | None]:
        """The model that decides in each `choose` state, as far as the file says: the state's own, else the machine's."""
        return {n: s.model or self.model for n, s in self.all_states.items() if isinstance(s, ChooseState)}

    def scope(self, state: str) -> str | None:
        """The innermost state in `inlined` that holds `state`."""
        return (
            next((name for name in self.nesting.above(state) if name in self.inlined), None) if self.inlined else None
        )

    @cached_property
    def guard_scopes(self) -> Mapping[str, str]:
        """For each guard that came with another machine, the state in whose place that stands."""
        found: dict[str, str] = {}
        for name, state in self.inlined.items():  # an inner one comes after the one that holds it
            found |= {named_in(name.lower(), guard): name for guard in state.of.guards}
        return found

    @cached_property
    def outside(self) -> Mapping[str, Properties]:
        """What becomes evidence besides results of tools, by its name: signals, and answers of other machines."""
        answers = {s.of.machine: s.answer for s in self.inlined.values() if s.answer is not None}
        return {**self.signals, **answers}
