"""Masking fields of a result."""

from __future__ import annotations

import pytest

from statemachine_agent.definition.redaction import MASK, described, field_at, hides, masked, not_kept, unkept
from statemachine_agent.definition.schema import Property

TEXT = Property(type="string")
RETURNS = {
    "name": TEXT,
    "owner": Property(type="object", properties={"card": TEXT, "age": Property(type="integer")}),
    "payments": Property(type="array", items=Property(type="object", properties={"card": TEXT})),
    "grid": Property(type="array", items=Property(type="array", items=TEXT)),
}
VALUE = {
    "name": "Ann",
    "owner": {"card": "1234", "age": 7},
    "payments": [{"card": "5678", "amount": 1}, {"amount": 2}],
    "grid": [["a", "b"], []],
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("name", {"name": MASK}),
        ("owner.card", {"owner": {"card": MASK, "age": 7}}),
        ("payments[].card", {"payments": [{"card": MASK, "amount": 1}, {"amount": 2}]}),
        ("grid[][]", {"grid": [[MASK, MASK], []]}),
        ("gone", {}),
        ("name.first", {"name": MASK}),
        ("owner[].card", {"owner": MASK}),
        ("payments.card", {"payments": MASK}),
        ("grid[][][]", {"grid": [[MASK, MASK], []]}),
        ("payments[][].card", {"payments": [MASK, MASK]}),
        ("owner.age", {"owner": {"card": "1234"}}),
        ("payments", {"payments": None}),
        ("payments[]", {"payments": []}),
    ],
)
def test_what_a_path_names_is_masked_and_nothing_else(path: str, expected: dict[str, object]) -> None:
    """A text is masked; what is no text goes as a whole; what is of another shape is masked as a whole."""
    assert masked([path], VALUE) == {k: v for k, v in {**VALUE, **expected}.items() if v is not None}
    assert VALUE["name"] == "Ann", "what was given is not changed"


@pytest.mark.parametrize("path", ["name", "owner.card", "payments[].card", "grid[][]"])
def test_a_path_leads_to_its_field(path: str) -> None:
    assert field_at(RETURNS, path) == TEXT


@pytest.mark.parametrize("path", ["gone", "name.first", "name[]", "payments.card", "owner[].card", "grid[][][]"])
def test_a_path_that_leads_nowhere(path: str) -> None:
    assert field_at(RETURNS, path) is None


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        (["name", "owner", "payments", "grid"], ()),
        ([], ("name", "owner", "payments", "grid")),
        (["owner.age", "payments[].card"], ("name", "owner.card", "grid")),
        (["owner.age", "payments[]", "grid[][]"], ("name", "owner.card")),
        (["own", "payments.card", "owner.car"], ("name", "owner.card", "owner.age", "payments", "grid")),
    ],
)
def test_what_is_not_named_is_not_kept(kept: list[str], lost: tuple[str, ...]) -> None:
    assert not_kept(RETURNS, kept) == lost


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (VALUE, {**VALUE, "payments": [{"card": "5678", MASK: MASK}, {MASK: MASK}]}),
        ({"nmae": "S", "S": 1}, {MASK: MASK}),
        ({"name": ["S"], "owner": "S", "payments": {"card": "S"}}, {"name": MASK, "owner": MASK, "payments": MASK}),
        ({"owner": {"crad": "S"}, "payments": [["S"], "S"]}, {"owner": {MASK: MASK}, "payments": [MASK, MASK]}),
        ({"name": 7, "grid": [["a", {"b": "S"}]]}, {"name": MASK, "grid": [["a", MASK]]}),
        ({"owner": {"age": "S"}}, {"owner": {"age": MASK}}),
        ({"owner": {"age": 7.5}}, {"owner": {"age": 7.5}}),
    ],
)
def test_what_is_not_described_is_masked_with_its_name(value: dict[str, object], expected: dict[str, object]) -> None:
    assert described(RETURNS, value) == expected


@pytest.mark.parametrize(
    ("value", "masks", "lost"),
    [
        (VALUE, (), ("payments[].card",)),
        (VALUE, ("payments[].card",), ()),
        (VALUE, ("payments",), ()),
        ({**VALUE, "name": MASK, "payments": []}, (), ("name",)),
        ({**VALUE, "name": MASK, "payments": []}, ("name",), ()),
        ({**VALUE, "owner": {"card": "1"}, "payments": []}, (), ("owner.age",)),
        ({**VALUE, "owner": MASK, "payments": MASK}, (), ("owner", "payments")),
        ({**VALUE, "grid": [["a"], [MASK]], "payments": [MASK]}, (), ("payments[]", "grid[][]")),
        ({"payments": []}, ("owner", "grid"), ("name",)),
    ],
)
def test_what_of_a_result_was_not_kept(value: dict[str, object], masks: tuple[str, ...], lost: tuple[str, ...]) -> None:
    """Masked, or not there although it is described as always there; what is masked here anyway is not missed."""
    assert unkept(RETURNS, value, masks) == lost


def test_what_is_masked_hides_what_lies_in_it() -> None:
    assert [hides(["a.b", "c[]"], path) for path in ("a.b", "a.b.d", "a.b[]", "c[]", "c[].d")] == [True] * 5
    assert [hides(["a.b", "c[]"], path) for path in ("a", "a.bc", "c", "b")] == [False] * 4
