"""Standard input, output and error of the process, whatever they were connected to when it started.

A stream that cannot be written to any more goes silent: whoever prints never learns of it, so that a task goes on working
when the reader of its progress went away. What was lost is asked once, at the end. It must not know what is written.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any


class Unfailing(io.FileIO):
    """A descriptor for writing that swallows everything after its first failure, and remembers what that was."""

    #: the first failure
    problem: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`, or nothing more from now on; the count is always that of all of it."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while self.problem is None and rest:
            try:
                written = super().write(rest)
                if written is None:  # somebody who shares the descriptor made it one that does not wait
                    select.select([], [self.fileno()], [])
                rest = rest[written or 0 :]
            except OSError as problem:
                self.problem = problem
        return size


def guard() -> Unfailing:
    """Make the three streams ones that are there and never fail; what is returned knows whether output was lost."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed when the process began
            setattr(sys, name, _nowhere(mode))
    output, error = _unfailing(sys.stdout), _unfailing(sys.stderr)
    _REPLACED.extend((sys.stdout, sys.stderr))
    sys.stdout, sys.stderr = output, error
    raw = output.buffer.raw  # type: ignore[attr-defined]
    assert isinstance(raw, Unfailing)  # noqa: S101  made in this function
    return raw


def is_lost() -> bool:
    """True where nothing that is printed arrives any more: a write failed, or whoever read a pipe has gone."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, Unfailing):
        return False
    if raw.problem is None and hasattr(select, "poll"):
        poll = select.poll()
        poll.register(raw.fileno(), 0)  # only what is always told: errors
        if any(found & select.POLLERR for _, found in poll.poll(0)):
            raw.problem = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    return raw.problem is not None


#: what Python had made of the descriptors; collected as garbage, it would close them
_REPLACED: list[Any] = []


def _unfailing(stream: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(Unfailing(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",  # a terminal that cannot show a character shows its escape
        line_buffering=stream.line_buffering,
    )


def _nowhere(mode: str) -> Any:
    """A stream to or from nowhere. It takes the number that is free, lest the next file that is opened gets that."""
    stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123  it stays open to the end
    os.set_inheritable(stream.fileno(), True)  # noqa: FBT003
    return stream
