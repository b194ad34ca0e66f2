"""A task watched from another process: what is committed, what is forming, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from providers.streams import Streams
from providers.wire import Call, Provider, Says, calls, served
from statemachine_agent import SimulatedEnvironment
from statemachine_agent.environment import Environment, ProcessIdentity
from statemachine_agent.loop.context import Event
from statemachine_agent.runtime.livefile import MOST, LiveReader, LiveWriter, place_of
from statemachine_agent.sandbox import Sandbox
from support.cli import DEADLINE, Here, Result, Sma, kill, until
from support.refund import ROOT

RUN = ("run", "refund", "-i", "order_id=8472", "-i", "message=twice", "--actor", "cust-3391")
#: what the model says; all of its call is sent, and the end of the stream is held back
GIVES_UP = Says((Call("cannot_continue", '{"reason": "charged twice"}'),), text="I look \x1b[2J first.")
ENOUGH = calls(Call("cannot_continue", '{"reason": "enough"}'))
TASK = "0199a000-0000-7000-8000-000000000001"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with served("openai") as found:
        yield found


@pytest.fixture
def sma(tmp_path: Path, provider: Provider) -> Sma:
    """The demo's machines, with a model behind the server; no service is asked."""
    settings = (ROOT / "statemachine-agent.toml").read_text(encoding="utf-8")
    for name in ("machines", "tool_manifests", "people.yaml"):
        settings = settings.replace(f'"{name}"', f'"{ROOT / name}"')
    settings = settings.replace('"scripted:scripts/refund-8472.yaml"', '"held"')
    settings += f'\n[models.held]\nuse = "openai:gpt-5-mini"\nurl = "{provider.url}"\n'
    (tmp_path / "held.toml").write_text(settings, encoding="utf-8")
    return Here(tmp_path, more={"SMA_SETTINGS": str(tmp_path / "held.toml")})


@contextmanager
def held(sma: Sma, provider: Provider, *more: str) -> Iterator[tuple[str, Streams, subprocess.Popen[str]]]:
    """A worker whose model is in the middle of its answer: the task, what holds it, and the worker."""
    play = Streams(GIVES_UP, "hold", 9)
    provider.plays = [play, ENOUGH]
    worker = sma.start(*RUN, *more)
    try:
        until(play.held.is_set, "the held server")
        yield sma.tasks()[0]["id"], play, worker
    finally:
        play.go.set()
        if worker.poll() is None:
            worker.kill()
        worker.communicate(timeout=DEADLINE)


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """What a process prints, to where `wanted` stands."""
    found = b""
    descriptor = process.stdout.fileno()  # type: ignore[union-attr]
    os.set_blocking(descriptor, False)

    def seen() -> bool:
        nonlocal found
        with suppress(BlockingIOError):
            found += os.read(descriptor, 65536)
        return wanted.encode() in found

    until(seen, wanted)
    os.set_blocking(descriptor, True)
    return found.decode()


def ended(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=DEADLINE)
    return Result(process.returncode, out, err)


# ---------------------------------------------------------------- in another process


def test_words_and_the_forming_call_are_seen_elsewhere_before_anything_is_decided(sma: Sma, provider: Provider) -> None:
    """Then the rows come, in order, as in the trace, and the watcher ends with the exit code of the task's state."""
    with held(sma, provider, "--stream") as (task, play, worker):
        watcher = sma.start("watch", task, "--json")
        begun = read_until(watcher, '"text": "wice\\"}"}\n')
        lines = [json.loads(line) for line in begun.splitlines()]
        assert "".join(x["text"] for x in lines if x.get("of") == "words") == GIVES_UP.text
        assert {x["kind"] for x in lines} == {"version", "piece"}
        assert [x["version"] for x in lines if x["kind"] == "version"] == [0]
        (live,) = sma.folder.rglob("*.jsonl")
        assert stat.S_IMODE(live.stat().st_mode) == 0o600 and stat.S_IMODE(live.parent.stat().st_mode) == 0o700
        play.go.set()
        assert ended(worker).code == 14
        watched = ended(watcher)
        assert (watched.code, watched.err) == (14, "")
        lines += [json.loads(line) for line in watched.out.splitlines()]
        assert [x for x in lines if x["kind"] not in ("piece", "rest")] == sma.trace(task)
        assert (lines[-1]["kind"], lines[-1]["status"]) == ("rest", "FAILED")
        assert not list(sma.folder.rglob("*.live"))


