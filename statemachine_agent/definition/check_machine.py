"""One machine against the catalogue: every name exists, every list is complete, every value has the right type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemachine_agent.definition import inlining, references
from statemachine_agent.definition.check_given import check_given
from statemachine_agent.definition.check_graph import circles
from statemachine_agent.definition.check_rows import ANY, TARGETS, RowCheck
from statemachine_agent.definition.conjunctions import MAX_DEPTH, too_deep
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.model_choice import ModelChoice
from statemachine_agent.definition.names import CONTROLS, ENDS, RULING_GUARDS, is_reserved
from statemachine_agent.definition.nesting import DONE
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.schema import Properties, Property, wants_trusted
from statemachine_agent.definition.states import (
    ApprovalState,
    CallState,
    Choice,
    ChooseState,
    CompoundState,
    Inlined,
    ReconcileState,
    RouteState,
    State,
    SubMachineState,
    WaitState,
)
from statemachine_agent.text import did_you_mean, nearest

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile

_TEXT = Property(type="string")
_TEXTS = Property(type="array", items=_TEXT)
ACTOR: Properties = {"id": _TEXT, "tenant": _TEXT, "roles": _TEXTS, "scopes": _TEXTS}
EFFECT: Properties = {"key": _TEXT, "tool": _TEXT, "status": _TEXT}
#: what is known of the results of a tool whose manifest cannot be read
ANYTHING = Property(type="object")

#: where a control choice may lead, and in words
_LEADS = {
    "finish": (("SUCCEEDED",), "`SUCCEEDED`"),
    "ask_user": (("NEEDS_INPUT",), "`NEEDS_INPUT` or a wait for a signal"),
    "cannot_continue": (ENDS, "a built-in end"),
}


def from_outside(machine: MachineDefinition) -> Properties:
    """What signals and answers of models give as evidence; nobody vouches for any of it."""
    given = {n: Property(type="object", properties=p, untrusted=True) for n, p in machine.outside.items()}
    unknown = {s.name: ANYTHING for s in machine.all_states.values() if isinstance(s, SubMachineState)}
    return {**unknown, **given}


def check_machine(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine."""
    return _Machine(catalogue, file).check()


