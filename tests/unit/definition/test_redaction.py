"""Masking fields of a result."""

from __future__ import annotations

import pytest

from statemachine_agent.definition.redaction import MASK, field_at, masked, not_kept
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
        ("name.first", {}),
        ("owner[].card", {}),
        ("owner.age", {"owner": {"card": "1234"}}),
        ("payments", {"payments": None}),
        ("payments[]", {"payments": []}),
    ],
)
def test_what_a_path_names_is_masked_and_nothing_else(path: str, expected: dict[str, object]) -> None:
    """A text is masked; what is no text goes as a whole."""
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
