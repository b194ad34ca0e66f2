"""The values of one `with` against the arguments that they fill: names, types, trust.

It must not know whose `with` it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from statemachine_agent.definition import references
from statemachine_agent.definition.document import Document, Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.names import ROOTS
from statemachine_agent.definition.references import Literal, Reference
from statemachine_agent.definition.schema import Properties, Property, holds_untrusted, misfit, wants_trusted
from statemachine_agent.definition.sentences import shown
from statemachine_agent.text import did_you_mean, nearest

_TEXT = Property(type="string")
_DOTTED = re.compile(r"[A-Za-z_]+\.[\w.]+")


def check_given(
    document: Document,
    path: Path_,
    given: Mapping[str, Any],
    args: Properties,
    known: Mapping[str, Properties],
    roots: frozenset[str],
    *,
    complete: bool = True,
) -> list[Fault]:
    """The faults of the `with` at `path`; `known` types the roots, `complete` wants all required arguments."""
    faults = []
    for name, value in given.items():
        here = (*path, name)
        if name not in args:
            faults.append(document.fault(here, f"there is no argument `{name}`", did_you_mean(name, args), key=True))
            continue
        parsed = references.parse(value, roots)
        wrong = (
            _literal(name, parsed, args[name], roots)
            if isinstance(parsed, Literal)
            else _reference(name, parsed, args[name], known)
        )
        if wrong and not (isinstance(parsed, Reference) and document.incomplete((parsed.root,))):
            faults.append(document.fault(here, *wrong))
    meant = {nearest(n, args.keys() - given.keys()) for n in given if n not in args}
    missing = [n for n, p in args.items() if not p.optional and n not in given and n not in meant]
    if complete and missing and not document.incomplete(path):
        where = path if document.at(path) is not None else path[:-1]
        names = ", ".join(f"`{n}`" for n in missing)
        faults.append(document.fault(where, f"nothing fills {names}", "name every required argument"))
    return faults


def _literal(name: str, literal: Literal, wanted: Property, roots: frozenset[str]) -> tuple[str, str] | None:
    value = literal.value
    if value is None:
        return "nothing stands here", "write a value, or remove the name"
    if isinstance(value, str) and not literal.marked and _DOTTED.fullmatch(value):
        root = value.partition(".")[0]
        if root in ROOTS and root not in roots:
            allowed = ", ".join(f"`{r}`" for r in sorted(roots))
            return f"`{value}` cannot be referred to here", f"refer to {allowed}; a text is written `{{text: …}}`"
    if isinstance(value, str) and not literal.marked and _DOTTED.fullmatch(value):
        near = nearest(value.partition(".")[0], roots)
        if near is not None:
            return f"`{value}` refers to nothing", f"did you mean `{near}`? A text is written `{{text: …}}`"
    problem = misfit(wanted, value)
    return (
        (f"{shown(value)} cannot fill `{name}`: {problem}", "write a value that fits the argument") if problem else None
    )


def _reference(
    name: str, reference: Reference, wanted: Property, known: Mapping[str, Properties]
) -> tuple[str, str] | None:
    found = typed(reference, known)
    trusted = wants_trusted(wanted)
    if found is None and trusted:
        message = f"it cannot be told what `{reference.text}` is, and `{name}` takes only what is trusted"
        return message, "refer to a field that a manifest declares"
    if not isinstance(found, Property):
        return found
    if found.kind != wanted.kind and {found.kind, wanted.kind} != {"integer", "number"}:
        message = f"`{reference.text}` is {a_kind(found.kind)}, and `{name}` takes {a_kind(wanted.kind)}"
        return message, "refer to a value of that type"
    if trusted and found.untrusted:
        message = f"`{reference.text}` is untrusted, and `{name}` takes only what is trusted"
        return message, "refer to a field from a system of record"
    return None


def typed(reference: Reference, known: Mapping[str, Properties]) -> Property | tuple[str, str] | None:
    """What a reference leads to; a sentence and an advice where it leads nowhere; None where it cannot be told.

    It is untrusted where anything above it or within it is.
    """
    if reference.root == "now" and not reference.steps:
        return _TEXT
    properties: Properties | None = known.get(reference.root)
    found: Property | None = None
    tainted = False
    for step in reference.steps:
        if found is not None and found.kind == "object" and found.properties is None:
            return None  # an object of unknown content
        if isinstance(step, int):
            if found is None or found.kind != "array":
                return f"`{reference.text}` takes an element of what is no list", "refer to a single value"
            if found.items is None:
                return None
            found = found.items
        elif properties is None:
            return f"`{reference.text}` leads into what has no fields", "refer to a declared field"
        elif step not in properties:
            return f"`{reference.text}`: there is no `{step}`", did_you_mean(step, properties)
        else:
            found = properties[step]
        properties = found.properties
        tainted = tainted or found.untrusted
    if found is None:
        return f"`{reference.text}` is not a single value", "name a field of it"
    return found.model_copy(update={"untrusted": tainted or holds_untrusted(found)})


def a_kind(kind: str) -> str:
    """A type with its article."""
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"
