"""A store that somebody changed or named twice, seen from the command line: one line, exit 22, nothing shown that is not so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from unit.store.making import begun, on_loop

from statemachine_agent import SqliteStore
from support.cli import Here, Result, Sma


@pytest.fixture
def sma(tmp_path: Path) -> Sma:
    here = Here(tmp_path)

    @on_loop
    async def write() -> None:
        with SqliteStore(here.db) as store:
            task, _ = await begun(store)
            await store.request_cancel(task.task.no, {"by": "cust-1", "established": "os"})

    write()
    return here


def refused(result: Result, *words: str) -> None:
    """Exit 22, and one line with these words."""
    assert (result.code, result.out) == (22, ""), result
    (line,) = result.err.splitlines()
    assert line.startswith("sma: ") and all(word in line for word in words), line


@pytest.mark.parametrize(
    ("table", "column", "value", "command", "where"),
    [
        ("task", "cancel_requested", '["NOPE"]', "show", "task task-1 cannot be read"),
        ("task", "actor", '{"id": 1}', "show", "task task-1 cannot be read"),
        ("task", "head", "[" * 100_000, "show", "the head of task task-1 cannot be read: it is nested too deeply"),
        ("task", "configuration", "NaN", "tasks", "the list of tasks cannot be read: `NaN` is no JSON"),
        ("checkpoint", "configuration", "NaN", "trace", "row 2 of task task-1 cannot be read: `NaN` is no JSON"),
        ("transition", "asked", "[]", "trace", "row 1 of task task-1 cannot be read: `[]` was never written"),
        ("task", "no", 2**62, "trace", "task task-1 cannot be read: it cannot have the number"),
    ],
)
def test_a_value_that_was_never_written(
    sma: Sma, table: str, column: str, value: object, command: str, where: str
) -> None:
    """Which one it is, and what to do."""
    with closing(sqlite3.connect(sma.db)) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))  # noqa: S608  names above
        connection.commit()
    for more in ((), ("--json",)):
        result = sma(command, *(() if command == "tasks" else ("task-1",)), *more)
        if more:
            assert (result.code, result.out, len(result.err.splitlines())) == (22, "", 1), result
        else:
            refused(result, where, "restore a backup")


def test_a_store_with_two_names(sma: Sma, tmp_path: Path) -> None:
    """Neither of them is opened: under each, nobody would see who works under the other."""
    (tmp_path / "other.db").hardlink_to(sma.db)
    for name in ("tasks.db", "other.db"):
        refused(sma("tasks", "--db", name), "has more than one name", "remove the other names")


def test_a_store_without_the_index_that_lets_an_effect_happen_once(sma: Sma) -> None:
    """It is said when the file is opened, and not when somebody pays twice."""
    with closing(sqlite3.connect(sma.db)) as connection:
        connection.execute("DROP INDEX effect_happens_once")
    refused(sma("tasks"), "is no whole store", "the index `effect_happens_once` is missing", "nothing was changed")
