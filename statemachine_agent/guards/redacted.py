"""Masked fields that something reads: a guard, a condition or a reference would see the mask and take it for the value.

It must not know how a field is masked.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from statemachine_agent.definition import references
from statemachine_agent.definition.catalogue import Catalogue, MachineFile, ToolFile
from statemachine_agent.definition.check_masks import masks_of
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.states import CallState, ChooseState, Inlined, WaitState
from statemachine_agent.guards import contexts, types
from statemachine_agent.guards.check import Checked, check_text, checked_guards

_RESULT = re.compile(r"(?:evidence\.(?P<one>\w+)|results\.(?P<all>\w+)\[\]\.result)\.(?P<path>.+)")
_ASKED = re.compile(r"(?:asked\.(?P<one>\w+)|results\.(?P<all>\w+)\[\]\.asked)\.(?P<path>.+)")

#: what is read of which name (empty: the input; `asked` before it: what a tool was asked with), where, and by whom
_Reading = tuple[tuple[str, str], str, Path_, str]


def read_masks(catalogue: Catalogue) -> Iterator[Fault]:
    """A fault for each guard, condition and reference that reads a masked field."""
    for file in catalogue.tools.values():
        yield from _by_conditions(catalogue, file)
    for machine in catalogue.machines.values():
        masks = _masks(catalogue, machine)
        if not masks:
            continue
        yield from _by_conditions_of(catalogue, machine)
        told: set[Path_] = set()
        for of, path, place, reader in (
            *_by_guards(catalogue, machine), *_by_times(catalogue, machine), *_by_references(machine),
        ):  # fmt: skip
            if place not in told and _hides(masks.get(of, ()), path):
                told.add(place)
                message = f"{reader} reads `{path}` of {_called(*of)}, which is masked"
                yield machine.document.fault(place, message, "decide on another field, or do not mask it", key=True)


def _called(kind: str, name: str) -> str:
    return "the input" if not name else f"what `{name}` was asked" if kind == "asked" else f"`{name}`"


def _masks(catalogue: Catalogue, machine: MachineFile) -> dict[tuple[str, str], tuple[str, ...]]:
    """What is masked of everything that a machine can read."""
    own = masks_of(catalogue, machine.definition)
    found = {("", ""): own.input} if own.input else {}
    for name in {*catalogue.tools, *own.evidence}:
        tool = catalogue.tools.get(name)
        paths = (*(tool.manifest.masked_results if tool else ()), *own.evidence.get(name, ()))
        found |= {("", name): paths} if paths else {}
        if tool and tool.manifest.masked_args:
            found["asked", name] = tool.manifest.masked_args
    return found


def _hides(masks: Iterable[str], path: str) -> bool:
    """True where `path`, or what it lies in, is masked."""
    return any(path == mask or path.startswith((f"{mask}.", f"{mask}[]")) for mask in masks)


# ---------------------------------------------------------------- what reads


def fields_read(checked: Checked) -> Iterator[tuple[str, str]]:
    """The tools and paths of the results that an expression reads."""
    yield from ((name, path) for (kind, name), path in _read(checked) if name and not kind)


def _read(checked: Checked) -> Iterator[tuple[tuple[str, str], str]]:
    for message, name in sorted(checked.syntax.fields):
        where, _ = checked.types.known.get(message, ("", {}))
        whole = f"{where}.{name}"
        if found := _RESULT.fullmatch(whole):
            of, path = ("", found["one"] or found["all"]), found["path"]
        elif found := _ASKED.fullmatch(whole):
            of, path = ("asked", found["one"] or found["all"]), found["path"]
        elif whole.startswith("input."):
            of, path = ("", ""), whole.removeprefix("input.")
        else:
            continue
        yield of, path
        yield of, f"{path}[]"  # a list that is read is read with what it holds


def _by_guards(catalogue: Catalogue, machine: MachineFile) -> Iterator[_Reading]:
    for name, _, checked, _ in checked_guards(catalogue, machine):
        scope = machine.definition.guard_scopes.get(name)
        for of, path in _read(checked) if checked is not None else ():
            if scope is None:
                yield of, path, ("guards", name), f"`{name}`"
            elif of != ("", ""):  # its own input is filled by a reference, and that is looked at
                yield of, path, machine.definition.nesting.paths[scope], f"`{name}`"


def _by_times(catalogue: Catalogue, machine: MachineFile) -> Iterator[_Reading]:
    definition = machine.definition
    for name, state in definition.all_states.items():
        if isinstance(state, WaitState) and state.wait.until:
            scope = definition.scope(name)
            environment = types.environment(contexts.machine_roots(catalogue, definition, None, scope))
            path: Path_ = (*definition.nesting.paths[name], "wait", "until")
            checked, _ = check_text(machine.document, path, state.wait.until, environment, boolean=False)
            for of, read in _read(checked) if checked is not None else ():
                if scope is None or of != ("", ""):  # an inner machine's input is filled by a reference
                    yield of, read, path, f"`{name}`"


def _by_references(machine: MachineFile) -> Iterator[_Reading]:
    for name, state in machine.definition.all_states.items():
        given: list[Mapping[str, Any]] = []
        if isinstance(state, ChooseState):
            given = [choice.pinned for choice in state.choose.values()]
        elif isinstance(state, (CallState, Inlined)) and isinstance(state.given, Mapping):
            given = [state.given]
        for value in (value for values in given for value in values.values()):
            parsed = references.parse(value, references.MACHINE_ROOTS)
            if not isinstance(parsed, references.Reference):
                continue
            place, reader = machine.definition.nesting.paths[name], f"a `with` of `{name}`"
            if parsed.root == "evidence" and len(parsed.steps) > 1:
                yield ("", str(parsed.steps[0])), _path(parsed.steps[1:]), place, reader
            elif parsed.root == "input" and parsed.steps:
                yield ("", ""), _path(parsed.steps), place, reader


def _path(steps: Iterable[str | int]) -> str:
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _by_conditions(catalogue: Catalogue, file: ToolFile) -> Iterator[Fault]:
    """Conditions on what a look-up answers, of which its manifest masks what they read."""
    masks = {name: tool.manifest.masked_results for name, tool in catalogue.tools.items() if tool.manifest.redact}
    told: set[Path_] = set()
    for name, path, read in _conditions(catalogue, file, masks):
        if _hides(masks[name], read) and path not in told:
            told.add(path)
            message = f"it reads `{read}` of `{name}`, which is masked"
            yield file.document.fault(path, message, "decide on another field, or do not mask it")


def _by_conditions_of(catalogue: Catalogue, machine: MachineFile) -> Iterator[Fault]:
    """The same for what only the machine masks; told at its own words."""
    own = masks_of(catalogue, machine.definition).evidence
    if not own:
        return
    place: Path_ = ("redact",) if machine.definition.redact else ("retain",)
    told: set[tuple[str, str]] = set()
    for name in catalogue.used_tools(machine.definition):
        file = catalogue.tools.get(name)
        for lookup, _, read in _conditions(catalogue, file, own) if file is not None else ():
            if _hides(own[lookup], read) and (name, lookup) not in told:
                told.add((name, lookup))
                message = f"`{name}` reads `{read}` of `{lookup}`, which is masked"
                yield machine.document.fault(place, message, "do not mask it", key=True)


def _conditions(catalogue: Catalogue, file: ToolFile, wanted: Container[str]) -> Iterator[tuple[str, Path_, str]]:
    """What a tool's conditions read of its look-ups, as far as `wanted`: their names, where, and the path in the result."""
    tool = file.manifest
    texts: list[tuple[str, Path_, str]] = []
    if tool.precondition:
        texts.append((tool.precondition.tool, ("precondition", "holds"), tool.precondition.holds))
    if tool.reconciler:
        here: Path_ = ("idempotency", "reconcile")
        texts += [(tool.reconciler.tool, (*here, key), getattr(tool.reconciler, key)) for key in ("found", "absent")]
    for name, path, text in texts:
        lookup = catalogue.tool(name)
        if lookup is not None and name in wanted:
            yield from ((name, path, read) for read in _of_result(file, tool, lookup, path, text))


def _of_result(file: ToolFile, tool: ToolManifest, lookup: ToolManifest, path: Path_, text: str) -> Iterator[str]:
    environment = types.environment(contexts.lookup_roots(tool, lookup))
    checked, _ = check_text(file.document, path, text, environment)
    if checked is None:
        return  # it does not compile, and that is told
    for message, name in sorted(checked.syntax.fields):
        where, _ = checked.types.known.get(message, ("", {}))
        whole = f"{where}.{name}"
        if whole.startswith("result."):
            yield whole.removeprefix("result.")
            yield f"{whole.removeprefix('result.')}[]"  # a list that is read is read with what it holds
