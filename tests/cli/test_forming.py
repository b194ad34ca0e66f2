"""What a model is forming, on a terminal, in a pipe and as JSON; whatever it says, it stays words."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.cli.forming import Forming, FormingLines
from statemachine_agent.loop.context import Event
from support.cli import Here, Sma

SCRIPT = """
script: aloud
steps:
  - {say: "I look it up. \\e[2J\\u202e now", call: lookup_order, fail: 1}
  - {say: only words}
  - {call: cannot_continue, with: {reason: enough}}
"""
RUN = ("run", "refund", "-i", "order_id=8472", "-i", "message=twice", "--actor", "cust-3391")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Puts a terminal of 40 columns in place; to be called by the test itself, since pytest takes its own place after set-up."""
    monkeypatch.setenv("COLUMNS", "40")

    def placed() -> Terminal:
        monkeypatch.setattr(sys, "stdout", Terminal())
        assert isinstance(sys.stdout, Terminal)
        return sys.stdout

    return placed


def piece(text: str, kind: str = "words", *, step: int = 1, attempt: int = 1, call: int = 0) -> Event:
    data = {"step": step, "state": "S", "attempt": attempt, "kind": kind, "call": call, "text": text}
    return Event("piece", "t", data)


def cut(*, again: bool, step: int = 1, attempt: int = 1) -> Event:
    return Event("cut_off", "t", {"step": step, "attempt": attempt, "why": "it\nbroke", "again": again})


def test_a_terminal_shows_each_piece_at_once(terminal: Callable[[], Terminal]) -> None:
    """Before the line is full, and before anything else has come."""
    screen = terminal()
    forming = Forming()
    for text in ("I lo", "ok", " at it"):
        forming(piece(text))
    assert screen.getvalue() == "says     I look at it"
    forming(piece("look", "call"))
    forming(piece('{"thing": "bo', "arguments"))
    assert screen.getvalue() == 'says     I look at it\nforms    look {"thing": "bo'
    forming(Event("decided", "t"))
    assert screen.getvalue().endswith('"bo\n')


def test_without_a_terminal_there_are_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    forming = Forming()
    forming(piece("word " * 30))
    assert out.getvalue().count("\n") == 1 and out.getvalue().endswith("\n")
    forming.close()
    first, second = out.getvalue().splitlines()
    assert first.startswith("says     word") and second.startswith("         word")
    assert "\r" not in out.getvalue() and "\x1b" not in out.getvalue()


def test_no_line_is_wider_than_the_terminal(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    forming = Forming()
    for text in ("a long sentence of many words that goes on and on, ", "x" * 100, " 日本語の文字" * 20, "\n\n\n\nend"):
        forming(piece(text))
    forming.close()
    lines = screen.getvalue().splitlines()
    assert all(sum(2 if ord(c) > 0x2E80 else 1 for c in line) <= 40 for line in lines)
    assert all(line.strip() for line in lines)
    assert lines[-1] == "         end"


@pytest.mark.parametrize("columns", ["1", "0", "9", "many"])
def test_a_terminal_without_room_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, terminal: Callable[[], Terminal], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    screen = terminal()
    forming = Forming()
    forming(piece("some words and more words"))
    forming.close()
    assert " ".join(screen.getvalue().split()) == "says some words and more words"


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x1b]0;title\x07", "\r", "\x9b31m", "\u202e", "\u2066", "\x08", "\x00", "\ufeff", "\u2028"]
)
def test_nothing_that_is_said_reaches_the_terminal_but_as_letters(terminal: Callable[[], Terminal], text: str) -> None:
    """Wherever it is cut, in words, names and arguments."""
    screen = terminal()
    forming = Forming()
    for kind in ("words", "call", "arguments"):
        for character in f"a{text}b":
            forming(piece(character, kind))
    forming(cut(again=True))
    shown = screen.getvalue().replace("\n", "")
    assert shown.isprintable() and "\\" in shown


