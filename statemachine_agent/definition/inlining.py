"""Another machine put in the place of a state: names made its own, ends made branches, its input filled from the task's data.

What comes of it is a state of states, so the chart knows no more than that; whose input a guard sees, and whose answer `finish`
gives, is asked of the definition (`scope`). It must not know files or positions; who calls it says which machine is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from statemachine_agent.definition import references
from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import ENDS, RULING_GUARDS
from statemachine_agent.definition.nesting import DONE
from statemachine_agent.definition.references import Literal, Reference
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import (
    CallState,
    Choice,
    ChooseState,
    CompoundState,
    Given,
    Inlined,
    RouteState,
    State,
    SubMachineState,
    named_in,
)

#: what the `with` of another machine may refer to: what does not change under it without a trace
ROOTS = frozenset({"input", "actor", "evidence"})

#: the reason of giving up, where a machine does not say where that leads
_NO_ACTION = Row(goto="FAILED", reason="no_action")


def ends_of(machine: MachineDefinition, *, writes: bool) -> tuple[str, ...]:
    """The ends to which rows of `machine` lead, in the order of the language; `writes`: it has effects that must be settled."""
    rows = [(choice, row) for state in machine.all_states.values() for choice, row in _choices(state)]
    found = {row.goto for _, row in rows}
    states = machine.all_states.values()
    gives_up = any(isinstance(s, ChooseState) and "cannot_continue" not in s.choose for s in states)
    unsure = bool(machine.success) or writes
    if gives_up or (unsure and any(row.goto == "SUCCEEDED" and choice != "finish" for choice, row in rows)):
        found.add("FAILED")
    return tuple(end for end in ENDS if end in found)


def _choices(state: State) -> Iterable[tuple[str | None, Row]]:
    """Every row of a state, with the choice that it belongs to."""
    if not isinstance(state, ChooseState):
        return [(None, row) for row in rows_of(state)]
    chosen = [(name, row) for name, choice in state.choose.items() for row in choice.rows]
    return [*chosen, *((None, row) for row in state.then)]


def unfilled(machine: MachineDefinition, given: Mapping[str, Given]) -> list[str]:
    """The references of `machine` into its input that `given` does not fill."""
    parsed = [references.parse(v, references.MACHINE_ROOTS) for vs in _references(machine) for v in vs.values()]
    asked = {p.text: p for p in parsed if isinstance(p, Reference) and p.root == "input" and p.steps}
    return [text for text, reference in asked.items() if not _fills(given, reference)]


def _fills(given: Mapping[str, Given], reference: Reference) -> bool:
    name = str(reference.steps[0])
    if name not in given:
        return False
    filling = references.parse(given[name], ROOTS)
    if isinstance(filling, Literal):
        try:
            references.within(filling.value, reference)
        except references.UnresolvedError:
            return False
    return True


def _references(machine: MachineDefinition) -> Iterable[Mapping[str, Given]]:
    for state in machine.all_states.values():
        match state:
            case ChooseState():
                yield from (choice.pinned for choice in state.choose.values())
            case CallState() if state.given != "proposal":
                yield state.given
            case Inlined():
                yield state.given


def inlined(name: str, state: SubMachineState, machine: MachineDefinition, *, writes: bool) -> Inlined:
    """`machine` in the place of the state `name`."""
    return _Inlining(name, state.given, machine).state(state, ends_of(machine, writes=writes))


def with_inlined(holder: MachineDefinition, states: Mapping[str, State]) -> MachineDefinition:
    """`holder` with `states`, some of which are other machines: their guards, signals and limits of tools are its own now."""
    fields: dict[str, Any] = {name: getattr(holder, name) for name in type(holder).model_fields}
    made = MachineDefinition.model_construct(**{**fields, "states": states})
    guards, signals, at_most = dict(holder.guards), dict(holder.signals), dict(holder.at_most)
    for name, state in made.inlined.items():
        if made.scope(name) is not None:
            continue  # what it holds itself has been taken up by the one around it
        inlining = _Inlining(name, state.given, state.of)
        came = {inlining.lower(n): inlining.guard(g) for n, g in state.of.guards.items()}
        assert guards.keys().isdisjoint(came)  # noqa: S101  whoever calls has made sure: a guard must never become another
        guards |= came
        signals |= state.of.signals
        at_most |= {tool: min(most, at_most.get(tool, most)) for tool, most in state.of.at_most.items()}
    return MachineDefinition.model_construct(
        **{**fields, "states": states, "guards": guards, "signals": signals, "at_most": at_most}
    )


class _Inlining:
    """One machine in one place; it has the lifetime of putting it there."""

    def __init__(self, name: str, given: Mapping[str, Given], machine: MachineDefinition) -> None:
        self._name = name
        self._given = given
        self._machine = machine

    def state(self, written: SubMachineState, ends: Iterable[str]) -> Inlined:
        """The state of states."""
        branches = {end: self.upper(end) for end in ends}
        states = {self.upper(n): self._state(s) for n, s in self._machine.states.items()}
        states |= {branch: RouteState(route=written.then[end]) for end, branch in branches.items()}  # type: ignore[index]
        return Inlined.model_construct(
            states=states,
            initial=self.upper(self._machine.initial),
            parallel=False,
            then={},
            of=self._machine,
            given=written.given,
            ends=branches,
        )

    # ------------------------------------------------------------ names

    def upper(self, name: str) -> str:
        """A state's name, or an end's."""
        return named_in(self._name, name)

    def lower(self, name: str) -> str:
        """A guard's name; those of the policy are the same everywhere."""
        return name if name in RULING_GUARDS else named_in(self._name.lower(), name)

    def guard(self, guard: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """A guard: a text says what it said, over what its machine may see."""
        return tuple(map(self.lower, guard)) if isinstance(guard, tuple) else guard

    # ------------------------------------------------------------ states

    def _state(self, state: State) -> State:
        match state:
            case ChooseState():
                return state.model_copy(update=self._choose(state))
            case RouteState():
                return state.model_copy(update={"route": self._rows(state.route)})
            case CallState():
                given = state.given if state.given == "proposal" else self._filled(state.given)
                return state.model_copy(update={"given": given, "then": self._then(state.then)})
            case Inlined():
                return state.model_copy(
                    update={
                        "states": {self.upper(n): self._state(s) for n, s in state.states.items()},
                        "initial": self.upper(str(state.initial)),
                        "given": self._filled(state.given),
                        "ends": {end: self.upper(branch) for end, branch in state.ends.items()},
                    }
                )
            case CompoundState():
                return state.model_copy(
                    update={
                        "states": {self.upper(n): self._state(s) for n, s in state.states.items()},
                        "initial": self.upper(state.initial) if state.initial else None,
                        "then": self._then(state.then),
                    }
                )
            case _:
                return state.model_copy(update={"then": self._then(state.then)})

    def _choose(self, state: ChooseState) -> dict[str, Any]:
        choices = {
            name: choice.model_copy(update={"pinned": self._filled(choice.pinned), "rows": self._rows(choice.rows)})
            for name, choice in state.choose.items()
        }
        choices.setdefault("cannot_continue", Choice(rows=self._rows((_NO_ACTION,))))
        return {
            "choose": choices,
            "then": self._rows(state.then),
            "brief": state.brief or self._machine.summary,
            "parallel_calls": state.parallel_calls or self._machine.parallel_calls,
            "model": state.model or self._machine.model,
        }

    def _then(self, then: Mapping[Any, tuple[Row, ...]]) -> dict[Any, tuple[Row, ...]]:
        return {outcome: self._rows(rows) for outcome, rows in then.items()}

    def _rows(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(
            row.model_copy(
                update={
                    "when": tuple(map(self.lower, row.when)) if row.when else None,
                    "unless": tuple(map(self.lower, row.unless)) if row.unless else None,
                    "goto": self.upper(row.goto) if row.goto and row.goto != DONE else row.goto,
                }
            )
            for row in rows
        )

    # ------------------------------------------------------------ input

    def _filled(self, given: Mapping[str, Given]) -> dict[str, Given]:
        return {name: self._value(value) for name, value in given.items()}

    def _value(self, value: Given) -> Given:
        """`input.x` becomes what fills `x`; all else refers to the task's own data as it did."""
        parsed = references.parse(value, references.MACHINE_ROOTS)
        if isinstance(parsed, Literal) or parsed.root != "input" or not parsed.steps:
            return value
        first, rest = str(parsed.steps[0]), parsed.text.removeprefix(f"input.{parsed.steps[0]}")
        filling = references.parse(self._given[first], ROOTS)
        if isinstance(filling, Reference):
            return filling.text + rest
        return {"text": references.within(filling.value, parsed)}