def test_ctrl_c_ends_the_watching_and_not_the_task(sma: Sma, provider: Provider) -> None:
    with held(sma, provider, "--stream") as (task, _, worker):
        watcher = sma.start("watch", task)
        assert "says     I look \\x1b[2J first." in read_until(watcher, "first.\n")
        watcher.send_signal(signal.SIGINT)
        stopped = ended(watcher)
        assert (stopped.code, stopped.err) == (130, "\nsma: stopped\n")
        assert worker.poll() is None


def test_a_store_that_was_deleted_ends_the_watching(sma: Sma, provider: Provider) -> None:
    """What the worker does from then on, nobody will ever read there."""
    with held(sma, provider, "--stream") as (task, _, _):
        watcher = sma.start("watch", task)
        read_until(watcher, "first.\n")
        (store,) = sma.folder.rglob("*.db")
        store.unlink()
        stopped = ended(watcher)
        assert stopped.code == 22 and f"{store.name} was deleted or replaced while it was in use" in stopped.err


def test_a_watcher_whose_reader_went_away_ends(sma: Sma, provider: Provider) -> None:
    """Although nothing new comes that it could fail to write."""
    with held(sma, provider, "--stream") as (task, _, _):
        watcher = sma.start("watch", task)
        read_until(watcher, "first.\n")
        watcher.stdout.close()  # type: ignore[union-attr]
        assert watcher.wait(DEADLINE) == 141
        assert watcher.stderr.read() == ""  # type: ignore[union-attr]
        watcher.stderr.close()  # type: ignore[union-attr]


def test_what_a_killed_worker_left_behind_is_not_shown(sma: Sma, provider: Provider) -> None:
    """And the next worker's is."""
    with held(sma, provider, "--stream") as (task, play, worker):
        until(lambda: "wice" in "".join(f.read_text() for f in sma.folder.rglob("*.jsonl")), "pieces")
        kill(worker)
        watcher = sma.start("watch", task)
        shown = read_until(watcher, "version  0")
        play.go.set()
        again = Streams(Says(ENOUGH.calls, text="The next one."), "hold", 6)
        provider.plays = [again]
        resumed = sma.start("resume", task, "--stream")
        shown += read_until(watcher, "says     The next one.")
        assert "I look" not in shown
        again.go.set()
        assert ended(resumed).code == 14
        assert ended(watcher).code == 14


# ---------------------------------------------------------------- what is there already


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Here, str]:
    """A task that waits for approval."""
    folder = tmp_path_factory.mktemp("rested")
    with Sandbox(folder / "sandbox", None) as services:
        task, _ = Here(folder, services.urls).propose()
    return Here(folder), task


def test_a_task_that_waits_is_shown_and_ends_with_its_code(rested: tuple[Here, str]) -> None:
    sma, task = rested
    watched = sma("watch", task)
    assert watched.code == 3
    assert watched.out.startswith(sma("trace", task).out)
    assert "waits    for a yes to exactly this action:" in watched.out


def test_only_the_last_lines_where_that_is_asked_for(rested: tuple[Here, str]) -> None:
    sma, task = rested
    traced = sma("trace", task).out.splitlines()
    for count in (0, 2, 1000):
        watched = sma("watch", task[-8:], "-n", str(count)).out.splitlines()
        rest = next(n for n, line in enumerate(watched) if line.startswith("task "))
        assert watched[:rest] == traced[max(0, len(traced) - count) :]


def test_a_task_that_nobody_knows_is_said_so(rested: tuple[Here, str]) -> None:
    sma, _ = rested
    for arguments in (("watch", "nobody"), ("watch", "../../x"), ("watch", "")):
        found = sma(*arguments)
        assert (found.code, found.out) == (1, "") and "there is no task" in found.err


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = Here(tmp_path)("watch", TASK)
    assert found.code == 22 and not list(tmp_path.glob("*.db*"))


# ---------------------------------------------------------------- the file between them


class Store:
    def __init__(self, path: Path) -> None:
        self.path = path


def piece(text: str = "word", **more: Any) -> Event:
    data = {"step": 1, "state": "S", "attempt": 1, "kind": "words", "call": 0, "text": text}
    return Event("piece", TASK, {**data, **more})


def live(folder: Path) -> tuple[LiveWriter, LiveReader, Path]:
    environment, store = SimulatedEnvironment(), Store(folder / "tasks.db")
    place = place_of(store, TASK)
    assert place is not None
    return LiveWriter(store, environment), LiveReader(store, TASK, environment), place


def test_what_is_written_is_read_once_and_gone_at_the_commit(tmp_path: Path) -> None:
    writer, reader, place = live(tmp_path)
    assert reader.news() == []
    writer(piece("one"))
    writer(piece("two"))
    assert [n["text"] for n in reader.news()] == ["one", "two"]
    writer(piece("three"))
    assert [n["text"] for n in reader.news()] == ["three"]
    assert reader.news() == []
    writer(Event("committed", TASK))
    assert reader.news() == [] and not place.parent.exists()
    writer(piece("four"))
    assert [n["text"] for n in reader.news()] == ["four"]
    writer.__exit__()
    assert not place.parent.exists()


