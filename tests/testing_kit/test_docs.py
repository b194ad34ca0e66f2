"""The page on testing machines is a file of tests that are green, and it names all there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from statemachine_agent import testing
from statemachine_agent.testing.claims import Claims
from statemachine_agent.testing.walking import Walk
from support import forks
from support.refund import ROOT

PAGE = (ROOT / "docs" / "testing-machines.md").read_text(encoding="utf-8")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program in a project of its own; the plugin is named, since a checkout need not be installed anew to test it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SMA_", "PYTEST_"))}
    return forks.run(
        [sys.executable, "-m", *arguments],
        forks.HeavyPopen,
        cwd=folder,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )


def test_the_examples_of_the_page_are_green(tmp_path: Path) -> None:
    assert run(tmp_path, "statemachine_agent", "new", "parcel").returncode == 0
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    (tmp_path / "tests" / "test_page.py").write_text(code, encoding="utf-8")
    done = run(tmp_path, "pytest", "-q", "-W", "error", "-p", "statemachine_agent.testing.plugin", "tests/test_page.py")
    assert done.returncode == 0, done.stdout
    assert f"{len(re.findall(r'^def test_', code, re.MULTILINE))} passed" in done.stdout


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(testing, name).__doc__


@pytest.mark.parametrize("name", ["load_machine", "machine_from_texts", "walk", "world", "run_task", "walks_of"])
def test_every_function_is_told(name: str) -> None:
    assert f"`{name}" in PAGE or f"{name}(" in PAGE


def test_every_method_of_a_walk_is_in_the_tables() -> None:
    public = [n for c in (Walk, Claims) for n, v in vars(c).items() if not n.startswith("_") and callable(v)]
    told = set(re.findall(r"`(\w+)\(", PAGE))
    assert [n for n in public if n not in told and n not in ("close", "fail")] == []
