"""Schemas → protobuf message types, built in memory, so that the compiler can check names and types inside lists.

Nothing is ever evaluated over these messages: a message has defaults, and a default would be a guess. It must not know
machines or tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

from statemachine_agent.definition.schema import Properties, Property
from statemachine_agent.guards import cel

_PACKAGE = "m"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "integer": _FIELD.TYPE_INT64,
    "number": _FIELD.TYPE_DOUBLE,
    "boolean": _FIELD.TYPE_BOOL,
}
_ANYTHING = ".google.protobuf.Value"
_GENERATED = re.compile(rf"\b{_PACKAGE}\.M[0-9]+\b")
_TYPE_WORDS = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration"}


class MessageTypes:
    """Message types of one environment: what each is called, and which properties it stands for."""

    def __init__(self) -> None:
        """Nothing yet; add messages, then ask for the pool."""
        self._file = descriptor_pb2.FileDescriptorProto(
            name="m.proto", package=_PACKAGE, syntax="proto3", dependency=["google/protobuf/struct.proto"]
        )
        #: full message name → (path in the author's words, properties)
        self.known: dict[str, tuple[str, Properties]] = {}
        #: what an expression may begin with
        self.roots: tuple[str, ...] = ()

    def message(self, path: str, properties: Properties) -> str:
        """The full name of a message with these properties; `path` is what an author calls it."""
        short = f"M{len(self.known)}"
        name = f"{_PACKAGE}.{short}"
        self.known[name] = (path, properties)
        message = self._file.message_type.add(name=short)
        message.options.deprecated_legacy_json_field_conflicts = True  # `a_b` and `aB` are two names; no JSON is made
        for number, (key, value) in enumerate(properties.items(), 1):
            field = message.field.add(name=key, number=number, label=_FIELD.LABEL_OPTIONAL, json_name=f"f{number}")
            self._type(field, f"{path}.{key}", value)
        return name

    def _type(self, field: Any, path: str, value: Property) -> None:
        if value.kind == "array" and field.label != _FIELD.LABEL_REPEATED and value.items is not None:
            field.label = _FIELD.LABEL_REPEATED
            self._type(field, f"{path}[]", value.items)
        elif value.kind == "object" and value.properties is not None:
            field.type = _FIELD.TYPE_MESSAGE
            field.type_name = "." + self.message(path, value.properties)
        elif value.kind in _SCALARS:
            field.type = _SCALARS[value.kind]
        else:  # an object or list of unknown content, a list of lists
            field.type, field.type_name = _FIELD.TYPE_MESSAGE, _ANYTHING

    def pool(self) -> Any:
        """All messages, ready for an environment."""
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def author_words(self, message: str) -> str:
        """`message` with the author's paths in place of generated names."""
        message = _GENERATED.sub(lambda m: self.known[m.group()][0] if m.group() in self.known else m.group(), message)
        for word, meant in _TYPE_WORDS.items():
            message = message.replace(word, meant)
        return message


def environment(roots: Mapping[str, Properties | Property]) -> tuple[cel.Environment, MessageTypes]:
    """An environment for checking, of these roots and no other: each is a message, a list of them, or a time."""
    types = MessageTypes()
    types.roots = tuple(roots)
    variables: dict[str, Any] = {}
    for root, what in roots.items():
        if isinstance(what, Property) and what.format == "date-time":
            variables[root] = cel.Type.TIMESTAMP
        elif isinstance(what, Property):  # a list of objects
            items = what.items.properties if what.items else None
            name = types.message(f"{root}[]", items or {})
            variables[root] = cel.Type.List(cel.message_type(name))
        else:
            variables[root] = cel.message_type(types.message(root, what))
    return cel.Environment(variables, types.pool()), types
