"""The part of JSON Schema that inputs, arguments and results are described with."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine_agent.definition.schema import MAX_ITEMS, Properties, Property, json_schema, misfit, project

ORDER: Properties = {
    "id": Property(type="string", pattern="^[0-9]+$", maxLength=8),
    "status": Property(enum=("open", "closed")),
    "total": Property(type="number", minimum=0),
    "count": Property(type="integer"),
    "note": Property(type="string", optional=True, untrusted=True),
    "lines": Property(type="array", items=Property(type="object", properties={"n": Property(type="integer")})),
    "free": Property(type="object", optional=True),
}
GOOD = {"id": "12", "status": "open", "total": 1.5, "count": 1, "lines": [{"n": 1}]}


def is_valid(value: object) -> bool:
    return jsonschema_rs.Draft202012Validator(json_schema(ORDER), validate_formats=True).is_valid(value)


def test_the_schema_is_closed_complete_and_bounded() -> None:
    schema = json_schema(ORDER)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["id", "status", "total", "count", "lines"]
    assert schema["properties"]["status"] == {"type": "string", "enum": ["open", "closed"]}
    assert schema["properties"]["lines"]["maxItems"] == MAX_ITEMS
    assert schema["properties"]["lines"]["items"]["additionalProperties"] is False
    assert schema["properties"]["free"] == {"type": "object"}
    assert "untrusted" not in str(schema) and "optional" not in str(schema)


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"note": "hm"}, True),
        ({"free": {"any": ["thing"]}}, True),
        ({"id": "12a"}, False),
        ({"id": "12\n"}, False),
        ({"id": "123456789"}, False),
        ({"status": "lost"}, False),
        ({"total": -1}, False),
        ({"total": "1"}, False),
        ({"count": 1.5}, False),
        ({"count": True}, False),
        ({"lines": [{"n": 1, "more": 2}]}, False),
        ({"more": 1}, False),
        ({"note": None}, False),
    ],
)
def test_the_schema_means_what_the_manifest_says(change: dict[str, object], fits: bool) -> None:
    assert is_valid(GOOD | change) is fits


def test_projecting_drops_what_a_service_adds_and_a_null_that_may_be_absent() -> None:
    answer = GOOD | {"count": 3.0, "note": None, "extra": 1, "lines": [{"n": 2.0, "more": 1}], "free": {"x": 1}}
    found = project(ORDER, answer)
    assert found == GOOD | {"count": 3, "lines": [{"n": 2}], "free": {"x": 1}}
    assert isinstance(found["count"], int)
    assert is_valid(found)


def test_projecting_invents_nothing() -> None:
    assert project(ORDER, {}) == {}
    assert project(ORDER, {"id": None, "lines": "x"}) == {"id": None, "lines": "x"}
    assert project(ORDER, [1]) == [1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*ORDER, "x"]), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*ORDER, "x"]), JSON))
def test_projecting_twice_is_projecting_once(value: dict[str, object]) -> None:
    found = project(ORDER, value)
    assert project(ORDER, found) == found
    assert set(found) <= set(ORDER)


def test_the_type_follows_from_what_is_written() -> None:
    assert Property(enum=(1, 2)).kind == "integer"
    assert Property(enum=(True,)).kind == "boolean"
    assert Property(properties={}).kind == "object"
    assert Property().kind == "string"
    assert Property(type="number", enum=(1, 2.5)).kind == "number"


def test_a_misfit_is_told_in_a_few_words() -> None:
    assert misfit(ORDER["id"], "12") is None
    assert misfit(ORDER["id"], "x") == "`x` does not match `^[0-9]+$`"
    assert "is not of type" in str(misfit(ORDER["count"], "1"))
    assert misfit(Property(type="string", format="date-time"), "soon") is not None
