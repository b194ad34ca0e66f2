"""`sma fork` as a person types it: back to a version, on with what it says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from statemachine_agent.cli.main import run

MACHINE = """
    machine: asking
    version: 1
    summary: Ask people.
    input:
      wish: {type: string}
    limits: {steps: 2}
    signals: {reply: {text: {type: string}}}
    success: []
    initial: TALKING
    states:
      TALKING:
        choose: {ask_user: LISTENING, finish: SUCCEEDED}
      LISTENING:
        wait: {signal: reply, expires: 1h}
        then: {received: TALKING, expired: NEEDS_INPUT}
    """
FILES = {
    "machines/asking.yaml": MACHINE,
    "mended/asking.yaml": MACHINE.replace("version: 1", "version: 2").replace("expires: 1h", "expires: 2h"),
    "other/asking.yaml": MACHINE.replace("LISTENING", "HEARING"),
    "tool_manifests/.keep": "",
    "people.yaml": "people: {ann: {scopes: [tasks:limits]}, bob: {}}\n",
    "statemachine-agent.toml": """
        identity = "asserted"
        model = "scripted:played.yaml"
        """,
    "played.yaml": """
        script: played
        steps:
          - {call: ask_user, with: {question: Which?}}
          - {call: finish, with: {answer: that one}}
        """,
}


class Typed:
    """What is typed in a folder of its own, with what came of it."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = run(arguments)
        told = self._capsys.readouterr()
        return code, told.out + told.err

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json")[1])


@pytest.fixture
def sma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("SMA_SETTINGS", "SMA_DB", "SMA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return Typed(capsys)


def test_back_and_on(sma: Typed) -> None:
    """The new task is named, with the line that goes on; both tasks say where it came from."""
    task = sma.json("run", "asking", "-i", "wish=one", "--actor", "ann")["task"]
    code, told = sma("fork", task[-8:], "--at", "0", "--actor", "ann", "--limit", "steps=5")
    lines = told.splitlines()
    assert code == 0 and lines[0].endswith(f" of asking for ann, as {task[-8:]} stood at version 0")
    made = lines[0].split()[1]
    assert lines[-1].endswith(f"sma resume {made}") or lines[-1].endswith(f"resume {made}")
    assert f"forked from {task} version 0, steps 5, by ann" in sma("show", made)[1]
    assert f"forked   version 0 as {made}, by ann" in sma("show", task)[1]
    assert f"note     forked_from by ann: {task} version 0, steps 5" in sma("trace", made)[1]
    assert sma("resume", made)[0] == 4


def test_under_a_mended_machine(sma: Typed) -> None:
    """`--machine FILE` takes the place of the settings' file of that name; where the task stands must be in it."""
    task = sma.json("run", "asking", "-i", "wish=one", "--actor", "ann")["task"]
    made = sma.json("fork", task, "--at", "1", "--actor", "ann", "--machine", "mended/asking.yaml")
    assert made["status"] == "WAITING" and made["waits_for"] == {"LISTENING": "reply"}
    assert "machine  asking 2 " in sma("show", made["task"])[1]
    code, told = sma("fork", task, "--at", "1", "--actor", "ann", "--machine", "other/asking.yaml")
    why = "it stands in `LISTENING`, which is no state any more (it can end as it began; or take another version)"
    assert (code, told.strip()) == (1, f"sma: the task cannot go on under asking 1: {why}")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--at", "9"), 1, "has no version 9 (it has 0 to 1; `sma trace` lists them)"),
        (("--at", "-1"), 2, "-1 is not in the range x>=0"),
        ((), 2, "Missing option '--at'"),
        (("--at", "0", "--limit", "steps"), 2, "`--limit steps` is not NAME=VALUE (write --limit steps=12)"),
        (("--at", "0", "--limit", "steps=1", "--limit", "steps=2"), 2, "`--limit steps=2` is given twice"),
        (("--at", "0", "--limit", "stepps=1"), 2, "there is no limit `stepps` (did you mean `steps`?)"),
        (("--at", "0", "--limit", "steps=x"), 2, "`x` is no limit of `steps`"),
        (("--at", "0", "--machine", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("--at", "0", "--machine", "people.yaml"), 2, "no machine is in people.yaml"),
        (("--at", "0", "--model", "scripted:nothing.yaml"), 21, "nothing.yaml"),
    ],
)
def test_what_is_refused(sma: Typed, arguments: tuple[str, ...], code: int, told: str) -> None:
    """One line, the right exit code, and no new task."""
    task = sma.json("run", "asking", "-i", "wish=one", "--actor", "ann")["task"]
    found, line = sma("fork", task, "--actor", "ann", *arguments)
    assert found == code and told in line and line.startswith("sma: ")
    assert len(sma.json("tasks")) == 1
