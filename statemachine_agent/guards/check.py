"""The faults of all expressions of a catalogue: unknown names, wrong types, values outside an enum, naive times.

It must not evaluate anything over a task's data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from statemachine_agent.definition.catalogue import Catalogue, MachineFile, ToolFile
from statemachine_agent.definition.check_graph import rows_of
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.document import Document, Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.schema import Properties, Property
from statemachine_agent.definition.states import ChooseState, WaitState, named_in
from statemachine_agent.guards import cel, contexts, growth, syntax, types, words
from statemachine_agent.text import did_you_mean

#: what an expression is compiled in, and what its types stand for
Environment = tuple[cel.Environment, types.MessageTypes]


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


def _machine(catalogue: Catalogue, file: MachineFile) -> Iterator[Fault]:
    told = set()
    for name, call, _, faults in checked_guards(catalogue, file):
        if name in file.definition.guard_scopes:
            continue  # told where the machine is defined that it came with
        if faults and name not in told:  # in another place it would mostly be the same again
            told.add(name)
            yield from (_place_advice(catalogue, fault, name, call) for fault in faults)
    times = {
        n: s.wait.until
        for n, s in file.definition.all_states.items()
        if isinstance(s, WaitState) and s.wait.until and file.definition.scope(n) is None
    }
    environment = types.environment(contexts.machine_roots(catalogue, file.definition)) if times else None
    for name, text in times.items():
        assert environment is not None  # noqa: S101  made where there are any
        path: Path_ = (*file.definition.nesting.paths[name], "wait", "until")
        found, faults = check_text(file.document, path, text, environment, boolean=False)
        yield from faults
        if found is not None and not (found.compiled.is_time or found.compiled.is_anything):
            message = f"this is {words.type_words(found.compiled.type_name, found.types)}, not a time"
            yield file.document.fault(
                path, message, "write `timestamp(…)` around a text, or add a duration to `now`", offset=0
            )


#: a guard in one kind of place: its name, the tool of the row (None: everywhere else), what was found, its faults
Found = tuple[str, str | None, Checked | None, list[Fault]]


def checked_guards(catalogue: Catalogue, file: MachineFile) -> list[Found]:
    """Each guard with a text, once for each kind of place in which it is read; several checks ask, it is done once."""
    key = ("guards", file.document.source.name)
    if key not in catalogue.notes:
        catalogue.notes[key] = list(_checked_guards(catalogue, file))
    found: list[Found] = catalogue.notes[key]
    return found


def _checked_guards(catalogue: Catalogue, file: MachineFile) -> Iterator[Found]:
    environments: dict[tuple[str | None, str | None], Environment] = {}
    for name, places in guard_places(catalogue, file.definition).items():
        text, scope = file.definition.guards[name], file.definition.guard_scopes.get(name)
        for call in sorted(places, key=str):
            where = call, scope
            if where not in environments:
                environments[where] = types.environment(contexts.machine_roots(catalogue, file.definition, *where))
            assert isinstance(text, str)  # noqa: S101  guard_places names CEL texts only
            path: Path_ = ("guards", name)
            found, faults = check_text(
                file.document,
                path,
                text,
                environments[where],
                uncertain=bool(catalogue.doubtful) or catalogue.unread_states(file.definition),
            )
            yield name, call, found, faults


def _place_advice(catalogue: Catalogue, fault: Fault, name: str, call: str | None) -> Fault:
    """What only exists in some places, or for some tools: say where the guard was used."""
    if "nothing is called `call`" in fault.message:
        advice = "it is there while a call is judged: in rows of a `choose`, of a read in its `refuse` rows; else read `proposal`"
    elif "nothing is called `proposal`" in fault.message:
        advice = f"`{name}` is read in a row of `{call}`, and there it is `call`"
    elif (found := _OTHER_TOOL.search(fault.message)) and catalogue.knows_tool(found[1]):
        advice = f"no state uses the tool `{found[1]}`"
    else:
        return fault
    return replace(fault, advice=advice)


_OTHER_TOOL = re.compile(r"`(?:evidence|asked|results)` has no field `(\w+)`")


def guard_places(catalogue: Catalogue, machine: MachineDefinition) -> dict[str, set[str | None]]:
    """For each guard with a text: in rows of which tools it is read; None stands for everywhere else."""
    used: dict[str | None, dict[str, None]] = {}
    for row, call in _rows(catalogue, machine):
        used.setdefault(call, {}).update(dict.fromkeys((*(row.when or ()), *(row.unless or ()))))
    offers_finish = any(isinstance(s, ChooseState) and "finish" in s.choose for s in machine.all_states.values())
    success = [*machine.success]
    for held, state in machine.inlined.items():
        success += [named_in(held.lower(), name) for name in state.of.success]
    for call in (None, "finish") if offers_finish else (None,):
        used.setdefault(call, {}).update(dict.fromkeys(success))
    places: dict[str, set[str | None]] = {}
    for call, names in used.items():
        for name in written_out(machine, names):
            if name in machine.guards:
                places.setdefault(name, set()).add(call)
    for name, guard in machine.guards.items():
        if isinstance(guard, str) and name not in places and not re.search(r"\bcall\b", guard):
            places[name] = {None}  # warned of elsewhere, and checked all the same
    return places


def _rows(catalogue: Catalogue, machine: MachineDefinition) -> Iterator[tuple[Row, str | None]]:
    """Every row, with the tool whose call it may read."""
    for state in machine.all_states.values():
        if isinstance(state, ChooseState):
            for tool, choice in state.choose.items():
                yield from ((row, call) for row in choice.rows for call in _judged(catalogue, tool, row))
            yield from ((row, None) for row in state.then)
        else:
            yield from ((row, None) for row in rows_of(state))


def _judged(catalogue: Catalogue, tool: str, row: Row) -> list[str | None]:
    """When a row of a `choose` is judged: with the call; and of a read, without it when its result is recorded."""
    manifest = catalogue.tool(tool)
    if manifest is None or not manifest.is_read or row.refuse is not None:
        return [tool]
    return [None] if row.goto else [tool, None]


def _tool(catalogue: Catalogue, file: ToolFile) -> list[Fault]:
    document, tool = file.document, file.manifest
    faults: list[Fault] = []
    if document.incomplete(("args",)):
        return faults  # what the expressions stand on is not known
    rules = types.environment(contexts.rule_roots(tool))
    for index, rule in enumerate(tool.approval or ()):
        if rule.when is not None:
            faults += check_text(document, ("approval", index, "when"), rule.when, rules)[1]
    if tool.precondition and (lookup := catalogue.tool(tool.precondition.tool)):
        environment = types.environment(contexts.lookup_roots(tool, lookup))
        faults += _concluded(document, ("precondition", "holds"), tool.precondition.holds, environment)
    if tool.reconciler and (lookup := catalogue.tool(tool.reconciler.tool)):
        environment = types.environment(contexts.lookup_roots(tool, lookup))
        here: Path_ = ("idempotency", "reconcile")
        faults += _concluded(document, (*here, "found"), tool.reconciler.found, environment)
        faults += _concluded(document, (*here, "absent"), tool.reconciler.absent, environment)
        found, more = check_text(document, (*here, "result"), tool.reconciler.result, environment, boolean=False)
        faults += more
        if found is not None:
            faults += _covers(document, (*here, "result"), found, tool.returns)
    return faults


def _concluded(document: Document, path: Path_, text: str, environment: Environment) -> list[Fault]:
    """A condition on what a look-up answered: one that does not read the answer would conclude from nothing."""
    checked, faults = check_text(document, path, text, environment)
    if checked is not None and not faults and "result" not in checked.syntax.roots:
        message = f"`{path[-1]}` does not read `result`, which is what the look-up answered"
        faults = [document.fault(path, message, "compare a field of `result`", offset=0)]
    return faults


def _covers(document: Document, path: Path_, found: Checked, returns: Properties) -> list[Fault]:
    """Whether what a reconciliation finds is a result of the tool itself."""
    if found.compiled.is_anything:
        return []  # the look-up does not say what it returns
    _, given = found.types.known.get(found.compiled.expression.return_type().name(), ("", None))
    if given is None:
        message = f"this is {words.type_words(found.compiled.type_name, found.types)}"
        return [document.fault(path, message, "give the object that the tool returns", offset=0)]
    faults = []
    for name, wanted in returns.items():
        if wanted.optional:
            continue
        if name not in given:
            faults.append(document.fault(path, f"what is found has no `{name}`", "return it from the look-up too"))
        elif given[name].kind != wanted.kind:
            message = f"`{name}` is of type {given[name].kind} there and of type {wanted.kind} here"
            faults.append(document.fault(path, message, "describe both with one type"))
    return faults


def check_text(
    document: Document,
    path: Path_,
    text: str,
    environment: Environment,
    *,
    boolean: bool = True,
    uncertain: bool = False,
) -> tuple[Checked | None, list[Fault]]:
    """One expression checked in one environment, and its faults; with `uncertain`, what could be anything may be a bool."""
    compiler, known = environment
    try:
        compiled = compiler.compile(text)
        cel.evaluator(text)
    except cel.CompileError as problem:
        return None, [
            document.fault(path, *words.compiler_words(p, known, text), offset=words.name_offset(p, text))
            for p in problem.problems
            if "*error*" not in p.message  # a complaint that only follows from the one before it
        ]
    checked = Checked(compiled, syntax.analyse(compiled.checked), known)
    faults = []
    if boolean and not compiled.is_boolean and not (compiled.is_anything and uncertain):
        message = f"this is {words.type_words(compiled.type_name, known)}, not true or false"
        faults.append(document.fault(path, message, "compare it with something", offset=0))
    faults += _enums(document, path, checked)
    for excess in growth.excesses(compiled.checked, known, uncertain=uncertain):
        faults.append(document.fault(path, excess.message, excess.advice, offset=excess.offset))
    for function, literal, offset in checked.syntax.formed:
        faults += [document.fault(path, *words, offset=offset) for words in words.form(function, literal)]
    return checked, faults


def _enums(document: Document, path: Path_, checked: Checked) -> list[Fault]:
    faults = []
    for comparison in checked.syntax.comparisons:
        where, properties = checked.types.known.get(comparison.message, ("", {}))
        field: Property | None = properties.get(comparison.field)
        if field is None or field.enum is None:
            continue
        for literal, offset in comparison.literals:
            if literal is not None and literal not in field.enum:
                message = f"`{where}.{comparison.field}` is never `{literal}`"
                advice = did_you_mean(str(literal), map(str, field.enum))
                faults.append(document.fault(path, message, advice, offset=offset))
    return faults


def untrusted_fields(checked: Checked) -> list[str]:
    """The fields of free text from outside that an expression reads."""
    found = []
    for message, name in sorted(checked.syntax.fields):
        where, properties = checked.types.known.get(message, ("", {}))
        field = properties.get(name)
        if field and (field.untrusted or (field.items and field.items.untrusted)):
            found.append(f"{where}.{name}")
    return found
