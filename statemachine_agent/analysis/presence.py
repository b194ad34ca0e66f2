"""What is surely there when a state is entered (results, and fields that are optional), and guards that read what may be missing.

A must-analysis over the rows: what a path records, and what a passed `has(…)` shows, holds behind it, until a write makes it
old or it is read anew. It only warns: a guard that reads what is absent ends the task, and authors forget to ask `has(…)` first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from statemachine_agent.analysis.asking import NONE, Asking, Facts, advice_for, asking_of, askings
from statemachine_agent.definition.catalogue import Catalogue, MachineFile
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.nesting import DONE, holds
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import CallState, ChooseState, ReconcileState, WaitState
from statemachine_agent.guards import contexts, types
from statemachine_agent.guards.check import check_text


def missing_evidence(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    """A warning for each guard that may read what is not there, at the guard."""
    study = _Study(catalogue, file.definition, askings(catalogue, file))
    present = study.at_entry()
    warned: set[tuple[str, str]] = set()
    for name in study.machine.all_states:
        for judged in study.lists(name):
            for guard, what in study.unsure(judged.on(present.get(name, NONE)), judged):
                if (guard, what) not in warned and guard not in study.machine.guard_scopes:
                    warned.add((guard, what))
                    yield file.document.fault(
                        ("guards", guard), *_words(guard, what, name), key=True, level=Level.WARNING
                    )
    yield from _until(catalogue, file, present)


def _words(guard: str, what: str, state: str) -> tuple[str, str]:
    if "." in what:
        return f"`{guard}` reads `{what}`, which is optional and may be absent in `{state}`", advice_for(what)
    text = f"`{guard}` reads `evidence.{what}`, which may not be there yet in `{state}`"
    return text, f"ask `has(evidence.{what})` in a row above, or in the guard: `has(…) && …`"


def _until(catalogue: Catalogue, file: MachineFile, present: Mapping[str, Facts]) -> Iterator[Fault]:
    """The same for the times of waits; they are read when the state is entered."""
    machine, environment = file.definition, None
    for name, state in machine.all_states.items():
        if isinstance(state, WaitState) and state.wait.until and machine.scope(name) is None:
            environment = environment or types.environment(contexts.machine_roots(catalogue, machine))
            path: Path_ = (*machine.nesting.paths[name], "wait", "until")
            checked, _ = check_text(file.document, path, state.wait.until, environment, boolean=False)
            for what in asking_of(checked).reads if checked else ():
                if what not in present.get(name, NONE):
                    full = what if "." in what else f"evidence.{what}"
                    text = f"`until` reads `{full}`, which may be absent in `{name}`"
                    advice = f"ask `has({full})` in a row that leads here"
                    yield file.document.fault(path, text, advice, level=Level.WARNING)


@dataclass(frozen=True)
class _Judged:
    """A list of rows, and what has changed when it is judged."""

    rows: Sequence[Row]
    #: what is there now
    known: Facts = NONE
    #: tools whose results are old now
    gone: Facts = NONE
    #: tools whose results may be others now: what was asked of one says nothing of the next
    anew: Facts = NONE
    #: the tool or control choice that is proposed
    call: str | None = None
    #: a row accepts a write: what is known of the call is known of the proposal then
    proposes: bool = False

    def on(self, before: Facts) -> Facts:
        """What is there when the list is judged."""
        return _without(before - self.gone, self.gone | self.anew) | self.known

    def behind(self, there: Facts) -> Facts:
        """What of it is known where a row of the list leads."""
        if self.proposes:
            there = frozenset(fact for fact in there if not fact.startswith("proposal."))
            there |= {f"proposal{fact.removeprefix('call')}" for fact in there if fact.startswith("call.")}
        return frozenset(f for f in there if not f.startswith("call.")) if self.call else there


def _without(facts: Facts, tools: Facts) -> Facts:
    """`facts` without what was known of the fields of these tools' results."""
    fields = [fact.split(".") for fact in facts if fact.startswith(("evidence.", "asked."))]
    return facts - {".".join(path) for path in fields if path[1] in tools}


