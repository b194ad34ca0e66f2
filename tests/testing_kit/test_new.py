"""`sma new`: what it writes works at once, wherever it is written, and nothing that was there is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from statemachine_agent.cli.main import run as sma
from statemachine_agent.environment import Environment
from support import forks
from support.refund import ROOT


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, without settings of the surroundings, and with nothing of its tools left behind."""
    for name in [n for n in os.environ if n.startswith("SMA_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if not k.startswith("agent_tools")})
    return tmp_path


def run_pytest(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The project's own tests, in a process of their own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SMA_", "PYTEST_"))}
    return forks.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "statemachine_agent.testing.plugin", *more],
        forks.HeavyPopen,
        cwd=folder,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_in_an_empty_folder_everything_is_green(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """check, run and pytest, as they are printed; the tests exercise all of the machine."""
    assert sma(["new", "parcel"]) == 0
    out = capsys.readouterr().out
    assert "wrote machines/parcel.yaml" in out
    run = "sma run parcel -i item=box-1 --model scripted:scripts/parcel.yaml"
    assert [line.strip().split("  #")[0].strip() for line in out.split("next:\n")[1].splitlines()] == [
        "sma check", run, run.replace("box-1", "box-2").replace("scripted:scripts/parcel.yaml", "ask"), "pytest",
    ]  # fmt: skip
    assert "pip install 'statemachine-agent[testing]'" in out and "pip install 'PATH[testing]'" in out
    assert sma(["check"]) == 0
    assert "no faults" in (checked := capsys.readouterr().out) and "warning" not in checked
    assert sma(run.split()[1:]) == 0
    assert "SUCCEEDED" in capsys.readouterr().out
    assert (here / "diagrams" / "parcel.svg").read_bytes().startswith(b"<?xml")
    assert ".sma/\n" in (here / ".gitignore").read_text() and (here / ".sma" / "parcel.json").exists()
    done = run_pytest(here, "--sma-coverage=100")
    assert done.returncode == 0, done.stdout
    assert "100 %" in done.stdout


def test_who_is_alone_is_told_how_to_try_an_approval(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the refusal of another name, and by the settings, which work as their comment says."""
    assert sma(["new", "parcel"]) == 0
    told, run = "to try approvals alone, on your own computer only", ["run", "parcel", "-i", "item=box-1"]
    assert sma([*run, "--model", "scripted:scripts/parcel.yaml"]) == 0
    assert sma(["approve", "apr-1", "--as", "mia"]) == 1
    assert f'{told}, write identity = "asserted"' in capsys.readouterr().err
    settings = here / "statemachine-agent.toml"
    text = settings.read_text()
    assert f'# {told}: identity = "asserted"' in text
    settings.write_text(text.replace('\nidentity = "os"', '\nidentity = "asserted"'))
    sma(["approve", "apr-1", "--as", "mia"])
    assert "there is no request `apr-1`" in capsys.readouterr().err  # mia is believed


def test_a_second_machine_finds_its_place_beside_the_first(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sma(["new", "parcel"]) == 0
    before = contents(here)
    assert sma(["new", "letter"]) == 0
    assert {path: content for path, content in contents(here).items() if path in before} == before
    capsys.readouterr()
    assert sma(["check"]) == 0 and "letter 1: 3 states, 2 tools" in capsys.readouterr().out
    assert sma(["run", "letter", "-i", "item=box-1", "--model", "scripted:scripts/letter.yaml"]) == 0
    assert run_pytest(here, "tests/test_letter.py").returncode == 0


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("statemachine-agent.toml", '# ours\nidentity = "asserted"\nmachines = "flows"\n'),
        ("statemachine-agent.toml", 'identity = "asserted"\npython_packages = ["json"]  # kept\n[variables]\nX = "1"\n'),
        ("pyproject.toml", '[project]\nname = "x"\n[tool.statemachine-agent]\nidentity = "asserted"\n[tool.other]\ny = 1\n'),
    ],
)  # fmt: skip
def test_in_a_project_that_is_there_only_the_package_is_added(
    here: Path, file: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its people, its folders, its comments stay; the one line that the tools need is added, and said."""
    (here / file).write_text(text)
    (here / "people.yaml").write_text("people:\n  ann: {roles: [clerk]}\n")
    (here / ".gitignore").write_text("ours\n")
    assert sma(["new", "parcel"]) == 0
    out = capsys.readouterr().out
    assert f"added `agent_tools` to `python_packages` in {file}" in out
    assert "--actor ann" in out
    assert (here / "people.yaml").read_text() == "people:\n  ann: {roles: [clerk]}\n"
    assert (here / ".gitignore").read_text() == "ours\n"
    changed = (here / file).read_text()
    assert set(text.splitlines()) - set(changed.splitlines()) <= {'python_packages = ["json"]  # kept'}
    assert sma(["check"]) == 0
    command = ["run", "parcel", "-i", "item=box-1", "--actor", "ann", "--model", "scripted:scripts/parcel.yaml"]
    assert sma(command) == 0, capsys.readouterr().err
    assert run_pytest(here, "tests").returncode == 0


@pytest.mark.parametrize(
    "taken", ["machines/parcel.yaml", "agent_tools/parcel.py", "tests/test_parcel.py", "diagrams/parcel.svg"]
)
def test_a_file_that_is_there_stops_it_before_anything_is_written(
    here: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = here / taken
    path.parent.mkdir()
    path.write_text("mine")
    assert sma(["new", "parcel"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and taken in err and "is there already" in err
    assert contents(here) == {path: b"mine"}


def test_a_tool_of_that_name_stops_it_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another file may hold the tool: the faults that there would be are told, and nothing is written."""
    assert sma(["new", "parcel"]) == 0
    (here / "tool_manifests" / "parcel").rename(here / "tool_manifests" / "elsewhere")
    for file in ("machines/parcel.yaml", "agent_tools/parcel.py", "scripts/parcel.yaml", "tests/test_parcel.py"):
        (here / file).unlink()
    (here / "diagrams" / "parcel.svg").unlink()
    before = contents(here)
    assert sma(["new", "parcel"]) == 21
    assert "the tool `look_at_parcel` is there already" in capsys.readouterr().err
    assert contents(here) == before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Parcel", "not the name of a machine"), ("9lives", "not the name of a machine"), ("../x", "not the name"),
        ("a-b", "not the name of a machine"), ("", "not the name of a machine"), ("finish", "taken by the language"),
        ("class", "taken by the language"), ("a" * 51, "too long"),
    ],
)  # fmt: skip
def test_names_are_judged_like_those_of_machines(
    here: Path, name: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sma(["new", name]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and says in err
    assert contents(here) == {}


def test_the_longest_name_works(here: Path) -> None:
    assert sma(["new", "a" * 50]) == 0
    assert sma(["check"]) == 0


def test_a_folder_begins_a_project_of_its_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also below another project, whose settings are none of its business; the commands begin with going there."""
    (here / "statemachine-agent.toml").write_text('identity = "asserted"\n')
    assert sma(["new", "parcel", "--folder", "sub/deep"]) == 0
    assert "  cd sub/deep\n" in capsys.readouterr().out
    assert (here / "sub" / "deep" / "statemachine-agent.toml").exists()
    assert (here / "statemachine-agent.toml").read_text() == 'identity = "asserted"\n'
    assert Environment().user() in (here / "sub" / "deep" / "people.yaml").read_text()
    (here / "file").write_text("")
    assert sma(["new", "parcel", "--folder", "file"]) == 2


def test_a_wheel_holds_the_templates_and_the_plugin(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (points,) = (archive.read(n).decode() for n in names if n.endswith("entry_points.txt"))
    templates = [p.name for p in (ROOT / "statemachine_agent" / "cli" / "templates").iterdir()]
    assert templates and all(f"statemachine_agent/cli/templates/{name}" in names for name in templates)
    assert "[pytest11]\nstatemachine_agent = statemachine_agent.testing.plugin" in points
