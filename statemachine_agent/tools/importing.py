"""Manifests drafted from what somebody else wrote: an OpenAPI document, or the tools of an MCP server.

A draft says `effect: write`, and does not load until a person has completed it. What the source says in words stands in
comments only: a summary is shown to a model, and its author is whoever answers for the tool. It must not know files or
connections.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from statemachine_agent.definition.names import CEL_WORDS, is_reserved
from statemachine_agent.definition.schema import Name, Property
from statemachine_agent.errors import CanonicalError, UsageError
from statemachine_agent.text import one_line
from statemachine_agent.tools.mcp import Offered

_NAME: TypeAdapter[str] = TypeAdapter(Name)
_DEEPEST = 8  # levels of a schema that are taken over
_KINDS = ("string", "integer", "number", "boolean", "array", "object")
_LIMITS = (
    "enum", "pattern", "format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"
)  # fmt: skip
_METHODS = ("get", "post", "put", "patch", "delete")
_SEGMENT = re.compile(r"[^{}]*|\{[A-Za-z_][A-Za-z0-9_]*\}")


@dataclass
class Draft:
    """A manifest that a person will complete."""

    name: str
    source: str
    #: the kind of binding, and what stands in it
    binding: tuple[str, Mapping[str, Any]]
    args: dict[str, Any] = field(default_factory=dict)
    returns: dict[str, Any] = field(default_factory=dict)
    #: what the source says in words
    told: str = ""
    #: what was not taken over, and why
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The file."""
        kind, values = self.binding
        lines = [
            "# A draft. It does not load until a person has completed it:",
            "# - `effect: write` stands until a person says otherwise; a tool that changes nothing is a `read`.",
            "# - A write needs `idempotency` (a key of business fields, and how the effect is looked up) and `approval`.",
            "# - Texts from outside are marked `untrusted: true` under `returns`.",
            "# - The summary is shown to the model: it is yours to write.",
        ]
        if self.told:
            lines.append(f"# The source says: {one_line(self.told, 300)}")
        lines += [f"# Not taken over: {one_line(note, 200)}" for note in self.notes]
        lines += [
            f"tool: {self.name}", "version: 1", f"summary: Not described yet ({self.name}).",
            "effect: write  # until a person says otherwise", f"source: {self.source}",
            "binding:", f"  {kind}:", *(f"    {key}: {_written(value)}" for key, value in values.items()),
            *_mapping("args", self.args), *_mapping("returns", self.returns),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


def _mapping(key: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield f"{key}:" if values else f"{key}: {{}}"
    yield from (f"  {name}: {_written(value)}" for name, value in values.items())


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)  # JSON is YAML too


def from_mcp(server: str, offers: Iterable[Offered]) -> list[Draft]:
    """A draft for each tool of a server, bound to its schemas as they are now."""
    found: list[Draft] = []
    for offer in offers:
        try:
            binding = {"server": server, "tool": offer.name, "schema_hash": offer.schema_hash}
        except CanonicalError as problem:
            raise UsageError(f"the schema of `{one_line(offer.name, 60)}` is no JSON: {problem.message}") from None
        draft = Draft(_free(offer.name, found), _source(server), ("mcp", binding), told=offer.description)
        root = offer.input_schema
        draft.args = _properties(root, root, draft.notes)
        if offer.output_schema is not None:
            draft.returns = _properties(offer.output_schema, offer.output_schema, draft.notes)
        found.append(draft)
    return found


def from_openapi(document: object, variable: str) -> list[Draft]:
    """A draft for each operation of an OpenAPI 3 document; the variable holds where the service answers."""
    if not isinstance(document, Mapping) or not str(document.get("openapi", "")).startswith("3"):
        raise UsageError("this is no OpenAPI 3 document", hint="name a file that begins with `openapi: 3…`")
    source = _source(str(_at(document, "info", "title") or "service"))
    found: list[Draft] = []
    for path, operations in _pairs(document.get("paths")):
        for method, operation in _pairs(operations):
            if method in _METHODS and isinstance(operation, Mapping):
                shared = operations.get("parameters") if isinstance(operations, Mapping) else None
                found.append(_operation(document, (path, method), operation, shared, (variable, source), found))
    return found


def _operation(
    document: Mapping[str, Any],
    where: tuple[str, str],
    operation: Mapping[str, Any],
    shared: object,
    named: tuple[str, str],
    others: list[Draft],
) -> Draft:
    (path, method), (variable, source) = where, named
    name = _free(str(operation.get("operationId") or f"{method}_{path}"), others)
    told = str(operation.get("summary") or operation.get("description") or "")
    http: dict[str, Any] = {"method": method.upper()}
    draft = Draft(name, source, ("http", http), told=told)
    query = _parameters(document, [*_list(shared), *_list(operation.get("parameters"))], draft, http)
    body = _resolved(document, _at(operation, "requestBody", "content", "application/json", "schema"))
    for key, value in _properties(document, body, draft.notes).items():
        if key in draft.args:
            draft.notes.append(f"`{key}` of the body, which is the name of a parameter too")
        draft.args.setdefault(key, value)
    if not all(_SEGMENT.fullmatch(segment) for segment in path.split("/")):
        draft.notes.append(f"the path {path}, in which a placeholder is less than a segment")
        path = "/"
    in_url = method in ("post", "put", "patch") and query
    http["url"] = f"${{{variable}}}{path}" + ("?" + "&".join(f"{q}={{{q}}}" for q in query) if in_url else "")
    for status in ("200", "201"):
        answer = _resolved(document, _at(operation, "responses", status))
        schema = _resolved(document, _at(answer, "content", "application/json", "schema"))
        if schema and not draft.returns:
            draft.returns = _properties(document, schema, draft.notes)
    return draft


def _parameters(document: Mapping[str, Any], given: list[Any], draft: Draft, http: dict[str, Any]) -> list[str]:
    """Takes over the parameters; the names of those in the query."""
    query = []
    for one in given:
        parameter = _resolved(document, one)
        name, place = str(parameter.get("name", "")), parameter.get("in")
        if place == "header" and name.lower() == "idempotency-key":
            http["idempotency_header"] = name
        elif place not in ("path", "query") or not _is_name(name):
            draft.notes.append(f"the parameter {name} in {place}")
        else:
            value = _property(document, parameter.get("schema"), draft.notes, 0)
            needed = place == "path" or parameter.get("required") is True
            draft.args[name] = value if needed else {**value, "optional": True}
            query += [name] if place == "query" else []
    return query


# ---------------------------------------------------------------- schemas


def _properties(document: object, schema: object, notes: list[str], depth: int = 0) -> dict[str, Any]:
    """The properties of a schema of an object, each as the language says it."""
    given = _resolved(document, schema)
    needed = _list(given.get("required"))
    found = {}
    for name, value in _pairs(given.get("properties")):
        if not _is_name(name):
            notes.append(f"{name}, which can be no name here")
            continue
        one = _property(document, value, notes, depth)
        found[name] = one if name in needed else {**one, "optional": True}
    return found


def _property(document: object, schema: object, notes: list[str], depth: int) -> dict[str, Any]:
    """One value: its type and limits as far as the language knows them; never its description."""
    given = _resolved(document, schema)
    for key in ("anyOf", "oneOf"):
        branches = [b for b in map(lambda s: _resolved(document, s), _list(given.get(key))) if b.get("type") != "null"]  # noqa: C417
        if branches:
            given = branches[0]
    kinds = [kind for kind in _list(given.get("type")) or [given.get("type")] if kind in _KINDS]
    kind = kinds[0] if kinds else "object" if "properties" in given else "string"
    found: dict[str, Any] = {"type": kind}
    if depth < _DEEPEST and kind == "object" and _pairs(given.get("properties")):
        found["properties"] = _properties(document, given, notes, depth + 1)
    if depth < _DEEPEST and kind == "array" and given.get("items"):
        found["items"] = _property(document, given["items"], notes, depth + 1)
    for key in _LIMITS:
        if key in given and _fits({**found, key: given[key]}):
            found[key] = given[key]
    return found if _fits(found) else {"type": kind}


def _fits(value: Mapping[str, Any]) -> bool:
    try:
        Property.model_validate(value)
    except (ValidationError, RecursionError):
        return False
    return True


def _resolved(document: object, value: object) -> Mapping[str, Any]:
    """The mapping that is meant, references within the document followed; an empty one where there is none."""
    for _ in range(_DEEPEST):
        if not isinstance(value, Mapping):
            return {}
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        steps = [s.replace("~1", "/").replace("~0", "~") for s in reference.removeprefix("#/").split("/")]
        value = _at(document, *steps) if reference.startswith("#/") else None
    return {}


def _at(value: object, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _pairs(value: object) -> list[tuple[str, Any]]:
    return [(str(k), v) for k, v in value.items()] if isinstance(value, Mapping) else []


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


# ---------------------------------------------------------------- names


def _is_name(text: str) -> bool:
    try:
        _NAME.validate_python(text)
    except ValidationError:
        return False
    return True


def _free(text: str, others: Iterable[Draft]) -> str:
    """A name for a tool, made of `text`, that no other draft has."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower()
    name = re.sub(r"[^a-z0-9]+", "_", parts).strip("_")[:50] or "tool"
    if not name[0].isalpha() or is_reserved(name) or name in CEL_WORDS:
        name = f"tool_{name}"
    taken = {draft.name for draft in others}
    return next(n for n in (name, *(f"{name}_{i}" for i in range(2, len(taken) + 3))) if n not in taken)


def _source(text: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50]
    return name if name[:1].isalpha() else f"source-{name}".rstrip("-")
