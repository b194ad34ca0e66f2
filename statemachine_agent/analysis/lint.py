"""Findings of level warning and note: what loads, and what an author would still want to know.

It must not refuse anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from statemachine_agent.analysis.absent import absent_in_machine, absent_in_tool
from statemachine_agent.analysis.asking import unasked_in_tool
from statemachine_agent.analysis.confirming import confirmed_too_late
from statemachine_agent.analysis.functions import functions_of
from statemachine_agent.analysis.presence import missing_evidence
from statemachine_agent.analysis.proposals import ways_of_writes
from statemachine_agent.analysis.twice import succeeds_by_another
from statemachine_agent.definition.catalogue import Catalogue, MachineFile, ToolFile
from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.states import CallState, ChooseState
from statemachine_agent.guards.check import Checked, checked_guards, untrusted_fields
from statemachine_agent.text import did_you_mean, nearest


def lint(
    catalogue: Catalogue,
    python_packages: frozenset[str] | None = None,
    programs: Collection[str] | None = None,
    servers: Collection[str] | None = None,
    folder: Path | None = None,
) -> list[Fault]:
    """The findings about all files that have no errors; with what the settings allow, about tools that reach for more.

    `folder` is that of the settings, in which Python tools are looked for.
    """
    broken = {f.file for f in catalogue.report.errors}
    findings: list[Fault] = []
    if python_packages is not None:
        findings += _bindings(catalogue, python_packages)
        findings += functions_of(catalogue, python_packages, folder) if folder is not None else ()
    if programs is not None:
        findings += _programs(catalogue, programs)
    if servers is not None:
        findings += _servers(catalogue, servers)
    for tool in catalogue.tools.values():
        if tool.document.source.name not in broken:
            findings += absent_in_tool(catalogue, tool)
            findings += unasked_in_tool(catalogue, tool)
            findings += _scopes(catalogue, tool)
            findings += _touched_by_nobody(catalogue, tool)
    for file in catalogue.machines.values():
        if file.document.source.name not in broken:
            findings += _machine(catalogue, file)
    return findings


def _scopes(catalogue: Catalogue, file: ToolFile) -> Iterator[Fault]:
    """A scope that nobody has: each call of the tool would be denied."""
    held = catalogue.people.scopes if catalogue.people is not None else frozenset(file.manifest.scopes)
    for index, scope in enumerate(file.manifest.scopes):
        if scope not in held:
            text = f"nobody has the scope `{scope}`, which `{file.manifest.tool}` needs"
            yield file.document.fault(("scopes", index), text, did_you_mean(scope, held), level=Level.WARNING)


def _touched_by_nobody(catalogue: Catalogue, file: ToolFile) -> Iterator[Fault]:
    """A read of something that no write changes by that name, where a write changes something with nearly that name."""
    if not file.manifest.is_read or file.manifest.touches is None:
        return
    written = {w for f in catalogue.tools.values() if f.manifest.touches for w in f.manifest.touches.writes}
    for index, name in enumerate(file.manifest.touches.reads):
        near = nearest(name, written)
        if name not in written and near is not None:
            text = f"no write touches `{name}`, so results of `{file.manifest.tool}` never become old by it"
            path = ("touches", "reads", index)
            yield file.document.fault(path, text, f"did you mean `{near}`?", level=Level.WARNING)


def _bindings(catalogue: Catalogue, packages: frozenset[str]) -> Iterator[Fault]:
    for tool in catalogue.tools.values():
        module = (tool.manifest.binding.python or "").partition(":")[0]
        if module and not any(module == p or module.startswith(f"{p}.") for p in packages):
            text = f"`{module}` is in no package that tools may be imported from"
            advice = f"add `{module.partition('.')[0]}` to `python_packages` in the settings"
            yield tool.document.fault(("binding", "python"), text, advice, level=Level.WARNING)


def _programs(catalogue: Catalogue, programs: Collection[str]) -> Iterator[Fault]:
    for tool in catalogue.tools.values():
        words = tool.manifest.binding.command
        if words and words[0] not in programs:
            text = f"`{words[0]}` is no program that tools may start"
            advice = f"add `{words[0]}` to `commands` in the settings" if "/" in words[0] else "write its path"
            yield tool.document.fault(("binding", "command", 0), text, advice, level=Level.WARNING)


def _servers(catalogue: Catalogue, servers: Collection[str]) -> Iterator[Fault]:
    for tool in catalogue.tools.values():
        mcp = tool.manifest.binding.mcp
        if mcp is not None and mcp.server not in servers:
            text = f"`{mcp.server}` is no MCP server of the settings"
            advice = did_you_mean(mcp.server, servers) if servers else f"add `[mcp.{mcp.server}]` to the settings"
            yield tool.document.fault(("binding", "mcp", "server"), text, advice, level=Level.WARNING)


def _machine(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    document, machine = file.document, file.definition
    own = [found for found in checked_guards(catalogue, file) if found[0] not in machine.guard_scopes]
    guards = {name: checked for name, _, checked, _ in own if checked is not None}
    came = {name: checked for name, _, checked, _ in checked_guards(catalogue, file) if checked is not None}
    for name, checked in guards.items():
        fields = untrusted_fields(checked)
        if fields:
            text = f"`{name}` reads `{fields[0]}`, which is free text from outside"
            yield document.fault(
                ("guards", name), text, "decide on a field of a system of record", key=True, level=Level.WARNING
            )
    yield from missing_evidence(catalogue, file)
    yield from absent_in_machine(catalogue, file)
    yield from confirmed_too_late(file, guards)
    yield from ways_of_writes(catalogue, file)
    yield from succeeds_by_another(catalogue, file, came)
    yield from _aging(catalogue, file, guards)
    yield from _promises_nothing(catalogue, file)
    for names in _together(machine):
        yield from _joins(catalogue, file, names, guards)
    if machine.properties:
        text = f"{len(machine.properties)} properties are not proved yet"
        yield document.fault(("properties",), text, "a later version proves them", key=True, level=Level.NOTE)


def _promises_nothing(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    """A machine that writes, and accepts `finish` while nothing is asked: its model may say that a refused write is done."""
    machine = file.definition
    states = machine.all_states.values()
    finishing = any(
        isinstance(s, ChooseState) and "finish" in s.choose and machine.scope(name) is None
        for name, s in machine.all_states.items()
    )
    calls = [catalogue.tool(s.call) for s in states if isinstance(s, CallState)]
    writes = next((tool.tool for tool in calls if tool is not None and not tool.is_read), None)
    if finishing and writes is not None and not machine.success:
        text = f"`finish` is accepted whatever became of `{writes}`"
        advice = "let `success` ask for it: effects.all(e, e.status in ['executed', 'verified'])"
        yield file.document.fault(("success",), text, advice, key=True, level=Level.WARNING)


def _aging(catalogue: Catalogue, file: MachineFile, guards: Mapping[str, Checked]) -> Iterator[Fault]:
    """`success` is asked at the end, when a result that stays fresh for some time may count as absent."""
    for name in written_out(file.definition, file.definition.success):
        for path in guards[name].syntax.paths if name in guards else ():
            tool = catalogue.tool(path[1]) if path[0] == "evidence" and len(path) > 1 else None
            if tool is not None and tool.fresh_for is not None:
                text = f"`{name}` reads `evidence.{tool.tool}` at the end, when it may no longer be fresh"
                advice = "ask the question when the proposal is judged, or read it again before the end"
                yield file.document.fault(("guards", name), text, advice, key=True, level=Level.WARNING)
                break


def _together(machine: MachineDefinition) -> Iterator[tuple[str, ...]]:
    """The guards that decide together: each row's, and `success`."""
    rows = [(*(row.when or ()), *(row.unless or ())) for state in machine.all_states.values() for row in rows_of(state)]
    for names in dict.fromkeys(tuple(written_out(machine, together)) for together in (*rows, machine.success)):
        if names:
            yield names


