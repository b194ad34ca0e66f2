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
from statemachine_agent.definition.manifest import Reconcile, ToolManifest
from statemachine_agent.definition.redaction import MASK, field_at, hides
from statemachine_agent.definition.schema import Properties, Property, misfit
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
            if place not in told and hides(masks.get(of, ()), path):
                told.add(place)
                message = f"{reader} reads `{path}` of {_called(*of)}, which is masked"
                yield machine.document.fault(place, message, "decide on another field, or do not mask it", key=True)
        for of, path, place, reader in _by_references(machine):
            within = next((mask for mask in masks.get(of, ()) if _lies_in(mask, path)), None)
            if place not in told and within is not None:
                told.add(place)
                message = f"{reader} takes `{within}` of {_called(*of)} along, which is masked"
                yield machine.document.fault(place, message, "name the fields that are wanted", key=True)


def _lies_in(mask: str, path: str) -> bool:
    """True where something that is masked lies in what `path` names; without a path, in all of it."""
    return not path or mask.startswith((f"{path}.", f"{path}[]"))


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


# ---------------------------------------------------------------- what reads


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
            if parsed.root == "evidence" and parsed.steps:
                yield ("", str(parsed.steps[0])), _path(parsed.steps[1:]), place, reader
            elif parsed.root == "input":
                yield ("", ""), _path(parsed.steps), place, reader


def _path(steps: Iterable[str | int]) -> str:
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _by_conditions(catalogue: Catalogue, file: ToolFile) -> Iterator[Fault]:
    """Conditions on what a look-up answers, of which its manifest masks what they read."""
    masks = {name: tool.manifest.masked_results for name, tool in catalogue.tools.items() if tool.manifest.redact}
    told: set[Path_] = set()
    for name, path, read in _conditions(catalogue, file, masks):
        if hides(masks[name], read) and path not in told:
            told.add(path)
            message = f"it reads `{read}` of `{name}`, which is masked"
            yield file.document.fault(path, message, "decide on another field, or do not mask it")
    reconcile = file.manifest.reconciler
    if reconcile is not None and reconcile.tool in masks and _RESULT_OF not in told:
        lookup = catalogue.tools[reconcile.tool].manifest
        own = file.manifest.masked_results
        for what, advice in _passed_on(file, reconcile, lookup, masks[reconcile.tool], own):
            yield file.document.fault(_RESULT_OF, f"it passes on {what}", advice)


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
            if hides(own[lookup], read) and (name, lookup) not in told:
                told.add((name, lookup))
                message = f"`{name}` reads `{read}` of `{lookup}`, which is masked"
                yield machine.document.fault(place, message, "do not mask it", key=True)
        reconcile = file.manifest.reconciler if file is not None else None
        found = catalogue.tools.get(reconcile.tool) if reconcile is not None else None
        if file is None or reconcile is None or found is None or (name, reconcile.tool) in told:
            continue
        masks = [path for path in own.get(reconcile.tool, ()) if path not in found.manifest.masked_results]
        kept = (*file.manifest.masked_results, *own.get(name, ()))
        for what, advice in _passed_on(file, reconcile, found.manifest, masks, kept):
            yield machine.document.fault(place, f"`{name}` passes on {what}", advice, key=True)


#: what a reconciliation takes for the result of the write itself
_RESULT_OF: Path_ = ("idempotency", "reconcile", "result")


def _passed_on(
    file: ToolFile, reconcile: Reconcile, lookup: ToolManifest, masks: Iterable[str], own: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """What is masked of a look-up and becomes a field of the write that is not, or cannot be; and what to do."""
    tool, own, masks = file.manifest, tuple(own), tuple(masks)
    said = f"`{{}}` of `{lookup.tool}`, which is masked"
    environment = types.environment(contexts.lookup_roots(tool, lookup))
    checked, _ = check_text(file.document, _RESULT_OF, reconcile.result, environment, boolean=False)
    if checked is None or not masks:
        return
    if checked.compiled.is_anything:
        yield f"{said.format(masks[0])}, since it could be anything", "give an object that the look-up describes"
        return
    where, _ = checked.types.known.get(checked.compiled.type_name, ("", {}))
    root, _, inside = where.partition(".")
    for mask in masks:
        path = mask.removeprefix(f"{inside}.") if inside else mask
        if root != "result" or (inside and path == mask) or not _is_kept(tool.returns, path):
            continue
        declared = field_at(tool.returns, path)
        if not hides(own, path):
            yield said.format(mask), f"mask `{path}` of `{tool.tool}` too, or do not mask it"
        elif declared is not None and not _can_be_masked(declared):
            message = f"{said.format(mask)}, and `{path}` of `{tool.tool}` has to be there"
            yield message, "make it optional, or a text without limits"


def _is_kept(properties: Properties, path: str) -> bool:
    """True where a result keeps what is at `path`: because it describes it, or because it does not say what is there."""
    declared: Property | None = None
    for step in path.split("."):
        name, depth = step.partition("[")[0], step.count("[]")
        if declared is not None and declared.properties is None:
            return declared.kind in ("object", "array")
        held = properties if declared is None else declared.properties or {}
        if name not in held:
            return False
        declared = held[name]
        for _ in range(depth):
            if declared.items is None:
                return declared.kind in ("object", "array")
            declared = declared.items
    return True


def _can_be_masked(declared: Property) -> bool:
    """True where a result still fits when this is masked, or dropped."""
    return misfit(declared, MASK) is None if declared.kind == "string" else declared.optional


def _conditions(catalogue: Catalogue, file: ToolFile, wanted: Container[str]) -> Iterator[tuple[str, Path_, str]]:
    """What a tool's conditions read of its look-ups, as far as `wanted`: their names, where, and the path in the result."""
    tool = file.manifest
    texts: list[tuple[str, Path_, str]] = []
    if tool.precondition:
        texts.append((tool.precondition.tool, ("precondition", "holds"), tool.precondition.holds))
    if tool.reconciler:
        here: Path_ = ("idempotency", "reconcile")
        texts += [
            (tool.reconciler.tool, (*here, key), getattr(tool.reconciler, key)) for key in ("found", "absent", "result")
        ]
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
