"""Fields of a result that are masked before anything is written, and so before a model or a person sees them.

A path names a text: `card`, `accounts[].number`. It must not know what reads a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from statemachine_agent.definition.node import Text, complaint, in_schema
from statemachine_agent.definition.schema import Properties, Property
from statemachine_agent.definition.sentences import shown

MASK = "[redacted]"

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}(\[\])*"
_PATH = re.compile(rf"{_NAME}(\.{_NAME})*")


def _path(value: str) -> str:
    if not _PATH.fullmatch(value):
        raise complaint(f"{shown(value)} is no path to a field", "write it like `card` or `accounts[].number`")
    return value


#: the path of a field in a result; `[]` stands for every element of a list
FieldPath = Annotated[Text, AfterValidator(_path), in_schema(pattern=f"^{_PATH.pattern}$")]


def field_at(properties: Properties, path: str) -> Property | None:
    """The field that `path` names; None where there is none."""
    found: Property | None = None
    for step in path.split("."):
        name, depth = step.partition("[")[0], step.count("[]")
        held = properties if found is None else (found.properties or {})
        found = held.get(name)
        for _ in range(depth):
            found = found.items if found is not None and found.kind == "array" else None
        if found is None:
            return None
    return found


def masked(paths: Iterable[str], value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with what the paths name masked; what is not there stays away."""
    found = dict(value)
    for path in paths:
        found = _masked(path.split("."), found)
    return found


def _masked(steps: list[str], value: Any) -> Any:
    step, *rest = steps
    name, lists = step.partition("[")[0], step.count("[]")
    if not isinstance(value, Mapping) or name not in value:
        return value
    return {**value, name: _each(lists, rest, value[name])}


def _each(lists: int, rest: list[str], value: Any) -> Any:
    if lists:
        return [_each(lists - 1, rest, one) for one in value] if isinstance(value, list) else value
    return _masked(rest, value) if rest else MASK
