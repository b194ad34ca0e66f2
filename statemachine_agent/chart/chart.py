"""A machine's chart: what is allowed now, and what follows from an event. The library decides; this asks it, as data.

It holds no task: configurations come in and go out as leaves. It must not know tools, stores or models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from statemachine_agent.chart.configuration import Leaves, Tree
from statemachine_agent.chart.library import Ask, Library
from statemachine_agent.chart.transitions import IMPLIED_REFUSAL, Transition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.errors import GuardError, IllegalTransitionError


@dataclass(frozen=True)
class Macrostep:
    """The chart's move on one event, as data."""

    event: str
    before: Leaves
    after: Leaves
    #: the transitions taken
    taken: tuple[Transition, ...]
    #: the guards that were asked, in the order of asking, with their answers
    asked: Mapping[str, bool] = field(default_factory=dict)

    #: the states entered, what holds others before what it holds; going to the same state again is entering it again
    entered: tuple[str, ...] = ()

    @property
    def refusal(self) -> str | None:
        """The text of the row that refused, if one did."""
        return next((t.refuse for t in self.taken if t.refuse is not None), None)

    @property
    def moved(self) -> bool:
        """True where a state was entered."""
        return bool(self.entered)


class Standing(StrEnum):
    """How a tool stands in a configuration."""

    OFFERED = "offered"  #: the model may propose it
    HIDDEN = "hidden"  #: a transition exists, and its row refuses now
    ILLEGAL = "illegal"  #: there is no transition


@dataclass(frozen=True)
class Availability:
    """A tool (or control choice) of a configuration, with the row's text where it is hidden."""

    tool: str
    standing: Standing
    text: str = ""


class Chart:
    """The compiled chart of one machine version."""

    def __init__(self, name: str, transitions: Sequence[Transition], tree: Tree) -> None:
        """Built by `compile_machine`, once for each definition hash."""
        self.transitions = tuple(transitions)
        self.tree = tree
        #: what is entered first
        self.initial: Leaves = tree.entered()
        self._library = Library(name, tree.children, tree.parallel, tree.first.values(), transitions)
        self._by_event: dict[tuple[str, str], list[Transition]] = {}
        self._calls: dict[str, dict[str, None]] = {}
        for t in transitions:
            self._by_event.setdefault((t.source, t.event), []).append(t)
            if t.event.startswith("call."):
                self._calls.setdefault(t.source, {})[t.event] = None

    def rows(self, leaves: Leaves, event: str) -> list[Transition]:
        """The transitions of `event` in this configuration, in the order in which they are tried."""
        return [t for s in self.tree.full(leaves) for t in self._by_event.get((s, event), ())]

    def accepts(self, leaves: Leaves, event: str) -> bool:
        """True where there is a transition, whatever its guards say."""
        return bool(self.rows(leaves, event))

    def fire(self, leaves: Leaves, event: str, ask: Ask) -> Macrostep:
        """The move on `event`.

        Every event starts from a restore, and the configuration is checked before and after. GuardError and
        IllegalTransitionError leave everything as it was. This is the place where answers of the library will be
        remembered: it depends on the configuration, the event and what `ask` says, and on nothing else.
        """
        asked: dict[str, bool] = {}

        def once(guard: str) -> bool:
            if guard not in asked:
                asked[guard] = ask(guard)
            return asked[guard]

        configuration = self.tree.full(leaves)
        if not self.accepts(leaves, event):  # the library would take `call.x.y` for `call.x`
            raise IllegalTransitionError(event, configuration)
        decision = self._library.decide(configuration, event, once)
        after = self.tree.leaves(decision.configuration)
        taken = _effective([self.transitions[index] for index in decision.taken])
        targets = {t.target for t in taken if t.target}
        entered = tuple(
            s for s in self.tree.full(after) if s not in configuration or not targets.isdisjoint(self.tree.line(s))
        )
        return Macrostep(event, leaves, after, taken, asked, entered)

    def available(
        self, leaves: Leaves, ask: Ask, unknown: Callable[[str], bool], only: str | None = None
    ) -> list[Availability]:
        """Every tool that has a transition here (with `only`, in that active state), offered or hidden, in document order.

        Rows are read in three values: a guard for which `unknown` holds (it reads the proposal) is neither true nor
        false. The first row that surely matches decides; a row that might match before it offers the tool.
        """
        found: list[Availability] = []
        seen: set[str] = set()
        for state in self.tree.full(leaves) if only is None else (only,):
            for event in self._calls.get(state, ()):
                if event not in seen:
                    seen.add(event)
                    found.append(self._availability(event, self._by_event[state, event], ask, unknown))
        return found

    @staticmethod
    def _availability(event: str, rows: list[Transition], ask: Ask, unknown: Callable[[str], bool]) -> Availability:
        tool = event.removeprefix("call.")
        for row in rows:
            surely = _holds(row, ask, unknown)
            if surely is None:
                return Availability(tool, Standing.OFFERED)
            if surely:
                if row.refuse is None:
                    return Availability(tool, Standing.OFFERED)
                return Availability(tool, Standing.HIDDEN, row.refuse)
        return Availability(tool, Standing.HIDDEN, IMPLIED_REFUSAL)


def _effective(taken: Sequence[Transition]) -> tuple[Transition, ...]:
    """Of transitions of several regions that were enabled together and lead to an end, the library takes the first."""
    ending = [t for t in taken if t.target in ENDS]
    return tuple(ending[:1] if ending else taken)


def _holds(row: Transition, ask: Ask, unknown: Callable[[str], bool]) -> bool | None:
    """Whether the row surely matches (True), surely does not (False), or only the proposal can tell (None)."""
    both = _all((*row.when, *row.success), ask, unknown)
    if both is False or not row.unless:
        return both
    blocked = _all(row.unless, ask, unknown)
    if blocked is None:
        return None
    return False if blocked else both


def _all(names: Sequence[str], ask: Ask, unknown: Callable[[str], bool]) -> bool | None:
    doubt = False
    for name in names:
        if unknown(name):
            doubt = True
            continue
        try:
            if not ask(name):
                return False
        except GuardError:
            if not doubt:
                raise
            # the unknown guard before it may keep it from ever being asked
    return None if doubt else True


def is_end(leaves: Leaves) -> bool:
    """True in one of the built-in ends."""
    return len(leaves) == 1 and leaves[0] in ENDS
