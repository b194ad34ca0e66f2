"""One machine against the catalogue: every name exists, every list is complete, every value has the right type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from statemachine_agent.definition import references
from statemachine_agent.definition.check_tool import check_given
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import (
    ApprovalState,
    CallState,
    Choice,
    ChooseState,
    MachineDefinition,
    ReconcileState,
    RouteState,
    State,
    WaitState,
)
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.names import CONTROLS, ENDS, RULING_GUARDS, is_reserved
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.schema import Properties, Property, check_names
from statemachine_agent.definition.source import Document, Path_
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, MachineFile

_TEXT = Property(type="string")
_TEXTS = Property(type="array", items=_TEXT)
ACTOR: Properties = {"id": _TEXT, "tenant": _TEXT, "roles": _TEXTS, "scopes": _TEXTS}
EFFECT: Properties = {"key": _TEXT, "tool": _TEXT, "status": _TEXT}

_TARGETS = frozenset({"goto"})
_ANY = frozenset({"goto", "stay", "refuse"})


def check_machine(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    """The faults of one machine."""
    return _Machine(catalogue, file).check()


class _Machine:
    """The check of one machine; it collects faults."""

    def __init__(self, catalogue: Catalogue, file: MachineFile) -> None:
        self.catalogue = catalogue
        self.document: Document = file.document
        self.machine: MachineDefinition = file.definition
        self.faults: list[Fault] = []
        self.used_guards: set[str] = set(self.machine.success)

    def fault(self, path: Path_, message: str, advice: str, *, key: bool = False, level: Level = Level.ERROR) -> None:
        self.faults.append(self.document.fault(path, message, advice, key=key, level=level))

    def check(self) -> list[Fault]:
        self._names()
        self._guards()
        for name, state in self.machine.states.items():
            self._state(("states", name), name, state)
        self._target(("initial",), self.machine.initial, ends=False)
        for tool in self.machine.at_most:
            self._tool(("at_most", tool), tool, key=True)
        self._unused()
        return self.faults

    # ------------------------------------------------------------ names and guards

    def _names(self) -> None:
        if is_reserved(self.machine.machine):
            self.fault(("machine",), f"`{self.machine.machine}` is a word of the language", "choose another name")
        for name in self.machine.states:
            if name in ENDS:
                advice = "it is there already; go to it, and give a state of your own another name"
                self.fault(("states", name), f"`{name}` is a built-in end", advice, key=True)
            elif is_reserved(name):
                self.fault(("states", name), f"`{name}` is a word of the language", "choose another name", key=True)
        for name in self.machine.guards:
            if is_reserved(name):
                self.fault(("guards", name), f"`{name}` is a word of the language", "choose another name", key=True)
        for name, problem in check_names(self.machine.input):
            self.fault(("input", *name.split(".")), f"`{name}` {problem}", "rename it", key=True)

    def _guards(self) -> None:
        for name, guard in self.machine.guards.items():
            if isinstance(guard, str):
                continue
            for index, part in enumerate(guard):
                self._guard(("guards", name, index), part)
            if self._circular(name, ()):
                self.fault(("guards", name), f"`{name}` is made of itself", "break the circle", key=True)
        for index, name in enumerate(self.machine.success):
            self._guard(("success", index), name)

    def _circular(self, name: str, seen: tuple[str, ...]) -> bool:
        guard = self.machine.guards.get(name)
        if name in seen:
            return name == seen[0]
        return isinstance(guard, tuple) and any(self._circular(part, (*seen, name)) for part in guard)

    def _guard(self, path: Path_, name: str, *, ruling: bool = False) -> None:
        self.used_guards.add(name)
        if name in RULING_GUARDS:
            if not ruling:
                self.fault(path, f"`{name}` is read in a `route` only", "branch on it in a `route` after the proposal")
        elif name not in self.machine.guards:
            self.fault(path, f"there is no guard `{name}`", did_you_mean(name, [*self.machine.guards, *RULING_GUARDS]))

    def _unused(self) -> None:
        for name in self.machine.guards:
            if name not in self.used_guards:
                self.fault(
                    ("guards", name), f"no row uses the guard `{name}`", "remove it", key=True, level=Level.WARNING
                )

    def _tool(self, path: Path_, name: str, *, key: bool = False) -> ToolManifest | None:
        found = self.catalogue.tool(name)
        if found is None:
            self.fault(path, f"there is no tool `{name}`", did_you_mean(name, self.catalogue.tools), key=key)
        return found

    # ------------------------------------------------------------ rows

    def _target(self, path: Path_, name: str, *, ends: bool = True) -> None:
        known = [*self.machine.states, *(ENDS if ends else ())]
        if name not in known:
            self.fault(path, f"there is no state `{name}`", did_you_mean(name, known))

    def _rows(
        self, path: Path_, rows: Iterable[Row], *, kinds: frozenset[str], total: bool, ruling: bool = False
    ) -> None:
        rows = list(rows)
        for index, row in enumerate(rows):
            here: Path_ = (*path, index) if isinstance(self.document.at(path), list) else path
            for key, names in (("when", row.when), ("unless", row.unless)):
                for position, name in enumerate(names or ()):
                    self._guard((*here, key, position), name, ruling=ruling)
            kind = "goto" if row.goto else "stay" if row.stay else "refuse"
            if kind not in kinds:
                allowed = ", ".join(f"`{k}`" for k in sorted(kinds))
                self.fault((*here, kind), f"`{kind}` has no meaning here", f"write {allowed}", key=True)
            if row.goto:
                self._target((*here, "goto"), row.goto)
                if row.reason and row.goto not in ENDS:
                    self.fault((*here, "reason"), f"`{row.goto}` is no end, and only ends have a reason", "remove it")
            if row.confirms:
                tool = self._tool((*here, "confirms"), row.confirms)
                if tool and tool.is_read:
                    self.fault((*here, "confirms"), f"`{row.confirms}` is a read", "name the write whose effect it is")
            if row.unconditional and index < len(rows) - 1:
                self.fault((*here,), "no row below this one is ever reached", "give it a condition, or put it last")
        if total and rows and not rows[-1].unconditional:
            last: Path_ = (*path, len(rows) - 1)
            self.fault(last, "the list may end without an answer", "end it with a row without `when` and `unless`")

    def _outcomes(self, path: Path_, then: Mapping[Any, tuple[Row, ...]], wanted: Iterable[str], why: str) -> None:
        wanted = list(wanted)
        for outcome in wanted:
            if outcome not in then:
                self.fault(path, f"`then` lacks `{outcome}`", f"add `{outcome}:`; {why}", key=True)
        for outcome, rows in then.items():
            if outcome not in wanted:
                self.fault((*path, outcome), f"`{outcome}` cannot happen here", f"remove it; {why}", key=True)
            self._rows((*path, outcome), rows, kinds=_TARGETS, total=True)

    # ------------------------------------------------------------ states, by their verb

    def _state(self, path: Path_, name: str, state: State) -> None:
        match state:
            case ChooseState():
                self._choose(path, state)
            case RouteState():
                self._rows((*path, "route"), state.route, kinds=_TARGETS, total=True, ruling=True)
            case CallState():
                self._call(path, state)
            case ReconcileState():
                self._reconcile(path, name, state)
            case ApprovalState():
                self._approval(path, state)
            case WaitState():
                wanted = ["elapsed", *(["exhausted"] if state.wait.at_most else [])]
                why = "a wait has `elapsed`, and with `at_most` also `exhausted`"
                self._outcomes((*path, "then"), state.then, wanted, why)

    def _choose(self, path: Path_, state: ChooseState) -> None:
        for tool, choice in state.choose.items():
            here: Path_ = (*path, "choose", tool)
            if self.document.at(here) is None:  # the list form
                here = (*path, "choose")
            if tool in CONTROLS:
                self._control(here, tool, choice)
                continue
            manifest = self._tool(here, tool, key=True)
            rows: Path_ = (*here, "rows") if isinstance(self.document.at((*here, "rows")), (list, str)) else here
            self._rows(rows, choice.rows, kinds=_ANY, total=False)
            if manifest is not None:
                self._offered(here, manifest, choice)
        self._rows((*path, "then"), state.then, kinds=frozenset({"goto", "stay"}), total=False)

    def _offered(self, path: Path_, manifest: ToolManifest, choice: Choice) -> None:
        if not manifest.is_read:
            if any(row.stay for row in choice.rows):
                message = f"`{manifest.tool}` is a {manifest.effect}, and a write never runs inside `choose`"
                self.fault(path, message, f"let it go to a state that has `call: {manifest.tool}`", key=True)
            elif not any(row.goto for row in choice.rows):
                self.fault(path, f"`{manifest.tool}` is never accepted", "add a row with `goto`", key=True)
        known = self._known()
        faults = check_given(
            self.document,
            (*path, "with"),
            choice.pinned,
            manifest.args,
            known,
            references.MACHINE_ROOTS,
            complete=False,
        )
        self.faults += faults
        for name, argument in manifest.args.items():
            if argument.trusted and name not in choice.pinned:
                message = f"`{name}` of `{manifest.tool}` takes only what is trusted, and the model would fill it"
                self.fault(path, message, f"pin it: `with: {{{name}: …}}`", key=True)

    def _control(self, path: Path_, control: str, choice: Choice) -> None:
        if choice.pinned:
            self.fault((*path, "with"), f"`{control}` has no arguments to pin", "remove `with`", key=True)
        self._rows(path, choice.rows, kinds=frozenset({"goto", "refuse"}), total=False)
        wanted = {"finish": ("SUCCEEDED",), "ask_user": ("NEEDS_INPUT",), "cannot_continue": ENDS}.get(control)
        if wanted is None:
            self.fault(path, f"`{control}` is offered with the tool it asks for", "remove it", key=True)
            return
        for row in choice.rows:
            if row.goto and row.goto not in wanted:
                words = " or ".join(f"`{w}`" for w in wanted)
                self.fault(path, f"`{control}` goes to {words}", f"write {words}", key=True)

    def _call(self, path: Path_, state: CallState) -> None:
        tool = self._tool((*path, "call"), state.call)
        if tool is None:
            return
        outcomes = ("ok", "failed") if tool.is_read else ("ok", "failed", "blocked", "unknown")
        why = "a read has two outcomes" if tool.is_read else "a write has four outcomes"
        self._outcomes((*path, "then"), state.then, outcomes, why)
        if state.given == "proposal":
            if tool.is_read:
                self.fault(
                    (*path, "with"), f"`{tool.tool}` is a read, and only a write is proposed", "name its arguments"
                )
            elif not self._proposable(tool.tool):
                message = f"no `choose` lets the model propose `{tool.tool}`"
                self.fault((*path, "with"), message, "offer it with a `goto`, or name its arguments here")
        else:
            self.faults += check_given(
                self.document, (*path, "with"), state.given, tool.args, self._known(), references.MACHINE_ROOTS
            )
        if not tool.is_read:
            self._unknown(path, state, tool)

    def _unknown(self, path: Path_, state: CallState, tool: ToolManifest) -> None:
        reconcilable = tool.idempotency is not None and (tool.reconciler is not None or tool.idempotency.replay)
        for row in state.then.get("unknown", ()):
            target = self.machine.states.get(row.goto or "")
            if reconcilable and not (isinstance(target, ReconcileState) and target.reconcile == tool.tool):
                message = f"from `unknown` a write goes to its `reconcile`, and `{row.goto}` is none"
                self.fault((*path, "then", "unknown"), message, f"go to a state that has `reconcile: {tool.tool}`")
            if not reconcilable and row.goto not in ENDS:
                message = f"`{tool.tool}` cannot be looked up, so `unknown` goes to an end"
                self.fault((*path, "then", "unknown"), message, "write an end; a person settles it with `sma resolve`")

    def _proposable(self, tool: str) -> bool:
        return any(
            tool in state.choose and any(row.goto for row in state.choose[tool].rows)
            for state in self.machine.states.values()
            if isinstance(state, ChooseState)
        )

    def _reconcile(self, path: Path_, name: str, state: ReconcileState) -> None:
        tool = self._tool((*path, "reconcile"), state.reconcile)
        if tool is None:
            return
        if tool.is_read:
            self.fault((*path, "reconcile"), f"`{tool.tool}` is a read; there is nothing to look up", "name a write")
        elif tool.idempotency is None or not (tool.reconciler or tool.idempotency.replay):
            message = f"`{tool.tool}` does not say how it is looked up"
            self.fault((*path, "reconcile"), message, "add `idempotency.reconcile` to its manifest")
        self._outcomes(
            (*path, "then"), state.then, ("found", "absent", "failed"), "a reconciliation has three outcomes"
        )
        for other, candidate in self.machine.states.items():
            if other != name and isinstance(candidate, CallState) and candidate.call == state.reconcile:
                for outcome in ("found", "failed"):
                    if any(row.goto == other for row in state.then.get(outcome, ())):
                        message = f"only `absent` may lead back to `{other}`"
                        self.fault((*path, "then", outcome), message, "go elsewhere: the effect may have happened")

    def _approval(self, path: Path_, state: ApprovalState) -> None:
        tool = self._tool((*path, "approval", "of"), state.approval.of)
        if tool is not None and tool.is_read:
            self.fault((*path, "approval", "of"), f"`{tool.tool}` is a read, and no read is approved", "name a write")
        elif tool is not None and not self._proposable(tool.tool):
            message = f"no `choose` lets the model propose `{tool.tool}`"
            self.fault((*path, "approval", "of"), message, "offer it with a `goto`")
        for role in state.approval.by or ():
            if self.catalogue.lacks_role(role):
                advice = did_you_mean(role, self.catalogue.people.roles if self.catalogue.people else ())
                self.fault((*path, "approval", "by"), f"nobody has the role `{role}`", advice)
        if tool is not None and not state.approval.by and all(rule.when is not None for rule in tool.approval or ()):
            message = "nobody is named who could approve"
            self.fault((*path, "approval"), message, "add `by: ROLE`, or a rule without `when` to the manifest")
        why = "an approval has three outcomes"
        self._outcomes((*path, "then"), state.then, ("approved", "rejected", "expired"), why)

    # ------------------------------------------------------------ what references may name

    def _known(self) -> Mapping[str, Properties]:
        used = [self.catalogue.tool(n) for n in self.catalogue.used_tools(self.machine)]
        tools = [t for t in used if t is not None]
        writes = [t for t in tools if not t.is_read]
        proposal: dict[str, Property] = {}
        for tool in writes:
            proposal |= tool.args
        return {
            "input": self.machine.input,
            "actor": ACTOR,
            "evidence": {t.tool: Property(type="object", properties=t.returns) for t in tools},
            "effects": {t.tool: Property(type="object", properties=EFFECT) for t in writes},
            "proposal": {"tool": _TEXT, "args": Property(type="object", properties=proposal)},
        }