@dataclass(frozen=True)
class _Study:
    catalogue: Catalogue
    machine: MachineDefinition
    asked: Mapping[tuple[str, str | None], Asking]

    def at_entry(self) -> Mapping[str, Facts]:
        """For each state what is there on every path to it; unreached states are left out.

        For a state of states it is what is there when that is done: of regions, what all of them brought together.
        """
        nesting = self.machine.nesting
        present: dict[str, Facts] = {}
        waiting: list[str] = []

        def come(name: str, there: Facts) -> None:
            old = self._old_beside(name)
            there = _without(there - old, old)
            merged = there if name not in present else present[name] & there
            if present.get(name) != merged:
                present[name] = merged
                waiting.append(name)

        for leaf in nesting.entered(self.machine.initial):
            come(leaf, NONE)
        while waiting:
            name = waiting.pop()
            if nesting.is_region(name) and holds(nesting.states[name]):
                regions = (name, *nesting.siblings(name))
                if all(region in present for region in regions):
                    together = frozenset().union(*(present[region] for region in regions))
                    present[nesting.parents[name]] = together
                    waiting.append(nesting.parents[name])
                continue
            for target, there in self._edges(name, present[name]):
                for one in [nesting.done_by(name) or ""] if target == DONE else nesting.entered(target):
                    if one in nesting.states:
                        come(one, there)
        return present

    def _edges(self, name: str, before: Facts) -> Iterator[tuple[str, Facts]]:
        for judged in self.lists(name):
            there = judged.on(before)
            for row in judged.rows:
                if row.goto:
                    passed = there | self._shown(row.when, judged.call) | self._denied(row.unless, judged.call)
                    yield row.goto, judged.behind(passed)
                there |= self._passed_by(row, judged.call)

    def lists(self, name: str) -> Iterator[_Judged]:
        """The lists of rows of a state, each with what is new, and old, when it is judged."""
        state, scope = self.machine.all_states[name], self.machine.scope(name)
        match state:
            case ChooseState():
                yield from self._chosen(state, scope)
            case CallState(call=tool) | ReconcileState(reconcile=tool):
                anew, old = self._asked_by(tool), self._made_old(tool)
                for outcome, rows in state.then.items():
                    came = str(outcome) in ("ok", "found")
                    yield _Judged(rows, frozenset({tool}) if came else NONE, old if came else NONE, anew)
            case WaitState():
                for came_by, rows in state.then.items():
                    signal = frozenset({state.wait.signal or ""}) if came_by == "received" else NONE
                    yield _Judged(rows, signal, NONE, signal)
            case _:
                for rows in getattr(state, "then", {}).values():
                    yield _Judged(rows)
                yield _Judged(getattr(state, "route", ()))

    def _chosen(self, state: ChooseState, scope: str | None) -> Iterator[_Judged]:
        """Rows of a `choose`: of a read, `refuse` is judged before it is called, and what it shows holds for its other rows."""
        anew = frozenset(tool for tool in state.choose if tool not in CONTROLS)
        for tool, choice in state.choose.items():
            manifest = self.catalogue.tool(tool)
            refusals = [row for row in choice.rows if row.refuse]
            others = [row for row in choice.rows if not row.refuse]
            if tool == "finish" and scope is not None:  # its answer is evidence where it leads
                given = frozenset({self.machine.inlined[scope].of.machine})
                yield _Judged(refusals, anew=anew, call=tool)
                yield _Judged([row for row in choice.rows if row.goto], given, NONE, anew | given)
            elif tool in CONTROLS or manifest is None or not manifest.is_read:
                yield _Judged(choice.rows, anew=anew, call=tool, proposes=tool not in CONTROLS)
            else:
                shown = NONE.union(*(self._passed_by(row, tool) for row in refusals))
                shown = frozenset(f for f in _without(shown, frozenset({tool})) if not f.startswith("call."))
                yield _Judged(refusals, anew=anew, call=tool)
                yield _Judged(others, shown | {tool}, NONE, anew)
        yield _Judged(state.then, anew=anew)

    def _asked_by(self, tool: str) -> Facts:
        """The tools that a call or a look-up of `tool` may ask: itself, and the reads behind it."""
        manifest = self.catalogue.tool(tool)
        behind = [w.tool for w in (manifest.reconciler, manifest.precondition) if w] if manifest else []
        return frozenset({tool, *behind})

    def _made_old(self, tool: str) -> Facts:
        """The reads whose results are old once an effect of `tool` is done; what found the effect came after it."""
        write = self.catalogue.tool(tool)
        if write is None or write.is_read:
            return NONE
        found_by = write.reconciler.tool if write.reconciler else None
        return frozenset(n for n, f in self.catalogue.tools.items() if write.makes_old(f.manifest) and n != found_by)

    def _old_beside(self, name: str) -> Facts:
        """The reads whose results may become old at any time, since a region beside this one calls a write."""
        nesting = self.machine.nesting
        old: set[str] = set()
        for region in (name, *nesting.above(name)):
            for beside in nesting.siblings(region) if nesting.is_region(region) else ():
                for state in (nesting.states[one] for one in nesting.within(beside)):
                    old |= self._made_old(state.call) if isinstance(state, CallState) else set()
        return frozenset(old)

    def unsure(self, there: Facts, judged: _Judged) -> Iterator[tuple[str, str]]:
        """Guards of these rows, and of `success` where one leads there, each with what it reads and may not find."""
        for row in judged.rows:
            seen = there
            behind = self.machine.success if row.goto == "SUCCEEDED" else ()
            for name in written_out(self.machine, (*(row.when or ()), *(row.unless or ()))):
                asking = self._asking(name, judged.call)
                yield from ((name, what) for what in asking.reads if what not in seen)
                seen |= asking.shows
            if row.unless:
                seen = there  # taken where one of them did not hold
            for name in written_out(self.machine, behind):
                asking = self._asking(name, judged.call)
                yield from ((name, what) for what in asking.reads if what not in seen)
                seen |= asking.shows
            there |= self._passed_by(row, judged.call)

    def _asking(self, name: str, call: str | None) -> Asking:
        return self.asked.get((name, call)) or self.asked.get((name, None)) or Asking()

    def _shown(self, names: Sequence[str] | None, call: str | None) -> Facts:
        """What is there if all of these guards hold."""
        return NONE.union(*(self._asking(n, call).shows for n in written_out(self.machine, names or ())))

    def _denied(self, names: Sequence[str] | None, call: str | None) -> Facts:
        """What is there if not all of these guards hold: that can be told of a single one."""
        alone = written_out(self.machine, names or ())
        return self._asking(alone[0], call).denies if len(alone) == 1 else NONE

    def _passed_by(self, row: Row, call: str | None) -> Facts:
        """What is there where the row was looked at, and not taken."""
        return self._shown(row.unless, call) | self._denied(row.when, call)
