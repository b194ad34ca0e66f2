"""Guards answered over a task's data: once per event, in the author's order, and never with a guess.

It must not know the chart; the policy's two guards are answered by whoever holds the ruling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from statemachine_agent.definition import references
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.inlining import ROOTS
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.references import filled
from statemachine_agent.definition.schema import with_floats
from statemachine_agent.definition.states import named_in
from statemachine_agent.errors import GuardError
from statemachine_agent.guards import cel, syntax
from statemachine_agent.text import shorten

Data = Mapping[str, object]


class Answers:
    """The answers of one event: data frozen before it, each guard asked at most once."""

    def __init__(
        self, machine: MachineDefinition, data: Data, rulings: Mapping[str, Callable[[], bool]] | None = None
    ) -> None:
        """`data` maps each root to plain JSON data, `now` to a time with zone; `rulings` answers the guards that are built in."""
        self._machine = machine
        self._data = data
        self._rulings = rulings or {}
        self._scoped: dict[str, Data] = {}
        #: every guard asked, in the order of asking
        self.given: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        """Whether the guard holds; GuardError where it is neither true nor false."""
        if name not in self.given:
            self.given[name] = self._answer(name)
        return self.given[name]

    def _answer(self, name: str) -> bool:
        if name in self._rulings:
            return self._rulings[name]()
        guard = self._machine.guards.get(name)
        if guard is None:
            raise GuardError(name, "there is no such guard")
        if isinstance(guard, tuple):
            return all(self(part) for part in guard)
        return truth(name, guard, self._seen_by(name))

    def _seen_by(self, guard: str) -> Data:
        """The data as the machine sees it that the guard came with."""
        scope = self._machine.guard_scopes.get(guard)
        if scope is None:
            return self._data
        if scope not in self._scoped:
            self._scoped[scope] = scoped(self._machine, scope, self._data)
        return self._scoped[scope]


def scoped(machine: MachineDefinition, scope: str | None, data: Data) -> Data:
    """`data` as the machine in the state `scope` sees it: its own input, its own states; all else is the task's.

    What fills an input and is not there (yet) is absent from it.
    """
    if scope is None:
        return data
    held = machine.inlined[scope]
    visits: Mapping[str, int] = data["visits"]  # type: ignore[assignment]
    return {
        **data,
        "input": with_floats(held.of.input, filled(held.given, ROOTS, data)),
        "visits": {name: visits.get(named_in(scope, name), 0) for name in held.of.all_states},
    }


def truth(name: str, text: str, data: Data) -> bool:
    """A condition's answer over `data`; GuardError, naming it, where there is none."""
    try:
        return cel.evaluator(text).truth(data)
    except cel.EvaluationError as problem:
        raise GuardError(name, _told(problem.message, text, data)) from None
    except cel.CompileError as problem:
        raise GuardError(name, problem.message) from None


def value(name: str, text: str, data: Data) -> object:
    """An expression's value over `data`; GuardError where there is none."""
    try:
        return cel.evaluator(text).value(data)
    except cel.EvaluationError as problem:
        raise GuardError(name, _told(problem.message, text, data)) from None


def call_guards(machine: MachineDefinition) -> frozenset[str]:
    """The guards whose answers depend on what is proposed."""
    texts = {name for name, guard in machine.guards.items() if isinstance(guard, str) and "call" in roots(guard)}
    return frozenset(name for name in machine.guards if not texts.isdisjoint(written_out(machine, [name])))


def roots(text: str) -> set[str]:
    """The roots that an expression stands on."""
    return syntax.analyse(cel.evaluator(text).checked).roots


def _told(problem: str, text: str, data: Data) -> str:
    """What went wrong in which text; where a field is absent, which one, and the advice that nearly everybody needs once."""
    absent = re.fullmatch(r"there is no `(.*)`", problem, re.DOTALL)
    if absent and not re.search(rf"(?<!\w){re.escape(absent[1])}(?!\w)", text):
        problem = "there is no such key"  # it comes from data, and not all data may be shown
    beyond = re.fullmatch(r"Index error: index=(-?\d+) (size=\d+)", problem)
    if beyond and not re.search(rf"\b{re.escape(beyond[1])}\b", text):
        problem = f"Index error: {beyond[2]}"
    missing = re.fullmatch(r"there is no `(\w+)`", problem)
    path = _missing(missing[1], text, data) if missing else None
    if path is None:
        return f"{problem} (in `{_short(text)}`)"
    return f"there is no `{path}` (in `{_short(text)}`); ask `has({path})` first"


def _missing(field: str, text: str, data: Data) -> str | None:
    """The path in `text` whose last step is the `field` that is not there; None where it cannot be told."""
    bare = re.sub(r"""\"[^"]*\"|'[^']*'""", "''", text)
    ending = rf"\.{field}\b(?!\()"
    for found in re.finditer(rf"(?<![\w.])[A-Za-z_]\w*(?:\.\w+|\[\d+\])*?{ending}", bare):
        try:
            references.resolve(found[0], frozenset(data), data)
        except references.UnresolvedError:
            return found[0]
        if found[0].partition(".")[0] not in data:
            return found[0]  # of an element of a list, which has a name only in the text
    return None


def _short(text: str) -> str:
    return shorten(text, 120)
