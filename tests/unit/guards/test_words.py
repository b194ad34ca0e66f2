"""Literals of a certain form: the function that takes them is asked, and says what is none."""

from __future__ import annotations

import pytest

from statemachine_agent.guards.words import form


@pytest.mark.parametrize(
    ("function", "literal", "said"),
    [
        ("timestamp", "2026-10-28T11:00:00Z", None),
        ("timestamp", "2026-10-28T11:00:00+05:30", None),
        ("timestamp", "2026-10-28T11:00:00", "names no zone"),
        ("timestamp", "tomorrow", "`tomorrow` is no time"),
        ("timestamp", "", "`` is no time"),
        ("timestamp", 0, None),
        ("timestamp", -5, None),
        ("timestamp", 253_402_300_799, None),
        ("timestamp", 10**15, "`1000000000000000` is no time"),
        ("duration", "1h30m", None),
        ("duration", "soon", "`soon` is no duration"),
        ("matches", "^a+$", None),
        ("matches", "(", "`(` is no pattern"),
    ],
)
def test_what_a_literal_is(function: str, literal: str | int, said: str | None) -> None:
    told = form(function, literal)
    assert [message for message, _ in told if said and said in message] == [message for message, _ in told]
    assert bool(told) is (said is not None)
