"""The part of JSON Schema that inputs, arguments and results are described with, and what is done with values by it.

A mapping of properties, all required unless `optional: true`; nothing else is accepted. It must not know whose they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, field_validator, model_validator

from statemachine_agent.definition.names import CEL_WORDS
from statemachine_agent.definition.node import Node, Text, complaint

PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

Scalar = str | int | float | bool
Kind = Literal["string", "integer", "number", "boolean", "array", "object"]

MAX_ITEMS = 1000  # of a list without a limit of its own: what a guard joins stays small


class Property(Node):
    """One value: its type, its limits, and whether its text comes from outside."""

    type: Kind | None = None
    description: Text | None = None
    optional: StrictBool = False
    #: free text from outside; never trusted, marked wherever it is shown
    untrusted: StrictBool = False
    #: an argument that no untrusted text may reach
    trusted: StrictBool = False
    enum: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = None
    pattern: str | None = None
    format: Literal["date-time", "date", "email", "uri", "uuid"] | None = None
    min_length: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, alias="minLength")
    max_length: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, alias="maxLength")
    minimum: int | float | None = None
    maximum: int | float | None = None
    items: Property | None = None
    min_items: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, alias="minItems")
    max_items: Annotated[StrictInt, Field(ge=0, le=10_000)] | None = Field(default=None, alias="maxItems")
    properties: Properties | None = None

    @field_validator("pattern")
    @classmethod
    def _pattern_compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as problem:
                raise complaint(f"`{value}` is not a pattern: {problem}", "write a regular expression") from None
        return value

    @model_validator(mode="after")
    def _fits_its_type(self) -> Property:
        kind = self.kind
        for key, fits in _FITS.items():
            if getattr(self, key) is not None and kind != fits:
                name = type(self).model_fields[key].alias or key
                raise complaint(f"`{name}` belongs to a value of type {fits}, not {kind}", f"remove `{name}`")
        if self.enum is not None and any(_kind_of(v) != kind for v in self.enum):
            raise complaint("the values of `enum` are not all of one type", "write values of one type")
        return self

    @property
    def kind(self) -> Kind:
        """The type; without one, that of the first value of `enum`, else string."""
        if self.type is not None:
            return self.type
        if self.properties is not None:
            return "object"
        return _kind_of(self.enum[0]) if self.enum else "string"


Properties = Mapping[str, Property]


_FITS: dict[str, Kind] = {
    "pattern": "string", "format": "string", "min_length": "string", "max_length": "string",
    "items": "array", "min_items": "array", "max_items": "array", "properties": "object",
}  # fmt: skip


def _kind_of(value: Scalar) -> Kind:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def check_names(properties: Properties, where: str = "") -> list[tuple[str, str]]:
    """Names that cannot be the name of a property, each with what is wrong with it."""
    wrong = []
    for name, value in properties.items():
        if not PROPERTY_NAME.fullmatch(name):
            wrong.append((where + name, "is not a name: use letters, digits and _"))
        elif name in CEL_WORDS:
            wrong.append((where + name, "is a word of the guard language, and no guard could read it"))
        if value.properties:
            wrong += check_names(value.properties, f"{where}{name}.")
        if value.items and value.items.properties:
            wrong += check_names(value.items.properties, f"{where}{name}.")
    return wrong


def json_schema(properties: Properties) -> dict[str, Any]:
    """The JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": {name: _property_schema(value) for name, value in properties.items()},
        "required": [name for name, value in properties.items() if not value.optional],
        "additionalProperties": False,
    }


_KEYWORDS = ("description", "enum", "pattern", "format", "minimum", "maximum")
_ALIASED = {"min_length": "minLength", "max_length": "maxLength", "min_items": "minItems", "max_items": "maxItems"}


def _property_schema(value: Property) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": value.kind}
    for key in _KEYWORDS:
        if getattr(value, key) is not None:
            found = getattr(value, key)
            schema[key] = list(found) if key == "enum" else found
    for key, name in _ALIASED.items():
        if getattr(value, key) is not None:
            schema[name] = getattr(value, key)
    if value.kind == "array":
        schema.setdefault("maxItems", MAX_ITEMS)
        if value.items:
            schema["items"] = _property_schema(value.items)
    if value.properties is not None:
        schema.update(json_schema(value.properties))
    return schema


def project(properties: Properties, value: object) -> object:
    """`value` with only the declared properties: what a service adds is dropped, an optional null counts as absent."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, object] = {}
    for name, declared in properties.items():
        if name not in value or (value[name] is None and declared.optional):
            continue
        found[name] = _projected(declared, value[name])
    return found


def _projected(declared: Property, value: object) -> object:
    if declared.properties is not None:
        return project(declared.properties, value)
    if declared.kind == "array" and declared.items is not None and isinstance(value, list):
        return [_projected(declared.items, item) for item in value]
    if declared.kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value
