"""Arguments against their schema: every keyword of the language, each fault with its path, and numbers made canonical."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.tools.making import read_tool, shipped

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.schema import Property
from statemachine_agent.tools import arguments
from statemachine_agent.tools.arguments import checked_arguments, faults_of, schema_for_model

REFUND = shipped()["issue_refund"]
GOOD = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}


def properties(**given_: Any) -> dict[str, Property]:
    return {name: Property.model_validate(value) for name, value in given_.items()}


def texts(found: list[arguments.ArgumentFault]) -> list[str]:
    return [str(f) for f in found]


CASES: list[tuple[dict[str, Any], list[Any], list[tuple[Any, str]]]] = [
    ({"type": "string"}, ["", "x"], [(1, "x: 1 is not of type"), (None, "x: null is not of type")]),
    ({"type": "integer"}, [0, -5, 2**70], [("1", "x: "), (1.5, "x: 1.5 is not of type"), (True, "x: true is not of")]),
    ({"type": "number"}, [0, 1.5, -2e300], [("1", "x: "), (False, "x: false")]),
    ({"type": "boolean"}, [True, False], [(0, "x: 0 is not"), ("true", "x: "), (None, "x: null")]),
    ({"type": "array"}, [[], [1, "a"]], [({}, "x: {} is not"), ("a", "x: ")]),
    ({"type": "object"}, [{}, {"any": [1]}], [([], "x: [] is not")]),
    ({"enum": ["a", "b"]}, ["a", "b"], [("A", 'x: "A" is not one of'), ("", "x: "), (1, "x: ")]),
    ({"enum": [1, 2]}, [1, 2.0], [(3, "x: 3 is not one of"), ("1", "x: ")]),
    ({"pattern": "^[0-9]+$"}, ["1", "0" * 500], [("", "x: "), ("1\n", "x: "), ("1a", "x: "), ("\n1", "x: ")]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "\U0001f4b8\U0001f4b8\U0001f4b8"], [("a", "x: "), ("abcd", "x: ")]),
    ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3, 3.0], [(0, "x: 0 is less"), (4, "x: 4 is greater")]),
    ({"type": "number", "minimum": 0.5}, [0.5], [(0.49, "x: 0.49 is less")]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2]],
     [([], "x: "), ([1, 2, 3], "x: "), ([1, "b"], 'x.1: "b" is not')]),
    ({"type": "array"}, [[0] * 1000], [([0] * 1001, "x: ")]),  # a list without a limit of its own
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer", "optional": True}}},
     [{"a": ""}, {"a": "", "b": 1}],
     [({}, 'x: "a" is a required'), ({"a": 1}, "x.a: 1 is not"), ({"a": "", "c": 1}, "x: Additional properties")]),
    ({"format": "date-time"}, ["2026-10-28T11:17:43Z"], [("2026-10-28", "x: "), ("now", "x: ")]),
    ({"format": "date"}, ["2026-10-28"], [("28.10.2026", "x: "), ("2026-02-30", "x: ")]),
    ({"format": "email"}, ["a@example.com"], [("a", "x: ")]),
    ({"format": "uri"}, ["https://example.com/x"], [("x y", "x: ")]),
    ({"format": "uuid"}, ["0192f0c1-7a3b-7000-8000-00000000aaaa"], [("0192", "x: ")]),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "good", "bad"), CASES, ids=[str(c[0])[:40] for c in CASES])
def test_every_keyword_of_the_language_is_checked(declared: Any, good: list[Any], bad: list[tuple[Any, str]]) -> None:
    schema = properties(x=declared)
    for value in good:
        assert faults_of(schema, {"x": value}) == [], value
    for value, fault in bad:
        found = texts(faults_of(schema, {"x": value}))
        assert any(f.startswith(fault) for f in found), found
        assert all(f.startswith("x") and len(f) < 200 and "\n" not in f for f in found)


def test_every_keyword_that_a_property_knows_stands_in_a_case() -> None:
    known = {field.alias or name for name, field in Property.model_fields.items()}
    tried = {key for declared, _, _ in CASES for key in declared}
    assert known - tried <= {"description", "optional", "untrusted", "trusted"}


def test_what_is_not_declared_or_is_missing_is_named() -> None:
    assert texts(faults_of(REFUND.args, {**GOOD, "currency": "INR"})) == [
        "Additional properties are not allowed ('currency' was unexpected)"
    ]
    assert texts(faults_of(REFUND.args, {"order_id": "8472"})) == [
        '"payment_id" is a required property', '"amount_inr" is a required property',
    ]  # fmt: skip
    assert len(faults_of(REFUND.args, dict.fromkeys(map(str, range(5000)), 1))) <= 8


def test_all_faults_are_told_at_once_and_a_lot_of_them_is_cut() -> None:
    found = texts(faults_of(REFUND.args, {"order_id": "x", "payment_id": "y", "amount_inr": 0}))
    assert sorted(f.partition(":")[0] for f in found) == ["amount_inr", "order_id", "payment_id"]
    rows = properties(x={"type": "array", "items": {"type": "integer"}})
    assert len(faults_of(rows, {"x": ["a"] * 500})) == 8


@pytest.mark.parametrize("value", [None, [], "x", 5, [("a", 1)], b"{}", object()])
def test_what_is_no_object_is_a_fault_and_never_an_exception(value: object) -> None:
    assert len(faults_of(REFUND.args, value)) == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [(float("nan"), "amount_inr is nan"), (float("inf"), "amount_inr is inf"), ({1: 2}, "key 1, which is not text"),
     ("\ud800", "lone surrogate"), (object(), "amount_inr is a object")],
)  # fmt: skip
def test_what_is_no_json_is_named_by_its_path(value: object, problem: str) -> None:
    (found,) = texts(faults_of(REFUND.args, {**GOOD, "amount_inr": value}))
    assert problem in found


@pytest.mark.parametrize("depth", [100, 100_000])
def test_nesting_without_end_is_a_fault(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    (found,) = texts(faults_of(properties(x={"type": "object"}), {"x": value}))
    assert "nested deeper" in found


@pytest.mark.parametrize("written", [2000, 2000.0])
def test_a_whole_number_becomes_an_integer(written: float) -> None:
    found, faults = checked_arguments(REFUND, {**GOOD, "amount_inr": written})
    assert faults == [] and found == GOOD
    assert type(found["amount_inr"]) is int
    assert canonical(found) == canonical(GOOD)


def test_arguments_with_faults_are_not_given_back() -> None:
    found, faults = checked_arguments(REFUND, {**GOOD, "amount_inr": "2000"})
    assert found == {} and len(faults) == 1


def test_texts_of_a_type_of_their_own_become_plain_texts() -> None:
    class Text(str):
        __slots__ = ()

    found, faults = checked_arguments(REFUND, {**GOOD, "order_id": Text("8472")})
    assert faults == [] and type(found["order_id"]) is str


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("^(a+)+$", "a" * 100_000 + "!"), ("^(a|aa)+$", "a" * 100_000 + "!"), ("(x+x+)+y", "x" * 50_000),
     (r"^(?=(a+))(a+)+\1$", "a" * 2_000 + "!")],
)  # fmt: skip
def test_a_pattern_that_would_search_for_ever_is_answered_at_once(pattern: str, text: str) -> None:
    schema = properties(x={"pattern": pattern})
    began = time.process_time()
    assert len(faults_of(schema, {"x": text})) == 1
    assert time.process_time() - began < 2.0


def test_a_schema_that_the_checker_cannot_use_refuses_everything() -> None:
    schema = {"x": Property.model_construct(type="string", pattern=r"(?P<a>x)(?(a)b|c)")}
    (found,) = texts(faults_of(schema, {"x": "xb"}))
    assert found.startswith("the schema itself cannot be used")


def test_the_model_is_shown_what_it_may_fill_in_and_no_more() -> None:
    shown = schema_for_model(REFUND, {"order_id": "input.order_id"})
    assert set(shown["properties"]) == {"payment_id", "amount_inr"}
    assert shown["required"] == ["payment_id", "amount_inr"]
    assert shown["additionalProperties"] is False
    assert shown["properties"]["amount_inr"] == {
        "type": "integer", "minimum": 1, "maximum": 50000, "description": "Whole rupees",
    }  # fmt: skip


def test_compiled_schemas_are_kept_and_never_more_than_a_number_of_them() -> None:
    faults_of(REFUND.args, GOOD)
    kept = arguments._validator(REFUND.args)
    assert arguments._validator(REFUND.args) is kept
    for n in range(3 * arguments._KEPT):
        assert faults_of(properties(**{f"x{n}": {"type": "string"}}), {f"x{n}": "a"}) == []
    gc.collect()
    assert len(arguments._validators) <= arguments._KEPT
    assert faults_of(REFUND.args, GOOD) == []


def test_schemas_that_come_and_go_are_never_taken_for_each_other() -> None:
    """A new mapping may lie where an old one lay: the check must not."""
    for n in range(2000):
        kind, value = (("string", "a"), ("integer", 1))[n % 2]
        assert faults_of(properties(x={"type": kind}), {"x": value}) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*GOOD, "more"]), json_values, max_size=4))
def test_anything_gives_faults_or_arguments_and_never_an_exception(value: dict[str, Any]) -> None:
    found, faults = checked_arguments(REFUND, value)
    assert bool(found) is not bool(faults)
    if found:
        assert faults_of(REFUND.args, found) == [] and set(found) == set(GOOD)
        assert type(found["amount_inr"]) is int and 1 <= found["amount_inr"] <= 50000


def test_a_tool_without_arguments_takes_none() -> None:
    tool = read_tool("http://127.0.0.1/")
    assert checked_arguments(tool, {}) == ({}, [])
    assert len(checked_arguments(tool, {"a": 1})[1]) == 1
