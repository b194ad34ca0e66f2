"""How much of what is known has room, to the character: what is shown whole, what is cut, and what is only named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from statemachine_agent.loop import room
from statemachine_agent.loop.room import (
    EVIDENCE_ROOM,
    INPUT_ROOM,
    REFUSALS_ROOM,
    evidence_of,
    input_of,
    refusals_of,
    shown,
)
from statemachine_agent.models.port import Quoted
from statemachine_agent.records import Evidence

NOON = datetime(2026, 10, 28, 12, tzinfo=UTC)
#: `{"n": "…"}` as it is shown, and as it is stored
AROUND, STORED = len('{"n": ""}'), len('{"n":""}')


def result(number: int, size: int, letter: str = "x", trust: str = "mixed") -> Evidence:
    """A result that is `size` characters long as it is shown."""
    payload = {"n": letter * (size - AROUND)}
    return Evidence(f"ev-{number}", "look", "step", "c", "r", 1, "things", NOON, trust, payload, "h", {})


def looks(*sizes: int, **most_of: int) -> list[Quoted]:
    return evidence_of([result(n, size) for n, size in enumerate(sizes, 1)], most_of)


def sizes(found: list[Quoted]) -> list[tuple[str, int]]:
    """The name of each and how much of it is shown: all (0), or so many characters of its head."""
    return [(q.id, 0 if q.whole else len(q.value["cut"])) for q in found]


def test_what_is_shown_is_one_line_in_which_everything_is_seen() -> None:
    """Letters of any script as they are, nothing that hides, and always in one order."""
    assert shown({"b": "é日", "a": "\u202e\n"}) == '{"a": "\\u202e\\n", "b": "é日"}'


# ---------------------------------------------------------------- what a task was started with


@pytest.mark.parametrize(("more", "whole"), [(0, True), (1, False)])
def test_an_input_is_whole_up_to_its_room(more: int, whole: bool) -> None:
    """To the character, quotes included."""
    values = {"b": "x" * (INPUT_ROOM - 2 - 4 + more), "a": "yy"}
    found, is_whole = input_of(values)
    assert (is_whole, found == values, list(found)) == (whole, whole, ["b", "a"])


def test_what_is_short_is_whole_and_what_is_long_shares_the_rest() -> None:
    """In the order in which it was given; what is as long as its share is not cut."""
    values = {"long": "x" * 20_000, "short": "abc", "exact": "z" * 3_996, "other": "y" * 15_000}
    found, whole = input_of(values)
    assert (list(found), whole) == (list(values), False)
    assert (found["short"], found["exact"]) == ("abc", values["exact"])
    share = (INPUT_ROOM - 5 - 3_998) // 2
    assert {n: (len(shown(found[n]["cut"])), found[n]["characters"]) for n in ("long", "other")} == {
        "long": (share + 1, 20_002), "other": (share, 15_002),
    }  # fmt: skip


def test_what_has_to_be_escaped_takes_the_room_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is short as it is stored and long as it is shown is cut, and that is found out in a few tries."""
    tries: list[object] = []

    def counted(value: object) -> str:
        tries.append(value)
        return shown(value)

    monkeypatch.setattr(room, "shown", counted)
    values = {"a": "\u200b" * (INPUT_ROOM // 6), "b": "plain"}
    found, whole = input_of(values)
    assert (whole, found["b"], len(tries) < 10) == (False, "plain", True)
    assert INPUT_ROOM * 0.9 < len(shown(found["a"]["cut"])) <= INPUT_ROOM


# ---------------------------------------------------------------- results


@pytest.mark.parametrize(("more", "cut"), [(0, 0), (1, 3_994)])
def test_results_are_whole_up_to_their_room(more: int, cut: int) -> None:
    """From the newest back; the one that is too much keeps its head."""
    assert sizes(looks(4_000 + more, EVIDENCE_ROOM - 4_000)) == [("ev-1", cut), ("ev-2", 0)]


def test_the_first_without_room_has_what_is_left() -> None:
    """And those before it 600 characters each, up to ten; the oldest are named."""
    newest = EVIDENCE_ROOM - 2_000
    assert sizes(looks(3_000, 3_000, newest)) == [("ev-1", 595), ("ev-2", 1_995), ("ev-3", 0)]
    found = looks(*[700] * 14, 2_001, newest)
    assert sizes(found[1:]) == [*((f"ev-{n}", 595) for n in range(6, 15)), ("ev-15", 1_994), ("ev-16", 0)]
    about = {"newest of them": [f"ev-{n} look" for n in range(1, 6)], "number": 5}
    assert found[0] == Quoted("earlier", "results that are not shown any more", about, "system", whole=False)


def test_only_twenty_that_are_not_shown_are_named() -> None:
    """The newest of them; all are counted."""
    found = looks(*[700] * 40, EVIDENCE_ROOM)
    assert found[0].value == {"newest of them": [f"ev-{n} look" for n in range(11, 31)], "number": 30}


@pytest.mark.parametrize(("most", "cut"), [(1_000, 995), (1_999, 1_994), (2_000, 0)])
def test_a_tool_shows_as_much_as_its_manifest_lets_it(most: int, cut: int) -> None:
    """Measured as it is stored; the rest of the room is for others."""
    size = 2_000 + AROUND - STORED
    assert sizes(looks(size, look=most)) == [("ev-1", cut)]


def test_who_says_what_and_whether_it_is_trusted() -> None:
    """Each result with its tool, its source and its time."""
    found = evidence_of([result(1, 50, trust="system"), result(2, 50)], {})
    label = "look from things at 2026-10-28T12:00:00.000000Z"
    assert found == [
        Quoted("ev-1", label, result(1, 50).payload, "system", whole=True),
        Quoted("ev-2", label, result(2, 50).payload, "untrusted", whole=True),
    ]


def test_reasons_have_room_to_the_character() -> None:
    """One of them at most a thousand; a short one still stands where a long one did not."""
    reasons = [*(("x" * 1_000, f"t{n}") for n in range(5)), ("y" * 1_001, "t5"), ("z", "t6")]
    found = refusals_of((tool, text) for text, tool in reasons)
    assert [len(found[f"t{n}"]) for n in range(6)] == [1_000] * 6 and found["t6"] == "not now"
    almost = refusals_of(
        [(f"t{n}", "x" * 1_000) for n in range(5)] + [("t5", "x" * 990), ("t6", "y" * 11), ("t7", "z" * 10)]
    )
    assert (almost["t6"], almost["t7"], sum(map(len, almost.values()))) == ("not now", "z" * 10, REFUSALS_ROOM + 7)
