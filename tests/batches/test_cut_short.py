"""Stopped, cancelled, killed in the middle of a batch: what has come is kept, or everything is done again; never half of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import ScriptedModel, SimulatedEnvironment
from statemachine_agent.errors import SmaError
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.records import Checkpoint
from statemachine_agent.runtime.drive import StoppedError
from statemachine_agent.tools.outcome import LostError
from support import forks
from support.cli import DEADLINE, kill, until
from support.peeks import GIVE_UP, PEEKS, TEXTS, after, looks, rows_of
from support.playing import swap
from support.world import ANN, GOOD, LOOK_STEP, World, world

CUT = [("c1", "look", "ok", None), ("c2", "look", "failed", "cancelled"), ("c3", "look", "failed", "cancelled")]


def by_thing(request: Any) -> Any:
    """One answers at once, the others do not come back for a long time."""
    return after({"a": 0.5}.get(request.args["thing"], 9), GOOD)(request)


def run(folder: Path, body: Any, *steps: Any, **how: Any) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with world(
            folder, *steps, machine=how.pop("machine", PEEKS), texts=TEXTS, environment=environment, **how
        ) as here:
            return await body(here)

    return environment.run(main())


async def started(here: World) -> Checkpoint:
    return await here.runtime.start("peeks", {"thing": "box"}, ANN)


def test_cancelled_while_it_runs(tmp_path: Path) -> None:
    """It does not wait for the slow ones; every call has a result, and the task is over."""

    async def body(here: World) -> None:
        task = await started(here)
        working = asyncio.ensure_future(here.runtime.resume(task.task.id))
        await asyncio.sleep(1)
        await here.runtime.cancel(task.task.id, ANN)
        end = await working
        assert (end.head.status, end.head.reason) == ("CANCELLED", "cancelled")
        assert await rows_of(here, end) == CUT
        assert [(e.call_id, e.payload) for e in end.evidence] == [("c1", GOOD)]
        (decision,) = await here.rows(end, "decision")
        assert [c["id"] for c in decision["response"]["calls"]] == ["c1", "c2", "c3"]
        assert end.head.usage.active_ms < 4_000
        assert (end.head.usage.tool_calls, end.head.steps) == (3, 1)
        seen = [r["request_id"] for r in await here.rows(end, "call")]
        assert seen == [request.request_id for request in here.tools["look"].calls]

    run(tmp_path, body, looks("abc"), look=[by_thing])


def test_cancelled_before_any_of_them_has_ended(tmp_path: Path) -> None:
    """Every call of a decision that is on record has a result."""

    async def body(here: World) -> None:
        task = await started(here)
        working = asyncio.ensure_future(here.runtime.resume(task.task.id))
        await asyncio.sleep(1)
        await here.runtime.cancel(task.task.id, ANN)
        end = await working
        assert end.head.status == "CANCELLED" and end.evidence == ()
        assert [r[2:] for r in await rows_of(here, end)] == [("failed", "cancelled")] * 2

    run(tmp_path, body, looks("xy"), look=[by_thing])


def test_stopped_while_it_runs(tmp_path: Path) -> None:
    """The worker stops and the task goes on: one ok, two cancelled, and the model is told so."""
    prompts: list[Prompt] = []

    async def first(here: World) -> str:
        task = await started(here)
        working = asyncio.ensure_future(here.runtime.resume(task.task.id))
        await asyncio.sleep(1)
        here.runtime.stop()
        with pytest.raises(StoppedError):
            await working
        after_it = await here.runtime.status(task.task.id)
        assert (after_it.head.status, after_it.head.version, after_it.head.steps) == ("RUNNING", 1, 1)
        assert await rows_of(here, after_it) == CUT
        return task.task.id

    class Watching:
        spec = "test"

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def decide(self, prompt: Prompt) -> Reply:
            prompts.append(prompt)
            return await self.inner.decide(prompt)

    task_id = run(tmp_path, first, looks("abc"), look=[by_thing])

    async def second(here: World) -> None:
        end = await here.runtime.resume(task_id)
        assert (end.head.reason, end.head.steps) == ("no_action", 2)
        assert here.tools["look"].calls == []

    run(tmp_path, second, model=Watching(ScriptedModel.of(looks("abc"), GIVE_UP)))
    told = prompts[0].observation or ""
    assert 'c1 (`look`) {"thing":"a"}: ev-1; c2 (`look`) {"thing":"b"}: failed (cancelled)' in told


def test_a_single_read_that_is_cut_short_is_done_again(tmp_path: Path) -> None:
    """Nothing of it had come: no step is spent, and nothing is on record."""

    async def body(here: World) -> None:
        task = await started(here)
        working = asyncio.ensure_future(here.runtime.resume(task.task.id))
        await asyncio.sleep(1)
        here.runtime.stop()
        with pytest.raises(StoppedError):
            await working
        now = await here.runtime.status(task.task.id)
        assert (now.head.version, now.head.steps) == (0, 0)

    run(tmp_path, body, {**LOOK_STEP, "with": {"thing": "x"}}, look=[by_thing])


def test_one_that_waited_for_another_try_ends_as_it_stood(tmp_path: Path) -> None:
    """Its last try had failed: that is its result."""

    def plays(request: Any) -> Any:
        return LostError("gone", reason="timeout") if request.args["thing"] == "a" else after(30, GOOD)(request)

    texts = (swap(TEXTS[0], ("attempts: 2, backoff: 1s", "attempts: 9, backoff: 1d")), *TEXTS[1:])
    environment = SimulatedEnvironment()

    async def main() -> None:
        async with world(
            tmp_path, looks("ab"), machine=PEEKS, texts=texts, environment=environment, look=[plays]
        ) as here:
            task = await started(here)
            working = asyncio.ensure_future(here.runtime.resume(task.task.id))
            await asyncio.sleep(1)
            await here.runtime.cancel(task.task.id, ANN)
            end = await working
            assert await rows_of(here, end) == [
                ("c1", "look", "failed", "timeout"), ("c2", "look", "failed", "cancelled"),
            ]  # fmt: skip

    environment.run(main())


def test_whoever_gave_up_waiting_leaves_nothing_behind(tmp_path: Path) -> None:
    """The caller's own task is cancelled: nothing is recorded, the lease is free, and it is done again."""

    async def body(here: World) -> None:
        task = await started(here)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await here.runtime.resume(task.task.id)
        now = await here.runtime.status(task.task.id)
        assert (now.head.version, now.head.steps) == (0, 0)
        here.tools["look"].plays[:] = [GOOD]
        end = await here.runtime.resume(task.task.id)
        assert [r[2] for r in await rows_of(here, end)] == ["ok"] * 3

    run(tmp_path, body, looks("abc"), GIVE_UP, look=[by_thing])


