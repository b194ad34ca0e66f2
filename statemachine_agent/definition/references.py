"""The values of `with`: a reference into the task's data, or a literal.

A text whose first segment is a root is a reference (`input.isbn`); `{text: "input.x"}` is a literal. It must not know
where the data comes from.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from statemachine_agent.definition.states import Given
from statemachine_agent.errors import SmaError

_PATH = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]{1,4}\])*")
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]")

#: what a `with` of a machine may refer to
MACHINE_ROOTS = frozenset({"input", "actor", "evidence", "effects", "proposal", "now"})
#: what a `with` of a manifest may refer to
MANIFEST_ROOTS = frozenset({"args", "effect", "now"})


class UnresolvedError(SmaError):
    """A reference names something that is not there."""

    reason = "unresolved"


@dataclass(frozen=True)
class Reference:
    """A path: the root, then names and positions."""

    text: str
    root: str
    steps: tuple[str | int, ...]


@dataclass(frozen=True)
class Literal:
    """A value as it stands."""

    value: object
    #: written `{text: …}`: the author says that it is none of the references that it may look like
    marked: bool = False


def parse(value: Given, roots: frozenset[str]) -> Reference | Literal:
    """What `value` of a `with` means, where `roots` can be referred to."""
    if isinstance(value, Mapping) and set(value) == {"text"}:
        return Literal(value["text"], marked=True)
    if isinstance(value, str) and _PATH.fullmatch(value):
        root = re.split(r"[.\[]", value, maxsplit=1)[0]
        if root in roots:
            steps = tuple(name or int(number) for name, number in _STEP.findall(value))
            return Reference(value, root, steps)
    return Literal(value)


def resolve(value: Given, roots: frozenset[str], data: Mapping[str, object]) -> object:
    """The value that `value` stands for in `data`; UnresolvedError where a reference leads nowhere."""
    parsed = parse(value, roots)
    if isinstance(parsed, Literal):
        return parsed.value
    if parsed.root not in data:
        raise UnresolvedError(f"`{parsed.text}` is not there", hint=f"there is no `{parsed.root}`")
    return _followed(data[parsed.root], parsed, parsed.steps)


def within(value: object, reference: Reference) -> object:
    """What `reference` leads to where `value` stands for its first name; UnresolvedError where it leads nowhere."""
    return _followed(value, reference, reference.steps[1:])


def _followed(value: object, reference: Reference, steps: Iterable[str | int]) -> object:
    found: Any = value
    for step in steps:
        if not (step in found if isinstance(found, Mapping) else _is_position(found, step)):
            raise UnresolvedError(f"`{reference.text}` is not there", hint=f"`{step}` was not found")
        found = found[step]
    return found


def _is_position(found: object, step: str | int) -> bool:
    return isinstance(found, (list, tuple)) and isinstance(step, int) and step < len(found)


def filled(given: Mapping[str, Given], roots: frozenset[str], data: Mapping[str, object]) -> dict[str, object]:
    """The values of one `with` that are there."""
    found: dict[str, object] = {}
    for name, value in given.items():
        with contextlib.suppress(UnresolvedError):
            found[name] = resolve(value, roots, data)
    return found


def fill(given: Mapping[str, Given], roots: frozenset[str], data: Mapping[str, object]) -> dict[str, object]:
    """All values of one `with`."""
    return {name: resolve(value, roots, data) for name, value in given.items()}
