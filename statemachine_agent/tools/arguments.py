"""Arguments and results against their schemas: what is wrong, in plain words, with the path of each fault.

It must not know who made the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from statemachine_agent.canonical import canonical, plain
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.schema import Properties, json_schema, project
from statemachine_agent.errors import CanonicalError
from statemachine_agent.text import one_line

_MAX_FAULTS = 8


@dataclass(frozen=True)
class ArgumentFault:
    """One thing that is wrong with a value."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


_validators: dict[int, tuple[Properties, Any]] = {}


def faults_of(properties: Properties, value: object) -> list[ArgumentFault]:
    """What keeps `value` from being an object of these properties; empty where nothing does."""
    try:
        canonical(value)
    except CanonicalError as problem:
        return [ArgumentFault("", problem.message)]
    found = []
    for error in _validator(properties).iter_errors(value):
        path = ".".join(str(p) for p in error.instance_path)
        found.append(ArgumentFault(path, one_line(error.message, 160)))
        if len(found) == _MAX_FAULTS:
            break
    return found


def _validator(properties: Properties) -> Any:
    """The compiled schema of `properties`, kept as long as they live."""
    known = _validators.get(id(properties))
    if known is None or known[0] is not properties:
        known = (properties, jsonschema_rs.Draft202012Validator(json_schema(properties), validate_formats=True))
        _validators[id(properties)] = known
    return known[1]


def checked_arguments(manifest: ToolManifest, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[ArgumentFault]]:
    """The arguments with canonical numbers, and what is wrong with them."""
    faults = faults_of(manifest.args, value)
    if faults:
        return {}, faults
    found: Any = plain(project(manifest.args, value))
    return dict(found), []


def schema_for_model(manifest: ToolManifest, pinned: Mapping[str, object]) -> dict[str, Any]:
    """The JSON Schema that the model is shown: without what the machine fills in."""
    return json_schema({name: value for name, value in manifest.args.items() if name not in pinned})
