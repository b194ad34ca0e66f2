"""A project opened from Python: on the settings of the command line, and refused before anything is begun where they lack."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Catalogue, Identity, Reach, Runtime, SmaError, SqliteStore, open_project
from statemachine_agent.cli.main import run as sma
from statemachine_agent.definition.settings import load_project
from statemachine_agent.environment import Environment
from statemachine_agent.errors import SettingsError, StoreError, UsageError
from statemachine_agent.loop.context import LEASE
from support.playing import swap
from support.world import ACT, ANN, FIND, LOOK, MACHINE, Played, catalogue

ME = Identity(Environment().user(), "application")
BOX = {"item": "box-1"}


@pytest.fixture
def parcel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `sma new parcel` writes, in a folder that is not the current one; nothing of its tools is left behind."""
    for name in [n for n in os.environ if n.startswith("SMA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", {k: v for k, v in sys.modules.items() if not k.startswith("agent_tools")})
    monkeypatch.chdir(tmp_path)
    assert sma(["new", "parcel", "--folder", "parcel"]) == 0
    return tmp_path / "parcel"


def test_what_new_writes_is_run_from_python(parcel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its folder, by its settings file, and from within; the setting `model` decides; the command line sees the tasks."""
    settings = parcel / "statemachine-agent.toml"
    settings.write_text('model = "scripted:scripts/parcel.yaml"\n' + settings.read_text())

    async def main(where: Any) -> str:
        async with open_project(where) as runtime:
            done = await runtime.run("parcel", BOX, ME)
            return f"{done.head.status} {done.head.reason}"

    for where in (str(parcel), settings, load_project(parcel)):
        assert asyncio.run(main(where)) == "SUCCEEDED completed"
    capsys.readouterr()
    assert sma(["--settings", str(settings), "tasks"]) == 0
    assert capsys.readouterr().out.count("completed") == 3


def test_what_is_named_goes_before_the_environment(parcel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `--settings` does; a place where nothing is, and a store that is to be there and is not, are told."""

    async def machines(where: Any = None, **how: Any) -> list[str]:
        async with open_project(where, **how) as runtime:
            return sorted(runtime.catalogue.machines)

    monkeypatch.setenv("SMA_SETTINGS", str(parcel / "statemachine-agent.toml"))
    assert asyncio.run(machines(db=parcel / "own.db")) == ["parcel"]
    (parcel.parent / "other").mkdir()
    assert asyncio.run(machines("other")) == []
    with pytest.raises(UsageError, match="nothing is not there"):
        asyncio.run(machines("nothing"))
    with pytest.raises(StoreError):
        asyncio.run(machines(parcel, db=parcel / "new.db", create=False))


def test_a_runtime_that_may_not_import_the_tools_begins_nothing(parcel: Path) -> None:
    """It names tools, package and setting; the same where a task is under way."""
    found = Catalogue.read([parcel / "machines"], [parcel / "tool_manifests"], parcel / "people.yaml")

    async def main() -> None:
        with SqliteStore(parcel / "own.db") as store:
            async with Runtime(found, store) as runtime:
                with pytest.raises(
                    SettingsError, match="`look_at_parcel`, `note_parcel` of `parcel` need `agent_tools`"
                ):
                    await runtime.start("parcel", BOX, ME)
                assert await store.tasks() == []
            async with Runtime(found, store, reach=Reach(python_packages=frozenset({"agent_tools"}))) as runtime:
                begun = await runtime.start("parcel", BOX, ME)
            async with Runtime(found, store) as runtime:
                with pytest.raises(SettingsError, match="which `python_packages` does not list"):
                    await runtime.resume(begun.task.id)
                assert (await runtime.status(begun.task.id)).head.version == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("binding", "told"),
    [
        ('{python: "nowhere:look"}', "`look` of `tiny` needs `nowhere`, which `python_packages` does not list"),
        (
            '{command: [/usr/bin/look, "{thing}"]}',
            "`look` of `tiny` needs `/usr/bin/look`, which `commands` does not list",
        ),
        ("{mcp: {server: shop, tool: look}}", "`look` of `tiny` needs `shop`, which `mcp` does not list"),
    ],
)
def test_whatever_a_tool_is_bound_to(tmp_path: Path, binding: str, told: str) -> None:
    """A package, a program, a server; tools that the host binds itself need none of them."""
    found = catalogue(MACHINE, swap(LOOK, ('{python: "nowhere:look"}', binding)), ACT, FIND)
    assert not found.report.errors, str(found.report)
    own = {"act": Played([]), "find": Played([])}

    async def main() -> None:
        with SqliteStore(tmp_path / "tasks.db") as store:
            async with Runtime(found, store, bindings=own) as runtime:
                with pytest.raises(SmaError) as refused:
                    await runtime.start("tiny", {"thing": "box"}, ANN)
                assert told in str(refused.value)
            async with Runtime(found, store, bindings={**own, "look": Played([])}) as runtime:
                assert (await runtime.start("tiny", {"thing": "box"}, ANN)).head.version == 0

    asyncio.run(main())


def test_a_task_that_somebody_works_on_may_end_before_it_is_cancelled(
    parcel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that is all that `sma cancel` promises."""
    monkeypatch.chdir(parcel)

    async def held() -> str:
        async with open_project() as runtime:
            begun = await runtime.start("parcel", BOX, ME)
            await runtime.store.claim(begun.task.id, runtime.environment.process(), LEASE)
            return begun.task.id

    assert sma(["cancel", asyncio.run(held())]) == 0
    assert "cancelled as soon as no effect of it is open, unless it ends before" in capsys.readouterr().out
