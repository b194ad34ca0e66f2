"""Fields that are masked before anything is written, and so before a model or a person sees them.

A path names a text: `card`, `accounts[].number`. It must not know what reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator
from pydantic import Field as PydanticField

from statemachine_agent.definition.node import Lower, Node, Text, complaint, in_schema
from statemachine_agent.definition.schema import Properties, Property, kind_of
from statemachine_agent.definition.sentences import shown

MASK = "[redacted]"

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}(\[\])*"
_PATH = re.compile(rf"{_NAME}(\.{_NAME})*")


def _path(value: str) -> str:
    if not _PATH.fullmatch(value):
        raise complaint(f"{shown(value)} is no path to a field", "write it like `card` or `accounts[].number`")
    return value


_ROOTED = re.compile(rf"(input|evidence\.[a-z][a-z0-9_]{{0,62}})\.{_PATH.pattern}")


def _rooted(value: str) -> str:
    if not _ROOTED.fullmatch(value):
        advice = "write it like `input.message` or `evidence.lookup.accounts[].number`"
        raise complaint(f"{shown(value)} is no path into the input or into evidence", advice)
    return value


#: the path of a field in a machine's input, or in what is evidence under a name
RootedPath = Annotated[Text, AfterValidator(_rooted), in_schema(pattern=f"^{_ROOTED.pattern}$")]
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


class Retain(Node):
    """What is kept of what is named here; all else of it is never written: texts are masked, other values dropped."""

    #: of the input: paths
    input: tuple[FieldPath, ...] | None = None
    #: of results, signals and answers: name to paths
    evidence: Mapping[Lower, tuple[FieldPath, ...]] = PydanticField(default_factory=dict)


@dataclass(frozen=True)
class Masks:
    """What a machine masks or drops before anything is written."""

    #: paths in the input
    input: tuple[str, ...] = ()
    #: paths in results of tools, in signals and in answers, by their name
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.input or self.evidence)


class Rooted(NamedTuple):
    """What a path of a machine's `redact` leads into, and the path in it."""

    #: a name in evidence; empty for the input
    name: str
    path: str


def split(path: str) -> Rooted:
    """A path of a machine's `redact`, taken apart."""
    root, _, rest = path.partition(".")
    if root == "input":
        return Rooted("", rest)
    name, _, rest = rest.partition(".")
    return Rooted(name, rest)


def not_kept(properties: Properties, kept: Iterable[str]) -> tuple[str, ...]:
    """The paths of everything in `properties` that no path of `kept` names or lies in."""
    kept = set(kept)

    def of(held: Properties, before: str) -> Iterator[str]:
        for name, value in held.items():
            path, inner = f"{before}{name}", value
            while inner.kind == "array" and inner.items is not None and path not in kept:
                path, inner = f"{path}[]", inner.items
            if path in kept or f"{before}{name}" in kept:
                continue
            if inner.properties and any(k.startswith(f"{path}.") for k in kept):
                yield from of(inner.properties, f"{path}.")
            else:
                yield f"{before}{name}"

    return tuple(of(properties, ""))


def hides(masks: Iterable[str], path: str) -> bool:
    """True where `path`, or what it lies in, is masked."""
    return any(path == mask or path.startswith((f"{mask}.", f"{mask}[]")) for mask in masks)


def masked(paths: Iterable[str], value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with the texts that the paths name masked, and other values dropped; what is not there stays away.

    Where a value is of another shape than a path says, nobody knows where in it the text is: it is masked whole.
    """
    found = dict(value)
    for path in paths:
        found = _masked(path.split("."), found)
    return found


def _masked(steps: list[str], value: Any) -> Any:
    step, *rest = steps
    name, lists = step.partition("[")[0], step.count("[]")
    if not isinstance(value, Mapping):
        return MASK
    if name not in value:
        return value
    found = _each(lists, rest, value[name])
    return {**{n: v for n, v in value.items() if n != name}, **({} if found is _DROPPED else {name: found})}


#: stands for a value that is no text and goes as a whole
_DROPPED = object()


def _each(lists: int, rest: list[str], value: Any) -> Any:
    if lists:
        if not isinstance(value, list):
            return MASK
        return [one for one in (_each(lists - 1, rest, held) for held in value) if one is not _DROPPED]
    if rest:
        return _masked(rest, value)
    return MASK if isinstance(value, str) else _DROPPED


def described(properties: Properties, value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with all masked that `properties` do not describe: names that there are not, and what is of another shape."""
    return {
        name if name in properties else MASK: _described(properties[name], one) if name in properties else MASK
        for name, one in value.items()
    }


def _described(declared: Property, value: Any) -> Any:
    match value:
        case Mapping():
            if declared.kind != "object":
                return MASK
            return value if declared.properties is None else described(declared.properties, value)
        case list() | tuple():
            if declared.kind != "array":
                return MASK
            return value if declared.items is None else [_described(declared.items, one) for one in value]
        case _:
            kinds = {kind_of(value), declared.kind}
            return value if len(kinds) == 1 or kinds == {"integer", "number"} else MASK


def unkept(properties: Properties, value: Mapping[str, Any], masks: Iterable[str]) -> tuple[str, ...]:
    """The paths of what `properties` describe and `value` lacks, or holds a mask of; what `masks` hide is not looked for."""
    masks = tuple(masks)

    def of(declared: Property, path: str, held: Any) -> Iterator[str]:
        if hides(masks, path):
            return
        if held == MASK or (declared.properties and not isinstance(held, Mapping)):
            yield path
        elif declared.properties:
            yield from within(declared.properties, f"{path}.", held)
        elif declared.items is not None and isinstance(held, list):
            for one in held:
                yield from of(declared.items, f"{path}[]", one)
        elif holds_mask(held):
            yield path

    def within(inner: Properties, before: str, held: Mapping[str, Any]) -> Iterator[str]:
        for name, declared in inner.items():
            if name in held:
                yield from of(declared, f"{before}{name}", held[name])
            elif not declared.optional and not hides(masks, f"{before}{name}"):
                yield f"{before}{name}"

    return tuple(dict.fromkeys(within(properties, "", value)))


def holds_mask(value: Any) -> bool:
    """True where the value is the mask, or something in it is."""
    match value:
        case Mapping():
            return any(map(holds_mask, value.values()))
        case list() | tuple():
            return any(map(holds_mask, value))
        case _:
            return bool(value == MASK)
