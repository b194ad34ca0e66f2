"""Going in circles: what raises a flag, and what makes it forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from statemachine_agent.definition.machine import Progress
from statemachine_agent.loop.progress import CORRECTIONS, Seen, observe
from support.playing import play, swap
from support.world import LOOK_STEP, MACHINE, World, act_step

#: nothing but what a test is about
CALM = {"repeat": 1000, "stall": 1000, "window": 6}


def flags(seen: Iterable[Seen], **settings: int) -> list[str | None]:
    """The flag of each decision in turn."""
    memory: dict[str, object] = {}
    found = []
    for one in seen:
        memory, flag = observe(Progress.model_validate({**CALM, **settings}), memory, one)
        found.append(flag)
    return found


def calls(text: str, result: str = "same", *, new: bool = True) -> list[Seen]:
    """A decision for each letter."""
    return [Seen(letter, result, new) for letter in text]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (calls("aaaa"), [None, None, "repeated_action", "repeated_action"]),
        (calls("abacab"), [None, None, None, None, "repeated_action", None]),
        ([Seen("a", str(n), True) for n in range(4)], [None] * 4),
        ([Seen(None, "same", True) for _ in range(4)], [None] * 4),
    ],
    ids=["running", "with others between", "with other results", "nothing was called"],
)
def test_the_same_call_with_the_same_result(seen: list[Seen], expected: list[str | None]) -> None:
    """More than twice, wherever in between something else was done."""
    assert flags(seen, repeat=2) == expected


def test_nothing_new_for_three_decisions() -> None:
    """A new fact begins the count again."""
    old, new = calls("a", new=False), calls("b")
    three = [None, None, "no_state_change"]
    assert flags([*old * 2, *new, *old * 3], stall=3) == [None, None, None, *three]
    assert flags([Seen(None, str(n), False) for n in range(3)], stall=3) == three


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("abab", True),
        ("aabab", True),
        ("abba", False),
        ("aaaa", False),
        ("abcab", False),
        ("abac", False),
        ("aba", False),
    ],
)
def test_back_and_forth(text: str, flagged: bool) -> None:
    """A-B-A-B and nothing else, whatever came of the calls."""
    seen = [Seen(letter, str(n), True) for n, letter in enumerate(text)]
    assert (flags(seen)[-1] == "oscillation") is flagged


def test_back_and_forth_is_two_calls_and_not_words_in_between() -> None:
    """A decision that calls nothing neither swings nor is flagged for it."""
    seen = [*calls("aba"), Seen(None, "words", True), *calls("b")]
    assert [f == "oscillation" for f in flags(seen)] == [False, False, False, False, True]
    assert flags([*calls("abab"), Seen(None, "words", True)])[-1] is None


def test_memory_is_bounded_and_forgets_the_oldest() -> None:
    """Sixty-four pairs: one that came seventy calls ago is as good as new, one of just now is not."""
    many = [Seen(f"call-{n}", "same", True) for n in range(64)]
    assert flags([*calls("x"), *many, *calls("x")], repeat=1)[-1] is None
    assert flags([*calls("x"), *many[1:], *calls("x")], repeat=1)[-1] == "repeated_action"


def test_what_is_used_again_is_kept() -> None:
    """The least recently used pair goes, not the first that ever was."""
    many = [Seen(f"call-{n}", "same", True) for n in range(63)]
    again = [*calls("x"), *many, *calls("x"), Seen("one more", "same", True), *calls("x")]
    assert flags(again, repeat=2)[-1] == "repeated_action"


@pytest.mark.parametrize(
    ("steps", "flag"),
    [([LOOK_STEP] * 3, "repeated_action"), ([{"say": "wait"}] * 3, "no_state_change")],
    ids=["repeat", "stall"],
)
def test_the_correction_is_told_once_with_what_was_told_anyway(tmp_path: Path, steps: list[object], flag: str) -> None:
    """The model reads what it does wrong before anything is held against it."""
    asked: list[str | None] = []

    async def body(here: World) -> None:
        script = here.runtime._model
        decide = script.decide  # type: ignore[union-attr]

        async def watching(prompt):
            asked.append(prompt.observation)
            return await decide(prompt)

        script.decide = watching  # type: ignore[union-attr, method-assign]
        end = await here.run()
        assert end.head.status == "SUCCEEDED"

    more = [act_step()] if flag == "repeated_action" else [LOOK_STEP, act_step()]
    play(tmp_path, body, *steps, *more)
    told = [text for text in asked if text and CORRECTIONS[flag] in text]
    assert len(told) == 1
    assert (told[0] == CORRECTIONS[flag]) is (flag == "repeated_action")


def test_what_was_corrected_and_forgiven_is_corrected_again(tmp_path: Path) -> None:
    """A new fact in between: the next circle brings another correction, and not at once the end."""
    machine = swap(MACHINE, ("steps: 6", "steps: 20"))
    same = {"call": "look", "with": {"thing": "bag"}}
    steps = [LOOK_STEP] * 3 + [same] * 3 + [act_step()]
    answers = [{"good": True}] * 3 + [{"good": True, "note": "bag"}]

    async def body(here: World) -> str:
        return str((await here.run()).head.status)

    assert play(tmp_path, body, *steps, machine=machine, look=answers) == "SUCCEEDED"
