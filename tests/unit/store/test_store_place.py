"""A file that was deleted or replaced while it is in use: nothing is committed into what nobody will ever read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.store.making import begun, full_step, new_task, on_loop, step

from statemachine_agent.errors import StoreError
from statemachine_agent.store.sqlite import SqliteStore


def deleted(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def folder_replaced(path: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    path.touch()


def log_deleted(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("happens", [deleted, moved, replaced, folder_replaced, log_deleted])
@on_loop
async def test_no_commit_goes_into_a_file_that_lost_its_name(tmp_path: Path, happens: Callable[[Path], None]) -> None:
    path = tmp_path / "store" / "tasks.db"
    with SqliteStore(path) as store:
        task, lease = await begun(store)
        happens(path)
        for write in (
            lambda: store.commit(step(task, *full_step(1, {"n": 1})), lease),
            lambda: store.create(new_task("task-2")),
            lambda: store.release(lease),
        ):
            with pytest.raises(StoreError, match="was deleted or replaced while it was in use") as caught:
                await write()
            assert (caught.value.exit_code, caught.value.reason) == (22, "store_gone")
            assert caught.value.hint
        assert (await store.load("task-1")).head.version == 0


@on_loop
async def test_it_goes_on_once_the_file_is_back(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with SqliteStore(path) as store:
        task, lease = await begun(store)
        moved(path)
        with pytest.raises(StoreError):
            await store.commit(step(task, *full_step(1, {"n": 1})), lease)
        path.with_name("elsewhere.db").rename(path)
        await store.commit(step(task, *full_step(1, {"n": 1})), lease)
        assert (await store.load("task-1")).head.version == 1


@on_loop
async def test_a_file_that_was_replaced_before_the_first_commit(tmp_path: Path) -> None:
    """The writer connects when it is first needed: to the file that was opened, or not at all."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path) as store:
        deleted(path)
        with SqliteStore(path) as other:
            with pytest.raises(StoreError, match="was deleted or replaced"):
                await store.create(new_task("task-1"))
            await other.create(new_task("task-2"))
            assert [row["id"] for row in await other.tasks()] == ["task-2"]


@on_loop
async def test_links_and_relative_paths_are_followed_from_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to("real/tasks.db")
    monkeypatch.chdir(tmp_path)
    with SqliteStore("link.db") as store:
        task, lease = await begun(store)
        os.chdir("real")
        await store.commit(step(task, *full_step(1, {"n": 1})), lease)
        (tmp_path / "link.db").unlink()
        (tmp_path / "link.db").touch()
        with pytest.raises(StoreError, match="was deleted or replaced"):
            await store.release(lease)
