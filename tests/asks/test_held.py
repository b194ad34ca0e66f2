"""Each line of `held.py` has a test that is there, or says what it is without: an ask without one is a promise nobody checks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from asks.held import ASKS, GROUPS

from statemachine_agent.cli.main import COMMANDS

TESTS = Path(__file__).parents[1]
LINES = [f"{group}{number}" for group, numbers in GROUPS.items() for number in numbers]


@cache
def found_in(file: str) -> dict[str, tuple[str, set[str]]]:
    """The tests of a file: docstring, and the literal texts of each, those of its table included."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {
        one.name: (ast.get_docstring(one) or "", literals(one))
        for one in tree.body
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name.startswith("test_")
    }


def literals(tree: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_no_line_is_lost() -> None:
    assert list(ASKS) == LINES


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_its_test(line: str) -> None:
    """Every test that is named is there, with the case that is meant; what is not built is not there yet, either."""
    ask = ASKS[line]
    assert ask.by or ask.without, f"{line} has neither a test nor a reason: {ask.what}"
    for name in ask.by:
        file, _, test = name.partition("::")
        if not test:
            assert (TESTS / file).exists() and (TESTS / file).with_suffix(".expected").exists(), name
            continue
        test, _, case = test.partition("[")
        assert test in found_in(file), f"{line}: {file} has no test `{test}`"
        if case:
            every = literals(ast.parse((TESTS / file).read_text(encoding="utf-8")))
            assert case.removesuffix("]") in every, f"{line}: `{file}` has no case `{case.removesuffix(']')}`"
    if ask.waits_for:
        assert ask.waits_for not in COMMANDS, f"`sma {ask.waits_for}` is built: name the test that holds {line}"


def test_each_test_of_this_folder_says_which_line_it_holds() -> None:
    """In its name and in its docstring; and the list names it."""
    named = {name for ask in ASKS.values() for name in ask.by}
    for file in sorted(Path(__file__).parent.glob("test_group_*.py")):
        for test, (docstring, _) in found_in(f"asks/{file.name}").items():
            line = re.match(r"test_([a-i]\d+)_", test)
            assert line, test
            assert docstring.startswith(f"Ask {line[1].upper()}: "), test
            assert f"asks/{file.name}::{test}" in ASKS[line[1].upper()].by, test
            assert f"asks/{file.name}::{test}" in named