def test_a_store_that_fails_at_the_commit_keeps_nothing_of_it(tmp_path: Path) -> None:
    """Rule 7 without a kill: the results had come, their commit failed, and the step is done again, once."""

    async def body(here: World) -> None:
        task = await started(here)
        commit = here.store.commit

        async def fails(transaction: Any, lease: Any) -> None:
            raise SmaError("the disk is full")

        here.store.commit = fails  # type: ignore[method-assign]
        with pytest.raises(SmaError, match="the disk is full"):
            await here.runtime.resume(task.task.id)
        here.store.commit = commit  # type: ignore[method-assign]
        assert (await here.runtime.status(task.task.id)).head.version == 0
        end = await here.runtime.resume(task.task.id)
        assert [r[:3] for r in await rows_of(here, end)] == [(f"c{n}", "look", "ok") for n in (1, 2, 3)]
        assert (len(here.tools["look"].calls), end.head.usage.tool_calls, end.head.steps) == (6, 3, 2)

    run(tmp_path, body, looks("abc"), GIVE_UP)


# ---------------------------------------------------------------- a real process


MACHINE = """
machine: survey
version: 1
summary: Measure two beds at once.
input: {}
limits: {steps: 4, active_time: 60s}
success: []
initial: MEASURING
states:
  MEASURING:
    choose:
      measure: stay
      finish: SUCCEEDED
"""
TOOL = """
tool: measure
version: 1
summary: How moist a bed is.
effect: read
source: probe
binding: {python: "probe:measure"}
args:
  bed: {type: string}
returns:
  moisture: {type: number}
timeout: 60s
"""
PROBE = """
import json, time
from pathlib import Path

HERE = Path(__file__).parent


def measure(bed):
    with (HERE / "probe.log").open("a") as file:
        file.write(bed + "\\n")
    while bed == "slow" and not (HERE / "go").exists():
        time.sleep(0.01)
    return {"moisture": 0.5}
"""
SCRIPT = {
    "script": "survey",
    "steps": [
        {
            "calls": [
                {"call": "measure", "with": {"bed": "fast"}, "id": "c1"},
                {"call": "measure", "with": {"bed": "slow"}, "id": "c2"},
            ]
        },
        {"call": "finish", "with": {"answer": "done"}},
    ],
}
SETTINGS = """
people = "people.yaml"
model = "scripted:script.yaml"
identity = "asserted"
python_packages = ["probe"]
"""


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """A project on disk, with a read that waits for a file."""
    for name, text in {
        "machines/survey.yaml": MACHINE,
        "tool_manifests/measure.yaml": TOOL,
        "probe.py": PROBE,
        "script.yaml": json.dumps(SCRIPT),
        "people.yaml": "people: {ann: {}}",
        "statemachine-agent.toml": SETTINGS,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def sma(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SMA_", "PYTEST_"))}
    return forks.Popen(
        [sys.executable, "-m", "statemachine_agent", *arguments],
        env=kept, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def asked(folder: Path) -> list[str]:
    log = folder / "probe.log"
    return log.read_text().split() if log.exists() else []


def finish(folder: Path, task: str) -> list[Any]:
    (folder / "go").touch()
    resumed = sma(folder, "resume", task, "--json")
    out, err = resumed.communicate(timeout=DEADLINE)
    assert resumed.returncode == 0, err
    assert json.loads(out)["status"] == "SUCCEEDED"
    out, _ = sma(folder, "trace", task, "--json").communicate(timeout=DEADLINE)
    return [line for line in json.loads(out) if line["kind"] in ("step", "call")]


def task_of(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "tasks.db")) as connection:
        return str(connection.execute("SELECT id FROM task").fetchone()[0])


def test_killed_before_the_commit(survey: Path) -> None:
    """SIGKILL with one result in hand: nothing of the step is on record, and all of it is done again."""
    worker = sma(survey, "run", "survey", "--actor", "ann")
    until(lambda: sorted(asked(survey)) == ["fast", "slow"], "both calls")
    kill(worker)
    task = task_of(survey)
    with closing(sqlite3.connect(survey / "tasks.db")) as connection:
        tables = ("decision", "call", "evidence")
        counts = [connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables]  # noqa: S608
    assert counts == [0, 0, 0]
    lines = finish(survey, task)
    assert [(x["kind"], x["step"], x.get("call_id")) for x in lines] == [
        ("step", 1, None), ("call", 1, "c1"), ("call", 1, "c2"), ("step", 2, None),
    ]  # fmt: skip
    assert sorted(asked(survey)) == ["fast", "fast", "slow", "slow"]


def test_interrupted_while_it_runs(survey: Path) -> None:
    """SIGINT with one result in hand: exit code 130, one ok, one cancelled, and nothing is asked again."""
    worker = sma(survey, "run", "survey", "--actor", "ann")
    until(lambda: sorted(asked(survey)) == ["fast", "slow"], "both calls")
    worker.send_signal(signal.SIGINT)
    _, err = worker.communicate(timeout=DEADLINE)
    assert worker.returncode == 130, err
    lines = finish(survey, task_of(survey))
    assert [(x["call_id"], x["outcome"], x["error_class"]) for x in lines if x["kind"] == "call"] == [
        ("c1", "ok", None), ("c2", "failed", "cancelled"),
    ]  # fmt: skip
    assert sorted(asked(survey)) == ["fast", "slow"]
