"""Everywhere a person can reach: one clear line, a hint, the right exit code, never a traceback, and nothing lost."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from unittest import mock

import pytest

from statemachine_agent import SqliteStore
from statemachine_agent.cli.main import cli, main, run
from statemachine_agent.sandbox import Sandbox
from support import forks
from support.cli import Here, Result, Sma, free_ports, until
from support.refund import ROOT

RUN = ("run", "refund", "-i", "order_id=8472", "-i", "message=twice", "--actor", "cust-3391")


@pytest.fixture
def sma(tmp_path: Path) -> Sma:
    return Here(tmp_path)


def one_line(result: Result, code: int, *words: str) -> None:
    """Exit code, a single line on standard error with these words, and no traceback anywhere."""
    assert result.code == code, result
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("sma: ")
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in result.err + result.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("dance",), 2, ("there is no command `dance`",)),
        (("rnu", "refund"), 2, ("did you mean `run`?",)),
        (("run",), 2, ("MACHINE", "--help")),
        (("run", "refund", "--fast"), 2, ("--fast",)),
        (("run", "refnd"), 2, ("there is no machine `refnd`", "did you mean `refund`?")),
        ((*RUN, "-i", "order"), 2, ("is not KEY=VALUE",)),
        ((*RUN, "-i", "ordr_id=1"), 2, ("there is no input `ordr_id`", "did you mean `order_id`?")),
        ((*RUN, "-i", "order_id=1"), 2, ("given twice",)),
        (("run", "refund", "-i", "order_id=x", "-i", "message=m", "--actor", "cust-3391"), 2, ("order_id", "^[0-9]+$")),
        (("run", "refund", "-i", "order_id=1", "--actor", "cust-3391"), 2, ("message", "required")),
        ((*RUN[:-1], "mallory"), 1, ("nobody is called `mallory`",)),
        (RUN[:-2], 2, ("nobody was named", "--actor")),
        ((*RUN, "--model", "gpt"), 2, ("there is no model `gpt`",)),
        ((*RUN, "--model", "scripted:none.yaml"), 21, ("none.yaml", "cannot be read")),
        (("show", "task-1"), 22, ("there is no store",)),
        (("tasks", "--status", "DONE"), 2, ("there is no status `DONE`",)),
        (("tasks", "--limit", "0"), 2, ("0",)),
        (("tasks", "--db", "postgres://x"), 2, ("not built yet",)),
        (("check", "nowhere.yaml"), 2, ("nowhere.yaml is not there",)),
        (("diagram", "refund", "-o", "x.gif"), 2, ("gif",)),
        (("diagram", "refund", "-o", "/proc/nowhere/x.svg"), 2, ("cannot be written",)),
        (("resolve", "t", "k", "--why", "x"), 2, ("--found", "--absent")),
        (("resolve", "t", "k", "--why", "x", "--found", "{"), 2, ("not JSON",)),
        (("sandbox", "--fault", "bank=slow"), 2, ("SERVICE=MODE",)),
        (("--settings", "nowhere.toml", "tasks"), 2, ("nowhere.toml",)),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_words_that_are_wrong(sma: Sma, arguments: tuple[str, ...], code: int, words: tuple[str, ...]) -> None:
    """Usage, unknown names, wrong values."""
    result = sma(*arguments)
    assert result.code == code, result
    for word in words:
        assert word in result.err, result.err
    assert "Traceback" not in result.err + result.out
    assert result.err.startswith("sma: ")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("show", "t", "--json"), 22, "store"),
        (("run", "--json"), 2, "usage"),
        (("run", "refnd", "--json"), 2, "usage"),
        ((*RUN[:-1], "mallory", "--json"), 1, "unknown_person"),
    ],
)
def test_a_program_that_asked_for_json_gets_errors_as_json(
    sma: Sma, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    """One object on standard error, and nothing on standard output."""
    result = sma(*arguments)
    told = json.loads(result.err)
    assert (result.code, result.out, len(result.err.splitlines())) == (code, "", 1)
    assert told["exit_code"] == code
    assert told["reason"] == reason
    assert told["error"] and told["hint"]


def test_an_input_of_another_type_is_named_in_plain_english(sma: Sma, tmp_path: Path) -> None:
    """`an integer`, as a person writes it."""
    (tmp_path / "machines").mkdir()
    text = "machine: m\nversion: 1\nsummary: x\nlimits: {steps: 1}\ninput: {n: {type: integer}}\nsuccess: []\n"
    (tmp_path / "machines" / "m.yaml").write_text(text + "initial: A\nstates: {A: {route: SUCCEEDED}}\n")
    (tmp_path / "own.toml").write_text('identity = "asserted"\n')
    result = sma("--settings", str(tmp_path / "own.toml"), "run", "m", "-i", "n=ten", "--actor", "ann")
    one_line(result, 2, "the input `n` is an integer, and `ten` is none")


def test_an_empty_folder_is_told_what_it_lacks(sma: Sma, tmp_path: Path) -> None:
    """Neither `check` nor `run` speaks of line 1 of a folder."""
    (tmp_path / "bare.toml").touch()
    checked = sma("--settings", "bare.toml", "check")
    assert checked.code == 1
    assert "/machines: is not there" in checked.out
    assert "2 faults" in checked.out
    one_line(sma("--settings", "bare.toml", "run", "refund", "--actor", "x"), 2, "no machine is defined here")


def test_a_mode_that_a_service_does_not_have(tmp_path: Path) -> None:
    """It is refused with those that it has, for the kind of request that was meant."""
    result = Sma(tmp_path)("sandbox", "--port", str(free_ports()), "--dir", "s", "--fault", "refunds.read=refuse")
    one_line(result, 2, "no such mode on read here", "unavailable", "sma sandbox --help")


def test_a_store_that_is_none(sma: Sma, tmp_path: Path) -> None:
    """A folder, an empty file, a text, a foreign database, a newer one: nothing is changed."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.db").write_text("hello, this is no database at all, only some words" * 10)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    before = foreign.read_bytes()
    one_line(sma("tasks", "--db", "folder"), 22, "is a folder")
    one_line(sma("tasks", "--db", "text.db"), 22, "is not a SQLite database")
    one_line(sma("tasks", "--db", "foreign.db"), 22, "another program", "nothing was changed")
    assert foreign.read_bytes() == before
    (tmp_path / "empty.db").touch()
    one_line(sma("tasks", "--db", "empty.db"), 22, "no store")
    SqliteStore(tmp_path / "newer.db").__exit__()
    with sqlite3.connect(tmp_path / "newer.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    one_line(sma("tasks", "--db", "newer.db"), 22, "newer version (99")
    one_line(sma("tasks", "--db", "text.db/inside.db"), 22)


def test_a_missing_variable_is_said_before_anything_begins(sma: Sma, tmp_path: Path) -> None:
    """The settings name it, and it has no value: usage, and no task exists."""
    settings = tmp_path / "statemachine-agent.toml"
    text = (ROOT / "statemachine-agent.toml").read_text().replace('"machines"', f'"{ROOT}/machines"')
    text = text.replace('"tool_manifests"', f'"{ROOT}/tool_manifests"').replace(
        '"people.yaml"', f'"{ROOT}/people.yaml"'
    )
    settings.write_text(text.replace('REFUNDS_URL = "http://127.0.0.1:8472"', 'REFUNDS_URL = ""'))
    sma.more = {"SMA_SETTINGS": str(settings)}
    one_line(sma(*RUN, "--model", "ask"), 2, "REFUNDS_URL has no value")
    assert not sma.db.exists() or sma("tasks").out.strip() == "there is no task"


def test_broken_definitions_stop_only_those_who_need_them(sma: Sma, tmp_path: Path) -> None:
    """A broken machine is told with place and caret; the others still run."""
    machines = tmp_path / "machines"
    machines.mkdir()
    (machines / "broken.yaml").write_text("machine: broken\nversion: one\nstates: [\n")
    (machines / "refund.yaml").write_text((ROOT / "machines/refund.yaml").read_text())
    sma.more = {"SMA_MACHINES": str(machines)}
    broken = sma("run", "broken")
    assert broken.code == 21 and "broken.yaml:3:10" in broken.err and "Traceback" not in broken.err
    assert sma("diagram", "refund").code == 0
    assert sma("check").code == 1


@pytest.mark.parametrize("text", ["[tool", "identity = 7", "nonsense = 1", 'identity = "none"'])
def test_settings_that_cannot_be_used(sma: Sma, tmp_path: Path, text: str) -> None:
    """Bad TOML, wrong types, unknown names."""
    (tmp_path / "bad.toml").write_text(text)
    sma.more = {"SMA_SETTINGS": str(tmp_path / "bad.toml")}
    one_line(sma("tasks"), 2, "bad.toml")


def test_an_identity_that_is_not_yours(sma: Sma) -> None:
    """`identity = os`: one is who the operating system says."""
    sma.more = {"SMA_IDENTITY": "os"}
    one_line(sma(*RUN), 1, "not `cust-3391`")


def test_a_full_disk_loses_nothing(services: Sandbox, tmp_path: Path) -> None:
    """The step that cannot be written is done again when there is room."""
    sma = Here(tmp_path, services.urls)
    task, request = sma.propose()
    limit = "import resource,signal,sys,os; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (36000, 36000)); "
    limit += "from statemachine_agent.cli.main import main; main(sys.argv[1:])"
    full = forks.run(
        [sys.executable, "-c", limit, "approve", request, "--as", "lead@example.com"], env=sma.environ, cwd=tmp_path
    )
    assert full.returncode == 22, full
    assert "Traceback" not in full.stderr and len(full.stderr.strip().splitlines()) == 1
    assert sma.show(task)["version"] == 4
    sma.approve(request)
    assert sma("resume", task).code == 0


def test_ctrl_c_at_any_moment(services: Sandbox, tmp_path: Path) -> None:
    """At start, while importing, while waiting for a person: one line, 130, and the store opens."""
    sma, new = Here(tmp_path, services.urls), Here(tmp_path, services.urls, is_new=True)
    for way, delay in ((new, 0.0), (new, 0.1), (new, 0.3), (sma, 0.03), (sma, 0.06), (sma, 0.12)):
        worker = way.start(*RUN)
        try:
            worker.wait(delay)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGINT)
        _, err = worker.communicate(timeout=20)
        # before the command line itself begins, it is Python's own start that is interrupted
        started = "init_import_site" not in err and "Could not import runpy" not in err
        assert worker.returncode in (130, -signal.SIGINT, 3) or not started, (delay, err)
        assert "Traceback" not in err or "statemachine_agent/cli" not in err, (delay, err)
    asking = sma.start(*RUN, "--model", "ask", stdin=subprocess.PIPE)
    until(lambda: sma.tasks() and sma.is_held(), "the question")
    asking.send_signal(signal.SIGINT)
    assert asking.wait(20) == 130  # its input stays open meanwhile: it is stopped, not left
    _, err = asking.communicate()
    assert "Traceback" not in err


def test_hardly_anything_is_imported_before_ctrl_c_is_quiet() -> None:
    """Python's own start shows a traceback, and so would everything that is imported before the entry point says otherwise."""
    code = (
        "import sys; known = set(sys.modules); import statemachine_agent.cli, _signal; "
        "print(sorted(set(sys.modules) - known)); print(_signal.getsignal(_signal.SIGINT) == _signal.SIG_DFL)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )  # fmt: skip
    names, quiet = done.stdout.splitlines()
    assert names == "['__future__', 'statemachine_agent', 'statemachine_agent.cli']" and quiet == "True"


def test_ctrl_c_while_a_command_is_imported_or_told_is_quiet() -> None:
    """Python tells it as another error where a class was being made; and it may come while an error is printed."""
    stopped = RuntimeError("Error calling __set_name__")
    stopped.__cause__ = KeyboardInterrupt()
    with mock.patch.object(cli, "main", side_effect=stopped), redirect_stderr(io.StringIO()) as err:
        assert run(["tasks"]) == 130
    assert err.getvalue() == "sma: stopped\n"
    with (
        mock.patch("statemachine_agent.cli.main.run", side_effect=KeyboardInterrupt),
        mock.patch("statemachine_agent.cli.main.streams"),
        mock.patch("os._exit") as ended,
    ):
        main([])
    ended.assert_called_once_with(130)


def test_a_locale_that_is_not_utf8(services: Sandbox, tmp_path: Path) -> None:
    """What cannot be shown is shown as its escape."""
    more = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    sma = Sma(tmp_path, services.urls, more)
    waiting = sma("run", "refund", "-i", "order_id=8472", "-i", "message=doppelt ✓ বার", "--actor", "cust-3391")
    assert waiting.code == 3, waiting
    assert "Traceback" not in waiting.err
    (task,) = sma("tasks", "--json").json
    assert sma("trace", task["id"]).code == 0
    assert sma("show", task["id"], "--json").json["status"] == "AWAITING_APPROVAL"


def test_a_narrow_terminal_and_hostile_text(services: Sandbox, tmp_path: Path) -> None:
    """Forty columns, and an input that would like to paint the screen."""
    sma = Sma(tmp_path, services.urls, {"COLUMNS": "40", "TERM": "xterm"})
    bad = "\x1b[2J\x1b]0;owned\x07[bold red]twice[/]\u202e"
    result = sma("run", "refund", "-i", "order_id=8472", "-i", f"message={bad}", "--actor", "cust-3391")
    assert result.code == 3
    (task,) = sma("tasks", "--json").json
    main, other = pty.openpty()
    for arguments in (("tasks",), ("approvals",), ("show", task["id"]), ("trace", task["id"])):
        process = sma.start(*arguments, stdout=other)
        process.communicate(timeout=20)
        assert process.returncode == 0
    os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(main)
    assert b"\x1b[2J" not in shown and b"\x07" not in shown and "\u202e".encode() not in shown
    assert b"[bold red]" in shown


def test_no_terminal(sma: Sma, services: Sandbox) -> None:
    """`ask` without anybody there: one line, and no step spent."""
    other = Here(sma.folder, services.urls)
    result = other(*RUN, "--model", "ask", stdin=subprocess.DEVNULL)
    assert result.code == 2 and "nobody is there to choose" in result.err
    (task,) = other("tasks", "--json").json
    assert (task["version"], task["steps"]) == (0, 0)


def test_a_task_that_is_held(services: Sandbox, tmp_path: Path) -> None:
    """Another process works on it: exit 20, and who."""
    sma = Here(tmp_path, services.urls)
    worker = sma.start(*RUN, "--model", "ask", stdin=subprocess.PIPE)
    (task,) = until(sma.tasks, "the task")
    until(sma.is_held, "its lease")
    one_line(sma("resume", task["id"]), 20, f"process {worker.pid}")
    worker.kill()
    worker.communicate()
    assert sma("resume", task["id"], input="cannot_continue\nx\n").code == 14, "a killed owner is replaced at once"
