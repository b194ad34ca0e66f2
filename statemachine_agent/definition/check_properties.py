"""The names in a machine's properties: each exists, and can occur at all. It must not prove anything."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from statemachine_agent.definition.check_rows import RowCheck
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.names import ENDS, LOWER
from statemachine_agent.definition.properties import Always, AtMost, Atom, Never, OnlyAfter, Promise, Visits
from statemachine_agent.definition.states import ApprovalState, CallState, ChooseState, ReconcileState
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile


def check_properties(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine's properties."""
    return _Properties(catalogue, file).check()


class _Properties(RowCheck):
    """The check of one machine's properties."""

    def check(self) -> list[Fault]:
        for number, promise in enumerate(self.machine.properties):
            self._promise(("properties", number), promise)
        return self.faults

    def _promise(self, path: Path_, promise: Promise) -> None:
        match promise:
            case OnlyAfter():
                self._atom((*path, "run"), Atom(promise.run, "run"))
                written = self.document.at((*path, "only_after"))
                for number, atom in enumerate(promise.only_after):
                    self._atom((*path, "only_after", *([number] if isinstance(written, list) else [])), atom)
            case AtMost():
                self._atom((*path, "run"), Atom(promise.run, "run"))
                if promise.again_after is not None:
                    self._atom((*path, "again_after"), promise.again_after)
            case Always():
                self._atom((*path, "after"), promise.after)
                self._atom((*path, "always"), promise.always)
                for number, end in enumerate(promise.or_ends):
                    self._end((*path, "or_ends", number), end)
            case Visits():
                self._end((*path, "end"), promise.end)
                for number, state in enumerate(promise.visits):
                    self.target((*path, "visits", number), state, ends=False)
            case Never():
                self._atom((*path, "never"), promise.never)

    def _end(self, path: Path_, name: str) -> None:
        if name not in ENDS:
            self.fault(path, f"`{name}` is no end", did_you_mean(name, ENDS))

    def _atom(self, path: Path_, atom: Atom) -> None:
        if atom.verb is not None:
            if self.tool(path, atom.name) is not None and not self.document.incomplete(("states",)):
                self._occurs(path, atom)
        elif LOWER.fullmatch(atom.name):
            self.guard(path, atom.name, ruling=True)
        else:
            self.target(path, atom.name)

    def _occurs(self, path: Path_, atom: Atom) -> None:
        """Some state does what the atom tells of its tool."""
        tool, verb = self.catalogue.tool(atom.name), atom.verb or ""
        kind = _DONE_BY.get(verb, "run")
        if tool is not None and tool.is_read and verb in _OF_WRITES:
            self.fault(path, f"`{atom}` can never happen", f"`{atom.name}` is a read, and that is said of writes")
        elif atom.name not in self._tools[kind]:
            self.fault(path, f"`{atom}` can never happen", f"no state has `{_STATES[kind].format(atom.name)}`")

    @cached_property
    def _tools(self) -> dict[str, set[str]]:
        """What is done with which tools."""
        states = self.machine.all_states.values()
        offered = {tool for state in states if isinstance(state, ChooseState) for tool in state.choose}
        reads = {name for name in offered if (tool := self.catalogue.tool(name)) and tool.is_read}
        return {
            "run": reads | {state.call for state in states if isinstance(state, CallState)},
            "look up": {state.reconcile for state in states if isinstance(state, ReconcileState)},
            "approve": {state.approval.of for state in states if isinstance(state, ApprovalState)},
            "propose": self._proposable,
        }


#: what a state must do with the tool for an atom of this verb; the other verbs tell of its running
_DONE_BY = {
    "reconcile": "look up",
    "found": "look up",
    "absent": "look up",
    "approved": "approve",
    "allowed": "propose",
}
_STATES = {
    "run": "call: {}", "look up": "reconcile: {}", "approve": "approval: {{of: {}}}", "propose": "choose: {{{}: …}}",
}  # fmt: skip
_OF_WRITES = frozenset({"blocked", "unknown", "reconcile", "found", "absent", "approved", "allowed"})
