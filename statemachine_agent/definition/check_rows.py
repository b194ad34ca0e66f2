"""What all checks of one machine share: names of guards, tools and states, rows, and lists of rows by outcome.

Nothing is said to be missing that stands in the file and could not be read. It must not know the kinds of states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from statemachine_agent.definition.document import Document, Path_
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.names import ENDS, RULING_GUARDS
from statemachine_agent.definition.nesting import DONE
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import ChooseState
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile

TARGETS = frozenset({"goto"})
ANY = frozenset({"goto", "stay", "refuse"})


class RowCheck:
    """The check of one machine's rows; it collects faults."""

    def __init__(self, catalogue: Catalogue, file: MachineFile) -> None:
        """Nothing is checked yet."""
        self.catalogue = catalogue
        self.document: Document = file.document
        self.machine: MachineDefinition = file.definition
        self.faults: list[Fault] = []
        self.used_guards: set[str] = set(self.machine.success)
        #: what stands here for the ends of machines in this one, and the end that each stands for
        self.branches = {branch: end for held in self.machine.inlined.values() for end, branch in held.ends.items()}
        # also a write that is offered without a `goto`: that is told where it is offered, and this would follow from it
        states = self.machine.all_states.values()
        self._proposable = {tool for state in states if isinstance(state, ChooseState) for tool in state.choose}

    def fault(self, path: Path_, message: str, advice: str, *, key: bool = False, level: Level = Level.ERROR) -> None:
        """Take one fault."""
        self.faults.append(self.document.fault(path, message, advice, key=key, level=level))

    # ------------------------------------------------------------ names

    def guard(self, path: Path_, name: str, *, ruling: bool = False) -> None:
        """`name` is a guard; with `ruling`, also one of the policy's."""
        self.used_guards.add(name)
        if name in RULING_GUARDS:
            if not ruling:
                self.fault(path, f"`{name}` is read in a `route` only", "branch on it in a `route` after the proposal")
        elif not self._is_guard(path, name) and not self._lost(("guards",), name):
            own = [n for n in self.machine.guards if n not in self.machine.guard_scopes]
            known = [*own, *(RULING_GUARDS if ruling else ())]
            self.fault(path, f"there is no guard `{name}`", did_you_mean(name, known))

    def _is_guard(self, path: Path_, name: str) -> bool:
        """True where there is such a guard; those that came with another machine are read in it only."""
        if name not in self.machine.guards:
            return False
        return name not in self.machine.guard_scopes or self.document.at(path[:-1]) is None

    def tool(self, path: Path_, name: str, *, key: bool = False) -> ToolManifest | None:
        """The manifest of `name`; None where there is none, or where nothing can be said about it."""
        if not self.catalogue.knows_tool(name):
            self.fault(path, f"there is no tool `{name}`", did_you_mean(name, self.catalogue.tools), key=key)
        return self.catalogue.tool(name)

    def target(self, path: Path_, name: str, *, ends: bool = True) -> None:
        """`name` is a state, or with `ends` one of the built-in ends."""
        known = [*self.machine.all_states, *(ENDS if ends else ())]
        if ends and name == DONE:
            return  # whether it ends anything is the nesting's matter
        if name not in known and not self._lost(("states",), name):
            self.fault(path, f"there is no state `{name}`", did_you_mean(name, known))

    def _lost(self, path: Path_, name: str) -> bool:
        """True where the file has `name` at `path`, and it could not be read."""
        return name.casefold() in {key.casefold() for key in self.document.lost(path)}

    def proposable(self, path: Path_, tool: ToolManifest) -> None:
        """Some `choose` lets the model propose `tool`."""
        if tool.tool not in self._proposable and not self.document.incomplete(("states",)):
            message = f"no `choose` lets the model propose `{tool.tool}`"
            self.fault(path, message, "offer it in a `choose`, with a `goto`")

    # ------------------------------------------------------------ rows

    def rows(
        self, path: Path_, rows: Iterable[Row], *, kinds: frozenset[str], total: bool, ruling: bool = False
    ) -> None:
        """One list of rows; `kinds` says what may follow from one, `total` that some row must always hold."""
        rows = list(rows)
        for index, row in enumerate(rows):
            here: Path_ = (*path, index) if isinstance(self.document.at(path), list) else path
            self._row(here, row, kinds, ruling=ruling)
            if row.unconditional and index < len(rows) - 1 and not self.document.incomplete(here):
                self.fault(here, "no row below this one is ever reached", "give it a condition, or put it last")
        if total and rows and not rows[-1].unconditional and not self.document.incomplete(path):
            last: Path_ = (*path, len(rows) - 1)
            self.fault(last, "the list may end without an answer", "end it with a row without `when` and `unless`")

    def _row(self, path: Path_, row: Row, kinds: frozenset[str], *, ruling: bool) -> None:
        for key, names in (("when", row.when), ("unless", row.unless)):
            for position, name in enumerate(names or ()):
                self.guard((*path, key, position), name, ruling=ruling)
        kind = "goto" if row.goto else "stay" if row.stay else "refuse"
        if kind not in kinds:
            allowed = " or ".join(f"`{k}`" for k in sorted(kinds))
            self.fault((*path, kind), f"`{kind}` has no meaning here", f"write {allowed}", key=True)
        if row.goto:
            self.target((*path, "goto"), row.goto)
            if row.reason and row.goto not in (*ENDS, *self.branches):
                message = f"`{row.goto}` is no end, and only ends have a reason"
                self.fault((*path, "reason"), message, "remove it", key=True)
        if row.confirms:
            tool = self.tool((*path, "confirms"), row.confirms)
            if tool and tool.is_read:
                message = f"`{row.confirms}` is a read and has no effect to confirm"
                self.fault((*path, "confirms"), message, "name the write whose effect it is")

    def outcomes(self, path: Path_, then: Mapping[Any, tuple[Row, ...]], wanted: Iterable[str], why: str) -> None:
        """A `then` by outcome, which names all of `wanted` and nothing else."""
        wanted = list(wanted)
        unread = self.document.left_out(path)
        for outcome in wanted:
            if outcome not in then and outcome not in unread and unread <= set(wanted):
                self.fault(path, f"`then` lacks `{outcome}`", f"add `{outcome}:`; {why}", key=True)
        for outcome, rows in then.items():
            if outcome not in wanted:
                self.fault((*path, outcome), f"`{outcome}` cannot happen here", f"remove it; {why}", key=True)
            self.rows((*path, outcome), rows, kinds=TARGETS, total=True)
