"""Arguments and results against their schemas: what is wrong, in plain words, with the path of each fault.

It must not know who made the value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.schema import Properties, json_schema, project, with_floats
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


def as_json(value: object) -> Any:
    """`value` as plain JSON data with canonical numbers, of no types but JSON's own; CanonicalError for anything else."""
    return json.loads(canonical(value))


def faults_of(properties: Properties, value: object) -> list[ArgumentFault]:
    """What keeps `value` from being an object of these properties; empty where nothing does."""
    try:
        plain = as_json(value)
    except CanonicalError as problem:
        return [ArgumentFault("", problem.message)]
    try:
        errors = _validator(properties).iter_errors(plain)
    except (ValueError, TypeError) as problem:  # a pattern that only Python's regular expressions know
        return [ArgumentFault("", f"the schema itself cannot be used: {one_line(str(problem), 120)}")]
    found = []
    try:
        with_floats(properties, plain if isinstance(plain, dict) else {})
    except OverflowError:  # JSON has whole numbers without end, and a guard reads a `number` as a float
        return [ArgumentFault("", "a number is larger than numbers can be")]
    for error in errors:
        path = ".".join(str(p) for p in error.instance_path)
        found.append(ArgumentFault(path, one_line(error.message, 160)))
        if len(found) == _MAX_FAULTS:
            break
    return found


#: compiled schemas by the identity of their properties, which are kept with them so that no other object has it
_validators: dict[int, tuple[Properties, Any]] = {}
_KEPT = 512


def _validator(properties: Properties) -> Any:
    """The compiled schema of `properties`; of many, those that were compiled last are kept."""
    known = _validators.get(id(properties))
    if known is None:
        known = (properties, jsonschema_rs.Draft202012Validator(json_schema(properties), validate_formats=True))
        while len(_validators) >= _KEPT:
            _validators.pop(next(iter(_validators)), None)
        _validators[id(properties)] = known
    return known[1]


def checked_arguments(manifest: ToolManifest, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[ArgumentFault]]:
    """The arguments with canonical numbers, and what is wrong with them."""
    faults = faults_of(manifest.args, value)
    if faults:
        return {}, faults
    found: Any = project(manifest.args, as_json(value))
    return dict(found), []


def schema_for_model(manifest: ToolManifest, pinned: Mapping[str, object]) -> dict[str, Any]:
    """The JSON Schema that the model is shown: without what the machine fills in."""
    return json_schema({name: value for name, value in manifest.args.items() if name not in pinned})
