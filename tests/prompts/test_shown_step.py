"""`sma show TASK --step N`: what the model was shown at a step, from the store, and what it said."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from textwrap import dedent

import pytest

from statemachine_agent.cli.main import run

FILES = {
    "machines/noting.yaml": """
        machine: noting
        version: 1
        summary: Write down, then finish.
        input:
          wish: {type: string, untrusted: true}
        limits: {steps: 4}
        success: []
        initial: NOTING
        states:
          NOTING:
            choose: {note: stay, finish: SUCCEEDED}
        """,
    "tool_manifests/note.yaml": """
        tool: note
        version: 1
        summary: Note it.
        effect: read
        source: notes
        binding: {python: "desk_of_shown_steps:note"}
        returns: {ok: {type: boolean}, card: {type: string}}
        redact: [card]
        """,
    "desk_of_shown_steps.py": "def note():\n    return {'ok': True, 'card': '4111 1111'}\n",
    "people.yaml": "people: {ann: {}}\n",
    "statemachine-agent.toml": """
        identity = "asserted"
        python_packages = ["desk_of_shown_steps"]
        model = "scripted:played.yaml"
        """,
    "played.yaml": """
        script: played
        steps:
          - {call: note, fail: 1}
          - {call: finish, with: {answer: noted}}
        """,
}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """A task that came to its end."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("SMA_SETTINGS", "SMA_DB", "SMA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert run(["run", "noting", "-i", "wish=go\x1b[2J away", "--actor", "ann", "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["task"])


def test_the_prompt_of_a_step_and_each_attempt_at_it(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", task, "--step", "1"]) == 0
    told = capsys.readouterr().out
    assert "its random tag is shown as `fence`\n# noting: NOTING\nWrite down, then finish.\n" in told
    assert '<fence input what the task was started with untrusted>\n{"wish": "go\\u001b[2J away"}\n</fence>\n' in told
    assert "attempt 1 by scripted:" in told and "attempt 2 by scripted:" in told
    assert '"name": "note"' in told and "\x1b" not in told


def test_what_is_masked_is_not_in_it_either(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", task, "--step", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert '{"card": "[redacted]", "ok": true}' in shown["prompt"] and "4111" not in shown["prompt"]
    assert [a["result"] for a in shown["attempts"]] == ["accepted"]
    assert run(["trace", task, "--json"]) == 0
    steps = [line for line in json.loads(capsys.readouterr().out) if line["kind"] == "step"]
    assert shown["prompt_hash"] == steps[-1]["prompt_hash"] != steps[0]["prompt_hash"]


def test_a_step_that_there_was_not(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", task, "--step", "7"]) == 2
    assert "the task has no step 7" in capsys.readouterr().err


def test_a_prompt_that_was_altered_is_told_of_and_not_shown(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any part of it; one that is gone altogether was not kept."""
    connection = sqlite3.connect(tmp_path / "tasks.db")
    (key,) = connection.execute("SELECT prompt_hash FROM decision WHERE step = 2").fetchone()
    (other,) = connection.execute("SELECT prompt_hash FROM decision WHERE step = 1").fetchone()
    connection.execute("DELETE FROM payload WHERE hash = ?", (bytes.fromhex(other),))
    connection.execute("UPDATE payload SET body = x'5b5d', compressed = 0 WHERE hash = ?", (bytes.fromhex(key),))
    connection.commit()
    connection.close()
    assert run(["show", task, "--step", "2"]) != 0
    assert "was altered" in capsys.readouterr().err
    assert run(["show", task, "--step", "1"]) == 0
    assert "it was not kept" in capsys.readouterr().out