def test_it_is_bounded(tmp_path: Path) -> None:
    writer, reader, place = live(tmp_path)
    with writer:
        for _ in range(400):
            writer(piece("x" * 1000))
        assert MOST - 2000 < place.stat().st_size <= MOST
        assert 200 < len(reader.news()) < 300


@pytest.mark.parametrize("hindrance", ["file", "link", "folder"])
def test_where_it_cannot_be_written_it_is_not(tmp_path: Path, hindrance: str) -> None:
    """Nor is anything written elsewhere, or removed that is not its own."""
    writer, reader, place = live(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if hindrance == "file":
        place.parent.write_text("mine")
    elif hindrance == "link":
        place.parent.symlink_to(elsewhere)
    else:
        place.mkdir(parents=True)
    with writer:
        writer(piece())
        assert reader.news() == []
    assert list(elsewhere.iterdir()) == []
    assert place.parent.exists()


BEGUN = {"event": "begun", "id": "a", "process": {"host": "h", "pid": 1, "started": "s"}}
GOOD: Mapping[str, Any] = {"event": "piece", **piece().data}


@pytest.mark.parametrize(
    "lines",
    [
        [b""],
        [b"\xff\xfe\x00", b"{}"],
        [b"[" * 100_000],
        [b"null", b"5", b'"x"', b"[]"],
        [json.dumps({"event": "begun", "id": 5}).encode(), json.dumps(GOOD).encode()],
        [json.dumps({"event": "begun", "id": "a", "process": "me"}).encode(), json.dumps(GOOD).encode()],
        [json.dumps(GOOD).encode()],
        [json.dumps(BEGUN).encode(), *(json.dumps({**GOOD, k: None}).encode() for k in GOOD if k != "state")],
        [json.dumps(BEGUN).encode(), json.dumps({"event": "cut_off", "why": [], "again": 1}).encode()],
        [json.dumps(BEGUN).encode(), b'{"event": "piece", "step": ' + b"9" * 10_000 + b"}"],
    ],
)
def test_garbage_is_nothing(tmp_path: Path, lines: list[bytes]) -> None:
    _, reader, place = live(tmp_path)
    place.parent.mkdir()
    place.write_bytes(b"\n".join(lines) + b"\n")
    assert reader.news() == []


def test_a_file_that_is_cut_or_written_anew_is_read_from_where_it_stands(tmp_path: Path) -> None:
    _, reader, place = live(tmp_path)
    place.parent.mkdir()
    begun, good = json.dumps(BEGUN), json.dumps(GOOD)
    place.write_text(f"{begun}\n{good}\n{good}\n{good[:10]}")
    assert len(reader.news()) == 2
    place.write_text(f"{begun}\n{good}\n")
    assert reader.news() == []
    place.write_text(f"{begun}\n{good}\n{good}\n{good}\n")
    assert len(reader.news()) == 1
    place.write_text(f"{json.dumps({**BEGUN, 'id': 'b'})}\n{good}\n")
    assert len(reader.news()) == 1


def test_a_pipe_or_a_link_in_its_place_is_not_read(tmp_path: Path) -> None:
    _, reader, place = live(tmp_path)
    place.parent.mkdir()
    os.mkfifo(place)
    assert reader.news() == []
    place.unlink()
    (tmp_path / "other").write_text(f"{json.dumps(BEGUN)}\n{json.dumps(GOOD)}\n")
    place.symlink_to(tmp_path / "other")
    assert reader.news() == []


def test_what_a_process_left_that_is_gone_is_nothing(tmp_path: Path) -> None:
    class Gone(Environment):
        def is_gone(self, process: ProcessIdentity) -> bool:
            return process.pid == BEGUN["process"]["pid"]  # type: ignore[index]

    _, reader, place = live(tmp_path)
    place.parent.mkdir()
    place.write_text(f"{json.dumps(BEGUN)}\n{json.dumps(GOOD)}\n")
    assert LiveReader(Store(tmp_path / "tasks.db"), TASK, Gone()).news() == []
    assert len(reader.news()) == 1


@pytest.mark.parametrize("task", ["", "..", "../x", "a/b", "a\x00b", "A"])
def test_no_id_leads_elsewhere(tmp_path: Path, task: str) -> None:
    assert place_of(Store(tmp_path / "tasks.db"), task) is None
    assert place_of(object(), TASK) is None
