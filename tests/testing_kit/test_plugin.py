"""The pytest plugin in a project of its own: silent until asked, then every pair, a table, and a threshold."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.testing import record
from support import forks
from support.refund import ROOT
from support.world import ACT, FIND, LOOK, MACHINE

TEST = """
from pathlib import Path

from statemachine_agent.testing import assert_refused, load_machine, walk

TINY = load_machine("tiny", Path(__file__).parents[1])


def test_it_looks():
    walk(TINY).choose("look", thing="box").ok(good=False).ends("DENIED")


def test_it_refuses():
    assert_refused(TINY, "LOOKING", "act", text="look first")
"""
#: five states, three tools and three control choices, those pairs left out that a state names
PAIRS = 5 * 6
TABLE = ["tiny", "1/5", "4/21", "2/9", "25/25", "19", "%"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "machines/tiny.yaml": MACHINE,
        **{f"tool_manifests/{n}.yaml": t for n, t in (("look", LOOK), ("act", ACT), ("find", FIND))},
        "people.yaml": "people:\n  bob: {roles: [boss, chief]}\n",
        "tests/test_tiny.py": TEST,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


PLUGINS = ("-p", "statemachine_agent.testing.plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-W", "error")
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Exit code and output of pytest with this plugin and no other, in this process: a new one takes a second each."""
    for name in [n for n in os.environ if n.startswith(("SMA_", "PYTEST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(project)

    def inner(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(record, "RECORD", {})
        capfd.readouterr()
        rewriting, modules = list(sys.meta_path), set(sys.modules)
        gc.freeze()  # it collects garbage several times when it ends, and need not look through all other tests for it
        code = pytest.main(["--rootdir", str(project), "--import-mode=importlib", *PLUGINS, *arguments])
        sys.meta_path[:] = rewriting
        for name in [n for n in sys.modules if n not in modules and "test_tiny" in n]:
            del sys.modules[name]
        out, err = capfd.readouterr()
        return int(code), out + err

    return inner


def run_alone(folder: Path, *arguments: str, popen: type[subprocess.Popen[Any]] = forks.HeavyPopen) -> tuple[int, str]:
    """The same in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SMA_", "PYTEST_"))}
    done = forks.run(
        [sys.executable, "-m", "pytest", *PLUGINS, *arguments],
        popen,
        cwd=folder,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout + done.stderr


def row(output: str, machine: str = "tiny") -> list[str]:
    """The machine's line of the table."""
    return next(line.split() for line in output.splitlines() if re.match(rf"{machine} +\d+/", line))


def test_it_is_silent_until_it_is_asked(project: Path, run: Run) -> None:
    code, output = run()
    assert code == 0 and "2 passed" in output and "coverage" not in output


def test_it_costs_nothing_where_it_is_not_asked(project: Path) -> None:
    """The package's heavy parts are not imported by having the plugin."""
    (project / "tests" / "test_tiny.py").write_text(
        "import sys\n\n\ndef test_x():\n    heavy = ('pydantic', 'statemachine', 'hypothesis', 'cel_expr_python')\n"
        "    assert not [m for m in heavy if m in sys.modules]\n"
    )
    code, output = run_alone(project, popen=subprocess.Popen)
    assert code == 0, output


def test_every_pair_is_tried_and_what_was_exercised_is_shown(run: Run) -> None:
    code, output = run("--sma-machines")
    assert code == 0 and f"{PAIRS + 2} passed" in output, output
    assert row(output) == TABLE


def test_what_workers_exercised_is_added_up(project: Path) -> None:
    code, output = run_alone(project, "--sma-machines", "-p", "xdist", "-n", "2")
    assert code == 0 and f"{PAIRS + 2} passed" in output, output
    assert row(output) == TABLE


def test_too_little_fails_and_says_what_is_missing(project: Path, run: Run) -> None:
    code, output = run("--sma-coverage=50")
    assert code == 1, output
    assert "FAILED: the tests exercised 20 % of the states, 19 % of the rows, 22 % of the guards of tiny" in output
    assert "tiny: no test for states: ASKING" in output
    assert "tiny: no test for rows: ASKING expired.act → NEEDS_INPUT" in output
    assert "tiny: no test for guards: good holds" in output
    code, output = run("--sma-coverage=19")
    assert code == 0, output


def test_without_the_generated_tests_illegal_pairs_are_those_of_ones_own(project: Path, run: Run) -> None:
    code, output = run("--sma-machines", "--deselect", "machines", "tests")
    assert code == 0 and row(output)[4] == "0/25"


def test_the_ini_file_asks_for_it_and_leaves_named_tests_alone(project: Path, run: Run) -> None:
    (project / "pytest.ini").write_text("[pytest]\nsma_machines = true\nsma_coverage = 19\ntestpaths = tests\n")
    code, output = run()
    assert code == 0 and f"{PAIRS + 2} passed" in output, output
    code, output = run("tests/test_tiny.py::test_it_looks")
    assert "1 passed" in output, output


def test_a_generated_test_can_be_named(project: Path, run: Run) -> None:
    (project / "pytest.ini").write_text("[pytest]\nsma_machines = true\n")
    code, output = run("machines/tiny.yaml::LOOKING")
    assert code == 0 and "6 passed" in output, output
    code, output = run("machines/tiny.yaml::ACTING::act", "-v")
    assert code == 0 and "machines/tiny.yaml::ACTING::act PASSED" in output, output


def test_a_machine_that_does_not_load_is_a_failed_test_with_its_faults(project: Path, run: Run) -> None:
    machine = project / "machines" / "other.yaml"
    machine.write_text(MACHINE.replace("machine: tiny", "machine: other").replace("goto: PROPOSED", "goto: PROPOSD"))
    code, output = run("--sma-machines")
    assert code == 1 and "did you mean `PROPOSED`" in output, output
    assert "FAILED machines/other.yaml::loads" in output
    assert f"1 failed, {PAIRS + 2} passed" in output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sma-coverage=300"], "--sma-coverage: 300 is no percentage"),
        (["--sma-coverage=nan"], "--sma-coverage: nan is no percentage"),
        (["-o", "sma_machines=true", "-o", "sma_coverage=much"], "sma_coverage: `much` is no number"),
    ],
)  # fmt: skip
def test_what_is_no_percentage(run: Run, arguments: list[str], says: str) -> None:
    code, output = run(*arguments)
    assert code == 4 and f"ERROR: {says}" in output and "Traceback" not in output


def test_without_machines(project: Path, run: Run) -> None:
    """The ini file may stand in a project that has none yet; asking for them by hand is a slip."""
    (project / "tests" / "test_tiny.py").write_text("def test_x():\n    pass\n")
    shutil.rmtree(project / "machines")
    code, output = run("-o", "sma_machines=true")
    assert code == 0 and "1 passed" in output
    code, output = run("--sma-machines")
    assert code == 4 and "has no machines" in output and "Traceback" not in output


def test_settings_that_are_broken_are_one_line(project: Path, run: Run) -> None:
    (project / "statemachine-agent.toml").write_text("machnes = 1\n")
    code, output = run("--sma-machines")
    assert code == 4 and "did you mean `machines`" in output and "Traceback" not in output
