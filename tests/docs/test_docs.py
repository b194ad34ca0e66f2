"""The documents say what the code does: each command, exit code and reason is there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from statemachine_agent.cli.main import COMMANDS, cli
from statemachine_agent.cli.output import EXIT_CODES
from statemachine_agent.reasons import REASONS
from statemachine_agent.records import Status
from statemachine_agent.sandbox import Sandbox
from support import forks
from support.refund import ROOT

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_and_has_help(name: str) -> None:
    """In the README's table, with a help text of its own."""
    assert f"`sma {name}" in README
    command = cli.get_command(None, name)
    assert command is not None and command.help
    for parameter in command.params:
        assert parameter.param_type_name == "argument" or parameter.help, f"{name} {parameter.name}"


def test_every_exit_code_is_documented() -> None:
    """In the README, beside its status."""
    for status, code in EXIT_CODES.items():
        assert status is Status.RUNNING or re.search(rf"\b{code}\b[^,]*{status}", README), status


def test_the_reasons_page_is_the_list_in_the_code() -> None:
    """Reason, status with exit code, meaning, who acts next: line by line."""
    page = (ROOT / "docs" / "reasons.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) ?\|$", page, re.MULTILINE)
    wanted = [
        (
            r.code,
            ", ".join(f"{end} ({EXIT_CODES[Status(end)]})" for end in r.ends),
            r.meaning,
            r.next,
            r.terminal,
        )
        for r in REASONS.values()
    ]
    assert rows == wanted


def test_the_readmes_program_runs_as_it_stands(services: Sandbox, tmp_path: Path) -> None:
    """Copied out of the page, only its services standing elsewhere."""
    (program,) = re.findall(r"```python\n(import asyncio.*?)```", README, re.DOTALL)
    for name in ("machines", "tool_manifests", "people.yaml", "scripts", "statemachine-agent.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    result = forks.run([sys.executable, "-c", program], env={**os.environ, **services.urls}, cwd=tmp_path)
    assert result.stdout.strip() == "SUCCEEDED completed", result.stderr


def test_the_links_of_the_readme_lead_somewhere() -> None:
    """Every relative link names a file that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
