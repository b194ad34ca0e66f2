"""A definition's rows written out as the chart's transitions: what is not among them cannot happen.

Event names are built from registered names only: `call.` `ok.` `failed.` `blocked.` `unknown.` `found.` `absent.`
`approved.` `rejected.` `expired.` with a tool, `routed.` `then.` `done.` with a state, `elapsed.` `received.` `expired.`
`exhausted.` with a state that waits, `exit.` with a universal exit. It must not know the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from statemachine_agent.definition.assembly import writes
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import CONTROLS, SETTLED
from statemachine_agent.definition.nesting import DONE, done_of
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import (
    ApprovalState,
    CallState,
    Choice,
    ChooseState,
    CompoundState,
    ReconcileState,
    RouteState,
    State,
    SubMachineState,
    WaitState,
    named_in,
)

#: exits that every working state has; they are not written, but they are drawn
EXITS = {
    "exit.cancel": "CANCELLED",
    "exit.crashed": "FAILED",
    "exit.guard_error": "FAILED",
}
#: exits of the states in which a budget runs: all but `approval` and `wait`
ACTIVE_EXITS = {
    "exit.budget": "BUDGET_EXHAUSTED",
    "exit.no_progress": "NO_PROGRESS",
    "exit.denied": "DENIED",
    "exit.model_failed": "FAILED",
    "exit.dependency_failed": "FAILED",
}

#: what a `choose` list says where no row of it holds
IMPLIED_REFUSAL = "not possible now"


@dataclass(frozen=True)
class Transition:
    """One transition of the compiled chart."""

    #: its number; the order of the numbers is the order in which an event's transitions are tried
    index: int
    source: str
    event: str
    #: where it leads; None stays
    target: str | None = None
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    #: the machine's `success`, and that no effect is open, on the way to SUCCEEDED
    success: tuple[str, ...] = ()
    refuse: str | None = None
    reason: str | None = None
    confirms: str | None = None
    #: not written by the author
    implied: bool = False

    @property
    def guards(self) -> tuple[str, ...]:
        """Every guard that may be asked."""
        return (*self.when, *self.unless, *self.success)

    @property
    def kind(self) -> str:
        """What follows from it: `goto`, `refuse` or `stay`."""
        return "goto" if self.target else "refuse" if self.refuse is not None else "stay"


def transitions_of(catalogue: Catalogue, machine: MachineDefinition) -> tuple[Transition, ...]:
    """All transitions of `machine`, numbered, in the order of the file; universal exits of the parent come last."""
    goals = _goals(catalogue, machine)
    found: list[Transition] = []
    for name, state in machine.all_states.items():
        for one in _state(catalogue, name, state):
            led = _led(machine, one)
            found += _through_success(goals.get(led.target or ""), led)
    found += [Transition(0, WORKING, event, target, implied=True) for event, target in EXITS.items()]
    return tuple(replace(one, index=index) for index, one in enumerate(found))


@dataclass(frozen=True)
class _Goal:
    """What must hold on the way to success, of the machine or of one that stands in it, and where it leads otherwise."""

    success: tuple[str, ...]
    otherwise: str


def _goals(catalogue: Catalogue, machine: MachineDefinition) -> dict[str, _Goal]:
    """By the target that stands for success."""

    def success(of: MachineDefinition, names: Iterable[str]) -> tuple[str, ...]:
        return (*names, *([SETTLED] if writes(catalogue, of) else []))

    found = {"SUCCEEDED": _Goal(success(machine, machine.success), "FAILED")}
    for name, held in machine.inlined.items():
        if "SUCCEEDED" in held.ends:
            names = (named_in(name.lower(), guard) for guard in held.of.success)
            found[held.ends["SUCCEEDED"]] = _Goal(success(held.of, names), held.ends.get("FAILED", "FAILED"))
    return {target: goal for target, goal in found.items() if goal.success}


#: the implicit parent of all working states
WORKING = "working"


def _state(catalogue: Catalogue, name: str, state: State) -> Iterator[Transition]:
    match state:
        case ChooseState():
            yield from _choose(catalogue, name, state)
        case RouteState():
            yield from _rows(name, f"routed.{name}", state.route)
        case CallState():
            yield from _outcomes(name, state.call, state.then)
        case ReconcileState():
            yield from _outcomes(name, state.reconcile, state.then)
        case ApprovalState():
            yield from _outcomes(name, state.approval.of, state.then)
        case WaitState():
            yield from _outcomes(name, name, state.then)
        case CompoundState():
            yield from _outcomes(name, name, state.then)
        case SubMachineState():
            raise AssertionError(f"`{name}` names a machine that was not put there")
    if isinstance(state, ApprovalState):  # what the policy denies is no question to anybody
        yield Transition(0, name, "exit.denied", ACTIVE_EXITS["exit.denied"], implied=True)
    elif not isinstance(state, (WaitState, CompoundState)):
        yield from (Transition(0, name, event, target, implied=True) for event, target in ACTIVE_EXITS.items())


def _led(machine: MachineDefinition, one: Transition) -> Transition:
    """`goto: done` leads to the state that stands for its holder being done."""
    return replace(one, target=done_of(str(machine.nesting.done_by(one.source)))) if one.target == DONE else one


def _choose(catalogue: Catalogue, name: str, state: ChooseState) -> Iterator[Transition]:
    for tool, choice in state.choose.items():
        manifest = catalogue.tool(tool)
        if tool in CONTROLS or (manifest is not None and not manifest.is_read):
            yield from _rows(name, f"call.{tool}", choice.rows)
            if not choice.rows[-1].unconditional:
                yield Transition(0, name, f"call.{tool}", refuse=IMPLIED_REFUSAL, implied=True)
        else:
            yield from _read(name, tool, choice)
    if "cannot_continue" not in state.choose:
        yield Transition(0, name, "call.cannot_continue", "FAILED", reason="no_action", implied=True)
    if state.then:
        yield from _rows(name, f"then.{name}", state.then)
        if not state.then[-1].unconditional:
            yield Transition(0, name, f"then.{name}", implied=True)


def _read(name: str, tool: str, choice: Choice) -> Iterator[Transition]:
    """A read: `refuse` rows are judged when it is proposed, `goto` rows when its result is recorded.

    When it is proposed, no `goto` row can be judged: it stands aside, and accepts only where no other row decides.
    """
    proposed = [row for row in choice.rows if row.goto is None]
    if any(row.goto for row in choice.rows):
        proposed.append(Row(stay=True))
    yield from _rows(name, f"call.{tool}", _until_unconditional(proposed))
    if all(not row.unconditional for row in proposed):
        yield Transition(0, name, f"call.{tool}", refuse=IMPLIED_REFUSAL, implied=True)
    recorded = [row for row in choice.rows if row.refuse is None]
    yield from _rows(name, f"ok.{tool}", recorded)
    if not recorded or not recorded[-1].unconditional:
        yield Transition(0, name, f"ok.{tool}", implied=True)
    yield Transition(0, name, f"failed.{tool}", implied=True)


def _until_unconditional(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        if row.unconditional:
            return


def _outcomes(source: str, of: str, then: Mapping[Any, tuple[Row, ...]]) -> Iterator[Transition]:
    for outcome, rows in then.items():
        yield from _rows(source, f"{outcome}.{of}", rows)


def _rows(source: str, event: str, rows: Iterable[Row]) -> Iterator[Transition]:
    for row in rows:
        yield Transition(
            0, source, event, row.goto, row.when or (), row.unless or (), (), row.refuse, row.reason, row.confirms
        )


def _through_success(goal: _Goal | None, one: Transition) -> Iterator[Transition]:
    """SUCCEEDED only while `success` holds; otherwise the way ends as not verified, or `finish` is refused."""
    if goal is None:
        yield one
        return
    yield replace(one, success=goal.success)
    if one.event == "call.finish":
        names = ", ".join(goal.success)
        text = f"completion rejected: not all of {names} hold on the recorded evidence"
        yield replace(one, target=None, refuse=text, reason=None, confirms=None, implied=True)
    else:
        yield replace(one, target=goal.otherwise, reason="not_verified", implied=True)
