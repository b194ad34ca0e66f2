"""A file that was deleted or replaced while it is in use, or that has two names: nothing is committed that not all would see."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.store.making import HOUR, begun, full_step, new_task, on_loop, step

from statemachine_agent.environment import Environment, ProcessIdentity
from statemachine_agent.errors import StoreError, TaskHeldError
from statemachine_agent.store import place
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
        if happens is log_deleted:
            assert (await store.load("task-1")).head.version == 0
            return
        with pytest.raises(StoreError, match="was deleted or replaced"):  # who reads on would wait for what never comes
            await store.load("task-1")


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


# ---------------------------------------------------------------- one file under two names


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def linked(path: Path) -> Path:
    other = path.with_name("other.db")
    other.hardlink_to(path)
    return other


def test_a_store_with_a_hard_link_is_refused_under_both_names(tmp_path: Path) -> None:
    """The log and the locks lie beside the name: two workers would not see each other, and both would pay."""
    path = tmp_path / "tasks.db"
    with SqliteStore(path):
        pass
    both = (path, linked(path))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for name in both:
        with pytest.raises(StoreError, match="has more than one name") as caught:
            SqliteStore(name)
        assert (caught.value.exit_code, caught.value.reason) == (22, "second_name")
        assert caught.value.hint
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    both[1].unlink()
    with SqliteStore(path):
        pass


def test_an_empty_file_with_a_hard_link_becomes_no_store(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").touch()
    linked(tmp_path / "tasks.db")
    with pytest.raises(StoreError, match="has more than one name"):
        SqliteStore(tmp_path / "tasks.db")
    assert (tmp_path / "tasks.db").stat().st_size == 0


@on_loop
async def test_a_hard_link_that_is_made_while_the_store_is_used_stops_every_commit(tmp_path: Path) -> None:
    """And nobody can have opened it under the new name: that is refused as long as both stand."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        other = linked(tmp_path / "tasks.db")
        for write in (lambda: store.commit(step(task, *full_step(1, {"n": 1})), lease), lambda: store.release(lease)):
            with pytest.raises(StoreError, match="has more than one name"):
                await write()
        with pytest.raises(StoreError, match="has more than one name"):
            SqliteStore(other)
        other.unlink()
        await store.commit(step(task, *full_step(1, {"n": 1})), lease)
        assert (await store.load("task-1")).head.version == 1


@pytest.mark.parametrize("name", ["tasks.db", "a b\t\\c.db"])
def test_a_file_that_is_mounted_by_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As with `docker -v tasks.db:/tasks.db`; a folder above it that is mounted is none of that."""
    path = tmp_path / name
    with SqliteStore(path):
        pass
    line = "36 35 98:0 / {} rw,noatime shared:1 - ext3 /dev/root rw\n"
    escaped = str(path).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(place, "_MOUNTS", mounts)
    mounts.write_text(line.format("/") + line.format(tmp_path) + "\n1 2 3 4\n")
    with SqliteStore(path):
        pass
    mounts.write_text(line.format("/") + line.format(escaped))
    (tmp_path / "link.db").symlink_to(path)
    for one in (path, tmp_path / "link.db"):
        with pytest.raises(StoreError, match="is mounted by itself") as caught:
            SqliteStore(one)
        assert (caught.value.exit_code, caught.value.reason) == (22, "second_name")
        assert "mount the folder" in (caught.value.hint or "")
    mounts.write_text(f"36 35 98:0 / {escaped}\n")  # whatever else may be said of it
    with pytest.raises(StoreError, match="is mounted by itself"):
        SqliteStore(path)
    mounts.unlink()  # another system: nothing is asked
    with SqliteStore(path):
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts are asked for on Linux")
def test_a_file_that_is_really_mounted_is_refused(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db"):
        pass
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "tasks.db").touch()
    script = 'mount --bind "$1" "$2" || exit 99; exec "$3" -c "$4" "$2"'
    opens = "import sys; from statemachine_agent.store.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    files = (tmp_path / "tasks.db", tmp_path / "elsewhere" / "tasks.db")
    command = [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        script,
        "sh",
        *map(str, files),
        sys.executable,
        opens,
    ]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `unshare`")
    if found.returncode == 99 or "unshare" in found.stderr:
        pytest.skip("whoever runs this may not mount")
    assert "is mounted by itself" in found.stderr.splitlines()[-1]


@on_loop
async def test_through_a_link_and_by_its_own_name_it_is_one_store(tmp_path: Path) -> None:
    """One log, beside the file itself; who holds a task holds it under both names."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to("real/tasks.db")
    elsewhere = ProcessIdentity("elsewhere", 4711, "1")
    with SqliteStore(link) as one, SqliteStore(tmp_path / "real" / "tasks.db", create=False) as other:
        await begun(one)
        assert names(tmp_path) == {"link.db", "real"}
        assert (tmp_path / "real" / "tasks.db-wal").is_file()
        with pytest.raises(TaskHeldError):
            await other.claim("task-1", Environment().process(), HOUR)
        assert (await other.load("task-1")).head.version == 0
        with pytest.raises(TaskHeldError):
            await one.claim("task-1", elsewhere, HOUR)


@on_loop
async def test_the_folder_that_one_stands_in_may_change_before_the_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative name is one of when the store was opened, also for the writer that connects later."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with SqliteStore("tasks.db") as store:
        os.chdir("other")
        await store.create(new_task("task-1"))
        assert [row["id"] for row in await store.tasks()] == ["task-1"]
    assert list((tmp_path / "other").iterdir()) == []
