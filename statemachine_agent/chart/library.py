"""The one module that touches python-statemachine: transitions → chart class, and one event decided by the library.

The class has no action, validator, listener or eventless transition, and no event ever carries an argument. Guards reach
it as methods of a façade that holds nothing else. Behind an author's guards each transition asks one more, `row_N`, which
is always true: so the library itself says which transition it took.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemachine.exceptions import TransitionNotAllowed
from statemachine.io import create_machine_class_from_definition
from statemachine.orderedset import OrderedSet

from statemachine_agent.chart.transitions import WORKING, Transition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.errors import IllegalTransitionError

Ask = Callable[[str], bool]


@dataclass(frozen=True)
class Decision:
    """What the library decided about one event."""

    configuration: tuple[str, ...]
    taken: tuple[int, ...]


class Library:
    """One compiled chart class; built once for a machine, used for every event of every task of it."""

    def __init__(
        self,
        name: str,
        children: Mapping[str, Sequence[str]],
        parallel: Collection[str],
        initial: Collection[str],
        transitions: Sequence[Transition],
    ) -> None:
        """`children` is the tree of states by parent; `name` is unique among charts: the library keeps its classes by name."""
        self.chart = create_machine_class_from_definition(
            name,
            states=_states(children, parallel, initial, transitions),
            allow_event_without_transition=False,
            catch_errors_as_events=False,
        )
        self._facade = _facade(transitions)
        #: instances that nobody uses now; making one resolves every guard of every transition, and costs a thousand events
        self._idle: list[Any] = []

    def decide(self, configuration: tuple[str, ...], event: str, ask: Ask) -> Decision:
        """Send `event` to a chart restored in `configuration`; what `ask` raises comes out unchanged.

        The configuration lives in the façade, so restoring it there restores the instance. One that raised is not used
        again; one that came to an end stopped, and is set going for the next.
        """
        try:
            machine = self._idle.pop()
        except IndexError:
            machine = self.chart(self._facade(configuration, ask))
        else:
            machine.model.__init__(configuration, ask)
        try:
            machine.send(event)
        except TransitionNotAllowed:
            raise IllegalTransitionError(event, configuration) from None
        decision = Decision(tuple(str(state.id) for state in machine.configuration), tuple(machine.model.taken))
        machine.model.ask = None  # it keeps no task's data
        if machine.is_terminated:
            machine._engine.clear()  # noqa: SLF001  the library has no other way back, and making another takes much longer
            machine._engine.running = True  # noqa: SLF001
        self._idle.append(machine)
        return decision


def _facade(transitions: Sequence[Transition]) -> Any:
    """The model that the library asks: guard methods, and what it needs to restore."""

    class Facade:
        __slots__ = ("ask", "state", "taken")

        def __init__(self, configuration: tuple[str, ...], ask: Ask) -> None:
            self.state = OrderedSet(configuration)
            self.ask = ask
            self.taken: list[int] = []

    def guard(name: str) -> Callable[[Facade], bool]:
        return lambda self: self.ask(name)

    def row(index: int) -> Callable[[Facade], bool]:
        def mark(self: Facade) -> bool:
            self.taken.append(index)
            return True

        return mark

    for name in {g for t in transitions for g in t.guards}:
        setattr(Facade, f"guard_{name}", guard(name))
    for t in transitions:
        setattr(Facade, f"row_{t.index}", row(t.index))
    return Facade


def _states(
    children: Mapping[str, Sequence[str]],
    parallel: Collection[str],
    initial: Collection[str],
    transitions: Sequence[Transition],
) -> dict[str, Any]:
    """The library's definition; it takes the mapping apart, so each call makes a fresh one."""
    by_source: dict[str, list[dict[str, Any]]] = {}
    for t in transitions:
        by_source.setdefault(t.source, []).append({"event": t.event, "target": t.target, "cond": _conditions(t)})
    reached = {t.target for t in transitions}

    def state(name: str) -> dict[str, Any]:
        made: dict[str, Any] = {"initial": name in initial, "transitions": by_source.get(name, [])}
        if name in children:
            made["states"] = {child: state(child) for child in children[name]}
        if name in parallel:
            made["parallel"] = True
        return made

    top = {WORKING: state(WORKING) | {"initial": True}}
    return top | {end: {"final": True} for end in ENDS if end in reached}


def _conditions(t: Transition) -> list[str]:
    found = [f"guard_{g}" for g in t.when]
    if t.unless:
        found.append(f"not ({' and '.join(f'guard_{g}' for g in t.unless)})")
    found += [f"guard_{g}" for g in t.success]
    return [*found, f"row_{t.index}"]
