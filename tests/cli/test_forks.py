"""What the tests start instead of a new interpreter is as good as one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import forks

#: what a program finds where it starts
LOOK = """
import json, os, random, resource, signal, sys, threading, uuid
streams = [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, type(s.buffer).__name__,
           s.fileno(), s.isatty())
           for s in (sys.stdin, sys.stdout, sys.stderr)]
names = "SIGINT SIGTERM SIGPIPE SIGCHLD SIGHUP SIGXFSZ"
print(json.dumps({
    "streams": streams, "signals": [str(signal.getsignal(getattr(signal, n))) for n in names.split()],
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "argv": sys.argv, "path": sys.path[:2],
    "environ": dict(os.environ), "cwd": os.getcwd(), "open": os.listdir("/dev/fd"), "name": __name__,
    "group": os.getpgid(0), "threads": threading.active_count(), "read": sys.stdin.read(),
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "helpers": [m for m in sys.modules if m.startswith("support")],
    "chance": [os.getpid(), random.random(), uuid.uuid4().hex, id(object()) and os.urandom(4).hex()],
}))
"""


def looked(run: Any, folder: Path, **more: str) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(forks.AT_START)}
    environ = {**kept, "PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "X": "ä", **more}
    done = run([sys.executable, "-c", LOOK, "a", "b"], cwd=folder, env=environ, input="typed", check=True)
    return json.loads(done.stdout)


def real(command: list[str], **how: Any) -> Any:
    return subprocess.run(command, capture_output=True, text=True, check=how.pop("check"), **how)


def test_a_fork_finds_what_a_new_interpreter_finds(tmp_path: Path) -> None:
    """Streams, signals, folder, environment, descriptors; and chance is its own."""
    one, two, new = looked(forks.run, tmp_path), looked(forks.run, tmp_path), looked(real, tmp_path)
    chances = [found.pop("chance") for found in (one, two, new)]
    assert one == two == new
    assert all(len(set(each)) == 3 for each in zip(*chances, strict=True))


def test_its_end_is_told_as_that_of_a_child() -> None:
    def end(code: str) -> int:
        return forks.run([sys.executable, "-c", code]).returncode

    assert end("import sys; sys.exit(7)") == 7
    assert end("1/0") == 1
    assert end("import os, signal; os.kill(os.getpid(), signal.SIGTERM)") == -signal.SIGTERM
    waiting = forks.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.01)
    assert waiting.poll() is None
    waiting.kill()
    waiting.communicate()
    assert waiting.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(waiting.pid, 0)


def test_descriptors_are_passed_under_their_numbers() -> None:
    reading, writing = os.pipe()
    try:
        code = f"import os; os.write({writing}, b'x')"
        assert forks.run([sys.executable, "-c", code], pass_fds=[writing]).returncode == 0
        assert forks.run([sys.executable, "-c", code]).returncode == 1
        assert os.read(reading, 2) == b"x"
    finally:
        os.close(reading)
        os.close(writing)


def test_what_an_interpreter_reads_when_it_starts_gets_a_new_one(tmp_path: Path) -> None:
    assert looked(forks.run, tmp_path, PYTHONIOENCODING="latin-1:replace")["streams"][1][2:4] == [
        "iso8859-1",
        "replace",
    ]
