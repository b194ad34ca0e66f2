"""The language reference says what the code reads: every key with its default, every word, and examples that load and run."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema_rs
import pytest

from statemachine_agent import Catalogue, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.chart.transitions import ACTIVE_EXITS, EXITS
from statemachine_agent.cli.main import run
from statemachine_agent.definition import names, settings
from statemachine_agent.definition.check_machine import ACTOR
from statemachine_agent.definition.check_tool import EFFECT
from statemachine_agent.definition.faults import Level
from statemachine_agent.definition.manifest import ERROR_CLASSES
from statemachine_agent.definition.node import Node
from statemachine_agent.definition.schemas import KINDS, model_of, schema
from statemachine_agent.definition.source import Source, read
from statemachine_agent.definition.states import VERBS
from statemachine_agent.errors import SmaError
from statemachine_agent.guards import contexts
from statemachine_agent.policy.identity import Identity
from statemachine_agent.tools import outcome
from statemachine_agent.tools.request import Reach
from support.refund import ROOT

PAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^<!-- keys: (.+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)


def section(title: str) -> str:
    """The text under a heading, up to the next one of the same depth."""
    found = re.search(rf"^(#+) {re.escape(title)}$(.*?)(?=^\1 |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[2]


def rows(table: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


# ---------------------------------------------------------------- every key


def models() -> dict[str, tuple[type[Node], dict[str, Any]]]:
    """Every model that reads a part of a file, with its schema."""
    found: dict[str, tuple[type[Node], dict[str, Any]]] = {}
    known = {model.__name__: model for model in subclasses(Node)}
    for kind in KINDS:
        whole = schema(kind)
        parts = {model_of(kind).__name__: whole, **whole.get("$defs", {})}
        found |= {name: (known[name], part) for name, part in parts.items() if name in known}
    return found


def subclasses(model: type[Node]) -> Iterator[type[Node]]:
    for one in model.__subclasses__():
        yield one
        yield from subclasses(one)


def default_of(part: dict[str, Any], key: str) -> str:
    """The third column: `required`, the default as an author writes it, or a dash."""
    if key in part.get("required", ()):
        return "required"
    match part["properties"][key].get("default"):
        case None:
            return "–"
        case bool() as value:
            return f"`{str(value).lower()}`"
        case list() as values:
            return f"`[{', '.join(values)}]`"
        case "":
            return '`""`'
        case value:
            return f"`{value}`"


def test_every_key_of_every_model_stands_in_its_table_with_its_default() -> None:
    """And every key that a table names exists."""
    known = models()
    told = []
    for marked, table in TABLE.findall(PAGE):
        parts = [known[name] for name in marked.split()]
        told += marked.split()
        named = [(code(row[-4])[0], row[-2]) for row in rows(table)]
        wanted = [(key, default_of(part, key)) for model, part in parts for key in sorted(model.keys())]
        assert sorted(named) == sorted(wanted), marked
    assert sorted(told) == sorted(known)


def test_every_table_of_keys_is_marked() -> None:
    heads = re.findall(r"^\|.* key \| type \| default \| meaning \|$", PAGE, re.MULTILINE)
    assert len(heads) == len(TABLE.findall(PAGE))


# ---------------------------------------------------------------- every word


def test_verbs_outcomes_choices_ends_and_roots() -> None:
    states = section("States")
    assert [code(row[0])[0] for row in rows(states.split("\n\n")[2])] == list(VERBS)
    assert sorted(code(row[0])[0] for row in rows(section("Guards").split("\n\n")[2])) == sorted(names.ROOTS)
    tables = section("Control choices and ends").split("\n\n")
    choices, ends = (t for t in tables if t.startswith("|"))
    assert [code(row[0])[0] for row in rows(choices)] == list(names.CONTROLS)
    assert [code(row[0])[0] for row in rows(ends)] == list(names.ENDS)
    outcomes = {code(row[0])[0] for row in rows(section("Outcomes").split("\n\n")[1])}
    assert outcomes == {"ok", "failed", "blocked", "unknown", "found", "absent"}
    statuses = [code(row[0])[0] for row in rows(section("Effects and approvals").split("\n\n")[2])]
    assert statuses == list(contexts.EFFECT_STATUSES)


def test_every_way_out_that_nobody_writes_is_told() -> None:
    """The ends' second column; one exit for each sentence in it."""
    by_end = {code(row[0])[0]: row[1] for row in rows(section("Control choices and ends").split("\n\n")[4])}
    for end in names.ENDS:
        exits = [e for e, target in {**EXITS, **ACTIVE_EXITS}.items() if target == end]
        assert exits or by_end[end].startswith("never"), end
        assert len(by_end[end].split(", ")) >= len(exits), end


