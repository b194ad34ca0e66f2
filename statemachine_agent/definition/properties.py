"""Promises about every path of a machine: their five forms, and the atoms that they speak of.

It must not know whether the names exist, nor how a promise is proved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag

from statemachine_agent.definition.names import LOWER, UPPER
from statemachine_agent.definition.node import Count, Lower, Node, Upper, complaint
from statemachine_agent.definition.sentences import shown
from statemachine_agent.text import nearest

#: what an atom says of a tool: it runs, is looked up, ends so, was approved, or needed no approval
VERBS = ("run", "reconcile", "ok", "failed", "blocked", "unknown", "found", "absent", "approved", "allowed")

#: a verb and a tool, or a guard; or a state
_ATOM = re.compile(rf"^(?:(?:({'|'.join(VERBS)}) )?({LOWER.pattern})|({UPPER.pattern}))$")

_ADVICE = f"write a state or a guard, or one of {', '.join(VERBS)} before the name of a tool"


@dataclass(frozen=True, slots=True)
class Atom:
    """Something that can happen on a path: `run order_book`, a state, an end, or a guard that held."""

    #: the tool after a verb, else a state, an end or a guard
    name: str
    #: one of `VERBS`; None where the name stands alone
    verb: str | None = None

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.verb} {self.name}" if self.verb else self.name


def _atom(value: object) -> object:
    if isinstance(value, Atom):
        return value
    found = _ATOM.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        verb, _, name = value.partition(" ") if isinstance(value, str) else ("", "", "")
        near = nearest(verb, VERBS) if LOWER.fullmatch(name) else None
        advice = f"did you mean `{near} {name}`?" if near and near != verb else _ADVICE
        raise complaint(f"{shown(value)} is nothing that can happen on a path", advice)
    verb, lower, upper = found.groups()
    return Atom(lower or upper, verb)


def _atoms(value: object) -> object:
    return [value] if isinstance(value, (str, Atom)) else value


Happening = Annotated[Atom, BeforeValidator(_atom, json_schema_input_type=Annotated[str, Field(pattern=_ATOM.pattern)])]
Happenings = Annotated[
    tuple[Happening, ...],
    Field(min_length=1),
    BeforeValidator(_atoms, json_schema_input_type=Happening | Annotated[list[Happening], Field(min_length=1)]),
]
States = Annotated[tuple[Upper, ...], Field(min_length=1)]


class OnlyAfter(Node):
    """A tool runs only after something happened."""

    #: the tool
    run: Lower
    #: one of these happened before; two properties say "both"
    only_after: Happenings


class AtMost(Node):
    """A tool runs at most so often."""

    #: the tool
    run: Lower
    #: how often
    at_most: Count
    #: after this it may run as often once more
    again_after: Happening | None = None


class Always(Node):
    """After one thing another always follows."""

    #: what binds
    after: Happening
    #: what follows before any end
    always: Happening
    #: ends that excuse from it
    or_ends: tuple[Upper, ...] = ()


class Visits(Node):
    """An end is reached only through certain states."""

    #: the end
    end: Upper
    #: each of them was entered before
    visits: States


class Never(Node):
    """Something never happens."""

    #: what
    never: Happening


#: a key that only one form has, and that form
MARKS: dict[str, type[Node]] = {
    "only_after": OnlyAfter, "at_most": AtMost, "again_after": AtMost, "always": Always, "after": Always,
    "visits": Visits, "end": Visits, "never": Never,
}  # fmt: skip

_FORMS = (
    "{run: …, only_after: …}, {run: …, at_most: …, again_after: …}, {after: …, always: …}, {end: …, visits: […]} "
    "or {never: …}"
)


def _form(value: Any) -> str | None:
    if isinstance(value, Node):
        return type(value).__name__
    keys = value if isinstance(value, dict) else ()
    return next((form.__name__ for key, form in MARKS.items() if key in keys), None)


def _promise(value: Any) -> Any:
    if isinstance(value, Node):
        return value
    if _form(value) is None:
        keys = [key for key in value if key != "run"] if isinstance(value, dict) else []
        near = next((f"did you mean `{mark}`?" for key in keys if (mark := nearest(str(key), MARKS))), None)
        raise complaint("this is no form of a property", near or f"write {_FORMS}")
    return value


Promise = OnlyAfter | AtMost | Always | Visits | Never

PromiseNode = Annotated[
    Annotated[OnlyAfter, Tag("OnlyAfter")]
    | Annotated[AtMost, Tag("AtMost")]
    | Annotated[Always, Tag("Always")]
    | Annotated[Visits, Tag("Visits")]
    | Annotated[Never, Tag("Never")],
    Discriminator(_form),
    BeforeValidator(_promise),
]
