"""Canonical JSON: one value, one text, one hash."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine_agent.canonical import MAX_BITS, MAX_DEPTH, canonical, digest, digest_bytes, plain
from statemachine_agent.errors import CanonicalError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_the_text_has_sorted_keys_no_blanks_and_no_escapes_of_letters() -> None:
    assert canonical({"b": [1, True, None], "a": "é\n"}) == '{"a":"é\\n","b":[1,true,null]}'.encode()


def test_a_whole_float_and_its_integer_have_one_hash() -> None:
    """An amount that went through a browser comes back as 2000.0: it is the amount that was approved."""
    assert canonical(2000.0) == b"2000"
    assert digest({"amount": 2000.0}) == digest({"amount": 2000})
    assert canonical(-0.0) == b"0"
    assert digest({"amount": 2000.5}) != digest({"amount": 2000})


def test_integers_beyond_the_floats_stay_apart() -> None:
    assert digest(9007199254740992) != digest(9007199254740993)
    assert canonical(9007199254740993) == b"9007199254740993"


def test_a_float_that_names_no_single_integer_stays_a_float() -> None:
    assert canonical(1e300) == b"1e+300"
    assert canonical(float(2**53)) != canonical(2**53)


def test_true_and_one_are_two_values() -> None:
    assert digest({"x": True}) != digest({"x": 1})
    assert digest({"x": "1"}) != digest({"x": 1})


@given(JSON)
def test_what_comes_back_from_the_text_gives_the_same_text(value: object) -> None:
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(JSON)
def test_plain_data_is_what_the_text_says(value: object) -> None:
    assert plain(value) == json.loads(canonical(value))


@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, object]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


def test_any_mapping_and_any_sequence_count() -> None:
    assert canonical(MappingProxyType({"a": (1, 2)})) == canonical(OrderedDict(a=[1, 2]))


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_depth_is_bounded() -> None:
    assert canonical(_nested(MAX_DEPTH))
    with pytest.raises(CanonicalError, match="is nested deeper than 64 levels"):
        canonical(_nested(MAX_DEPTH + 1))


def test_a_value_that_holds_itself_ends() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(CanonicalError, match="nested deeper"):
        canonical(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "the value is nan"),
        ({"a": [0, {"b": math.inf}]}, r"a\[1\]\.b is inf"),
        ({"a": {"b": {1, 2}}}, "a.b is a set"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], r"\[0\] is a datetime"),
        ({"price": Decimal("0.5")}, "price is a Decimal"),
        ({"raw": b"x"}, "raw is bytes"),
        ({"a": {1: "x"}}, "a has the key 1, which is not text"),
        ({"a": "\ud800"}, "a holds a lone surrogate"),
        ({"\udfff": 1}, "the value holds a lone surrogate"),
        ({"n": 1 << MAX_BITS}, "n is an integer of more than 4096 bits"),
        ({"n": -(1 << MAX_BITS)}, "n is an integer of more than 4096 bits"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(value: object, message: str) -> None:
    with pytest.raises(CanonicalError, match=message):
        canonical(value)
    with pytest.raises(CanonicalError, match=message):
        plain(value)


def test_the_longest_integer_can_be_written() -> None:
    assert json.loads(canonical((1 << MAX_BITS) - 1)) == (1 << MAX_BITS) - 1


def test_the_hash_is_that_of_the_bytes() -> None:
    assert digest({"a": 1}) == digest_bytes(b'{"a":1}')
    assert digest_bytes(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
