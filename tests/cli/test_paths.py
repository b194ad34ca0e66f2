"""Paths and words that a person can give and nobody has in mind: pipes, devices, names that no file can have, line breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statemachine_agent.sandbox import Sandbox
from support.cli import DEADLINE, Here, Result, Sma
from support.refund import ROOT

RUN = ("run", "refund", "-i", "order_id=8472", "-i", "message=twice", "--actor", "cust-3391")
LONG = "d/" * 2500 + "x.yaml"
WIDE = "n" * 300 + ".yaml"


@pytest.fixture
def sma(tmp_path: Path) -> Sma:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    return Here(tmp_path)


def one_line(result: Result, code: int, *words: str) -> None:
    assert result.code == code, result
    (line,) = result.err.splitlines()
    assert line.startswith("sma: ") and line.isprintable(), line
    assert len(line) < 1300
    for word in words:
        assert word in line


#: what is no file to read, and what is said of it
NO_FILES = {
    "pipe": "is a pipe, and no file",
    "zero": "is a device, and no file",
    LONG: "File name too long",
    WIDE: "File name too long",
}


@pytest.mark.parametrize(("path", "words"), NO_FILES.items(), ids=["pipe", "device", "long path", "long name"])
def test_what_is_no_file_is_refused_wherever_a_file_is_named(sma: Sma, path: str, words: str) -> None:
    """Without waiting for a pipe's other end, and without reading a device to its end."""
    one_line(sma("check", path), 2, words)
    one_line(sma("tasks", "--db", path), 22, words)
    one_line(sma(*RUN, "--db", path, "--model", "ask"), 22, words)
    one_line(sma("--settings", path, "tasks"), 2, words)
    one_line(Here(sma.folder, more={"SMA_SETTINGS": path})("tasks"), 2, words)
    script = sma(*RUN, "--model", f"scripted:{path}")
    assert script.code == 21 and words in script.err, script
    for name in ("SMA_MACHINES", "SMA_PEOPLE"):
        here = Here(sma.folder, more={name: str(sma.folder / path)})
        checked = here("check")
        assert (checked.code, checked.err) == (1, "") and words in checked.out, checked
        ran = here(*RUN)
        assert ran.code == (21 if name == "SMA_PEOPLE" else 2) and "Traceback" not in ran.err, ran


def test_settings_that_are_found_and_are_no_file(sma: Sma) -> None:
    (sma.folder / "statemachine-agent.toml").symlink_to("pipe")
    one_line(Here(sma.folder, more={"SMA_SETTINGS": ""})("config"), 2, "is a pipe, and no file")


def test_a_folder_is_no_file_and_the_whole_disk_no_project(sma: Sma) -> None:
    one_line(sma("--settings", "folder", "tasks"), 2, "is a folder")
    one_line(sma("tasks", "--db", "folder"), 22, "is a folder")
    assert "is a folder" in sma(*RUN, "--model", "scripted:folder").err
    for number in range(21):
        (sma.folder / "folder" / str(number)).mkdir()
        for name in range(1000):
            (sma.folder / "folder" / str(number) / str(name)).symlink_to("nowhere")
    one_line(sma("check", "folder"), 2, "holds more than 20,000 files")


def test_a_python_tool_that_is_a_pipe_is_not_imported(sma: Sma) -> None:
    """Python itself looks for plain files only: nothing waits, and the tool is said not to be there."""
    (sma.folder / "shop.py").symlink_to("pipe")
    code = "import sys; sys.path.insert(0, '.'); import shop"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=sma.folder, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert "No module named 'shop'" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 10_000, "nested too deeply"),
        ("a = " + "{b=" * 10_000, "nested too deeply"),
        ("a = " + "9" * 10_000, "is not valid TOML"),
        ("a = 1979-13-40", "is not valid TOML"),
        ("#" * 1_000_001, "is too large (1,000,001 bytes)"),
        ('db = "a\\u0000b"', "holds a zero byte"),
        ('machines = ["a\\u0000b"]', "holds a zero byte"),
    ],
    ids=["brackets", "braces", "digits", "date", "size", "store", "machines"],
)
def test_settings_that_break_what_reads_them(sma: Sma, text: str, words: str) -> None:
    (sma.folder / "statemachine-agent.toml").write_text(text)
    here = Here(sma.folder, more={"SMA_SETTINGS": "statemachine-agent.toml", "SMA_DB": ""})
    one_line(here("check" if "machines" in text else "tasks"), 2, "statemachine-agent.toml", words)


