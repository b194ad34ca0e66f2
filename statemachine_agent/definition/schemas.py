"""JSON schemas of the files that people write, for their editors: generated from the models that read those files.

What loads fits its schema, so an editor gives no false alarm. The other way round a schema sees less than the loader: no names
in other places, no expressions, no relation of values. It must not read any file.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from statemachine_agent.definition.manifest import ERROR_CLASSES, UNSETTLED
from statemachine_agent.definition.names import CEL_WORDS, ENDS, RESERVED
from statemachine_agent.definition.node import Node
from statemachine_agent.definition.rows import Row
from statemachine_agent.definition.schema import PROPERTY_FITS, Property

#: kind of file → its model, by name: a script is read a layer above this one, and nothing is imported before it is asked for
KINDS = {
    "machine": "definition.machine:MachineDefinition",
    "tool": "definition.manifest:ToolManifest",
    "people": "definition.people:People",
    "script": "models.scripted:Script",
    "settings": "definition.settings:Settings",
}

Schema = dict[str, Any]


def model_of(kind: str) -> type[Node]:
    """The model that reads files of this kind."""
    module, _, name = KINDS[kind].partition(":")
    return cast("type[Node]", getattr(import_module(f"statemachine_agent.{module}"), name))


def schema(kind: str) -> Schema:
    """The JSON schema (draft 2020-12) of a `kind` of file: one of `KINDS`."""
    model = model_of(kind)
    found = model.model_json_schema(schema_generator=_Generator)
    parts: dict[str, Schema] = found.pop("$defs", {})
    for name, part in {model.__name__: found, **parts}.items():
        if name in _RULES:
            _RULES[name](part)
    _share(found, parts)
    about = {key: found.pop(key) for key in ("title", "description")}
    more = {"$defs": dict(sorted(parts.items()))} if parts else {}
    return {"$schema": _Generator.schema_dialect, **about, **found, **more}


class _Generator(GenerateJsonSchema):
    """Pydantic's schemas in an author's words: described by the code's own comments, mappings closed, defaults as written."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        model = schema["cls"]
        found["title"] = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).capitalize()
        comments = _comments(model)
        for name, field in model.model_fields.items():
            if name in comments:
                found["properties"][field.alias or name]["description"] = comments[name]
        for one in found["properties"].values():
            if "gt" in one:  # pydantic's own word, where a validator of ours stands before the number
                one["exclusiveMinimum"] = one.pop("gt")
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  pydantic's signature
        return False  # it would only be the key once more

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """A key may be left out, and is never written without a value."""
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A mapping: of known keys a closed object, of other keys one whose keys have a form."""
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        values = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
        if "enum" in keys:
            return {"type": "object", "properties": dict.fromkeys(keys["enum"], values), "additionalProperties": False}
        found: Schema = {"type": "object", "additionalProperties": values or True}
        if keys.keys() - {"type"}:
            found["propertyNames"] = keys
        if "min_length" in schema:
            found["minProperties"] = schema["min_length"]
        return found

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = self.generate_inner(schema["schema"])
        default = written(schema.get("default"))
        return found if default is None else {**found, "default": default}


def _comments(model: type[Node]) -> dict[str, str]:
    """The `#:` comment above each field; none where there is no source."""
    try:
        lines = inspect.getsource(model).splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    above: list[str] = []
    for line in map(str.strip, lines):
        if line.startswith("#:"):
            above.append(line.removeprefix("#:").strip())
            continue
        field = re.match(r"(\w+):", line)
        if field and above:
            text = " ".join(above)
            found[field[1]] = f"{text[0].upper()}{text[1:]}."
        above = []
    return found


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def written(value: object) -> Any:
    """A default as an author would write it; None where there is nothing to say."""
    match value:
        case timedelta():
            ms = round(value.total_seconds() * 1000)
            return next(f"{ms // size}{unit}" for unit, size in _UNITS if ms % size == 0)
        case Decimal():
            return float(value)
        case bool() | int() | float() | str():
            return value
        case (Row(stay=True),):
            return "stay"
        case tuple() if value and all(isinstance(v, str) for v in value):
            return list(value)
        case _:
            return None


#: what stands in many mappings: a name for it, and where it stands
_SHARED = (
    ("Rows", "Choice", "rows"),
    ("Targets", "RouteState", "route"),
    ("Arguments", "Choice", "with"),
    ("Arguments", "Reconcile", "with"),
)
_ABOUT = ("description", "default")


def _share(root: Schema, parts: dict[str, Schema]) -> None:
    """Name what stands in many places, and refer to it there."""
    for name, model, key in _SHARED:
        if model in parts:
            shared = {k: v for k, v in parts[model]["properties"][key].items() if k not in _ABOUT}
            _refer(root, shared, name)
            _refer(parts, shared, name)
            parts[name] = shared


def _refer(within: Any, shared: Schema, name: str) -> None:
    for key, value in within.items() if isinstance(within, dict) else enumerate(within):
        if isinstance(value, dict) and {k: v for k, v in value.items() if k not in _ABOUT} == shared:
            within[key] = {"$ref": f"#/$defs/{name}", **{k: value[k] for k in _ABOUT if k in value}}
        elif isinstance(value, (dict, list)):
            _refer(value, shared, name)


# ---------------------------------------------------------------- rules between the keys of one mapping
#
# Each says in a schema what a validator of the model, or a check of the loader, says in a sentence.

_ABSENT = False  # what no value fits: the key is left out


def _has(key: str, values: Schema | None = None) -> Schema:
    return {"required": [key], **({"properties": {key: values}} if values else {})}


def _is(key: str, *values: object) -> Schema:
    return _has(key, {"enum": [*values]})


def _not_both(one: Schema, other: Schema) -> Schema:
    return {"not": {"allOf": [one, other]}}


def _not_named(found: Schema, words: Iterable[str]) -> None:
    found["not"] = {"enum": sorted(words)}


def _with(*rules: Schema) -> Callable[[Schema], None]:
    return lambda found: found.update(allOf=[*rules])


def _choose(found: Schema) -> None:
    """Control choices go to certain ends only, and have nothing to fill in."""
    named = next(one for one in found["properties"]["choose"]["anyOf"] if one["type"] == "object")
    named["properties"] = {
        "finish": _control({"enum": ["SUCCEEDED"]}),
        "ask_user": _control({"type": "string", "not": {"enum": [e for e in ENDS if e != "NEEDS_INPUT"]}}),
        "cannot_continue": _control({"enum": [*ENDS]}),
        "request_approval": False,
    }
    rows = next(one for one in found["properties"]["then"]["anyOf"] if one.get("type") == "array")
    rows["allOf"] = [{"items": {"properties": {"refuse": _ABSENT}}}]


def _control(target: Schema) -> Schema:
    row = {"properties": {"goto": target, "stay": _ABSENT}}
    listed = {"type": "array", "minItems": 1, "items": {"allOf": [{"$ref": "#/$defs/Row"}, row]}}
    rows = [target, listed]
    keys = {"rows": {"anyOf": rows}, "with": {"type": "object", "maxProperties": 0}}
    mapping = {"type": "object", "properties": keys, "required": ["rows"], "additionalProperties": False}
    return {"anyOf": [*rows, mapping]}


def _call(found: Schema) -> None:
    both = {"blocked": ["unknown"], "unknown": ["blocked"]}
    found["properties"]["then"] |= {"required": ["ok", "failed"], "dependentRequired": both}


def _all_outcomes(found: Schema) -> None:
    then = found["properties"]["then"]
    then["required"] = list(then["properties"])


def _wait(found: Schema) -> None:
    by_signal = _outcomes_by("wait", "signal", ["received", "expired"], ["elapsed"])
    found["allOf"] = [by_signal, _outcomes_by("wait", "at_most", ["exhausted"], [])]


def _approval(found: Schema) -> None:
    asked = ["approved", "rejected", "expired"]
    found["properties"]["then"]["required"] = asked
    found["allOf"] = [_outcomes_by("approval", "at_most", ["exhausted"], [])]


def _outcomes_by(verb: str, key: str, then: list[str], otherwise: list[str]) -> Schema:
    """Which outcomes there are with `key` under the verb, and which without; the others cannot happen."""
    return {
        "if": {"properties": {verb: _has(key)}},
        "then": {"properties": {"then": {"required": then, "properties": dict.fromkeys(otherwise, False)}}},
        "else": {"properties": {"then": {"required": otherwise, "properties": dict.fromkeys(then, False)}}},
    }


def _machine(found: Schema) -> None:
    lower, upper = {w.lower() for w in RESERVED}, {w.upper() for w in RESERVED}
    keys = found["properties"]
    _not_named(keys["machine"], lower)
    _not_named(keys["guards"]["propertyNames"], lower)
    _not_named(keys["states"]["propertyNames"], upper)
    _not_named(keys["initial"], ENDS)


def _property(found: Schema) -> None:
    """A key belongs to certain types, also where none is written; the values of `enum` are of one type."""
    untyped: Schema = {"properties": {"type": _ABSENT}}
    beside = {"array": [], "integer": [{"allOf": [untyped, _has("enum")]}]}
    rules: list[Schema] = [
        {
            "if": _has(Property.model_fields[key].alias or key),
            "then": {"anyOf": [_is("type", *kinds), *beside.get(kinds[0], [untyped])]},
        }
        for key, kinds in PROPERTY_FITS.items()
    ]
    lists: list[Schema] = [{"items": {"type": kind}} for kind in ("string", "number", "boolean")]
    rules += [
        {"if": _is("type", one["items"]["type"]), "then": {"properties": {"enum": one}}}
        for one in [*lists, {"items": {"type": "integer"}}]
    ]
    found["allOf"] = [*rules, {"if": untyped, "then": {"properties": {"enum": {"anyOf": lists}}}}]


def _tool(found: Schema) -> None:
    """What makes a write safe stands in every write, and in no read."""
    sent = {"required": ["method", "idempotency_header"], "properties": {"method": {"not": {"const": "GET"}}}}
    write = {
        "required": ["idempotency", "approval"],
        "properties": {
            **dict.fromkeys(("fresh_for", "polling"), False),
            "retry": {"properties": {"attempts": _ABSENT}},
            "errors": {"propertyNames": {"not": {"pattern": f"^({UNSETTLED.pattern})$"}}},
            "binding": {"properties": {"http": sent}},
        },
    }
    asked = {"method": {"enum": ["GET", "POST"]}, "idempotency_header": _ABSENT}
    read = {
        "properties": {
            **dict.fromkeys(("idempotency", "precondition", "approval"), False),
            "retry": {"properties": {"unsent": _ABSENT}},
            "touches": {"properties": {"writes": _ABSENT}},
            "binding": {"properties": {"http": {"properties": asked}}},
        }
    }
    python = {"required": ["binding"], "properties": {"binding": _has("python")}}
    looked_up = {"anyOf": [_has("reconcile"), _REPLAYED]}
    always = {"minItems": 1, "maxItems": 1, "items": {"properties": {"when": _ABSENT}}}
    found["allOf"] = [
        {"if": _is("effect", "read"), "then": read},
        {"if": _is("effect", "write", "irreversible"), "then": write},
        {"if": _is("effect", "write"), "then": {"properties": {"idempotency": looked_up}}},
        {"if": _is("effect", "irreversible"), "then": {"properties": {"approval": always}}},
        {"if": python, "then": {"properties": {"args": {"propertyNames": {"not": {"const": "call"}}}}}},
    ]
    _not_named(found["properties"]["errors"]["additionalProperties"], ERROR_CLASSES)
    _not_named(found["properties"]["tool"], {w.lower() for w in RESERVED} | CEL_WORDS)


_REPLAYED = _has("replay", {"const": True})

#: by the name of the model
_RULES: Mapping[str, Callable[[Schema], None]] = {
    "Row": _with(
        {"oneOf": [_has("goto"), _has("stay"), _has("refuse")]},
        _not_both(_has("when"), _has("unless")),
        {"if": {"anyOf": [_has("reason"), _has("confirms")]}, "then": _has("goto")},
    ),
    "ChooseState": _choose,
    "CallState": _call,
    "ReconcileState": _all_outcomes,
    "ApprovalState": _approval,
    "Wait": _with(
        {"oneOf": [_has("for"), _has("until"), _has("signal")]},
        {"dependentRequired": {"signal": ["expires"], "expires": ["signal"]}},
    ),
    "WaitState": _wait,
    "CompoundState": _with(
        {
            "if": _has("parallel", {"const": True}),
            "then": {"properties": {"initial": _ABSENT}},
            "else": _has("initial"),
        },
    ),
    "MachineDefinition": _machine,
    "Property": _property,
    "Binding": _with({"oneOf": [_has("http"), _has("python"), _has("command"), _has("mcp")]}),
    "Idempotency": _with(_not_both(_has("reconcile"), _REPLAYED)),
    "ToolManifest": _tool,
    "Touches": _with({"anyOf": [_has("reads"), _has("writes")]}),
    "ScriptedStep": _with(_not_both(_has("call"), _has("calls", {"minItems": 1}))),
}
