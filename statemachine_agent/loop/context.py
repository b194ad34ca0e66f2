"""What every phase of a run may use: the machine, people, tools, model, store and lease, and a watch for active time.

It must not know tasks' states; those are values that pass through the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.people import People
from statemachine_agent.definition.roster import Roster
from statemachine_agent.environment import Environment
from statemachine_agent.models.port import Model
from statemachine_agent.records import Lease
from statemachine_agent.store.port import Store
from statemachine_agent.tools.toolbox import Toolbox

#: seconds that a lease lasts; it is renewed at a third of that
LEASE = 60.0


@dataclass(frozen=True)
class Event:
    """Something that a watcher of a run may want to see, as it happens."""

    #: decided, ruled, calling, called, moved, committed; and for those who asked for pieces: piece, cut_off
    kind: str
    task_id: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Stopwatch:
    """Active time since the last lap."""

    def __init__(self, environment: Environment) -> None:
        """It runs from now."""
        self._environment = environment
        self._since = environment.monotonic()

    def running_ms(self) -> int:
        """Milliseconds of this lap so far."""
        return max(0, int((self._environment.monotonic() - self._since) * 1000))

    def lap_ms(self) -> int:
        """Milliseconds of this lap; the next one begins."""
        now = self._environment.monotonic()
        lap = max(0, int((now - self._since) * 1000))
        self._since = now
        return lap


@dataclass(frozen=True)
class Context:
    """Everything about a run that does not change within a step."""

    machine: CompiledMachine
    roster: Roster
    people: People
    environment: Environment
    toolbox: Toolbox
    store: Store
    watch: Stopwatch
    #: decides where `models` names no other
    model: Model | None = None
    #: by state: the models that the machine names
    models: Mapping[str, Model] = field(default_factory=dict)
    lease: Lease | None = None
    emit: Callable[[Event], None] = lambda _event: None
    #: results as guards see them, by name: the payload that one was made of, and what was made of it
    entries: dict[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict, compare=False, repr=False)
    #: whether somebody wants to hear replies while they are on their way
    heard: bool = False

    def model_in(self, state: str) -> Model | None:
        """The model that decides in `state`."""
        return self.models.get(state, self.model)

    def renewed(self) -> Context:
        """The same for the next step: who there is may have changed."""
        return replace(self, people=self.roster.now())
