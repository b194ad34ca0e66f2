"""A Python that has imported everything and turns into the programs it is asked for: the other half of `support.forks`.

Usage: `python -P -m support.fork_server SOCKET FD MODULE …`: where it listens, one end of a socket pair at whose other end
somebody must be, and what to import beside the package. For each order it forks. The fork gets the asked environment, folder
and descriptors, leaves the loop below and goes on as `python -m MODULE`, `python -c CODE` or `python SCRIPT` would, to the
interpreter's own end. Nothing here is compiled, opened, drawn at random or run in a thread before the fork, so that nothing is
shared. It must not know what is run.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

#: what is not imported beforehand: it runs when it is imported, is run as a main program, or belongs to pytest
_NOT = ("statemachine_agent.__main__", "statemachine_agent.sandbox.serve", "statemachine_agent.testing")
_MORE = ("sqlite_utils", "graphviz", "asyncio.runners", "concurrent.futures.thread", "http.server")
#: at most so many descriptors come with an order
FDS = 16
_HIGH = 200


def prepare(more: Sequence[str]) -> None:
    """Import the package and what it imports when it is used."""
    package = importlib.import_module("statemachine_agent")
    for found in pkgutil.walk_packages(package.__path__, "statemachine_agent."):
        if not found.name.startswith(_NOT):
            importlib.import_module(found.name)
    for name in (*_MORE, *more):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork would miss the threads"
    gc.collect()
    gc.freeze()


class Server:
    """Takes orders until nobody is there any more, and tells each asker how its process ended."""

    def __init__(self, place: str, life: int) -> None:
        self.lives = {life}  # at the other end of each is somebody who may still ask
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(place)
        listener.listen(64)
        self.listener = listener
        self.askers: dict[int, int] = {}  # process → where its end is told
        self.watched: dict[int, int] = {}  # the same the other way round, of those that end with who asked
        self.woken, wakes = os.pipe()
        for descriptor in (self.woken, wakes):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def serve(self) -> tuple[Mapping[str, Any], list[int]] | None:
        """Return an order with its descriptors, in a new process that is to carry it out; nothing, when all is over."""
        while True:
            ready, _, _ = select.select([self.listener, *self.lives, self.woken, *self.watched], [], [])
            for life in self.lives & set(ready):
                self.lives.remove(life)
                os.close(life)
            if not self.lives:
                return None
            for asker in self.watched.keys() & set(ready):
                os.kill(self.watched.pop(asker), signal.SIGKILL)
            if self.woken in ready:
                os.read(self.woken, 4096)
                self._bury()
            if self.listener in ready:
                asker, _ = self.listener.accept()
                received = _received(asker)
                if received is None:
                    continue
                order, descriptors = received
                if order["kind"] == "stay":
                    life = asker.detach()
                    self.lives.add(life)
                    os.write(life, b"ready")
                    continue
                # A signal that comes before the new process is what it shall be waits until then.
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                process = os.fork()
                if process == 0:
                    self.listener.detach()  # closed by its number, which a file may get that is opened later
                    asker.detach()
                    return {**order, "mask": mask}, descriptors
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                for descriptor in descriptors:
                    os.close(descriptor)
                self.askers[process] = asker.detach()
                if order["ends_with_asker"]:
                    self.watched[self.askers[process]] = process
                _tell(self.askers[process], process)

    def _bury(self) -> None:
        while self.askers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            asker = self.askers.pop(process)
            self.watched.pop(asker, None)
            _tell(asker, status)
            os.close(asker)


def _tell(asker: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody wants to know any more
        os.write(asker, number.to_bytes(8, "big"))


def _received(asker: socket.socket) -> tuple[Mapping[str, Any], list[int]] | None:
    head, descriptors, _, _ = socket.recv_fds(asker, 4, FDS)
    if not head:
        return None
    body = asker.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return json.loads(body), descriptors


def become(order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Make this process what `exec` would have made of it, except for what is imported already."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN if order["ignores_ctrl_c"] else signal.default_int_handler)
    _place(descriptors, [0, 1, 2, *order["pass_fds"]])
    if order["new_session"]:
        os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    time.tzset()
    sys.argv[:] = order["argv"]
    for own in (name for name in list(sys.modules) if name.split(".")[0] == "support"):
        del sys.modules[own]
    sys.path[: order["own"]] = order["path"]
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr)
    signal.pthread_sigmask(signal.SIG_SETMASK, order["mask"])


def _place(have: Sequence[int], want: Sequence[int]) -> None:
    """Give each descriptor the number it shall have, and close all others."""
    first = max([*have, *want, _HIGH]) + 1  # out of the way of the numbers that are wanted
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, first) for descriptor in have]
    for descriptor, number in zip(moved, want, strict=True):
        os.dup2(descriptor, number)
    kept = sorted({0, 1, 2, *want})
    for low, high in pairwise([*kept, max(moved) + 1]):
        if low + 1 < high:  # the other way round it would close everything
            os.closerange(low + 1, high)


def _stream(descriptor: int, mode: str, like: Any) -> io.TextIOWrapper:
    """A standard stream, as an interpreter makes it when it starts."""
    raw = io.FileIO(descriptor, mode, closefd=False)
    is_terminal = raw.isatty()
    raw.name = like.name
    is_raw = isinstance(like.buffer, io.RawIOBase)  # PYTHONUNBUFFERED
    buffer: Any = raw if is_raw else io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    stream = io.TextIOWrapper(
        buffer,
        like.encoding,
        like.errors,
        newline=None if mode == "r" else "\n",
        line_buffering=(is_terminal or descriptor == 2) and not like.write_through,
        write_through=like.write_through,
    )
    stream.mode = mode
    return stream


def main(place: str, life: str, *more: str) -> None:
    """Serve; each fork comes out of it with what it is to run."""
    ignores = signal.signal(signal.SIGINT, signal.SIG_IGN) is signal.SIG_IGN  # Ctrl-C is for those who run something
    own = len(os.environ["PYTHONPATH"].split(os.pathsep))  # of `sys.path`, at its beginning
    prepare(more)
    server = Server(place, int(life))
    os.write(int(life), b"ready")
    served = server.serve()
    if served is None:
        os._exit(0)
    order, descriptors = served
    become({**order, "ignores_ctrl_c": ignores, "own": own}, descriptors)
    match order["kind"]:
        case "-m":
            runpy.run_module(order["what"], run_name="__main__", alter_sys=True)
        case "-c":
            sys.modules["__main__"] = type(sys)("__main__")
            exec(compile(order["what"], "<string>", "exec"), sys.modules["__main__"].__dict__)  # noqa: S102
        case _:
            runpy.run_path(order["what"], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
