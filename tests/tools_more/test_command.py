"""Programs as tools: real processes, and everything that a value, a program or a clock can try."""

from __future__ import annotations

import asyncio
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from unit.tools.making import on_loop, outcome_of

from statemachine_agent import Environment, SimulatedEnvironment
from statemachine_agent.cli.main import run
from statemachine_agent.definition.bindings import MOST_OF_A_CALL, MOST_OF_A_VALUE
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.settings import load_project
from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.request import Reach

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are started on POSIX systems only")

#: what every program of these tests begins with; it needs no environment
HEAD = f"#!{sys.executable} -IS\nimport json, os, sys, time\n"
SAY = 'print(json.dumps({"value": sys.argv[1:]}))'


class Programs:
    """A folder of programs, all of them in the list."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listed: dict[str, str] = {}

    def add(self, text: str, name: str = "program") -> str:
        path = self.folder / name
        path.write_text(HEAD + text + "\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.listed[str(path)] = str(path)
        return str(path)

    @property
    def reach(self) -> Reach:
        return Reach(programs=self.listed, environ={})


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def tool(*words: str, effect: str = "read", **changes: Any) -> ToolManifest:
    given: dict[str, Any] = {
        "tool": "run_it", "version": 1, "summary": "Runs.", "effect": effect, "source": "a-program",
        "binding": {"command": list(words)}, "args": {"text": {"type": "string"}},
        "returns": {"value": {"type": "array", "items": {"type": "string"}}}, "timeout": "20s",
    }  # fmt: skip
    if effect == "write":
        given |= {"idempotency": {"key": "w:{text}", "replay": True}, "approval": [], "retry": {"unsent": 3}}
    return ToolManifest.model_validate({**given, **changes})


async def called(programs: Programs, manifest: ToolManifest, **args: Any) -> Any:
    return await outcome_of(
        manifest, args, programs.reach, clock=Environment(), key=None if manifest.is_read else "w:k"
    )


def is_alive(pid: int) -> bool:
    """True while the process does anything."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    return False


