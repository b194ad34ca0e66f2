"""The sandbox stands alone: nothing in it imports the rest of the project, or anything outside Python itself."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import statemachine_agent.sandbox
from statemachine_agent.sandbox import control
from statemachine_agent.sandbox.fields import is_amount, is_identifier
from statemachine_agent.sandbox.policy import to_expression

FOLDER = Path(statemachine_agent.sandbox.__file__).parent
SOURCES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_only_itself_and_the_standard_library_are_imported(source: Path) -> None:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1 or (node.module or "").split(".")[0] in sys.stdlib_module_names
        elif isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)


@pytest.mark.parametrize("source", [*SOURCES, FOLDER / "seeds.json"], ids=lambda source: source.name)
def test_the_callers_are_not_mentioned(source: Path) -> None:
    assert not re.search("agent|machine|model", source.read_text(encoding="utf-8"), re.IGNORECASE)


def test_control_is_complete() -> None:
    for name in ("set_fault", "clear_faults", "log", "refunds", "messages", "settle"):
        assert callable(getattr(control, name))


def test_an_expression_is_quoted_words_only() -> None:
    assert to_expression('Refund" OR NEAR(card)') == '"refund" OR "near" OR "card"'
    assert to_expression("the of a") == ""


def test_what_counts_as_an_amount_and_an_identifier() -> None:
    assert is_amount(1) and not is_amount(True) and not is_amount(1.0) and not is_amount(10**8)
    assert is_identifier("rf_1") and not is_identifier("") and not is_identifier("a b") and not is_identifier("é")
