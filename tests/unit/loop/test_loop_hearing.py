"""A model that is heard: what it may do to those who listen, and that listening changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.loop.context import Event
from statemachine_agent.loop.hearing import MOST_HEARD, Hearing
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.fallback import FallbackModel
from statemachine_agent.models.port import Hear, ModelUnavailableError, Piece, Prompt, Reply, Spent
from statemachine_agent.models.scripted import ScriptedModel
from statemachine_agent.records import Checkpoint
from support.playing import play, swap
from support.world import LOOK_STEP, MACHINE, World, act_step

ROOMY = swap(MACHINE, ("tokens: 10000", "tokens: 100000"), ("active_time: 60s", "active_time: 600s"))
ENOUGH = Reply(RawReply((RawCall("c", "cannot_continue", {"reason": "enough"}),)), Spent(7, 3), "test")


class Speaks:
    """A model that does `speak` with whoever hears it, and gives up."""

    spec = "test"

    def __init__(self, speak: Callable[[Hear], Any]) -> None:
        self.speak = speak
        self.asked: list[str] = []

    async def decide(self, prompt: Prompt) -> Reply:
        self.asked.append("decide")
        return ENOUGH

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
        self.asked.append("aloud")
        found = self.speak(hear)
        return found if found is not None else ENOUGH


def listened(folder: Path, *steps: Any, model: Any = None, then: Callable[[Event], None] | None = None) -> Any:
    """The end, what was heard, and the rows of the decisions."""
    events: list[Event] = []

    async def body(here: World) -> tuple[Checkpoint, list[Any]]:
        if then is not None:
            here.runtime.watch(then, pieces=True)
        here.runtime.watch(events.append, pieces=True)
        end = await here.run()
        return end, await here.rows(end, "decision")

    end, rows = play(folder, body, *steps, machine=ROOMY, model=model)
    return end, [e for e in events if e.kind in ("piece", "cut_off")], rows


def text_of(events: list[Event], kind: str) -> str:
    return "".join(e.data["text"] for e in events if e.data.get("kind") == kind)


def test_only_those_who_ask_for_pieces_hear_them_and_only_then_is_it_spoken(tmp_path: Path) -> None:
    model, seen = Speaks(lambda hear: hear(Piece("words", "well"))), list[Event]()

    async def body(here: World) -> None:
        here.runtime.watch(seen.append)
        await here.run()
        assert model.asked == ["decide"]
        here.runtime.watch(lambda _event: None, pieces=True)
        await here.run()
        assert model.asked == ["decide", "aloud"]

    play(tmp_path, body, machine=ROOMY, model=model)
    assert not [e for e in seen if e.kind in ("piece", "cut_off")]


@pytest.mark.parametrize(
    "given",
    [None, 5, "words", {"kind": "words"}, Piece("thought", "x"), Piece("words", None), Piece("words", "x", "first")],  # type: ignore[arg-type]
)
def test_what_is_no_piece_is_not_told(tmp_path: Path, given: Any) -> None:
    end, heard, rows = listened(tmp_path, model=Speaks(lambda hear: hear(given)))
    assert heard == []
    assert (end.head.reason, rows[0]["result"]) == ("no_action", "accepted")


def test_what_is_said_after_the_end_is_not_told(tmp_path: Path) -> None:
    kept: list[Hear] = []

    def late(event: Event) -> None:
        if event.kind == "committed" and kept:
            kept[0](Piece("words", "and one more thing"))

    _, heard, _ = listened(tmp_path, model=Speaks(kept.append), then=late)
    assert kept and heard == []


def test_an_endless_speaker_is_told_so_far_and_no_further(tmp_path: Path) -> None:
    def speak(hear: Hear) -> None:
        for _ in range(30):
            hear(Piece("words", "x" * 1000))
        for _ in range(30_000):
            hear(Piece("words", ""))

    _, heard, _ = listened(tmp_path, model=Speaks(speak))
    assert text_of(heard, "words") == "x" * MOST_HEARD + " …"
    assert len(heard) == MOST_HEARD // 1000


def test_a_listener_that_fails_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: Event) -> None:
        raise RuntimeError(event.kind)

    end, heard, _ = listened(tmp_path, model=Speaks(lambda hear: hear(Piece("words", "well"))), then=fails)
    assert (end.head.reason, text_of(heard, "words")) == ("no_action", "well")
    caplog.clear()


@pytest.mark.parametrize("given", [None, "done", Reply(RawReply(), None, "m")])  # type: ignore[arg-type]
def test_what_is_no_reply_is_cut_off_as_it_is_a_failed_attempt(tmp_path: Path, given: Any) -> None:
    """Whatever was heard before it."""

    class Bad(Speaks):
        async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
            hear(Piece("call", "act"))
            return given  # type: ignore[no-any-return]

    end, heard, rows = listened(tmp_path, model=Bad(lambda _hear: None))
    assert [e.kind for e in heard] == ["piece", "cut_off"]
    assert (heard[-1].data["again"], rows[0]["result"], end.head.reason) == (False, "failed", "model_failed")


def test_a_slow_speaker_is_cut_off_in_time(tmp_path: Path) -> None:
    environment = SimulatedEnvironment()

    class Slow(Speaks):
        async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
            hear(Piece("words", "let me think"))
            await environment.sleep(1000)
            return ENOUGH

    events: list[Event] = []

    async def body(here: World) -> Checkpoint:
        here.runtime.watch(events.append, pieces=True)
        return await here.run()

    end = play(tmp_path, body, machine=ROOMY, model=Slow(lambda _hear: None), environment=environment)
    cut = [e.data for e in events if e.kind == "cut_off"]
    assert [c["attempt"] for c in cut] == [1, 2, 3, 4] and not cut[-1]["again"]
    assert end.head.reason == "model_failed"


# ---------------------------------------------------------------- scripts


def test_a_script_is_heard_and_gives_what_it_gives_unheard(tmp_path: Path) -> None:
    step = {**LOOK_STEP, "say": "I look at a thing of a rather-long-hyphenated-name.", "fail": 1}
    end, heard, rows = listened(tmp_path, step, act_step())
    assert end.head.status == "SUCCEEDED"
    first = [e for e in heard if e.data["step"] == 1]
    assert [e.data["attempt"] for e in first if e.kind == "cut_off"] == [1]
    second = [e for e in first if e.data["attempt"] == 2]
    assert text_of(second, "words") == step["say"]
    assert (text_of(second, "call"), text_of(second, "arguments")) == ("look", '{"thing": "box"}')
    half = text_of([e for e in first if e.data["attempt"] == 1], "words")
    assert half and str(step["say"]).startswith(half) and half != step["say"]
    assert [(r["step"], r["attempt"], r["result"]) for r in rows] == [
        (1, 1, "failed"), (1, 2, "accepted"), (2, 1, "accepted"),
    ]  # fmt: skip


def test_a_script_that_is_over_has_nothing_to_say(tmp_path: Path) -> None:
    _, heard, rows = listened(tmp_path, LOOK_STEP)
    assert {e.data["step"] for e in heard} == {1}
    assert rows[1]["error_class"] == "empty"


def test_behind_a_fallback_whoever_answers_is_heard(tmp_path: Path) -> None:
    def gone(hear: Hear) -> None:
        hear(Piece("words", "I am the fir"))
        raise ModelUnavailableError("gone", retryable=False)

    model = FallbackModel(Speaks(gone), ScriptedModel.of({"call": "cannot_continue", "with": {"reason": "enough"}}))
    end, heard, _ = listened(tmp_path, model=model)
    kinds = [e.kind for e in heard]
    assert kinds[:2] == ["piece", "cut_off"] and heard[1].data["again"] is True
    assert text_of(heard, "call") == "cannot_continue"
    assert end.head.reason == "no_action"


# ---------------------------------------------------------------- one attempt, piece by piece


def heard_of(*pieces: Piece, **how: Any) -> list[Event]:
    events: list[Event] = []
    hearing = Hearing(events.append, "task-1", "LOOKING", 3, 2, **how)
    for piece in pieces:
        hearing(piece)
    hearing.cut_off("the line\nwent dead", again=True)
    hearing.cut_off("and again", again=True)
    hearing(Piece("words", "too late"))
    return events


ABOUT = {"state": "LOOKING", "step": 3, "attempt": 2}


def test_each_piece_says_what_it_is_a_piece_of() -> None:
    """Task, state, step and attempt; what came to nothing is told once, in one line."""
    assert heard_of(Piece("words", "well"), Piece("call", "look", 1)) == [
        Event("piece", "task-1", {**ABOUT, "kind": "words", "call": 0, "text": "well"}),
        Event("piece", "task-1", {**ABOUT, "kind": "call", "call": 1, "text": "look"}),
        Event("cut_off", "task-1", {**ABOUT, "why": "the line went dead", "again": True}),
    ]
    whole: list[Event] = []
    hearing = Hearing(whole.append, "task-1", "LOOKING", 3, 2)
    hearing.whole()
    hearing.cut_off("late", again=False)
    assert whole == []


def test_of_which_tool_arguments_are_is_known_from_all_pieces_of_its_name() -> None:
    """Of several calls that come at once each has its own name; of an endless name the head is enough."""
    asked: list[str] = []

    def may(tool: str) -> bool:
        asked.append(tool)
        return tool == "look"

    names = [Piece("call", "lo", 0), Piece("call", "hi", 1), Piece("call", "ok", 0), Piece("call", "de", 1)]
    arguments = [Piece("arguments", "{}", call) for call in (0, 1, 2)]
    events = heard_of(*names, *arguments, may_be_heard=may)
    assert asked == ["look", "hide", ""]
    assert [(e.data["call"], e.data["text"]) for e in events if e.data.get("kind") == "arguments"] == [(0, "{}")]
    heard_of(Piece("call", "x" * 150), Piece("call", "x" * 150), Piece("arguments", "{}"), may_be_heard=may)
    assert asked[-1] == "x" * 200


def test_the_last_character_that_is_told_is_followed_by_a_mark() -> None:
    """So many and no more; a piece without a text counts as one."""
    events = heard_of(
        Piece("words", "x" * (MOST_HEARD - 2)), Piece("words", ""), Piece("words", "yz"), Piece("words", "z")
    )
    assert [e.data.get("text", "")[-3:] for e in events[1:]] == ["", "y …", ""]
