"""Whoever reads goes away, the disk behind standard output is full, a stream is closed: the work is done all the same."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from statemachine_agent.sandbox import Sandbox
from support import forks
from support.cli import DEADLINE, Result, Sma

RUN = ("run", "refund", "-i", "order_id=8472", "-i", "message=twice", "--actor", "cust-3391")


def shell(sma: Sma, arguments: Sequence[str], after: str) -> Result:
    """The command with `after` behind it; the exit code is its own, not that of what reads it."""
    python = [sys.executable] if "&-" in after else forks.relayed()  # closed descriptors are closed from the start
    line = f"{shlex.join(python)} -m statemachine_agent {shlex.join(arguments)} {after}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], env=sma.environ, cwd=sma.folder, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=2 * DEADLINE, check=False,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def reader_gone(sma: Sma, *arguments: str) -> Result:
    """The command, its standard output a pipe that nobody reads from the very beginning."""
    reading, writing = os.pipe()
    os.close(reading)
    process = sma.start(*arguments, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=2 * DEADLINE)
    return Result(process.returncode, "", err)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sma, str]:
    """A store with a task that waits for approval."""
    folder = tmp_path_factory.mktemp("waiting")
    with Sandbox(folder / "sandbox", None) as services:
        task, _ = Sma(folder, services.urls).propose()
    return Sma(folder), task


@pytest.mark.parametrize(
    "command",
    [
        "tasks", "tasks --json", "show TASK", "show TASK --json", "trace TASK", "watch TASK", "approvals", "effects",
        "config", "check", "schema machine", "diagram refund", "--help", "run --help", "--version",
    ],
)  # fmt: skip
def test_a_reader_that_went_away_ends_every_command_quietly(waiting: tuple[Sma, str], command: str) -> None:
    sma, task = waiting
    assert reader_gone(sma, *command.replace("TASK", task).split()) == Result(141, "", "")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_task_goes_on_when_nobody_reads_its_progress(
    services: Sandbox, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """It comes to rest where it would have, and its worker lets go of it."""
    sma = Sma(tmp_path, services.urls)
    assert reader_gone(sma, *RUN, *more) == Result(141, "", "")
    (task,) = sma.tasks()
    assert task["status"] == "AWAITING_APPROVAL"
    assert not sma.is_held()


def test_the_demo_comes_to_its_end_for_nobody(tmp_path: Path) -> None:
    assert reader_gone(Sma(tmp_path), "demo", "--dir", "d") == Result(141, "", "")
    (task,) = json.loads(Sma(tmp_path)("tasks", "--json", "--db", "d/tasks.db").out)
    assert task["status"] == "SUCCEEDED"
    assert (tmp_path / "d" / "refund.svg").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_said_once_and_the_work_is_done(services: Sandbox, tmp_path: Path) -> None:
    sma = Sma(tmp_path, services.urls)
    for arguments in (RUN, ("tasks", "--json"), ("--help",)):
        result = shell(sma, arguments, "> /dev/full")
        assert result.code == 74, result
        (line,) = result.err.splitlines()
        assert line.startswith("sma: standard output cannot be written: No space left on device (")
    (task,) = sma.tasks()
    assert task["status"] == "AWAITING_APPROVAL"


@pytest.mark.parametrize("closed", [">&-", "<&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_streams_that_are_closed_change_neither_work_nor_exit_code(
    services: Sandbox, tmp_path: Path, closed: str
) -> None:
    """The files that are opened later do not get their numbers, so that nobody writes into the store."""
    sma = Sma(tmp_path, services.urls)
    ran = shell(sma, RUN, closed)
    assert (ran.code, ran.err) == (3, "")
    assert (ran.out == "") == (">&-" in closed.replace("2>&-", ""))
    (task,) = sma.tasks()
    assert task["status"] == "AWAITING_APPROVAL"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", ">&- 2>/dev/full"])
def test_what_is_refused_is_refused_whoever_hears_of_it(tmp_path: Path, closed: str) -> None:
    sma = Sma(tmp_path)
    assert shell(sma, ("tools", "show", "nobody"), closed).code == 2
    assert shell(sma, ("dance",), closed).code == 2


def test_a_closed_input_is_nobody_who_chooses(services: Sandbox, tmp_path: Path) -> None:
    result = shell(Sma(tmp_path, services.urls), (*RUN, "--model", "ask"), "<&-")
    assert result.code == 2
    assert "nobody is there to choose" in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
def test_an_input_without_end_is_no_answer(services: Sandbox, tmp_path: Path) -> None:
    result = shell(Sma(tmp_path, services.urls), (*RUN, "--model", "ask"), "< /dev/zero")
    assert result.code == 2
    assert "what was typed has no end" in result.err.splitlines()[-1]


def test_a_pipe_that_does_not_wait_gets_everything(waiting: tuple[Sma, str]) -> None:
    """Whoever shares it may have made it so: a full pipe is waited for."""
    sma, _ = waiting
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    process = sma.start("schema", "machine", stdout=writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        assert json.loads(pipe.read())
    assert process.wait(DEADLINE) == 0
    process.communicate()
