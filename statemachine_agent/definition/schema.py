"""The part of JSON Schema that inputs, arguments and results are described with, and what is done with values by it.

A mapping of properties, all required unless `optional: true`; nothing else is accepted. It must not know whose they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import jsonschema_rs
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from statemachine_agent.definition.names import CEL_WORDS
from statemachine_agent.definition.node import Node, Text, complaint, in_schema
from statemachine_agent.definition.sentences import shown
from statemachine_agent.text import one_line

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise complaint(f"{shown(value)} is not the name of a value", "use letters, digits and _, at most 63")
    if value in CEL_WORDS:
        raise complaint(f"`{value}` is a word of the guard language, and no guard could read it", "rename it")
    return value


#: the name of an input, an argument or a field of a result
Name = Annotated[
    str, AfterValidator(_name), in_schema(pattern=f"^{_NAME.pattern}$", **{"not": {"enum": sorted(CEL_WORDS)}})
]


def _scalar(value: object) -> object:
    if not isinstance(value, (str, int, float)):
        raise complaint(f"{shown(value)} is not a single value", "write a text, a number, true or false")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise complaint(f"{shown(value)} is not a number", "write a number, without quotes")
    return value


Scalar = Annotated[Any, BeforeValidator(_scalar, json_schema_input_type=str | float | bool)]
Number = Annotated[Any, BeforeValidator(_number, json_schema_input_type=float)]
Kind = Literal["string", "integer", "number", "boolean", "array", "object"]

MAX_ITEMS = 1000  # of a list without a limit of its own: what a guard joins stays small


class Property(Node):
    """One value: its type, its limits, and whether its text comes from outside."""

    #: left out: that of the first value of `enum`, object with `properties`, else string
    type: Kind | None = None
    #: shown to the model beside an argument
    description: Text | None = None
    #: it may be absent; without this it must be there
    optional: StrictBool = False
    #: free text from outside; never trusted, marked wherever it is shown
    untrusted: StrictBool = False
    #: an argument that no untrusted text may reach
    trusted: StrictBool = False
    #: the only values it can have; guards are checked against them
    enum: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = None
    #: a regular expression that is looked for in a text; write `^` and `$` for all of it
    pattern: str | None = None
    #: what a text must be
    format: Literal["date-time", "date", "email", "uri", "uuid"] | None = None
    #: characters of a text, at least
    min_length: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, alias="minLength")
    #: characters of a text, at most
    max_length: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, alias="maxLength")
    #: a number is at least this
    minimum: Number | None = None
    #: a number is at most this
    maximum: Number | None = None
    #: what each element of an array is
    items: Property | None = None
    #: elements of an array, at least
    min_items: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, alias="minItems")
    #: elements of an array, at most; 1000 where nothing is said
    max_items: Annotated[StrictInt, Field(ge=0, le=10_000)] | None = Field(default=None, alias="maxItems")
    #: what an object holds; nothing else is accepted
    properties: Properties | None = None

    @field_validator("pattern")
    @classmethod
    def _pattern_compiles(cls, value: str | None) -> str | None:
        """By the engine that will match it."""
        if value is not None:
            try:
                jsonschema_rs.Draft202012Validator({"pattern": value})
            except ValueError:
                raise complaint(f"{shown(value)} is not a pattern", "write a regular expression") from None
        return value

    @model_validator(mode="after")
    def _fits_its_type(self) -> Property:
        if self.model_fields_set.isdisjoint(_JUDGED):  # most; and whoever holds a property has it judged again
            return self
        kind = self.kind
        for key, fits in PROPERTY_FITS.items():
            if getattr(self, key) is not None and kind not in fits:
                name = type(self).model_fields[key].alias or key
                raise complaint(
                    f"`{name}` belongs to a value of type {' or '.join(fits)}, not {kind}", f"remove `{name}`"
                )
        for value in self.enum or ():
            if kind_of(value) != kind and (kind_of(value), kind) != ("integer", "number"):
                raise complaint(f"{shown(value)} in `enum` is no {kind}", "write values of one type, that of `type`")
        for low, high in (("minimum", "maximum"), ("min_length", "max_length"), ("min_items", "max_items")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                names = [type(self).model_fields[key].alias or key for key in (low, high)]
                raise complaint(f"`{names[0]}` is more than `{names[1]}`", "exchange them: no value could fit")
        return self

    @property
    def kind(self) -> Kind:
        """The type; without one, that of the first value of `enum`, else string."""
        if self.type is not None:
            return self.type
        if self.properties is not None:
            return "object"
        return kind_of(self.enum[0]) if self.enum else "string"


Properties = Mapping[Name, Property]


#: a limit, by the name of its field, and the types that it belongs to
PROPERTY_FITS: dict[str, tuple[Kind, ...]] = {
    "pattern": ("string",), "format": ("string",), "min_length": ("string",), "max_length": ("string",),
    "minimum": ("integer", "number"), "maximum": ("integer", "number"),
    "items": ("array",), "min_items": ("array",), "max_items": ("array",), "properties": ("object",),
}  # fmt: skip
#: what can be wrong with a property, besides the form of its parts
_JUDGED = frozenset({*PROPERTY_FITS, "enum"})


def kind_of(value: object) -> Kind:
    """The type of a JSON value; null counts as text."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case Mapping():
            return "object"
        case list() | tuple():
            return "array"
        case _:
            return "string"


def _parts(value: Property) -> Iterator[Property]:
    yield value
    for part in (*(value.properties or {}).values(), *([value.items] if value.items else [])):
        yield from _parts(part)


def holds_untrusted(value: Property) -> bool:
    """True where the value, or anything in it, is free text from outside."""
    return any(part.untrusted for part in _parts(value))


def wants_trusted(value: Property) -> bool:
    """True where no untrusted text may reach the value, or anything in it."""
    return any(part.trusted for part in _parts(value))


def misfit(declared: Property, value: object) -> str | None:
    """What keeps `value` from being such a value, in a few words; None where nothing does."""
    for error in jsonschema_rs.Draft202012Validator(_property_schema(declared), validate_formats=True).iter_errors(
        value
    ):
        return one_line(error.message, 120).replace('"', "`")
    return None


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


def has_numbers(properties: Properties) -> bool:
    """True where some value is a `number`, at any depth."""
    return any(_has_number(value) for value in properties.values())


def _has_number(value: Property) -> bool:
    if value.kind == "number":
        return True
    inner = has_numbers(value.properties) if value.properties else False
    return inner or bool(value.items and _has_number(value.items))


def with_floats(properties: Properties, value: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with every `number` as a float: canonical JSON writes 2.0 as 2, and a guard computes with what it was told."""
    return {k: _floated(properties[k], v) if k in properties else v for k, v in value.items()}


def _floated(declared: Property, value: Any) -> Any:
    match value:
        case int() if declared.kind == "number" and not isinstance(value, bool):
            return float(value)
        case Mapping() if declared.properties:
            return with_floats(declared.properties, value)
        case list() if declared.items:
            return [_floated(declared.items, item) for item in value]
        case _:
            return value