@pytest.mark.parametrize("word", sorted(names.RESERVED))
def test_every_reserved_word_occurs(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_what_roots_hold() -> None:
    guards = {code(row[0])[0]: row[1] for row in rows(section("Guards").split("\n\n")[2])}
    assert set(code(guards["actor"])) == set(ACTOR)
    assert set(code(guards["usage"])) == set(contexts._USAGE)
    assert "`{tool, key, status}`" in guards["effects"] and "`{asked, result, at}`" in guards["results"]
    catalogue = Catalogue.build([Source("m", BLOCKS[0].text)], [])
    roots: Any = contexts.machine_roots(catalogue, catalogue.machines["shelf"].definition)
    assert set(code(guards["approval"])) == set(roots["approval"])
    assert all(f"`{name}`" in section("Tool manifests") for name in EFFECT)


def is_raised(what: object) -> bool:
    return isinstance(what, type) and issubclass(what, SmaError) and what is not SmaError


def test_errors_exceptions_and_variables() -> None:
    tools = section("Tool manifests")
    assert all(f"`{name}`" in tools for name in ERROR_CLASSES)
    raised = code(" ".join(row[0] for row in rows(tools[tools.index("| raise |") :].split("\n\n")[0])))
    assert sorted(raised) == sorted(e.__name__ for e in vars(outcome).values() if is_raised(e))
    known = {f"SMA_{name.upper()}" for name in (*settings._LISTS, "db", "model", "identity", "people", "sandbox")}
    named = set(re.findall(r"`(SMA_[A-Z_]+)`", section("Settings"))) - {"SMA_IDENTITY_KEY"}
    assert named == known | settings._OTHERS


def test_every_link_leads_somewhere() -> None:
    titles = re.findall(r"^#+ (.+)$", BLOCK.sub("", PAGE), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", PAGE):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert (ROOT / "docs" / target).exists(), target


# ---------------------------------------------------------------- every example


@dataclass(frozen=True)
class Block:
    language: str
    kind: str
    #: the file that it is, or `part`
    name: str
    text: str


def _block(language: str, about: str, text: str) -> Block:
    kind, _, name = about.rpartition(" ")
    return Block(language, kind, name, text)


BLOCKS = [_block(*found) for found in BLOCK.findall(PAGE)]


def test_every_block_says_what_it_is() -> None:
    for block in BLOCKS:
        assert block.language in ("yaml", "toml", "python", "console"), block
        assert (block.kind in KINDS) is (block.language in ("yaml", "toml")), block
        assert bool(block.name) is (block.language != "console"), block


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind], ids=lambda b: b.name)
def test_every_example_fits_its_schema(block: Block) -> None:
    """A part of a file lacks what it must not lack, and nothing else is wrong with it."""
    if block.language == "toml":
        data: Any = tomllib.loads(block.text)
    else:
        document = read(Source(block.name, block.text))
        assert document.faults == []
        data = document.data
    wanted = schema(block.kind)
    if block.name == "part":
        wanted = {key: value for key, value in wanted.items() if key not in ("required", "allOf")}
    assert [str(e) for e in jsonschema_rs.Draft202012Validator(wanted).iter_errors(data)] == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The document's files, where they say they lie; its Python module can be imported, and is forgotten afterwards."""
    for block in BLOCKS:
        if block.name and block.name != "part":
            path = tmp_path / block.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if k != "desk"})
    return tmp_path


def sma(project: Path, *arguments: str) -> int:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SMA_")}
    with mock.patch.dict(os.environ, kept, clear=True), chdir(project):
        return run(arguments)


def test_all_examples_together_are_a_project_without_findings(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sma(project, "check") == 0, capsys.readouterr().out
    catalogue = checked_catalogue(
        Catalogue.read([project / "machines"], [project / "tool_manifests"], project / "people.yaml")
    )
    catalogue.report.add(lint(catalogue))
    assert [f.message for f in catalogue.report.faults if f.level is not Level.NOTE] == []
    assert set(catalogue.machines) == {"shelf", "lend"}
    assert {t for m in catalogue.machines.values() for t in catalogue.used_tools(m.definition)} == set(catalogue.tools)


def test_the_smallest_machine_is_small_and_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(BLOCKS[0].text.splitlines()) <= 15
    assert sma(project, "run", "shelf", "-i", "isbn=9780141036144", "--actor", "ann", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["reason"]) == ("SUCCEEDED", "completed")


INPUT = {"isbn": "9780141036144", "reader": "r12", "day": "2026-10-28"}


def lend(project: Path, *, days: int, reader: str = "r12") -> Any:
    """A run of the larger machine: asked, approved, lent, waited for, collected."""
    environment = SimulatedEnvironment()
    catalogue = Catalogue.read([project / "machines"], [project / "tool_manifests"], project / "people.yaml")
    steps = ScriptedModel.load(project / "lend-script.yaml").steps
    steps = [step.model_copy(update={"given": {**step.given, "days": days}} if step.fail else {}) for step in steps]

    async def main() -> Any:
        reach = Reach(python_packages=frozenset({"desk"}))
        with SqliteStore(project / "tasks.db", environment) as store:
            async with Runtime(catalogue, store, ScriptedModel(steps), reach=reach, environment=environment) as runtime:
                task = await runtime.run("lend", {**INPUT, "reader": reader}, Identity("ann", "asserted"))
                if task.head.status == "AWAITING_APPROVAL":
                    await runtime.approve(task.approvals[0].id, Identity("bo", "asserted"))
                    task = await runtime.resume(task.task.id)
                while task.head.status == "WAITING":
                    environment.advance(86_400)
                    known = json.loads((project / "loans.json").read_text())
                    for loan in known.values():
                        loan["collected"] = True
                    (project / "loans.json").write_text(json.dumps(known))
                    task = await runtime.resume(task.task.id)
                return task

    return environment.run(main())


@pytest.mark.parametrize("days", [60, 7])
def test_the_larger_machine_goes_all_the_way(project: Path, days: int) -> None:
    """A long loan is approved first; both are kept for a day, and fetched."""
    end = lend(project, days=days)
    assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
    assert [(e.key, e.status) for e in end.effects] == [("lend:c7:r12:2026-10-28", "verified")]
    assert [a.status for a in end.approvals] == (["consumed"] if days == 60 else [])
    assert end.head.visits["KEPT"] == 1 and end.head.visits["CHECKING"] == 2


def test_a_python_tool_says_no(project: Path) -> None:
    end = lend(project, days=7, reader="nobody")
    assert (end.head.status, end.head.reason) == ("FAILED", "unknown_reader")
