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
    "manifest/note.yaml": NOTE.replace("version: 1", "version: 2"),
    "renamed/called.yaml": MACHINE.replace("machine: noting", "machine: called"),
    "long/noting.yaml": MACHINE.replace("wait for a yes.", f"wait {'on and ' * 60}on for a yes, then end."),
    "longer/noting.yaml": MACHINE.replace("wait for a yes.", f"wait {'on and ' * 60}on for a no, then end."),
    "typo/noting.yaml": MACHINE + "  bad: [\n",
    "typo/second.yaml": MACHINE.replace("machine: noting", "machine: second"),
    "list/noting.yaml": "machine: [a, b]\n",
    "tools_list/note.yaml": "tool: {a: 1}\n",
    "broken/noting.yaml": MACHINE.replace("initial: NOTING", "initial: NOTHING"),
    "people.yaml": 'people: {ann: {scopes: ["tasks:limits"]}}\n',
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
    words = lines[4].partition(" fork ")[2].replace("WHO", "ann").split()
    assert run(["fork", *words]) == 0
    capsys.readouterr()
    stays = told(capsys, "noting", "other/noting.yaml", "--db", "tasks.db")
    assert "it stands in `WAITING`, which is no state any more" in stays[-1]


def test_the_definition_of_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    """The old file is gone, and the store still has what the task began with."""
    assert run(["run", "noting", "--actor", "ann", "--db", "tasks.db", "--json"]) == 4
    task = json.loads(capsys.readouterr().out)["task"]
    Path("machines/noting.yaml").write_text(dedent(FILES["new/noting.yaml"]), encoding="utf-8")
    assert told(capsys, task[-8:], "noting", "--db", "tasks.db")[1] == "  ~ limits.steps: 4 → 9"
    assert "  - state WAITING: wait" in told(capsys, task, "other", "--db", "tasks.db")
    assert "is neither a file nor a machine" in told(capsys, task[-8:], "noting", code=2)[0]
    assert "is neither a file nor a machine" in told(capsys, "0000aaaa", "noting", "--db", "tasks.db", code=2)[0]


def test_a_candidate_beside_the_one_in_force_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the same machine elsewhere is no second one of the settings."""
    assert run(["check", "new/noting.yaml"]) == 0
    assert "noting 2: 2 states, 1 tools" in capsys.readouterr().out


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run(["diff", "noting", "new/noting.yaml", "--json"])
    (machine,) = json.loads(capsys.readouterr().out)["machines"]
    assert machine["changes"] == [{"where": "limits.steps", "old": "4", "new": "9"}]


@pytest.mark.parametrize("new", ["manifest", "new", "new/noting.yaml", "noting"])
def test_the_line_that_takes_a_task_over_works_whatever_new_is(capsys: pytest.CaptureFixture[str], new: str) -> None:
    """`fork --machine` takes what `diff` takes, and is told who the actor is where somebody has to say."""
    assert run(["run", "noting", "--actor", "ann", "--db", "tasks.db", "--json"]) == 4
    capsys.readouterr()
    old = "new" if new == "noting" else "noting"
    Path("machines/noting.yaml").write_text(Path("machines/noting.yaml").read_text().replace("then wait", "and wait"))
    lines = told(capsys, old, new, "--db", "tasks.db")
    assert "1 fits" in lines[-3] and " --actor WHO --machine " in lines[-1]
    assert run(["fork", *lines[-1].partition(" fork ")[2].replace("WHO", "ann").split()]) == 0


def test_a_machine_of_another_name_takes_no_task_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "noting", "--actor", "ann", "--db", "tasks.db", "--json"]) == 4
    task = json.loads(capsys.readouterr().out)["task"]
    lines = told(capsys, "noting", "renamed", "--db", "tasks.db")
    assert [lines[1], lines[2].partition(";")[0]] == ["  ~ machine: noting → called",
                          "1 tasks under way: 0 same, 0 fits, 1 stays"]  # fmt: skip
    assert lines[3].endswith("in WAITING: there is no `noting` any more: it is called `called`")
    assert "there is no `noting` any more" in told(capsys, "machines", "renamed", "--db", "tasks.db")[-1]
    assert run(["fork", task, "--at", "1", "--actor", "ann", "--db", "tasks.db", "--machine", "renamed"]) == 2
    assert "the task is of `noting`, and `renamed` stands for `called`" in capsys.readouterr().err


def test_of_long_values_what_differs_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    line = told(capsys, "long", "longer")[2]
    old, new = line.partition(": ")[2].split(" → ")
    assert old.endswith("on and on for a yes, then end.") and new.endswith("on and on for a no, then end.")
    assert old.startswith("…") and len(old) < 120


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("machines", "typo"), 21, "typo/noting.yaml:15:9: the file ends in the middle"),
        (("typo", "noting"), 21, "typo/noting.yaml:15:9: the file ends in the middle"),
        (("list", "noting"), 21, "list/noting.yaml:1:10: "),
        (("noting", "tools_list"), 21, "tools_list/note.yaml:1:7: "),
        (("", "noting"), 2, "`` is neither a file nor a machine"),
        (("x" * 5000, "noting"), 2, "cannot be read: File name too long"),
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


def test_what_is_broken_in_the_settings_is_nobody_elses_matter(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no text is a fault of its own file, told with its place; a file that is named is compared all the same."""
    Path("tool_manifests/odd.yaml").write_text("tool: [a]\n")
    Path("machines/odd.yaml").write_text("machine: {a: 1}\n")
    assert told(capsys, "noting", "new/noting.yaml")[1:] == ["  ~ limits.steps: 4 → 9"]
    assert run(["check", "machines"]) == 1
    assert "machines/odd.yaml:1:10: " in capsys.readouterr().out
    assert "machines/odd.yaml:1:10: " in "".join(told(capsys, "machines", "new", code=21))


def test_no_machine_is_named_by_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fork", "someone", "--at", "0", "--actor", "ann", "--machine", ""]) == 2
    assert "neither a file nor a machine" in capsys.readouterr().err
