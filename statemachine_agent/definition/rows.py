"""Rows: one condition and what follows. The lists of rows are all that decides in a machine.

It must not know states or tools; whether a name exists is checked across the whole catalogue.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from statemachine_agent.definition.node import Lower, NameOrNames, Node, Target, Text, as_list, complaint, in_schema
from statemachine_agent.definition.sentences import shown

GuardNames = Annotated[
    tuple[Lower, ...], Field(min_length=1), BeforeValidator(as_list, json_schema_input_type=NameOrNames)
]


def _true(value: object) -> object:
    """Python takes 1 for true; an editor does not, and no author means it."""
    if value is not True:
        raise complaint(f"{shown(value)} is not `true`", "write `true`")
    return value


class Row(Node):
    """A condition (`when`, `unless` or none) and exactly one of `goto`, `stay`, `refuse`."""

    #: taken if all of these guards hold: one name, or a list
    when: GuardNames | None = None
    #: taken unless all of these guards hold: one name, or a list
    unless: GuardNames | None = None
    #: a state, one of the built-in ends, or `done` where the state lies in another
    goto: Target | None = None
    #: accept, and stay in this state
    stay: Annotated[Literal[True], BeforeValidator(_true)] | None = None
    #: stay, and give the model this constant text
    refuse: Text | None = None
    #: with a `goto` to an end: the reason code
    reason: Lower | None = None
    #: the effect of this tool becomes `verified`
    confirms: Lower | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Row:
        if self.when is not None and self.unless is not None:
            raise complaint("a row has `when` or `unless`, not both", "split it into two rows")
        given = [k for k in ("goto", "stay", "refuse") if getattr(self, k) is not None]
        if len(given) != 1:
            what = "none of them" if not given else " and ".join(f"`{k}`" for k in given)
            raise complaint(f"a row has exactly one of `goto`, `stay`, `refuse`; this has {what}", "write one of them")
        if self.goto is None and (self.reason or self.confirms):
            key = "reason" if self.reason else "confirms"
            raise complaint(f"`{key}` stands beside no `goto`", f"add a `goto`, or remove `{key}`")
        return self

    @property
    def unconditional(self) -> bool:
        """True where nothing is asked before it is taken."""
        return self.when is None and self.unless is None


def _rows(value: Any) -> Any:
    """A target, or `stay`, is a list of one row."""
    if value == "stay":
        return [{"stay": True}]
    if isinstance(value, str):
        return [{"goto": value}]
    if isinstance(value, dict):
        raise complaint("rows stand in a list", "begin the row with `- `")
    if value is None:
        raise complaint("nothing stands here", "write a state, or a list of rows")
    return value


_LISTED = Annotated[list[Row], Field(min_length=1)]
#: a target, `stay`, or a list of rows
WrittenRows = Literal["stay"] | Target | _LISTED
_LEADING = Annotated[_LISTED, in_schema(allOf=[{"items": {"required": ["goto"]}}])]

Rows = Annotated[
    tuple[Row, ...],
    Field(min_length=1),
    BeforeValidator(_rows, json_schema_input_type=WrittenRows),
]

#: rows of a state without a model: each leads somewhere, which is checked across the catalogue
Targets = Annotated[
    tuple[Row, ...],
    Field(min_length=1),
    BeforeValidator(_rows, json_schema_input_type=Target | _LEADING),
]
