"""Text from outside, made safe to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine_agent.text import did_you_mean, nearest, one_line, shorten, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", r"a\x1b[31mred\x1b[0m"),
        ("approve\u202eevorppa", r"approve\u202eevorppa"),
        ("\u2066isolated\u2069", r"\u2066isolated\u2069"),
        ("pay\u200bpal", r"pay\u200bpal"),
        ("\ufeffbom", r"\ufeffbom"),
        ("soft\u00adhyphen", r"soft\xadhyphen"),
        ("line\nbreak\r\ttab\x00", r"line\x0abreak\x0d\x09tab\x00"),
        ("two\u2028lines", r"two\u2028lines"),
        ("\U000e0041 tag", r"\U000e0041 tag"),
        ("\ue000 private", r"\ue000 private"),
        ("\ud800", r"\ud800"),
        ("smuggled\U000e0100\ufe00", r"smuggled\U000e0100\ufe00"),
        ("\u3164filler\u115f", r"\u3164filler\u115f"),
        ("\u2800", r"\u2800"),
    ],
)
def test_what_is_not_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["plain", "é ü ñ", "日本語", "₹2000", "❤️", "शुक्रिया", "a b"])
def test_what_people_write_stays(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not hidden & {unicodedata.category(c) for c in visible(text)}


def test_some_characters_may_be_kept() -> None:
    assert visible("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_one_line_is_one_line_and_not_longer_than_its_limit() -> None:
    assert one_line("  a\n\tb \u2028 c\x07 ") == r"a b c\x07"
    assert one_line("x" * 300, 10) == "xxxxxxxxx…"


@given(st.text(), st.integers(1, 40))
def test_one_line_fits_and_holds_no_line_break(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1


def test_shorten_cuts_only_what_is_too_long() -> None:
    assert shorten("12345", 5) == "12345"
    assert shorten("123456", 5) == "1234…"


def test_the_nearest_word_is_found_without_regard_to_case() -> None:
    assert nearest("lookup_oder", ["lookup_order", "get_refund"]) == "lookup_order"
    assert nearest("succeeded", ["SUCCEEDED", "FAILED"]) == "SUCCEEDED"
    assert nearest("zzz", ["lookup_order"]) is None


def test_advice_names_the_nearest_word_or_all_of_them() -> None:
    assert did_you_mean("aplha", ["alpha", "beta"]) == "did you mean `alpha`?"
    assert did_you_mean("zzz", ["beta", "alpha"]) == "known: `alpha`, `beta`"
    assert did_you_mean("zzz", [f"w{i:02}" for i in range(13)]).endswith("`w11` …")
    assert did_you_mean("zzz", []) == "none is defined"


def test_among_very_many_words_one_slip_is_found_at_once() -> None:
    """Comparing each with each would take as long as all else together."""
    many = [f"STATE_{n}" for n in range(5000)]
    for word, meant in (("STATE_4711", "STATE_4711"), ("state_4711", "STATE_4711"), ("STAET_4711", "STATE_4711"),
                        ("STATE4711", "STATE_4711"), ("STATEE_4711", "STATE_4711"), ("STXTE_4711", "STATE_4711")):  # fmt: skip
        assert nearest(word, many) == meant
    assert nearest("SOMETHING", many) is None
    assert nearest("S" * 100_000, many) is None
    assert did_you_mean("SOMETHING", many).startswith("known: `STATE_0`, ")
