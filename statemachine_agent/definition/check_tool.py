"""One manifest against the others: what makes a write safe to run is promised, and the promise can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from statemachine_agent.definition import references
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.definition.manifest import Http, ToolManifest
from statemachine_agent.definition.names import is_reserved
from statemachine_agent.definition.schema import Properties, Property, check_names
from statemachine_agent.definition.source import Document, Path_
from statemachine_agent.definition.template import variables_in
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue, ToolFile

_TEXT = Property(type="string")
#: what a manifest may read of the effect itself
EFFECT: Properties = {"key": _TEXT, "tool": _TEXT}


def check_tool(catalogue: Catalogue, file: ToolFile) -> list[Fault]:
    """The faults of one manifest."""
    document, tool = file.document, file.manifest
    faults: list[Fault] = []
    if is_reserved(tool.tool):
        faults.append(document.fault(("tool",), f"`{tool.tool}` is a word of the language", "choose another name"))
    for key, properties in (("args", tool.args), ("returns", tool.returns)):
        for name, problem in check_names(properties):
            faults.append(document.fault((key, *name.split(".")), f"`{name}` {problem}", "rename it", key=True))
    faults += _effect(document, tool)
    faults += _approval(catalogue, document, tool)
    if tool.binding.http:
        faults += _http(catalogue, document, tool, tool.binding.http)
    faults += _lookups(catalogue, document, tool)
    return faults


def _effect(document: Document, tool: ToolManifest) -> list[Fault]:
    def fault(path: Path_, message: str, advice: str) -> Fault:
        return document.fault(path, message, advice, key=True)

    faults = []
    given = set(document.data) if isinstance(document.data, dict) else set()
    if tool.is_read:
        faults += [
            fault((key,), f"`{key}` stands in a read", "remove it, or say `effect: write`")
            for key in ("idempotency", "precondition", "approval")
            if key in given
        ]
        if tool.retry.unsent:
            faults.append(fault(("retry", "unsent"), "`unsent` is for writes", "a read has `attempts`"))
        return faults
    if tool.retry.attempts:
        faults.append(fault(("retry", "attempts"), "a write is never simply repeated", "a write has `unsent`"))
    if tool.idempotency is None:
        advice = "add `idempotency: {key: …, reconcile: …}` with a key made of business fields"
        faults.append(fault(("effect",), f"`{tool.tool}` changes the world without `idempotency.key`", advice))
        return faults
    lookup = tool.idempotency.reconcile or tool.idempotency.replay
    if not lookup and tool.effect == "write":
        advice = "add `reconcile:` or `replay: true`; without either it can only be `effect: irreversible`"
        faults.append(fault(("idempotency",), f"`{tool.tool}` has a key and no way to look it up", advice))
    if not tool.idempotency.template.holes:
        faults.append(fault(("idempotency", "key"), "the key is the same for every call", "name arguments in it"))
    for name in tool.idempotency.template.names:
        if name not in tool.args:
            advice = did_you_mean(name, tool.args)
            faults.append(
                document.fault(("idempotency", "key"), f"the key names `{name}`, which is no argument", advice)
            )
        elif tool.args[name].optional:
            message = f"the key names `{name}`, which is optional"
            faults.append(document.fault(("idempotency", "key"), message, "make the argument required"))
    return faults


def _approval(catalogue: Catalogue, document: Document, tool: ToolManifest) -> list[Fault]:
    if tool.is_read:
        return []
    if tool.approval is None:
        message = f"`{tool.tool}` does not say who must approve it"
        return [document.fault(("effect",), message, "add rules under `approval:`, or `approval: []` if nobody must")]
    faults = []
    if tool.effect == "irreversible" and not (len(tool.approval) == 1 and tool.approval[0].when is None):
        message = "what cannot be undone is always approved"
        faults.append(document.fault(("approval",), message, "write exactly one rule, without `when`", key=True))
    for index, rule in enumerate(tool.approval):
        for role in rule.by:
            if catalogue.lacks_role(role):
                advice = did_you_mean(role, catalogue.people.roles if catalogue.people else ())
                faults.append(document.fault(("approval", index, "by"), f"nobody has the role `{role}`", advice))
    return faults


def _http(catalogue: Catalogue, document: Document, tool: ToolManifest, http: Http) -> list[Fault]:
    faults = []
    here: Path_ = ("binding", "http")
    for name in http.template.names:
        if name not in tool.args:
            advice = did_you_mean(name, tool.args)
            faults.append(document.fault((*here, "url"), f"the address names `{name}`, which is no argument", advice))
        elif tool.args[name].kind in ("array", "object"):
            message = f"`{name}` is a {tool.args[name].kind} and cannot stand in an address"
            faults.append(document.fault((*here, "url"), message, "send it in the body"))
    needed = dict.fromkeys(http.template.variables, (*here, "url"))
    for header, value in http.headers.items():
        needed |= dict.fromkeys(variables_in(value), (*here, "headers", header))
    for name, path in needed.items():
        if catalogue.variables is not None and name not in catalogue.variables:
            advice = f"list it under `variables` in the settings; {did_you_mean(name, catalogue.variables)}"
            faults.append(document.fault(path, f"`${{{name}}}` is not a listed variable", advice))
    if tool.is_read and http.idempotency_header:
        faults.append(document.fault((*here, "idempotency_header"), "a read has no key", "remove it", key=True))
    if not tool.is_read and not http.idempotency_header:
        message = "the service is never told the key"
        faults.append(document.fault(here, message, "add `idempotency_header: Idempotency-Key`", key=True))
    if not tool.is_read and http.method == "GET":
        faults.append(document.fault((*here, "method"), "a GET changes nothing", "write POST, PUT, PATCH or DELETE"))
    return faults


def _lookups(catalogue: Catalogue, document: Document, tool: ToolManifest) -> list[Fault]:
    faults = []
    for path, what in ((("idempotency", "reconcile"), tool.reconciler), (("precondition",), tool.precondition)):
        if what is None:
            continue
        other = catalogue.tool(what.tool)
        if other is None:
            advice = did_you_mean(what.tool, catalogue.tools)
            faults.append(document.fault((*path, "tool"), f"there is no tool `{what.tool}`", advice))
            continue
        if not other.is_read:
            message = f"`{what.tool}` is a {other.effect}, and a look-up must change nothing"
            faults.append(document.fault((*path, "tool"), message, "name a read"))
        known = {"args": tool.args, "effect": EFFECT}
        faults += check_given(document, (*path, "with"), what.given, other.args, known, references.MANIFEST_ROOTS)
    return faults


def check_given(
    document: Document,
    path: Path_,
    given: Mapping[str, object],
    args: Properties,
    known: Mapping[str, Properties],
    roots: frozenset[str],
    *,
    complete: bool = True,
) -> list[Fault]:
    """The faults of one `with` against the arguments it fills; `known` types the roots, `complete` wants all of them."""
    faults = []
    for name, value in given.items():
        if name not in args:
            faults.append(
                document.fault((*path, name), f"there is no argument `{name}`", did_you_mean(name, args), key=True)
            )
            continue
        parsed = references.parse(value, roots)
        if isinstance(parsed, references.Literal):
            continue
        found = typed(parsed, known)
        if isinstance(found, str):
            faults.append(document.fault((*path, name), *found.split("; ", 1)))
        elif found.kind != args[name].kind and {found.kind, args[name].kind} != {"integer", "number"}:
            message = f"`{parsed.text}` is a {found.kind}, and `{name}` takes a {args[name].kind}"
            faults.append(document.fault((*path, name), message, "refer to a value of that type"))
        elif args[name].trusted and found.untrusted:
            message = f"`{parsed.text}` is untrusted, and `{name}` takes only what is trusted"
            faults.append(document.fault((*path, name), message, "refer to a field from a system of record"))
    missing = [n for n, p in args.items() if not p.optional and n not in given]
    if complete and missing:
        where = path if document.at(path) is not None else path[:-1]
        names = ", ".join(f"`{n}`" for n in missing)
        faults.append(
            document.fault(where, f"nothing fills {names}", "name every required argument", level=Level.ERROR)
        )
    return faults


def typed(reference: references.Reference, known: Mapping[str, Properties]) -> Property | str:
    """What a reference leads to, or a sentence and an advice, parted by `; `."""
    if reference.root == "now" and not reference.steps:
        return _TEXT
    properties: Properties | None = known.get(reference.root)
    found: Property | None = None
    for step in reference.steps:
        if isinstance(step, int):
            if found is None or found.items is None:
                return f"`{reference.text}` takes an element of what is no list; refer to a single value"
            found = found.items
            properties = found.properties
            continue
        if properties is None:
            return f"`{reference.text}` leads into what has no fields; refer to a declared field"
        if step not in properties:
            return f"`{reference.text}`: there is no `{step}`; {did_you_mean(step, properties)}"
        found = properties[step]
        properties = found.properties
    return found or f"`{reference.text}` is not a single value; name a field of it"
