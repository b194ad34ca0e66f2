"""Placeholders: a value fills its place, and can never change the shape of the text around it."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from statemachine_agent.definition.template import KeyTemplate, TemplateError, UrlTemplate, fill_variables, variables_in

VARIABLES = {"BASE": "https://shop.example/api/", "HOST": "shop.example"}
TEXTS = st.text(max_size=12)


def url(text: str, **arguments: object) -> str:
    return UrlTemplate.parse(text).fill(arguments, VARIABLES.__getitem__)


# ---------------------------------------------------------------- addresses


def test_an_address_is_filled() -> None:
    assert url("${BASE}/orders/{id}?full=yes&q={q}", id="8472", q="a b") == (
        "https://shop.example/api/orders/8472?full=yes&q=a%20b"
    )
    assert url("https://${HOST}:8080/orders") == "https://shop.example:8080/orders"


def test_an_argument_of_the_query_that_was_not_given_is_left_away() -> None:
    assert url("${BASE}/orders?q={q}&p={p}", p=True) == "https://shop.example/api/orders?p=true"
    assert url("${BASE}/orders?q={q}") == "https://shop.example/api/orders"


def test_numbers_are_written_as_one_would_write_them() -> None:
    assert url("${BASE}/{a}/{b}/{c}", a=2000.0, b=1.5, c=False).endswith("/2000/1.5/false")


@given(TEXTS, TEXTS)
def test_no_argument_changes_the_shape_of_an_address(segment: str, value: str) -> None:
    assume(segment not in ("", ".", ".."))
    parts = urlsplit(url("${BASE}/orders/{id}/lines?q={q}", id=segment, q=value))
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "shop.example", "")
    assert [unquote(p) for p in parts.path.split("/")] == ["", "api", "orders", segment, "lines"]
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", value)]


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_segment_that_would_mean_another_folder_is_refused(value: str) -> None:
    with pytest.raises(TemplateError, match="cannot be a path segment"):
        url("${BASE}/{id}", id=value)


@pytest.mark.parametrize("value", ["../admin", "..%2fadmin", "a/b", "a?b", "a#b", "@evil.example", "%2e%2e"])
def test_a_value_that_looks_like_syntax_is_only_a_value(value: str) -> None:
    path = urlsplit(url("${BASE}/orders/{id}", id=value)).path
    assert path.count("/") == 3 and unquote(path.rpartition("/")[2]) == value


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}])
def test_only_single_values_stand_in_an_address(value: object) -> None:
    with pytest.raises(TemplateError, match="is not a single value"):
        url("${BASE}/{id}", id=value)


def test_a_segment_that_was_not_given_is_refused() -> None:
    with pytest.raises(TemplateError, match="needs `id`"):
        url("${BASE}/{id}")


@pytest.mark.parametrize(
    "base", ["shop.example", "ftp://shop.example", "https://", "https://a?x=1", "https://a#b", "http://[::1"]
)
def test_a_variable_that_is_no_base_of_an_address_is_refused(base: str) -> None:
    with pytest.raises(TemplateError, match="does not begin with scheme and host"):
        UrlTemplate.parse("${BASE}/orders").fill({}, lambda _: base)


def test_variables_are_found_and_filled() -> None:
    assert UrlTemplate.parse("https://${HOST}/a").variables == ("HOST",)
    assert UrlTemplate.parse("${BASE}/a/{x}?b={y}").names == ("x", "y")
    assert UrlTemplate.parse("${BASE}/a/{x}?b={y}").segments == ("x",)
    assert variables_in("Bearer ${TOKEN}") == ["TOKEN"]
    assert fill_variables("Bearer ${TOKEN}", {"TOKEN": "${X}"}.__getitem__) == "Bearer ${X}"


# ---------------------------------------------------------------- keys


def test_a_key_is_made_of_its_arguments() -> None:
    key = KeyTemplate.parse("refund:order-{order}:{payment}:v1")
    assert key.names == ("order", "payment")
    assert key.fill({"order": "8472", "payment": "pay_7 f"}) == "refund:order-8472:pay_7%20f:v1"


def test_a_long_text_stands_in_a_key_as_its_hash() -> None:
    key = KeyTemplate.parse("note:{text|sha256}")
    one, other = key.fill({"text": "x" * 5000}), key.fill({"text": "x" * 5001})
    assert one != other and len(one) == len("note:") + 32
    assert KeyTemplate.parse("n:{list|sha256}").fill({"list": [1.0]}) == KeyTemplate.parse("n:{l|sha256}").fill(
        {"l": [1]}
    )


KEYS = [KeyTemplate.parse(text) for text in ("{a}:{b}", "order-{a}/{b}", "{a}x|y{b}", "k:{a|sha256}:{b}")]


@given(st.sampled_from(KEYS), *[st.text(st.sampled_from("ab:/|-._~%x0"), max_size=5) | TEXTS] * 4)
def test_two_different_fillings_never_give_one_key(key: KeyTemplate, a: str, b: str, c: str, d: str) -> None:
    assume((a, b) != (c, d))
    assert key.fill({"a": a, "b": b}) != key.fill({"a": c, "b": d})


@pytest.mark.parametrize("text", ["{a}{b}", "{a}-{b}", "{a}.{b}", "{a}_x_{b}", "{a}%{b}", "{a}{b|sha256}"])
def test_placeholders_that_could_run_together_are_refused(text: str) -> None:
    """`{a}-{b}` would give one key for (1-2, 3) and (1, 2-3)."""
    with pytest.raises(PydanticCustomError, match="can run together"):
        KeyTemplate.parse(text)


def test_a_key_lacks_nothing() -> None:
    with pytest.raises(TemplateError, match="needs `b`"):
        KEYS[0].fill({"a": 1})
    with pytest.raises(TemplateError, match="is not a single value"):
        KEYS[0].fill({"a": 1, "b": []})
