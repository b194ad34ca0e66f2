"""Values that fit a description: one of each, or several that differ where a guard could tell.

They are plain examples and follow from the description alone, so a test says the same each time. It must not know whose
they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from statemachine_agent.definition.schema import Properties, Property, misfit
from statemachine_agent.errors import UsageError
from statemachine_agent.testing.patterns import texts_like

#: values of each kind of text
_FORMATS = {
    "date-time": "2026-10-20T09:14:02Z",
    "date": "2026-10-20",
    "email": "ann@example.com",
    "uri": "https://example.com/x",
    "uuid": "0b5b6a1e-3c1e-4d0a-9a53-6f1f0f5c2a11",
}
_MOST = 64  # values of one description


def sample(properties: Properties) -> dict[str, Any]:
    """An object that fits; UsageError where a pattern is beyond what can be made up."""
    return {name: sample_of(declared) for name, declared in properties.items() if not declared.optional}


def sample_of(declared: Property) -> Any:
    """A value that fits; UsageError where none could be made up."""
    for value in variants_of(declared):
        return value
    raise UsageError(
        f"no value could be made up for the pattern `{declared.pattern}`", hint="give the value in the test"
    )


def variants(properties: Properties, texts: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Objects that fit, the plainest first: each field in all its variants, optional ones also absent.

    `texts` are tried wherever a text stands, before those that are made up.
    """
    names = list(properties)
    choices = []
    for name in names:
        found = list(variants_of(properties[name], texts))
        choices.append([*found, _ABSENT] if properties[name].optional else found)
    for picked in itertools.islice(itertools.product(*choices), _MOST):
        yield {name: value for name, value in zip(names, picked, strict=True) if value is not _ABSENT}


_ABSENT = object()


def variants_of(declared: Property, texts: Sequence[str] = ()) -> Iterator[Any]:
    """Values that fit and differ: each of an `enum`, both booleans, both ends of a range, lists of none, one and two."""
    seen: list[Any] = []
    for value in itertools.islice(_candidates(declared, texts), _MOST):
        if value not in seen and misfit(declared, value) is None:
            seen.append(value)
            yield value


def _candidates(declared: Property, texts: Sequence[str]) -> Iterator[Any]:
    if declared.enum:
        yield from declared.enum
        return
    match declared.kind:
        case "boolean":
            yield from (True, False)
        case "integer" | "number":
            yield from _numbers(declared)
        case "array":
            yield from _lists(declared, texts)
        case "object":
            yield from variants(declared.properties or {}, texts)
        case _:
            yield from texts
            yield from _texts(declared)


def _numbers(declared: Property) -> Iterator[Any]:
    low, high = declared.minimum, declared.maximum
    yield from (n for n in (low, high, 1, 0, 2) if n is not None)
    if declared.kind == "number":
        yield (low or 0) + 0.5


def _lists(declared: Property, texts: Sequence[str]) -> Iterator[Any]:
    items: list[Any] = list(itertools.islice(variants_of(declared.items, texts), 4)) if declared.items else ["x1"]
    least = declared.min_items or 0
    yield [items[0]] * least if items else []
    for item in items:
        yield [item]
    if len(items) > 1:
        yield items[:2]


def _texts(declared: Property) -> Iterator[Any]:
    if declared.format:
        yield _FORMATS[declared.format]
    if declared.pattern:
        yield from texts_like(declared.pattern)
    yield from ("x1", "4711", "x2", "a", "")
    if declared.min_length:
        yield "x" * declared.min_length


def with_sample(properties: Properties, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given`, and made-up values for what must be there and is not given."""
    return {**{n: sample_of(p) for n, p in properties.items() if n not in given and not p.optional}, **given}