def so_far(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def written(path: Path) -> str:
    for _ in range(500):
        if (text := so_far(path)).endswith("\n"):
            return text
        await asyncio.sleep(0.01)
    raise AssertionError(path)


# ---------------------------------------------------------------- what a program is given


@on_loop
async def test_a_value_fills_one_word_whatever_it_holds(programs: Programs) -> None:
    """No shell reads it."""
    text = "a b'\"; touch x $(id) `id` * ~ ${HOME} \\ | & > \n é"
    found = await called(programs, tool(programs.add(SAY), "--text={text}", "{text}", "as it is"), text=text)
    assert isinstance(found, Ok), found
    assert found.payload == {"value": [f"--text={text}", text, "as it is"]}


@on_loop
async def test_it_has_no_environment_no_input_and_no_files_of_ours(programs: Programs) -> None:
    program = programs.add(
        "fds = [n for n in os.listdir('/proc/self/fd') if int(n) > 2] if os.path.isdir('/proc/self/fd') else []\n"
        "seen = [sorted(os.environ), sys.stdin.read(), os.getcwd(), len(fds), os.getpgid(0) == os.getpid()]\n"
        'print(json.dumps({"value": [str(one) for one in seen]}))'
    )
    found = await called(programs, tool(program, args={}))
    assert isinstance(found, Ok), found
    names, read, folder, files, leads = found.payload["value"]
    assert set(names.strip("[]").replace("'", "").split(", ")) <= {"", "LC_CTYPE"}, "Python itself may set its locale"
    assert (read, folder, leads) == ("", "/", "True")
    assert int(files) <= 1, "the listing itself is one"


@on_loop
async def test_an_optional_argument_is_left_away_and_the_key_is_told(programs: Programs) -> None:
    args = {"text": {"type": "string"}, "n": {"type": "integer", "optional": True}}
    manifest = tool(programs.add(SAY), "{text}", "--n={n}", "--key={call.key}", effect="write", args=args)
    found = await called(programs, manifest, text="a")
    assert isinstance(found, Ok) and found.payload == {"value": ["a", "--key=w:k"]}
    found = await called(programs, manifest, text="a", n=-3)
    assert isinstance(found, Ok) and found.payload == {"value": ["a", "--n=-3", "--key=w:k"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-rf", "begins with `-`"),
        ("--exec=rm", "begins with `-`"),
        ("-", "begins with `-`"),
        ("a\0b", "holds a zero byte"),
        ("x" * (MOST_OF_A_VALUE + 1), f"more than {MOST_OF_A_VALUE}"),
        ("é" * (MOST_OF_A_VALUE // 2 + 1), f"more than {MOST_OF_A_VALUE}"),
        ("\ud800", "UTF-8"),
    ],
)
@on_loop
async def test_a_value_that_can_be_no_word_is_refused_before_anything_starts(
    programs: Programs, text: str, told: str
) -> None:
    mark = programs.folder / "started"
    program = programs.add(f"open({str(mark)!r}, 'w').close()\n{SAY}")
    found = await called(programs, tool(program, "{text}", effect="write"), text=text)
    assert isinstance(found, Blocked) and found.reason == "invalid_argument", found
    assert told in found.detail
    read = await called(programs, tool(program, "{text}"), text=text)
    assert isinstance(read, Failed) and not read.retryable
    assert not mark.exists()


@on_loop
async def test_a_value_behind_an_option_may_begin_as_it_likes(programs: Programs) -> None:
    found = await called(programs, tool(programs.add(SAY), "--text={text}"), text="--text=-x")
    assert isinstance(found, Ok) and found.payload == {"value": ["--text=--text=-x"]}


@on_loop
async def test_all_words_together_have_a_bound(programs: Programs) -> None:
    names = [f"t{number}" for number in range(MOST_OF_A_CALL // MOST_OF_A_VALUE)]
    manifest = tool(programs.add(SAY), *(f"{{{n}}}" for n in names), args={n: {"type": "string"} for n in names})
    found = await called(programs, manifest, **dict.fromkeys(names, "x" * MOST_OF_A_VALUE))
    assert isinstance(found, Failed) and f"more than {MOST_OF_A_CALL}" in found.detail


# ---------------------------------------------------------------- which programs


@pytest.mark.parametrize("name", ["ls", "/bin/ls", "./program", "../program", "/usr/bin/env", ""])
@on_loop
async def test_a_program_that_is_not_in_the_list_is_not_started(programs: Programs, name: str) -> None:
    """There is no search in PATH, and no other spelling of one that is listed."""
    programs.add(SAY)
    found = await called(programs, tool(name or f"{programs.folder}/./program", args={}, effect="write"))
    assert isinstance(found, Blocked) and found.reason == "not_configured"
    assert "is not in the list" in found.detail


@pytest.mark.parametrize("kind", ["gone", "no_rights", "a_folder", "no_program"])
@on_loop
async def test_a_program_that_cannot_be_started_was_not_sent(programs: Programs, kind: str) -> None:
    program = programs.add(SAY)
    spoil(Path(program), kind)
    found = await called(programs, tool(program, "{text}", effect="write"), text="a")
    assert isinstance(found, Blocked) and found.reason == "not_configured", found
    assert program in found.detail


def spoil(path: Path, kind: str) -> None:
    if kind == "no_program":
        path.write_bytes(b"\x7fELF nothing that runs")
    elif kind == "no_rights":
        path.chmod(0o600)
    else:
        path.unlink()
    if kind == "a_folder":
        path.mkdir()


@pytest.mark.parametrize(
    "words",
    [
        ["/bin/sh", "-c", "{text}"],
        ["bash", "{text}"],
        ["/opt/{text}"],
        ["/bin/x", "a{text}"],
        ["/bin/x", "{text}{text}"],
        ["/bin/x", "{text"],
        ["/bin/x", "${HOME}"],
        ["/bin/x", "--={text}"],
        ["/bin/x", "--a={text}b"],
        ["/bin/x", "{call.request}"],
        ["/bin/x", ""],
        [],
    ],
)
def test_words_that_a_value_could_change_do_not_load(words: list[str]) -> None:
    with pytest.raises(ValidationError):
        tool(*words)


# ---------------------------------------------------------------- what it says, and how it ends


@pytest.mark.parametrize(
    ("text", "error_class", "told"),
    [
        ("sys.stderr.write('no\\x1b such order'); sys.exit(3)", "exception", r"ended with 3: no\x1b such order"),
        (f"{SAY}; sys.exit(1)", "exception", "ended with 1"),
        (f"{SAY}; sys.stdout.flush(); os.kill(os.getpid(), 9)", "exception", "ended by signal 9"),
        ("print('no json')", "bad_result", "is not JSON: no json"),
        ("", "bad_result", "is not JSON: it said nothing"),
        ("print('[1]')", "bad_result", "no object"),
        ("print('{}{}')", "bad_result", "is not JSON"),
        ('print(\'{"value": [], "value": []}\')', "bad_result", "is not JSON"),
        ('print(json.dumps({"value": "x"}))', "bad_result", "does not fit"),
        ("os.write(1, b'\\xff\\xfe')", "bad_result", "is not JSON"),
        ("raise SystemExit(256 + 7)", "exception", "ended with 7"),
    ],
)
@on_loop
async def test_anything_but_an_object_and_a_clean_end_is_no_answer(
    programs: Programs, text: str, error_class: str, told: str
) -> None:
    """Of a write it is unknown: it ran, and may have done its work. It is not run a second time."""
    count = programs.folder / "runs"
    program = programs.add(f"open({str(count)!r}, 'a').write('x')\n{text}")
    write = await called(programs, tool(program, effect="write", args={}, idempotency={"key": "w", "replay": True}))
    assert isinstance(write, Unknown) and write.error_class == error_class, write
    assert told in write.detail
    assert count.read_text() == "x"
    read = await called(programs, tool(program, args={}))
    assert isinstance(read, Failed) and read.error_class == error_class


@on_loop
async def test_a_read_that_says_too_much_is_ended_and_a_write_is_heard_out(programs: Programs) -> None:
    mark = programs.folder / "done"
    program = programs.add(
        "for _ in range(3000):\n    os.write(1, b'x' * 1000)\n    os.write(2, b'y' * 1000)\n"
        f"open({str(mark)!r}, 'w').close()"
    )
    read = await called(programs, tool(program, args={}, max_bytes=1000))
    assert isinstance(read, Failed) and read.error_class == "too_large"
    assert not mark.exists()
    key = {"key": "w", "replay": True}
    write = await called(programs, tool(program, args={}, effect="write", max_bytes=1000, idempotency=key))
    assert isinstance(write, Unknown) and write.error_class == "bad_result"
    assert mark.exists()


@on_loop
async def test_endless_output_is_bounded(programs: Programs) -> None:
    program = programs.add("while True: os.write(1, b'x' * 65536)")
    found = await called(programs, tool(program, args={}))
    assert isinstance(found, Failed) and found.error_class == "too_large"


# ---------------------------------------------------------------- time


FAMILY = """
import subprocess
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"])
with open({path!r}, "w") as file: file.write(f"{{os.getpid()}} {{child.pid}}\\n")
{then}
"""


@pytest.mark.parametrize("ignores", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
@on_loop
async def test_on_a_timeout_the_program_and_its_children_are_killed(programs: Programs, ignores: str) -> None:
    path = programs.folder / "pids"
    program = programs.add(ignores + FAMILY.format(path=str(path), then="time.sleep(60)"))
    write = tool(program, args={}, effect="write", timeout="1500ms", idempotency={"key": "w", "replay": True})
    found = await called(programs, write)
    assert isinstance(found, Unknown) and found.error_class == "timeout", found
    pids = [int(word) for word in (await written(path)).split()]
    assert len(pids) == 2
    for _ in range(200):
        if not any(map(is_alive, pids)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError([pid for pid in pids if is_alive(pid)])


@on_loop
async def test_children_that_stay_behind_are_ended_and_not_waited_for(programs: Programs) -> None:
    """One that holds the output open holds nobody up."""
    path = programs.folder / "pids"
    program = programs.add(FAMILY.format(path=str(path), then=SAY))
    found = await called(programs, tool(program, args={}))
    assert isinstance(found, Ok), found
    _, child = map(int, (await written(path)).split())
    for _ in range(200):
        if not is_alive(child):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(child)


@on_loop
async def test_a_call_that_is_cancelled_leaves_no_program(programs: Programs) -> None:
    path = programs.folder / "pids"
    program = programs.add(FAMILY.format(path=str(path), then="time.sleep(60)"))
    call = asyncio.ensure_future(called(programs, tool(program, args={})))
    pids = [int(word) for word in (await written(path)).split()]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    for _ in range(200):
        if not any(map(is_alive, pids)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(pids)


def test_simulated_time_stands_still_while_a_program_runs(programs: Programs) -> None:
    environment = SimulatedEnvironment()
    manifest = tool(programs.add(f"time.sleep(0.3)\n{SAY}"), "{text}", timeout="100ms")
    found = environment.run(outcome_of(manifest, {"text": "a"}, programs.reach, clock=environment))
    assert isinstance(found, Ok), found


# ---------------------------------------------------------------- the settings


def test_the_settings_say_where_programs_lie_and_check_tells_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "statemachine-agent.toml").write_text('commands = ["tools/lend", "/bin/x", "ls"]\n')
    assert load_project(tmp_path, {}).programs == {"tools/lend": f"{tmp_path}/tools/lend", "/bin/x": "/bin/x"}
    assert load_project(tmp_path, {"SMA_COMMANDS": "/bin/a:b/c"}).programs == {
        "/bin/a": "/bin/a",
        "b/c": f"{tmp_path}/b/c",
    }
    (tmp_path / "tool_manifests").mkdir()
    (tmp_path / "machines").mkdir()
    for name, program in (("one", "/bin/x"), ("two", "/bin/y"), ("three", "ls")):
        (tmp_path / "tool_manifests" / f"{name}.yaml").write_text(
            f"tool: {name}\nversion: 1\nsummary: S.\neffect: read\nsource: s\n"
            f"binding: {{command: [{program}]}}\nreturns: {{y: {{type: string}}}}\n"
        )
    monkeypatch.chdir(tmp_path)
    assert run(["check"]) == 0
    out = capsys.readouterr().out
    assert "two.yaml:6:21: warning: `/bin/y` is no program that tools may start" in out
    assert "add `/bin/y` to `commands` in the settings" in out
    assert "three.yaml:6:21: warning: `ls` is no program that tools may start" in out and "write its path" in out
    assert "one.yaml" not in out
