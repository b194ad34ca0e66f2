"""The values of `with`: references and literals."""

from __future__ import annotations

import pytest

from statemachine_agent.definition.references import (
    MACHINE_ROOTS,
    MANIFEST_ROOTS,
    Literal,
    Reference,
    UnresolvedError,
    fill,
    parse,
    resolve,
)

DATA = {
    "input": {"id": "8472", "nothing": None},
    "evidence": {"look": {"list": [{"x": 1}, {"x": 2}], "text": "abc"}},
    "now": "2026-10-28T11:17:43Z",
}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("input.id", "8472"),
        ("input.nothing", None),
        ("evidence.look.list[1].x", 2),
        ("evidence.look.list[0]", {"x": 1}),
        ("now", "2026-10-28T11:17:43Z"),
        ({"text": "input.id"}, "input.id"),
        ("hello", "hello"),
        ("args.id", "args.id"),
        ("input", DATA["input"]),
        ("input id", "input id"),
        (5, 5),
        (["input.id"], ["input.id"]),
        ({"text": "a", "more": 1}, {"text": "a", "more": 1}),
    ],
)
def test_a_text_whose_first_part_is_a_root_is_a_reference(value: object, found: object) -> None:
    assert resolve(value, MACHINE_ROOTS, DATA) == found


@pytest.mark.parametrize(
    "value",
    ["input.other", "evidence.other.x", "evidence.look.list[2]", "evidence.look.text[0]", "evidence.look.text.x",
     "evidence.look.list.x", "input.id.x", "input.nothing.x", "proposal.args.x", "input[0]"],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_an_error_and_never_null(value: str) -> None:
    with pytest.raises(UnresolvedError, match="is not there"):
        resolve(value, MACHINE_ROOTS, DATA)


def test_a_root_that_is_not_given_is_an_error_and_never_null() -> None:
    with pytest.raises(UnresolvedError, match="`now` is not there"):
        resolve("now", MANIFEST_ROOTS, {"args": {}})


def test_what_is_a_root_depends_on_the_place() -> None:
    assert parse("args.id", MANIFEST_ROOTS) == Reference("args.id", "args", ("id",))
    assert parse("args.id", MACHINE_ROOTS) == Literal("args.id")
    assert parse("input.id", MANIFEST_ROOTS) == Literal("input.id")


def test_positions_and_names_are_told_apart() -> None:
    parsed = parse("evidence.look.list[12].x", MACHINE_ROOTS)
    assert isinstance(parsed, Reference)
    assert parsed.steps == ("look", "list", 12, "x")


def test_a_literal_can_be_marked_as_one() -> None:
    assert parse({"text": "input.id"}, MACHINE_ROOTS) == Literal("input.id", marked=True)


def test_a_whole_with_is_filled() -> None:
    assert fill({"a": "input.id", "b": 3}, MACHINE_ROOTS, DATA) == {"a": "8472", "b": 3}
