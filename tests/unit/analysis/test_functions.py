"""Python tools whose function is misspelt: told from the file's text, and never by importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from invalid.texts import TOOLS

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

DESK = """
import json as parsing
from os.path import join
raise SystemExit("a module that is only read does not run")
def find_book(isbn): ...
async def lend_book(isbn): ...
class Finder: ...
find_copy = find_book
if parsing:
    def in_a_branch(): ...
try:
    first, *others = (find_book,)
except ValueError:
    pass
"""


def findings(folder: Path, binding: str, packages: tuple[str, ...] = ("desk_of_a_test",)) -> list[tuple[str, str]]:
    tool = Source("look.yaml", TOOLS["look"].replace("a:b", binding))
    catalogue = checked_catalogue(Catalogue.build([], [tool]))
    assert catalogue.report.errors == []
    found = [(f.message, f.advice) for f in lint(catalogue, frozenset(packages), folder=folder)]
    assert not any(name.startswith("desk_of_a_test") for name in sys.modules)
    return found


def write(folder: Path, **texts: str) -> None:
    """Files by their path, `__` for `/`."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_misspelt_function_is_a_finding_with_the_nearest_name(tmp_path: Path) -> None:
    write(tmp_path, desk_of_a_test=DESK)
    assert findings(tmp_path, "desk_of_a_test:find_bok") == [
        ("`desk_of_a_test.py` has no function `find_bok`", "did you mean `find_book`?")
    ]


@pytest.mark.parametrize(
    "name",
    ["find_book", "lend_book", "Finder", "find_copy", "in_a_branch", "first", "others", "parsing", "join"],
)
def test_whatever_a_module_names_at_its_top_level_is_there(tmp_path: Path, name: str) -> None:
    write(tmp_path, desk_of_a_test=DESK)
    assert findings(tmp_path, f"desk_of_a_test:{name}") == []


def test_names_within_functions_and_classes_are_not(tmp_path: Path) -> None:
    write(tmp_path, desk_of_a_test="class C:\n    def find(self):\n        looked = 1\n")
    assert len(findings(tmp_path, "desk_of_a_test:find")) == len(findings(tmp_path, "desk_of_a_test:looked")) == 1


def test_a_function_of_a_package_and_a_misspelt_module(tmp_path: Path) -> None:
    (tmp_path / "desk_of_a_test").mkdir()
    (tmp_path / "desk_of_a_test" / "__init__.py").write_text("def look(): ...\n")
    write(tmp_path, desk_of_a_test__books=DESK)
    assert findings(tmp_path, "desk_of_a_test:look") == findings(tmp_path, "desk_of_a_test.books:find_book") == []
    assert findings(tmp_path, "desk_of_a_test.books:find_bok") == [
        ("`desk_of_a_test/books.py` has no function `find_bok`", "did you mean `find_book`?")
    ]
    assert findings(tmp_path, "desk_of_a_test.boks:find_book") == [
        ("there is no module `desk_of_a_test.boks` in `desk_of_a_test`", "did you mean `books`?")
    ]


def test_a_folder_without_init_is_a_package_too(tmp_path: Path) -> None:
    write(tmp_path, desk_of_a_test__books=DESK)
    assert findings(tmp_path, "desk_of_a_test.books:find_book") == []
    assert len(findings(tmp_path, "desk_of_a_test.books:find_bok")) == 1
    assert len(findings(tmp_path, "desk_of_a_test.boks:find_book")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from os.path import *\n",
        "def __getattr__(name): ...\n",
        "globals()['find'] = print\n",
        "import sys\nsetattr(sys.modules[__name__], 'find', print)\n",
        "def start():\n    global find\n    find = print\n",
        "def (\n",
        "\0",
    ],
)
def test_nothing_is_said_where_the_text_does_not_tell(tmp_path: Path, text: str) -> None:
    """Names that are made while the module runs, and files that cannot be read."""
    write(tmp_path, desk_of_a_test=text)
    assert findings(tmp_path, "desk_of_a_test:find") == []


def test_nothing_is_said_of_what_lies_elsewhere(tmp_path: Path) -> None:
    """An installed package, and a module that is compiled."""
    assert findings(tmp_path, "desk_of_a_test:find") == findings(tmp_path, "json:lods", ("json",)) == []
    (tmp_path / "desk_of_a_test").mkdir()
    (tmp_path / "desk_of_a_test" / "__init__.py").touch()
    (tmp_path / "desk_of_a_test" / "fast.abi3.so").touch()
    assert findings(tmp_path, "desk_of_a_test.fast:find") == []


def test_of_a_package_that_is_not_listed_only_that_is_told(tmp_path: Path) -> None:
    write(tmp_path, desk_of_a_test=DESK)
    ((message, _),) = findings(tmp_path, "desk_of_a_test:find_bok", ())
    assert message == "`desk_of_a_test` is in no package that tools may be imported from"
