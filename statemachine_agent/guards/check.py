"""The faults of all expressions of a catalogue: unknown names, wrong types, values outside an enum, naive times.

It must not evaluate anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from statemachine_agent.definition.catalogue import Catalogue, MachineFile, ToolFile
from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.machine import ChooseState, MachineDefinition
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.schema import Properties, Property
from statemachine_agent.definition.source import Document, Path_
from statemachine_agent.guards import cel, contexts, syntax, types
from statemachine_agent.text import did_you_mean

_ZONED = re.compile(r".*(Z|[+-]\d\d:\d\d)$")


@dataclass(frozen=True)
class Checked:
    """A compiled expression, what it does, and the types it was checked against."""

    compiled: cel.Compiled
    syntax: syntax.Syntax
    types: types.MessageTypes


def check_expressions(catalogue: Catalogue) -> list[Fault]:
    """The faults of every guard and every condition."""
    faults: list[Fault] = []
    for tool in catalogue.tools.values():
        faults += _tool(catalogue, tool)
    for machine in catalogue.machines.values():
        faults += _machine(catalogue, machine)
    return faults


def _machine(catalogue: Catalogue, file: MachineFile) -> list[Fault]:
    faults: list[Fault] = []
    environments: dict[str | None, tuple[cel.Environment, types.MessageTypes]] = {}
    for name, places in guard_places(file.definition).items():
        text = file.definition.guards[name]
        for call in sorted(places, key=str):
            if call not in environments:
                environments[call] = types.environment(contexts.machine_roots(catalogue, file.definition, call))
            assert isinstance(text, str)  # noqa: S101  guard_places names CEL texts only
            _, found = check_text(file.document, ("guards", name), text, environments[call])
            faults += [_place_advice(f, call) for f in found]
    return faults


def _place_advice(fault: Fault, call: str | None) -> Fault:
    """`call` and `proposal` exist in some places only; say where the guard was used."""
    if "nothing is called `call" in fault.message:
        advice = "`call` can be read only in rows of a tool of a `choose`; elsewhere it is `proposal`"
    elif "nothing is called `proposal" in fault.message:
        advice = f"in rows of `{call}` it is `call`"
    else:
        return fault
    return Fault(fault.file, fault.mark, fault.message, advice, fault.level, fault.line)


def guard_places(machine: MachineDefinition) -> dict[str, set[str | None]]:
    """For each guard with a text: in rows of which tools it is read; None stands for everywhere else."""
    places: dict[str, set[str | None]] = {}

    def use(name: str, call: str | None, seen: frozenset[str]) -> None:
        guard = machine.guards.get(name)
        if isinstance(guard, str):
            places.setdefault(name, set()).add(call)
        elif guard is not None and name not in seen:
            for part in guard:
                use(part, call, seen | {name})

    for row, call in _rows(machine):
        for name in (*(row.when or ()), *(row.unless or ())):
            use(name, call, frozenset())
    for name in machine.success:
        use(name, None, frozenset())
    for (
        name,
        guard,
    ) in machine.guards.items():  # unused ones are warned of elsewhere; their text is checked all the same
        if isinstance(guard, str) and name not in places and "call." not in guard:
            places[name] = {None}
    return places


def _rows(machine: MachineDefinition) -> Iterator[tuple[Row, str | None]]:
    for state in machine.states.values():
        if isinstance(state, ChooseState):
            for tool, choice in state.choose.items():
                yield from ((row, tool) for row in choice.rows)
            yield from ((row, None) for row in state.then)
        else:
            yield from ((row, None) for row in rows_of(state))


def _tool(catalogue: Catalogue, file: ToolFile) -> list[Fault]:
    document, tool = file.document, file.manifest
    faults: list[Fault] = []
    rules = types.environment(contexts.rule_roots(tool))
    for index, rule in enumerate(tool.approval or ()):
        if rule.when is not None:
            faults += check_text(document, ("approval", index, "when"), rule.when, rules)[1]
    if tool.precondition and (lookup := catalogue.tool(tool.precondition.tool)):
        environment = types.environment(contexts.lookup_roots(tool, lookup))
        faults += check_text(document, ("precondition", "holds"), tool.precondition.holds, environment)[1]
    if tool.reconciler and (lookup := catalogue.tool(tool.reconciler.tool)):
        environment = types.environment(contexts.lookup_roots(tool, lookup))
        here: Path_ = ("idempotency", "reconcile")
        faults += check_text(document, (*here, "found"), tool.reconciler.found, environment)[1]
        faults += check_text(document, (*here, "absent"), tool.reconciler.absent, environment)[1]
        found, more = check_text(document, (*here, "result"), tool.reconciler.result, environment, boolean=False)
        faults += more
        if found is not None:
            faults += _covers(document, (*here, "result"), found, tool.returns)
    return faults


def _covers(document: Document, path: Path_, found: Checked, returns: Properties) -> list[Fault]:
    """Whether what a reconciliation finds is a result of the tool itself."""
    _, given = found.types.known.get(found.compiled.expression.return_type().name(), ("", None))
    if given is None:
        return [document.fault(path, f"this is a {found.compiled.type_name}", "give the object that the tool returns")]
    faults = []
    for name, wanted in returns.items():
        if wanted.optional:
            continue
        if name not in given:
            faults.append(document.fault(path, f"what is found has no `{name}`", "return it from the look-up too"))
        elif given[name].kind != wanted.kind:
            message = f"`{name}` is a {given[name].kind} there and a {wanted.kind} here"
            faults.append(document.fault(path, message, "describe both with one type"))
    return faults


def check_text(
    document: Document,
    path: Path_,
    text: str,
    environment: tuple[cel.Environment, types.MessageTypes],
    *,
    boolean: bool = True,
) -> tuple[Checked | None, list[Fault]]:
    """One expression checked in one environment, and its faults."""
    compiler, known = environment
    try:
        compiled = compiler.compile(text)
        cel.evaluator(text)
    except cel.CompileError as problem:
        return None, [
            document.fault(path, known.author_words(p.message), _advice(p.message, known, text), offset=p.offset)
            for p in problem.problems
            if "*error*" not in p.message  # a complaint that only follows from the one before it
        ]
    checked = Checked(compiled, syntax.analyse(compiled.checked), known)
    faults = []
    if boolean and not compiled.is_boolean:
        message = f"this is {_article(known.author_words(compiled.type_name))}, not true or false"
        faults.append(document.fault(path, message, "compare it with something"))
    faults += _enums(document, path, checked)
    for moment, offset in checked.syntax.timestamps:
        if not _ZONED.match(moment):
            message = f"the time `{moment}` names no zone"
            faults.append(document.fault(path, message, "end it with Z, or with +05:30", offset=offset))
    return checked, faults


def _article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeio" else f"a {kind}"


def _advice(message: str, known: types.MessageTypes, text: str) -> str:
    words = re.findall(r"`([^`]+)`", message)
    if "has no field" in message and len(words) == 2:  # noqa: PLR2004  the message and the field
        message_name, field = words
        properties: Properties = known.known.get(message_name, ("", {}))[1]
        return did_you_mean(field, properties)
    if "nothing is called" in message and words:
        roots = [path for path, _ in known.known.values() if "." not in path and "[" not in path]
        return did_you_mean(words[0].split(".")[0], [*roots, "now"])
    if "does not work on" in message:
        return "compare values of one type; a number of a `number` field is written with a point"
    if "too early" in message or "cannot be read" in message:
        return "check brackets and operators: `&&`, `||`, `!`, `==`, `in`"
    return f"simplify the expression ({len(text)} characters)"


def _enums(document: Document, path: Path_, checked: Checked) -> list[Fault]:
    faults = []
    for comparison in checked.syntax.comparisons:
        where, properties = checked.types.known.get(comparison.message, ("", {}))
        field: Property | None = properties.get(comparison.field)
        if field is None or field.enum is None:
            continue
        for literal in comparison.literals:
            if literal not in field.enum:
                message = f"`{where}.{comparison.field}` is never `{literal}`"
                faults.append(
                    document.fault(
                        path, message, did_you_mean(str(literal), map(str, field.enum)), offset=comparison.offset
                    )
                )
    return faults


def untrusted_fields(checked: Checked) -> list[str]:
    """The fields of free text from outside that an expression reads."""
    found = []
    for message, name in sorted(checked.syntax.fields):
        where, properties = checked.types.known.get(message, ("", {}))
        if name in properties and properties[name].untrusted:
            found.append(f"{where}.{name}")
    return found
