"""Ways of an accepted write through its machine: to a call of it, and there only with the yes that its manifest may ask for.

It only warns. What guards say is not looked into, but for the two that the policy answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from statemachine_agent.definition.catalogue import Catalogue, MachineFile
from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.manifest import Rule, ToolManifest
from statemachine_agent.definition.names import ENDS, RULING_GUARDS
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.states import ApprovalState, CallState, ChooseState, CompoundState, RouteState
from statemachine_agent.text import shorten

_REQUIRED, _NOT_REQUIRED = RULING_GUARDS


def ways_of_writes(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    """A warning for each accepting row that leads to no call, and for each call that is come to without a yes."""
    machine = file.definition
    own = [name for name in machine.all_states if machine.scope(name) is None]  # others are told where they are defined
    writes = {state.call for name in own if isinstance(state := machine.all_states[name], CallState)}
    writes |= {tool for name in own if isinstance(s := machine.all_states[name], ChooseState) for tool in s.choose}
    for tool in (catalogue.tool(name) for name in sorted(writes)):
        if tool is not None and not tool.is_read:
            yield from _never_run(file, tool, own)
            if tool.approval:
                yield from _without_a_yes(file, tool, tool.approval, own)


# ---------------------------------------------------------------- what is accepted is called


def _never_run(file: MachineFile, tool: ToolManifest, own: Iterable[str]) -> Iterator[Fault]:
    machine = file.definition
    called = _before_a_call(machine, tool)
    for name in own:
        state = machine.all_states[name]
        if isinstance(state, ChooseState) and tool.tool in state.choose:
            rows = [(index, row) for index, row in enumerate(state.choose[tool.tool].rows) if row.goto]
            lost = [(index, row) for index, row in rows if called.isdisjoint(_entered(machine, name, [row]))]
            for index, row in lost:
                # where another row leads to the call, an end is what the author wants of this one, unless it is success
                if len(lost) == len(rows) or row.goto == "SUCCEEDED":
                    text = f"no `call` of `{tool.tool}` is behind `{row.goto}`, so what is accepted here never runs"
                    advice = f"go to the state that has `call: {tool.tool}`, or to one that leads there"
                    yield file.document.fault(_row(file, name, tool.tool, index), text, advice, level=Level.WARNING)


def _before_a_call(machine: MachineDefinition, tool: ToolManifest) -> set[str]:
    """The states from which a pending proposal can come to a call of `tool`, those that call it included."""
    sources: dict[str, list[str]] = {}
    found = {n for n, s in machine.all_states.items() if isinstance(s, CallState) and s.call == tool.tool}
    for name in machine.all_states if found else ():
        for target in _entered(machine, name, _ways(machine, tool, name, needs_yes=False)):
            sources.setdefault(target, []).append(name)
    waiting = list(found)
    while waiting:
        for source in sources.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _row(file: MachineFile, name: str, tool: str, index: int) -> Path_:
    """Where a row of a choice stands; a single target has no number."""
    path: Path_ = (*file.definition.nesting.paths[name], "choose", tool)
    if file.document.at((*path, "rows")) is not None:
        path = (*path, "rows")
    return (*path, index, "goto") if isinstance(file.document.at(path), list) else path


# ---------------------------------------------------------------- what needs a yes is asked


def _without_a_yes(
    file: MachineFile, tool: ToolManifest, rules: tuple[Rule, ...], own: Iterable[str]
) -> Iterator[Fault]:
    machine = file.definition
    asked = any(isinstance(s, ApprovalState) and s.approval.of == tool.tool for s in machine.all_states.values())
    starts: set[str] = set()
    proposed = False
    for name, state in machine.all_states.items():
        if isinstance(state, ChooseState) and tool.tool in state.choose:
            proposed = True
            starts |= _entered(machine, name, state.choose[tool.tool].rows)
    reached = _reached(machine, tool, starts, needs_yes=True) if proposed else set(machine.all_states)
    for name in own:
        state = machine.all_states[name]
        if isinstance(state, CallState) and state.call == tool.tool and name in reached:
            what = f"`{tool.tool}` may need a yes ({_in_words(rules)})"
            if asked:
                text = f"{what}, and a way leads here without it: then the call is `blocked`"
                advice = f"lead `{{when: {_REQUIRED}}}` to the state with `approval: {{of: {tool.tool}, …}}`"
            else:
                text = f"{what}, and no state asks for it: then the call is `blocked`"
                asking = f"approval: {{of: {tool.tool}, by: {rules[0].by[0]}, expires: 1d}}"
                routed = f"`{{when: {_REQUIRED}, goto: ASKING}}`"
                advice = f"add a `route` before it with {routed}, and `ASKING: {{{asking}, then: …}}`"
            path: Path_ = (*machine.nesting.paths[name], "call")
            yield file.document.fault(path, text, advice, level=Level.WARNING)


def _in_words(rules: tuple[Rule, ...]) -> str:
    first = rules[0]
    told = f"{first.because}: `{shorten(first.when, 60)}`" if first.when is not None else first.because
    return f"{told}, and {len(rules) - 1} more" if len(rules) > 1 else told


# ---------------------------------------------------------------- ways


def _entered(machine: MachineDefinition, name: str, rows: Iterable[Row]) -> set[str]:
    """The states that are entered where these rows of `name` lead."""
    found = {leaf for row in rows if row.goto for leaf in machine.nesting.leads(name, row.goto)}
    return {leaf for leaf in found if leaf not in ENDS and leaf in machine.all_states}


def _reached(machine: MachineDefinition, tool: ToolManifest, starts: Collection[str], *, needs_yes: bool) -> set[str]:
    """Where a pending proposal of `tool` can come to; `needs_yes`: one that needs a yes, without it."""
    reached = set(starts)
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        for one in _entered(machine, name, _ways(machine, tool, name, needs_yes=needs_yes)) - reached:
            reached.add(one)
            waiting.append(one)
    return reached


def _ways(machine: MachineDefinition, tool: ToolManifest, name: str, *, needs_yes: bool) -> Iterator[Row]:
    """The rows of a state that leave the proposal pending."""
    state = machine.all_states[name]
    match state:
        case ApprovalState() if state.approval.of == tool.tool:
            yield from () if needs_yes else state.then.get("approved", ())
        case CallState() if state.call == tool.tool:
            pass
        case ChooseState():  # proposed anew, it is another proposal
            for one, choice in state.choose.items():
                yield from choice.rows if one != tool.tool else ()
            yield from state.then
        case RouteState() if needs_yes:
            yield from _routed(state.route)
        case CompoundState():
            pass  # what leads out of it are the rows of what it holds
        case _:
            yield from rows_of(state)


def _routed(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a `route` that can be taken where a yes is required, up to the one that surely is."""
    for row in rows:
        when, unless = row.when or (), row.unless or ()
        if _NOT_REQUIRED in when or unless == (_REQUIRED,):
            continue
        yield row
        if row.unconditional or when == (_REQUIRED,) or _NOT_REQUIRED in unless:
            return