def test_what_came_to_nothing_is_marked(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    forming = Forming()
    forming(piece("I lo"))
    forming(cut(again=True))
    forming(cut(again=True, attempt=2))
    forming(piece("I look", attempt=3))
    forming(cut(again=False, attempt=3))
    assert screen.getvalue().splitlines() == [
        "says     I lo",
        "         — cut off, asked again: it broke —",
        "         — no answer, asked again: it broke —",
        "says     I look",
        "         — cut off: it broke —",
    ]


def test_each_piece_is_one_line_of_json_that_hides_nothing(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    lines = FormingLines()
    for text in ("\x1b[2J\x7f\x9b\u202e\n", "日本"):
        lines(piece(text, "arguments", call=1))
    lines(cut(again=True))
    shown = screen.getvalue().splitlines()
    assert all(line.isprintable() for line in shown)
    assert json.loads(shown[0]) == {
        "kind": "piece", "of": "arguments", "step": 1, "attempt": 1, "call": 1, "text": "\x1b[2J\x7f\x9b\u202e\n",
    }  # fmt: skip
    assert [json.loads(line)["kind"] for line in shown] == ["piece", "piece", "cut_off"]


# ---------------------------------------------------------------- the commands


@pytest.fixture
def sma(tmp_path: Path, services: Any) -> Here:
    (tmp_path / "aloud.yaml").write_text(SCRIPT, encoding="utf-8")
    return Here(tmp_path, services.urls)


def test_run_shows_what_forms_and_then_what_was_decided(sma: Here) -> None:
    found = sma(*RUN, "--model", "scripted:aloud.yaml", "--stream")
    assert found.code == 14, found
    lines = found.out.splitlines()
    half = next(n for n, line in enumerate(lines) if "— cut off, asked again" in line)
    assert lines[half - 1].startswith("says     I look")
    assert lines[half + 1 : half + 3] == ["says     I look it up. \\x1b[2J\\u202e now", "forms    lookup_order {}"]
    assert lines[half + 3].startswith("step 1   INVESTIGATING: the model proposes lookup_order")
    assert not list(sma.folder.rglob("*.live"))


def test_run_as_json_gives_one_line_for_each_and_the_rest_at_last(sma: Here) -> None:
    found = sma(*RUN, "--model", "scripted:aloud.yaml", "--stream", "--json")
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert {line["kind"] for line in lines} == {"piece", "cut_off", "decided", "rest"}
    assert [line["kind"] for line in lines].count("decided") == 3
    assert (lines[-1]["kind"], lines[-1]["status"]) == ("rest", "FAILED")
    words = "".join(x["text"] for x in lines if x["kind"] == "piece" and x["of"] == "words" and x["step"] == 2)
    assert words == "only words"


def test_what_is_streamed_is_recorded_as_what_is_not(sma: Here) -> None:
    """The same rows, attempt for attempt."""
    traces = []
    for more in ((), ("--stream",)):
        ran = sma(*RUN, "--model", "scripted:aloud.yaml", "--json", *more)
        task = json.loads(ran.out.splitlines()[-1] if more else ran.out)["task"]
        traces.append([(x["kind"], x.get("action"), x.get("result"), x.get("attempt")) for x in sma.trace(task)])
    assert traces[0] == traces[1]


def test_a_conversation_can_be_heard_too(sma: Here) -> None:
    more = ("--model", f"scripted:{Path(__file__).parents[2] / 'scripts/conversation.yaml'}")
    waiting = sma(
        "run", "conversation", "-i", "order_id=8472", "-i", "message=hello", "--actor", "cust-3391", "--json", *more
    )
    task = waiting.json["task"]
    talked = Sma(sma.folder, sma.urls)("talk", task, "--as", "cust-3391", "--stream", input="the second one\n")
    assert "\nforms    " in talked.out and "\nyou      the second one\n" in talked.out


def test_an_attempt_that_failed_is_shown_as_that_and_not_as_told(tmp_path: Path) -> None:
    """The step that follows it was accepted: the model was told nothing."""
    script = tmp_path / "script.yaml"
    script.write_text("script: s\nsteps:\n  - {call: cannot_continue, with: {reason: enough}, fail: 1}\n")
    shown = Here(tmp_path)(*RUN, "--model", f"scripted:{script}").out.splitlines()
    (failed,) = [line.strip() for line in shown if "failed   attempt" in line]
    assert failed.startswith("failed   attempt 1 (model_unavailable): ")
    assert not [line for line in shown if line.strip().startswith("told")]
