"""States within states: first states, ways out, and what regions must leave to each other.

Regions go on side by side, so nothing that happens may be meant for two of them, and none may take the others away while one
of them could have an effect open. It must not know tools beyond read and write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.check_rows import RowCheck
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.names import CONTROLS, ENDS
from statemachine_agent.definition.nesting import DONE
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import (
    ApprovalState,
    CallState,
    ChooseState,
    CompoundState,
    Inlined,
    ReconcileState,
    State,
    WaitState,
)
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile


def check_nesting(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine's nesting; none where no state holds others, but for a `done` that nothing holds."""
    return _Nesting(catalogue, file).check()


class _Nesting(RowCheck):
    """The check of one machine's nesting."""

    def check(self) -> list[Fault]:
        self.nesting = self.machine.nesting
        for path in self.nesting.twice:
            message = f"another state is called `{path[-1]}` too"
            self.fault(path, message, "choose another name: names of states are unique in the whole machine", key=True)
        for name, state in self.machine.all_states.items():
            path = self.nesting.paths[name]
            self._targets(name, path, state)
            if isinstance(state, CompoundState) and not isinstance(state, Inlined):
                self._compound(name, path, state)
            if isinstance(state, CompoundState) and state.parallel:
                self._regions(name, path)
        return self.faults

    # ------------------------------------------------------------ where rows lead

    def _targets(self, name: str, path: Path_, state: State) -> None:
        holder = self.nesting.done_by(name)
        visible = self.nesting.visible(name)
        for target in dict.fromkeys(row.goto for row in rows_of(state) if row.goto):
            if target == DONE and holder is None:
                message = f"`{name}` leads to `done`, and no state of states holds it"
                self.fault(path, message, "name a state or an end", key=True)
            elif target in self.nesting.states and target not in visible:
                self.fault(path, f"`{name}` cannot lead to `{target}`", self._instead(name, target), key=True)

    def _instead(self, name: str, target: str) -> str:
        region = self.nesting.region(name)
        if region is not None and region not in (target, *self.nesting.above(target)):
            return (
                f"regions are left together: let it lead to `done`, and go on behind `{self.nesting.parents[region]}`"
            )
        outer = next((n for n in self.nesting.above(target) if n in self.nesting.visible(name)), None)
        return f"it lies within another state; lead to `{outer}`" if outer else "it lies within another state"

    # ------------------------------------------------------------ one state of states

    def _compound(self, name: str, path: Path_, state: CompoundState) -> None:
        is_region = self.nesting.is_region(name)
        if state.parallel and state.initial is not None:
            self.fault((*path, "initial"), "all regions begin at once", "remove `initial`", key=True)
        elif not state.parallel and state.initial is None:
            if not self.document.incomplete((*path, "initial")):
                self.fault(path, f"`{name}` does not say where it begins", "add `initial: STATE`", key=True)
        elif state.initial is not None and state.initial not in {
            *state.states,
            *self.document.left_out((*path, "states")),
        }:
            message = f"`{name}` holds no state `{state.initial}`"
            self.fault((*path, "initial"), message, did_you_mean(state.initial, state.states))
        if is_region and state.then:
            self.fault(
                (*path, "then"), "a region has no `then`", "what follows stands with the parallel state", key=True
            )
        whole = not self.document.incomplete((*path, "states")) and not self.nesting.twice
        if not state.parallel and whole and not self._is_done(name):
            message = f"nothing in `{name}` leads to `done`"
            self.fault(path, message, "let a row lead there, or write its states beside the others", key=True)

    def _is_done(self, name: str) -> bool:
        """Some state directly in `name` leads to `done`, or leaves it."""
        leading = (n for n, state in self.nesting.states.items() if any(row.goto == DONE for row in rows_of(state)))
        return any(self.nesting.done_by(n) == name for n in leading)

    # ------------------------------------------------------------ regions

    def _regions(self, name: str, path: Path_) -> None:
        regions = self.nesting.children[name]
        if len(regions) == 1 and not self.document.incomplete((*path, "states")):
            self.fault(
                (*path, "parallel"), f"`{name}` has one region only", "remove `parallel`, or add a region", key=True
            )
        for region in regions:
            state = self.nesting.states[region]
            if not isinstance(state, CompoundState) or state.parallel:
                message = f"the region `{region}` is no state of states"
                self.fault(self.nesting.paths[region], message, "give it `states` and `initial`", key=True)
            self._controls(region)
            self._leaving(name, region)
        self._meant_for_one(regions)

    def _controls(self, region: str) -> None:
        for name in self.nesting.within(region):
            state = self.nesting.states[name]
            for control in CONTROLS if isinstance(state, ChooseState) else ():
                if control in state.choose and self._ends_all(name, state.choose[control].rows):
                    here: Path_ = (*self.nesting.paths[name], "choose", control)
                    message = f"`{control}` is not offered within a region: it would end the others too"
                    self.fault(here, message, "remove it; let the region be `done`, and decide behind it", key=True)

    def _ends_all(self, name: str, rows: Iterable[Row]) -> bool:
        """Giving up within another machine ends that machine only."""
        return self.machine.scope(name) is None or not all(row.goto in self.branches for row in rows if row.goto)

    def _leaving(self, holder: str, region: str) -> None:
        """A region leaves the others only where none of them could have an effect open."""
        writing = next((one for one in self.nesting.siblings(region) if self._writes(one)), None)
        if writing is None:
            return
        for name in self.nesting.within(region):
            ends = dict.fromkeys(row.goto for row in rows_of(self.nesting.states[name]) if row.goto in ENDS)
            for end in ends:
                message = f"`{name}` leads to `{end}`, and ends `{writing}`, which may have an effect open"
                advice = f"let it lead to `done`, and decide behind `{holder}`"
                self.fault(self.nesting.paths[name], message, advice, key=True)

    def _writes(self, region: str) -> bool:
        return any(isinstance(self.nesting.states[n], ReconcileState) for n in self.nesting.within(region))

    def _meant_for_one(self, regions: tuple[str, ...]) -> None:
        """No tool and no signal is used in two regions, and one region at most proposes writes."""
        users: dict[str, str] = {}
        proposing: str | None = None
        for region in regions:
            for name, word in self._used(region):
                first = users.setdefault(word, region)
                if first != region:
                    message = f"{word} is used in `{first}` too, and what comes of it could be meant for either"
                    self.fault(self.nesting.paths[name], message, "use it in one region only", key=True)
                    users[word] = region  # told once
            writer = next((n for n in self.nesting.within(region) if self._proposes(self.nesting.states[n])), None)
            if writer is not None and proposing is not None:
                message = f"`{region}` proposes a write, and so does `{proposing}`: a task has one proposal at a time"
                self.fault(self.nesting.paths[writer], message, "propose in one region only", key=True)
            elif writer is not None:
                proposing = region

    def _proposes(self, state: State) -> bool:
        if not isinstance(state, ChooseState):
            return False
        tools = [self.catalogue.tool(name) for name in state.choose if name not in CONTROLS]
        return any(tool is not None and not tool.is_read for tool in tools)

    def _used(self, region: str) -> Iterator[tuple[str, str]]:
        """Each state of a region with what it uses: a tool, or a signal."""
        for name in self.nesting.within(region):
            match self.nesting.states[name]:
                case ChooseState(choose=choices):
                    yield from ((name, f"`{tool}`") for tool in choices if tool not in CONTROLS)
                case CallState(call=tool) | ReconcileState(reconcile=tool):
                    yield name, f"`{tool}`"
                case ApprovalState(approval=request):
                    yield name, f"`{request.of}`"
                case WaitState(wait=wait) if wait.signal is not None:
                    yield name, f"the signal `{wait.signal}`"