class _Machine(RowCheck):
    """The check of one machine: its names, its guards, and its states by their verbs."""

    def check(self) -> list[Fault]:
        self._names()
        self._guards()
        self._signals()
        self._output()
        self._model((), self.machine.model)
        self._filled_ill: list[Path_] = []
        nesting = self.machine.nesting
        for name, state in self.machine.all_states.items():
            self._state(nesting.paths[name], name, state)
        self.target(("initial",), self.machine.initial, ends=False)
        if self.machine.initial in nesting.parents:
            outer = [*nesting.above(self.machine.initial)][-1]
            self.fault(("initial",), f"`{self.machine.initial}` lies in another state", f"write `{outer}`")
        for tool in self.machine.at_most:
            self.tool(("at_most", tool), tool, key=True)
        self._unused()
        return self.faults

    def _names(self) -> None:
        another = "choose another name"
        if is_reserved(self.machine.machine):
            self.fault(("machine",), f"`{self.machine.machine}` is a word of the language", another)
        for name, path in self.machine.nesting.paths.items():
            if name in ENDS:
                advice = "it is there already; go to it, and give a state of your own another name"
                self.fault(path, f"`{name}` is a built-in end", advice, key=True)
            elif is_reserved(name):
                self.fault(path, f"`{name}` is a word of the language", another, key=True)
        for name in self.machine.guards:
            if is_reserved(name):
                self.fault(("guards", name), f"`{name}` is a word of the language", another, key=True)

    def _guards(self) -> None:
        for name, guard in self.machine.guards.items():
            if isinstance(guard, str):
                continue
            for index, part in enumerate(guard):
                self.guard(("guards", name, index), part)
        lists = {name: set(guard) for name, guard in self.machine.guards.items() if isinstance(guard, tuple)}
        for name in (name for circle in circles(lists) for name in sorted(circle)):
            self.fault(("guards", name), f"`{name}` is made of itself", "break the circle", key=True)
        for name in too_deep(self.machine):
            message = f"`{name}` holds lists of guards in lists of guards, more than {MAX_DEPTH} deep"
            self.fault(("guards", name), message, "write them side by side", key=True)
        for index, name in enumerate(self.machine.success):
            self.guard(("success", index), name)

    def _unused(self) -> None:
        if self.document.incomplete(("states",)) or self.document.incomplete(("success",)):
            return
        if not self.used_guards <= {*self.machine.guards, *RULING_GUARDS}:  # one that is not there may mean any of them
            return
        for name in self.machine.guards:
            if name not in self.used_guards and name not in self.machine.guard_scopes:
                message = f"no row uses the guard `{name}`"
                self.fault(("guards", name), message, "use it, or remove it", key=True, level=Level.WARNING)

    # ------------------------------------------------------------ states, by their verb

    def _state(self, path: Path_, name: str, state: State) -> None:
        match state:
            case ChooseState():
                self._choose(path, state)
            case RouteState():
                here = path if name in self.branches else (*path, "route")
                self.rows(here, state.route, kinds=TARGETS, total=True, ruling=True)
            case CallState():
                self._call(path, state)
            case ReconcileState():
                self._reconcile(path, name, state)
            case ApprovalState():
                self._approval(path, state)
            case WaitState():
                self._wait(path, state)
            case SubMachineState():
                self._named(path, state)
                for outcome, rows in state.then.items():
                    self.rows((*path, "then", outcome), rows, kinds=TARGETS, total=True)
            case Inlined():
                self._inlined(path, name, state)
            case CompoundState() if not self.machine.nesting.is_region(name):
                self.outcomes((*path, "then"), state.then, (DONE,), "a state of states is `done`")
            case CompoundState():
                pass

    def _model(self, path: Path_, chosen: ModelChoice | None) -> None:
        """Its names are those of the settings, where these are known."""
        known = self.catalogue.models
        if chosen is None or known is None:
            return
        written = self.document.at((*path, "model"))
        for key, name in chosen.names.items():
            if name not in known:
                near = nearest(name, known)
                advice = f"did you mean `{near}`?" if near else f"add `[models.{name}]` to the settings"
                here = (*path, "model", key) if isinstance(written, dict) else (*path, "model")
                self.fault(here, f"`{name}` is no model of the settings", advice)

    def _choose(self, path: Path_, state: ChooseState) -> None:
        self._model(path, state.model)
        listed = self.document.at((*path, "choose"))
        for number, (tool, choice) in enumerate(state.choose.items()):
            here: Path_ = (*path, "choose", number if isinstance(listed, list) else tool)
            if tool in CONTROLS:
                self._control(here, tool, choice)
                continue
            manifest = self.tool(here, tool, key=True)
            rows: Path_ = (*here, "rows") if isinstance(self.document.at((*here, "rows")), (list, str)) else here
            self.rows(rows, choice.rows, kinds=ANY, total=False)
            if manifest is not None:
                self._offered(here, manifest, choice)
        self.rows((*path, "then"), state.then, kinds=frozenset({"goto", "stay"}), total=False)

    def _offered(self, path: Path_, manifest: ToolManifest, choice: Choice) -> None:
        accepts = any(row.goto or row.stay for row in choice.rows)
        if not manifest.is_read and any(row.stay for row in choice.rows):
            message = f"`{manifest.tool}` is a {manifest.effect}, and a write never runs inside `choose`"
            self.fault(path, message, f"let it go to a state that has `call: {manifest.tool}`", key=True)
        elif self.document.incomplete(path):
            pass  # what accepts it may be in the file
        elif not accepts:
            advice = f"add a row with {'`stay` or `goto`' if manifest.is_read else '`goto`'}"
            self.fault(path, f"`{manifest.tool}` is never accepted", advice, key=True)
        elif manifest.is_read and _always_refused(choice):
            message = f"`{manifest.tool}` is never accepted: a read's `refuse` is judged before its `goto`"
            self.fault(path, message, "give the `refuse` a condition that can be told before the call", key=True)
        self._given((*path, "with"), choice.pinned, manifest.args, complete=False)
        self._steady(path, choice.pinned, manifest)
        for name, argument in manifest.args.items():
            filled = name in choice.pinned or self.document.incomplete((*path, "with"))
            if wants_trusted(argument) and not filled:
                message = f"`{name}` of `{manifest.tool}` takes only what is trusted, and the model would fill it"
                self.fault(path, message, f"pin it: `with: {{{name}: …}}`", key=True)

    def _control(self, path: Path_, control: str, choice: Choice) -> None:
        if choice.pinned:
            self.fault((*path, "with"), f"`{control}` has no arguments to pin", "remove `with`", key=True)
        asking = {n for n, s in self.machine.all_states.items() if isinstance(s, WaitState) and s.wait.signal}
        leads = _LEADS.get(control)
        if leads is None:
            self.fault(path, f"`{control}` is offered with the tool it asks for", "remove it", key=True)
            return
        rows: Path_ = (*path, "rows") if isinstance(self.document.at((*path, "rows")), (list, str)) else path
        self.rows(rows, choice.rows, kinds=frozenset({"goto", "refuse"}), total=False)
        ends, where = leads
        for row in choice.rows:
            known = row.goto in self.machine.all_states or row.goto in ENDS
            end = self.branches.get(row.goto or "", row.goto)
            if known and end not in ends and not (control == "ask_user" and row.goto in asking):
                self.fault(path, f"`{control}` goes to {where} only", f"write {where}", key=True)

    def _call(self, path: Path_, state: CallState) -> None:
        tool = self.tool((*path, "call"), state.call)
        here: Path_ = (*path, "then")
        if tool is None:
            for outcome, rows in state.then.items():
                self.rows((*here, outcome), rows, kinds=TARGETS, total=True)
            return
        outcomes = ("ok", "failed") if tool.is_read else ("ok", "failed", "blocked", "unknown")
        self.outcomes(here, state.then, outcomes, f"a {'read has two' if tool.is_read else 'write has four'} outcomes")
        if state.given != "proposal":
            self._given((*path, "with"), state.given, tool.args)
            self._steady(path, state.given, tool)
        elif tool.is_read:
            message = f"`{tool.tool}` is a read, and only a write is proposed"
            self.fault((*path, "with"), message, "name its arguments")
        else:
            self.proposable((*path, "with"), tool)
        if not tool.is_read:
            self._unknown(path, state, tool)

    def _given(self, path: Path_, given: Mapping[str, Any], args: Properties, *, complete: bool = True) -> None:
        """The values of one `with`; where another machine is filled wrongly, what follows from that is not told again."""
        if not any(path[: len(ill)] == ill for ill in self._filled_ill):
            roots = references.MACHINE_ROOTS
            self.faults += check_given(self.document, path, given, args, self._known, roots, complete=complete)

    def _steady(self, path: Path_, given: Mapping[str, Any], tool: ToolManifest) -> None:
        """What makes two calls the same action does not change with the time."""
        for name in tool.idempotency.template.names if tool.idempotency else ():
            value = references.parse(given.get(name), references.MACHINE_ROOTS)
            if isinstance(value, references.Reference) and value.root == "now":
                message = f"`{name}` is in the key of `{tool.tool}`, and `now` is another at every attempt"
                advice = "refer to a business field: the same action must have the same key"
                self.fault((*path, "with", name), message, advice)

    def _unknown(self, path: Path_, state: CallState, tool: ToolManifest) -> None:
        for index, row in enumerate(state.then.get("unknown", ())):
            here: Path_ = (*path, "then", "unknown", index, "goto")
            target = self.machine.all_states.get(row.goto or "")
            if target is None and row.goto not in ENDS:
                continue  # there is no such state, and that is said elsewhere
            if tool.can_be_looked_up and not (isinstance(target, ReconcileState) and target.reconcile == tool.tool):
                message = f"from `unknown` a write goes to its `reconcile`, and `{row.goto}` is none"
                self.fault(here, message, f"go to a state that has `reconcile: {tool.tool}`")
            elif not tool.can_be_looked_up and row.goto not in ENDS:
                message = f"`{tool.tool}` cannot be looked up, so `unknown` goes to an end"
                self.fault(here, message, "write an end; a person settles it with `sma resolve`")

    def _reconcile(self, path: Path_, name: str, state: ReconcileState) -> None:
        tool = self.tool((*path, "reconcile"), state.reconcile)
        if tool is not None and tool.is_read:
            self.fault((*path, "reconcile"), f"`{tool.tool}` is a read; there is nothing to look up", "name a write")
        elif tool is not None and not tool.can_be_looked_up:
            message = f"`{tool.tool}` does not say how it is looked up"
            self.fault((*path, "reconcile"), message, "add `idempotency.reconcile` to its manifest")
        self.outcomes((*path, "then"), state.then, ("found", "absent", "failed"), "a reconciliation has three outcomes")
        for outcome in ("found", "failed"):
            for index, row in enumerate(state.then.get(outcome, ())):
                entered = [self.machine.all_states.get(n) for n in self.machine.nesting.leads(name, row.goto or "")]
                if any(isinstance(target, CallState) and target.call == state.reconcile for target in entered):
                    message = f"only `absent` may lead back to `{row.goto}`"
                    advice = "go elsewhere: the effect may have happened"
                    self.fault((*path, "then", outcome, index, "goto"), message, advice)

    def _approval(self, path: Path_, state: ApprovalState) -> None:
        here: Path_ = (*path, "approval")
        tool = self.tool((*here, "of"), state.approval.of)
        if tool is not None and tool.is_read:
            self.fault((*here, "of"), f"`{tool.tool}` is a read, and no read is approved", "name a write")
        elif tool is not None:
            self.proposable((*here, "of"), tool)
        for index, role in enumerate(state.approval.by or ()):
            if self.catalogue.lacks_role(role):
                advice = did_you_mean(role, self.catalogue.people.roles if self.catalogue.people else ())
                self.fault((*here, "by", index), f"nobody has the role `{role}`", advice)
        named = state.approval.by or self.document.incomplete((*here, "by"))
        if tool is not None and not named and all(rule.when is not None for rule in tool.approval or ()):
            where = f"where no rule of `{tool.tool}` matches, " if tool.approval else ""
            message = f"{where}nobody is named who could approve"
            self.fault(here, message, "add `by: ROLE`, or a rule without `when` to the manifest", key=True)
        if not self.document.incomplete(here):
            why = "an approval has three outcomes, and with `at_most` also `exhausted`"
            self.outcomes((*path, "then"), state.then, state.approval.outcomes, why)

    def _wait(self, path: Path_, state: WaitState) -> None:
        wait = state.wait
        if wait.signal is not None and wait.signal not in self.machine.signals:
            message = f"the machine declares no signal `{wait.signal}`"
            self.fault((*path, "wait", "signal"), message, did_you_mean(wait.signal, self.machine.signals))
        if self.document.incomplete((*path, "wait")):
            return  # what can come of it is not known
        why = "a signal is `received` or `expired`" if wait.signal else "a wait has `elapsed`"
        self.outcomes((*path, "then"), state.then, wait.outcomes, f"{why}, and with `at_most` also `exhausted`")

    def _output(self) -> None:
        finishing = any(isinstance(s, ChooseState) and "finish" in s.choose for s in self.machine.all_states.values())
        if self.machine.output and not finishing and not self.document.incomplete(("states",)):
            message = "no state offers `finish`, which would give this"
            self.fault(("output",), message, "offer `finish: SUCCEEDED`, or remove it", key=True, level=Level.WARNING)

    def _signals(self) -> None:
        for name in self.machine.signals:
            here: Path_ = ("signals", name)
            if is_reserved(name):
                self.fault(here, f"`{name}` is a word of the language", "choose another name", key=True)
            if self.catalogue.knows_tool(name):
                message = f"`{name}` is a tool too, and `evidence.{name}` could be either"
                self.fault(here, message, "choose another name", key=True)
            waited = {s.wait.signal for s in self.machine.all_states.values() if isinstance(s, WaitState)}
            if name not in waited and not self.document.incomplete(("states",)):
                self.fault(
                    here, f"no state waits for `{name}`", "wait for it, or remove it", key=True, level=Level.WARNING
                )

    def _named(self, path: Path_, state: SubMachineState) -> None:
        """What fills a machine that was not put here: as much as can be said."""
        held = self.catalogue.machines.get(state.name)
        if held is not None and held.definition.version == state.version:
            self._filling(path, state.given, held.definition, complete=False)

    def _filling(
        self, path: Path_, given: Mapping[str, Any], held: MachineDefinition, *, complete: bool = True
    ) -> list[Fault]:
        here = (*path, "with")
        faults = check_given(self.document, here, given, held.input, self._known, inlining.ROOTS, complete=complete)
        for name, value in given.items():  # what is a reference elsewhere is none here, and no text either
            parsed = references.parse(value, references.MACHINE_ROOTS)
            if isinstance(parsed, references.Reference) and parsed.root not in inlining.ROOTS and not parsed.steps:
                message = f"`{parsed.text}` cannot be referred to here"
                advice = "refer to `actor`, `evidence`, `input`; a text is written `{text: …}`"
                faults.append(self.document.fault((*here, name), message, advice))
        self.faults += faults
        return faults

    def _inlined(self, path: Path_, name: str, state: Inlined) -> None:
        """What this machine says of another that stands in it; that one's own rows were checked where it is defined."""
        if self.machine.scope(name) is not None:
            return
        held: MachineDefinition = state.of
        if self._filling(path, state.given, held):
            self._filled_ill.append(path)
        for there, what in (
            (self.catalogue.knows_tool(held.machine), "tool"),
            (held.machine in self.machine.signals, "signal"),
        ):
            if state.answer is not None and there:
                message = f"`{held.machine}` is a {what} too, and `evidence.{held.machine}` could be either"
                self.fault((*path, "machine"), message, "choose another name for one of them")

    # ------------------------------------------------------------ what references may name

    @cached_property
    def _known(self) -> Mapping[str, Properties]:
        names = self.catalogue.readable_tools(self.machine)
        tools = {name: self.catalogue.tool(name) for name in names}
        writes = [t for t in tools.values() if t is not None and not t.is_read]
        proposal: dict[str, Property] = {}
        for tool in writes:
            proposal |= tool.args
        return {
            "input": self.machine.input,
            "actor": ACTOR,
            "evidence": {
                **{n: Property(type="object", properties=t.returns) if t else ANYTHING for n, t in tools.items()},
                **from_outside(self.machine),
            },
            "effects": {
                n: Property(type="object", properties=EFFECT) for n, t in tools.items() if t is None or not t.is_read
            },
            # the model filled it, at least in part
            "proposal": {"tool": _TEXT, "args": Property(type="object", properties=proposal, untrusted=True)},
        }


def _always_refused(choice: Choice) -> bool:
    """True where a read is refused before any row could accept it."""

    def settled(row: Row) -> bool:
        return row.unconditional and row.goto is None

    first = next((row for row in choice.rows if settled(row)), None)
    return first is not None and first.refuse is not None and not any(row.stay for row in choice.rows)