def _joins(
    catalogue: Catalogue, file: MachineFile, names: tuple[str, ...], guards: Mapping[str, Checked]
) -> Iterator[Fault]:
    """Evidence of two tools joined, and nothing says that both were asked about the same thing."""
    paths = {path for n in names if n in guards for path in guards[n].syntax.paths}
    tools = sorted({p[1] for p in paths if p[0] == "evidence" and len(p) > 1})
    asked = {(p[1], p[2]) for p in paths if p[0] == "asked" and len(p) > 2}  # noqa: PLR2004  asked.<tool>.<argument>
    for index, one in enumerate(tools):
        for other in tools[index + 1 :]:
            for argument in _shared(catalogue, one, other):
                loose = [
                    t for t in (one, other) if not _pinned(file.definition, t, argument) and (t, argument) not in asked
                ]
                if loose:
                    text = f"evidence of `{one}` and `{other}` is joined, and `{argument}` of `{loose[0]}` is the model's choice"
                    advice = f"pin it (`with: {{{argument}: …}}`), or compare `asked.{loose[0]}.{argument}`"
                    yield file.document.fault(("guards", names[0]), text, advice, key=True, level=Level.WARNING)


def _shared(catalogue: Catalogue, one: str, other: str) -> list[str]:
    first, second = catalogue.tool(one), catalogue.tool(other)
    return sorted(set(first.args) & set(second.args)) if first and second else []


def _pinned(machine: MachineDefinition, tool: str, argument: str) -> bool:
    offers = [s.choose[tool] for s in machine.all_states.values() if isinstance(s, ChooseState) and tool in s.choose]
    return all(argument in choice.pinned for choice in offers)
