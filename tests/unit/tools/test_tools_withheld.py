"""What of a withheld value is found, where letters change and texts are cut: on values alone."""

from __future__ import annotations

import unicodedata

import pytest

from statemachine_agent.tools.withheld import Withheld

LONG = "geheim-AbCdEfGhIjKlMnOp-0123456789"


def withheld(value: str) -> Withheld:
    made = Withheld()
    made.add(value, "${KEY}")
    return made


@pytest.mark.parametrize(
    "value", ["geheimstraße-12345", "İstanbul-İzmir-1", "ﬁreﬂies-4711", "ŉandré-4711", "ΑΣΟΣ-ς-471"]
)
@pytest.mark.parametrize(
    "written",
    [str, str.upper, str.lower, str.casefold, str.title, lambda value: unicodedata.normalize("NFD", value)],
    ids=["as it is", "upper", "lower", "folded", "title", "accents apart"],
)
def test_a_letter_that_becomes_several_in_another_case_hides_nothing(value: str, written: object) -> None:
    assert callable(written)
    for before, after in (("", ""), ("ß ﬁ İ: ", " ß, ﬁ, İ"), ("<", ">")):
        assert withheld(value).without(f"{before}{written(value)}{after}") == f"{before}${{KEY}}{after}"
    assert withheld(value).without_in({written(value): [written(value)]}) == {"${KEY}": ["${KEY}"]}


@pytest.mark.parametrize("value", [LONG, "geheimstraße-straße-12345", "k3y" * 12])
@pytest.mark.parametrize("mark", ["…", "...", "......"])
def test_what_is_left_of_a_value_beside_the_mark_of_a_cut_is_not_shown(value: str, mark: str) -> None:
    """Libraries quote what they could not read, and leave out the middle of it: pydantic does, and so do we."""
    for head in range(6, len(value)):
        for text in (f"[ß {value[:head]}{mark}", f"[ß {value[:head]}"):
            shown = withheld(value).quoted(text)
            assert shown.startswith("[ß ${KEY}") and value[:6] not in shown, text
    for tail in range(6, len(value)):
        text = f"it was ß {value[:7]}{mark}{value[-tail:]}', and no more"
        assert withheld(value).quoted(text) == f"it was ß ${{KEY}}{mark}${{KEY}}', and no more"


def test_a_text_without_a_value_is_quoted_as_it_is() -> None:
    text = "Wait... what? 1… 2.... ß ﬁ, geheim is a word, and 6789 a number."
    assert withheld(LONG).quoted(text) == text
    assert Withheld().quoted(text) == text


def test_a_text_that_is_cut_within_a_character_shows_no_half_of_a_value() -> None:
    value = "geheimstraße-" + "ß" * 40
    body = b"x" * 1000 + value.encode() * 200
    for room in range(1, 40):
        shown = withheld(value).head(body[: 1000 + room], 5000)
        assert len(shown.removeprefix("x" * 1000)) < 9, shown
