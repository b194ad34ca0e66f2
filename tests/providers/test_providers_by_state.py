"""Two states whose models are two providers', as the settings name them, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from providers.wire import Call, Fails, Provider, calls, served
from statemachine_agent.cli.main import run

MACHINE = """
machine: noting
version: 1
summary: Write down, then judge.
limits: {steps: 4, tokens: 100000}
guards:
  noted: has(evidence.note)
success: []
model: fast
initial: NOTING
states:
  NOTING:
    choose: [note]
    then:
      - {when: noted, goto: JUDGING}
  JUDGING:
    model: {use: strong, fallback: fast}
    choose: {finish: SUCCEEDED}
"""
TOOL = """
tool: note
version: 1
summary: Note it.
effect: read
source: notes
binding: {python: "desk_of_two_models:note"}
returns: {ok: {type: boolean}}
"""
SETTINGS = """
people = "people.yaml"
identity = "asserted"
python_packages = ["desk_of_two_models"]
model = "scripted:nowhere.yaml"
[models.fast]
use = "openai:gpt-5-mini"
url = "{fast}"
fallback = "lost"
[models.strong]
use = "anthropic:claude-haiku-4-5"
url = "{strong}"
[models.lost]
use = "openai:lost"
url = "http://127.0.0.1:1/v1"
"""
RUN = ["run", "noting", "--actor", "ann"]
NOTE = calls(Call("note", "{}"))
FINISH = calls(Call("finish", '{"answer": "judged"}'))


@pytest.fixture
def fast() -> Iterator[Provider]:
    with served("openai") as found:
        found.plays = [NOTE, FINISH]
        yield found


@pytest.fixture
def strong() -> Iterator[Provider]:
    with served("anthropic") as found:
        found.plays = [FINISH]
        yield found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: Provider, strong: Provider) -> Path:
    files = {
        "machines/noting.yaml": MACHINE,
        "tool_manifests/note.yaml": TOOL,
        "desk_of_two_models.py": "def note():\n    return {'ok': True}\n",
        "people.yaml": "people: {ann: {}}\n",
        "statemachine-agent.toml": SETTINGS.format(fast=fast.url, strong=strong.url),
        "played.yaml": 'script: played\nsteps:\n  - call: note\n  - {call: finish, with: {answer: "played"}}\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("SMA_SETTINGS", "SMA_DB", "SMA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def models(capsys: pytest.CaptureFixture[str], task: str) -> list[tuple[str, str]]:
    """State and model of each decision."""
    assert run(["trace", task, "--json"]) == 0
    return [(line["state"], line["model"]) for line in json.loads(capsys.readouterr().out) if line["kind"] == "step"]


def started(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert run([*RUN, "--json", *more]) == 0
    return str(json.loads(capsys.readouterr().out)["task"])


def test_each_state_asks_its_own(
    project: Path, fast: Provider, strong: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the setting `model`, which cannot be used, is not missed."""
    task = started(capsys)
    assert models(capsys, task) == [("NOTING", "openai:gpt-5-mini"), ("JUDGING", "anthropic:claude-haiku-4-5")]
    assert (len(fast.asked), len(strong.asked)) == (1, 1)


def test_the_machine_says_who_stands_behind_a_model(
    project: Path, fast: Provider, strong: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that the settings put behind `fast` is not asked for it."""
    strong.plays = [Fails(401)]
    task = started(capsys)
    assert models(capsys, task)[1:] == [("JUDGING", "strong"), ("JUDGING", "openai:gpt-5-mini")]
    assert (len(fast.asked), len(strong.asked)) == (2, 1)


def test_whoever_says_model_means_it(
    project: Path, fast: Provider, strong: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    task = started(capsys, "--model", "scripted:played.yaml")
    assert {model for _, model in models(capsys, task)} == {"scripted:played.yaml"}
    assert fast.asked == strong.asked == []
    assert run([*RUN, "--model", "scripted:played.yaml"]) == 0
    assert "for ann, decided by scripted:played.yaml\n" in capsys.readouterr().out


def test_a_name_that_the_settings_lack_is_told_of_by_check_and_nothing_is_begun(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = project / "statemachine-agent.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace("models.strong", "models.strongest"))
    for command in (["check"], RUN):
        assert run(command) != 0
        told = "".join(capsys.readouterr())
        assert "noting.yaml:17:18: `strong` is no model of the settings" in told
        assert "did you mean `strongest`?" in told
    assert not (project / "tasks.db").exists()
