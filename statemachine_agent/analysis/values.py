"""What a definition says, value by value: each by its path, as a text that is the same only where the value is.

What is left out and what is written as it is without being written are the same; so are a short form and its long one. It
must not know what is done with the values.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from statemachine_agent.canonical import canonical
from statemachine_agent.definition import references
from statemachine_agent.definition.manifest import Precondition, Reconcile
from statemachine_agent.definition.node import Node
from statemachine_agent.definition.properties import Atom
from statemachine_agent.definition.references import Literal
from statemachine_agent.definition.schema import Property
from statemachine_agent.text import visible
from statemachine_agent.times import duration

#: fields that hold rows, which are compared as the chart has them
_ROWS = frozenset({"rows", "then", "route"})
#: fields that hold references and literals, which are never taken apart
_GIVEN = frozenset({"pinned", "given"})


def said(value: Any, path: str = "", *, but: Collection[str] = ()) -> dict[str, str]:
    """Every value in `value` by its path, without rows and without the fields in `but` of the value itself."""
    match value:
        case Node():
            return _fields(value, path, but)
        case Mapping():
            return _all({_at(path, name): one for name, one in value.items()}) if value else {path: "{}"}
        case list() | tuple() if any(isinstance(one, Node) for one in value):
            return _all({f"{path}[{number}]": one for number, one in enumerate(value, 1)})
    return {path: text_of(value)}


def _all(values: Mapping[str, Any]) -> dict[str, str]:
    return {place: text for path, one in values.items() for place, text in said(one, path).items()}


def _fields(node: Node, path: str, but: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, field in type(node).model_fields.items():
        if name in but or name in _ROWS:
            continue
        value = node.kind if name == "type" and isinstance(node, Property) else getattr(node, name)
        here = _at(path, "with" if name in _GIVEN else field.alias or name)
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        if value is None or (not default and value == default):
            continue  # nothing is said, and nothing is what that means
        if name in _GIVEN and isinstance(value, Mapping):
            found |= {_at(here, key): text_of(_plainly(node, one)) for key, one in value.items()} or {here: "{}"}
        else:
            found |= said(value, here)
    return found


def _at(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _plainly(holder: Node, given: Any) -> Any:
    """`{text: x}` where `x` alone is no reference means `x`."""
    roots = references.MANIFEST_ROOTS if isinstance(holder, (Reconcile, Precondition)) else references.MACHINE_ROOTS
    parsed = references.parse(given, roots)
    if not isinstance(parsed, Literal) or not parsed.marked:
        return given
    alone = references.parse(parsed.value, roots)
    return parsed.value if isinstance(alone, Literal) and not alone.marked else given


def text_of(value: Any) -> str:
    """One value as a text; a text stands without quotes where it can be taken for nothing else."""
    match value:
        case str():
            return value if _is_plain(value) else canonical(value).decode()
        case timedelta():
            rest = value / timedelta(milliseconds=1)
            return duration(value) if rest.is_integer() else f"{rest:.3f}ms"
        case Decimal():
            return format(value.normalize(), "f")
        case Atom():
            return str(value)
        case list() | tuple():
            return canonical([str(one) if isinstance(one, Atom) else one for one in value]).decode()
    return canonical(value).decode()


def _is_plain(text: str) -> bool:
    """False where a text has an edge or a part that is not seen, or looks like another value."""
    if text != " ".join(text.split()) or not text or text[0] == '"' or "→" in text or visible(text) != text:
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
