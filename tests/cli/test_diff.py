"""`sma diff` as a person types it: files, folders, manifests and names; and what it says of the tasks in a store."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from statemachine_agent.cli.main import run

MACHINE = """
    machine: noting
    version: 1
    summary: Write down, then wait for a yes.
    limits: {steps: 4}
    signals: {yes_please: {}}
    success: []
    initial: NOTING
    states:
      NOTING:
        choose: {note: stay, ask_user: WAITING, finish: SUCCEEDED}
      WAITING:
        wait: {signal: yes_please, expires: 1h}
        then: {received: SUCCEEDED, expired: FAILED}
    """
NOTE = """
    tool: note
    version: 1
    summary: Note it.
    effect: read
    source: notes
    binding: {python: "desk_of_diffs:note"}
    returns: {ok: {type: boolean}}
    """
FILES = {
    "machines/noting.yaml": MACHINE,
    "machines/second.yaml": MACHINE.replace("machine: noting", "machine: second"),
    "tool_manifests/note.yaml": NOTE,
    "new/noting.yaml": MACHINE.replace("version: 1", "version: 2").replace("steps: 4", "steps: 9"),
    "other/noting.yaml": MACHINE.replace("WAITING", "RESTING"),
    "other/note.yaml": NOTE.replace("ok: {type: boolean}", "ok: {type: boolean, optional: true}"),
    "broken/noting.yaml": MACHINE.replace("initial: NOTING", "initial: NOTHING"),
    "people.yaml": "people: {ann: {}}\n",
    "statemachine-agent.toml": """
        identity = "asserted"
        python_packages = ["desk_of_diffs"]
        model = "scripted:played.yaml"
        """,
    "played.yaml": """
        script: played
        steps:
          - {call: ask_user, with: {question: Well?}}
        """,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("SMA_SETTINGS", "SMA_DB", "SMA_MODEL"):
        monkeypatch.delenv(name, raising=False)


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[str]:
    assert run(["diff", *arguments]) == code
    found = capsys.readouterr()
    return (found.out + found.err).splitlines()


def test_a_name_and_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The machine of the settings against one that is to take its place."""
    lines = told(capsys, "noting", "new/noting.yaml")
    assert lines[0].startswith("noting 1 (") and "→ noting 2 (" in lines[0]
    assert lines[1:] == ["  ~ limits.steps: 4 → 9"]
    assert told(capsys, "noting", "machines/noting.yaml")[1:] == ["  no difference"]
    assert "  the version was not raised: raise it with every change" in told(capsys, "noting", "other/noting.yaml")


def test_a_folder_with_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    """The folder's manifest takes the place of that of the settings; a machine on one side only is told, too."""
    lines = told(capsys, "noting", "other")
    assert "  ~ NOTING [call.ask_user]: goto WAITING → goto RESTING" in lines
    assert "  + tool note: returns.ok.optional: true" in lines
    assert "- machine second: second 1" in [line[2:28] for line in told(capsys, "machines", "new")]


def test_a_manifest_alone_means_what_it_means_in_machines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "tool_manifests/note.yaml", "other/note.yaml")
    assert [line.split()[0] for line in lines] == ["noting", "+", "second", "+"]
    assert lines[1] == lines[3] == "  + tool note: returns.ok.optional: true"


def test_a_verdict_for_each_task(capsys: pytest.CaptureFixture[str]) -> None:
    """Ended ones are nobody's concern; the line that would take one over works."""
    for _ in range(2):
        assert run(["run", "noting", "--actor", "ann", "--db", "tasks.db", "--json"]) == 4
    task = json.loads(capsys.readouterr().out.partition("}\n{")[0].removesuffix("}") + "}")["task"]
    assert run(["signal", task, "yes_please", "{}", "--as", "ann", "--db", "tasks.db"]) == 0
    capsys.readouterr()
    lines = told(capsys, "noting", "new/noting.yaml", "--db", "tasks.db")
    assert lines[2].startswith("1 tasks under way: 0 same, 1 fits, 0 stays")
    assert lines[3].startswith("  fits   ") and lines[3].endswith(" version 1 in WAITING")
    words = lines[4].partition(" fork ")[2].split()
    assert run(["fork", *words, "--actor", "ann"]) == 0
    capsys.readouterr()
    stays = told(capsys, "noting", "other/noting.yaml", "--db", "tasks.db")
    assert stays[-1].endswith("in WAITING: it stands in `WAITING`, which is no state any more")


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run(["diff", "noting", "new/noting.yaml", "--json"])
    (machine,) = json.loads(capsys.readouterr().out)["machines"]
    assert machine["changes"] == [{"where": "limits.steps", "old": "4", "new": "9"}]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("notin", "new"), 2, "sma: `notin` is neither a file nor a machine (did you mean `noting`?)"),
        (("noting", "people.yaml"), 2, "no machine is in people.yaml"),
        (("noting", "broken/noting.yaml"), 21, "there is no state `NOTHING`"),
        (("noting", "new", "--db", "nowhere.db"), 22, "nowhere.db"),
    ],
)
def test_what_cannot_be_compared(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, line: str
) -> None:
    assert any(line in one for one in told(capsys, *arguments, code=code))
