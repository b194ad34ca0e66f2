"""The rules of the house that no single module can keep: layers, one environment, sizes, docstrings, no shop inside."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import statemachine_agent

PACKAGE = Path(statemachine_agent.__file__).parent
ROOT = PACKAGE.parent
SANDBOX = PACKAGE / "sandbox"  # a separate program: services that the demo talks to
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------- layers


def test_layers_import_downwards_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


# ---------------------------------------------------------------- time, chance, threads, processes

FORBIDDEN_MODULES = {"time", "random", "secrets", "uuid", "threading", "socket"}
FORBIDDEN_NAMES = {
    "asyncio.sleep", "asyncio.to_thread", "asyncio.timeout", "asyncio.timeout_at",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "os.getpid", "os.urandom",
}  # fmt: skip


def forbidden_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What reaches time, chance, threads or the process past the `Environment`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in FORBIDDEN_MODULES:
                yield node.lineno, node.module
            yield from (
                (node.lineno, f"{node.module}.{a.name}")
                for a in node.names
                if f"{node.module}.{a.name}" in FORBIDDEN_NAMES
            )
        elif isinstance(node, ast.Attribute):
            written = ast.unparse(node)
            if any(written == name or written.endswith(f".{name}") for name in FORBIDDEN_NAMES):
                yield node.lineno, written


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import time", ["time"]),
        ("import time as t", ["time"]),
        ("from random import uniform", ["random"]),
        ("from asyncio import sleep", ["asyncio.sleep"]),
        ("await_ = asyncio.sleep(1)", ["asyncio.sleep"]),
        ("x = datetime.datetime.now()", ["datetime.datetime.now"]),
        ("x = datetime.now(UTC)", ["datetime.now"]),
        ("from datetime import datetime\nimport os\nx = environment.now(), times.time_text, os.environ", []),
    ],
)
def test_the_search_finds_what_it_looks_for(code: str, found: list[str]) -> None:
    assert [name for _, name in forbidden_in(ast.parse(code))] == found


def test_time_chance_threads_and_process_are_reached_through_the_environment_only() -> None:
    found = [
        f"{name_of(path)}:{line} {what}"
        for path in MODULES
        if path.name != "environment.py" and SANDBOX not in path.parents
        for line, what in forbidden_in(tree_of(path))
    ]
    assert found == []


# ---------------------------------------------------------------- modules


def test_every_module_says_what_it_is_for() -> None:
    assert [name_of(path) for path in MODULES if not (ast.get_docstring(tree_of(path)) or "").strip()] == []


def test_no_module_is_longer_than_500_lines_without_saying_why() -> None:
    """Why stands on its first line."""
    long = []
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > 500 and not re.search(r"\b(because|long|together)\b", lines[0]):
            long.append(f"{name_of(path)}: {len(lines)}")
    assert long == []


# ---------------------------------------------------------------- the runtime knows no shop

SHOP = re.compile(
    r"refund|Refund|REFUND|order_id|payment|Payment|PAYMENT|8472|customer|Customer|CUSTOMER"
    r"|\b[Cc]aptured?\b|\bCAPTURED?\b"
)
#: the demo itself and what it is compared with, and the command that starts its services
OF_THE_DEMO = {"cli/demo.py", "cli/by_chance.py", "cli/sandbox.py"}


def test_the_runtime_knows_no_shop() -> None:
    """Refunds are one machine among others: what belongs to it stands in its YAML, and in the demo."""
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in MODULES
        if SANDBOX not in path.parents and name_of(path) not in OF_THE_DEMO
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if SHOP.search(line)
    ]
    assert found == []