def test_a_current_folder_that_was_deleted(services: Sandbox, tmp_path: Path) -> None:
    """What needs it says so; what was named in full is used."""
    gone = tmp_path / "gone"
    sma = Sma(tmp_path, services.urls)

    def from_there(*arguments: str, **more: str) -> Result:
        gone.mkdir()
        line = f'rmdir {gone}; exec {sys.executable} -m statemachine_agent "$@"'
        done = subprocess.run(
            ["bash", "-c", line, "sma", *arguments], cwd=gone, env={**sma.environ, "PYTHONPATH": str(ROOT), **more},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * DEADLINE, check=False,
        )  # fmt: skip
        return Result(done.returncode, done.stdout, done.stderr)

    one_line(from_there("tasks", SMA_SETTINGS=""), 2, "the current folder cannot be used: No such file or directory")
    one_line(from_there(*RUN, "--db", "x.db"), 22, "x.db")
    one_line(from_there("diagram", "refund", "-o", "x.svg"), 2, "x.svg cannot be written")
    assert from_there(*RUN).code == 3
    assert from_there("tasks").code == 0


HOSTILE = "a\nb\rc\x1b[2J\x07\u202e\u2028d"


@pytest.mark.parametrize(
    "arguments",
    [
        (HOSTILE,),
        ("run", HOSTILE),
        ("run", "refund", f"--{HOSTILE}"),
        ("run", "refund", "-i", HOSTILE),
        ("run", "refund", "-i", f"{HOSTILE}=1"),
        (*RUN[:-1], HOSTILE),
        (*RUN, "--model", HOSTILE),
        ("show", HOSTILE),
        ("tasks", "--status", HOSTILE),
        ("tasks", "--limit", HOSTILE),
        ("tasks", "--db", HOSTILE),
        ("tasks", "--db", f"pipe/{HOSTILE}"),
        ("check", HOSTILE),
        ("--settings", HOSTILE, "tasks"),
        ("schema", HOSTILE),
        ("diagram", "refund", "-o", f"pipe/{HOSTILE}"),
        ("sandbox", "--fault", HOSTILE),
        ("sandbox", "--dir", f"pipe/{HOSTILE}"),
        ("token", "x", "--lasts", HOSTILE),
        ("demo", "--dir", f"pipe/{HOSTILE}"),
    ],
    ids=lambda value: " ".join(value).replace(HOSTILE, "…")[:40],
)
def test_an_error_is_one_line_whatever_it_quotes(sma: Sma, arguments: tuple[str, ...]) -> None:
    result = sma(*arguments)
    assert result.code not in (0, 70)
    one_line(result, result.code)


def test_a_report_keeps_its_lines_and_a_name_of_a_file_adds_none(sma: Sma) -> None:
    (sma.folder / "a\nb\x1b.yaml").write_text("machine: [\n")
    result = sma(*RUN, "--model", "scripted:a\nb\x1b.yaml")
    assert result.code == 21
    assert all(line.isprintable() for line in result.err.splitlines())
    assert "\na\\x0ab\\x1b.yaml:1:11: " in result.err


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ("http://127.0.0.1:9", "${PAYMENTS_URL} (127.0.0.1:9)", "All connection attempts failed"),
        ("http://me:secret@127.0.0.1:9/x", "${PAYMENTS_URL} (127.0.0.1:9)", "a name of a user stands before the host"),
        ("http://nowhere.invalid", "${PAYMENTS_URL} (nowhere.invalid)", "is not in the list"),
    ],
    ids=["refused", "with a password", "another host"],
)
def test_a_service_that_is_not_where_the_settings_say_is_named(sma: Sma, value: str, place: str, words: str) -> None:
    """In what the model is told, in the history, and in the last lines of `run` and `show`: which setting, and where it leads."""
    urls = dict.fromkeys(("PAYMENTS_URL", "REFUNDS_URL", "POLICY_URL", "NOTIFICATIONS_URL"), value)
    here = Here(sma.folder, urls)
    ran = here(*RUN)
    assert ran.code in (13, 14), ran
    last = "\n".join(ran.out.splitlines()[-2:])
    assert words in last and place.partition("PAY")[0] in last and place.partition("_URL}")[2] in last
    assert "secret" not in ran.out
    (task,) = here.tasks()
    assert words in here("show", task["id"]).out
    details = [line["detail"] for line in here.trace(task["id"]) if line["kind"] == "call"]
    assert details[0].startswith(f"{place}: ") and words in details[0]
