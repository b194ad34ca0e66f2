"""One line that a person types, or that somebody pipes in for them: its text, or why it is none.

It must not know what was asked.
"""

from __future__ import annotations

import sys
from typing import BinaryIO

from statemachine_agent.errors import UsageError

#: bytes of a line, at most
LONGEST = 1_000_000
#: so much more is passed over to find the end of a line that is too long; a device, or a file of zeros, has none
_PATIENCE = 16 * LONGEST


class UnreadableLineError(UsageError):
    """What was typed is no text, or too long; the next line can be read."""

    reason = "unreadable_line"


def typed_line() -> str:
    """The next line of standard input with its end, empty where there is none.

    UnreadableLineError where the line is no text or too long, and UsageError where it has no end at all.
    """
    binary: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    if binary is None:  # somebody has put a text in place of the stream
        return sys.stdin.readline() if sys.stdin is not None else ""
    line = binary.readline(LONGEST + 1)
    if len(line) > LONGEST and not line.endswith(b"\n"):
        _pass_over(binary)
        raise UnreadableLineError(f"what was typed is longer than {LONGEST:,} bytes", hint="type one line an answer")
    try:
        return line.decode(sys.stdin.encoding or "utf-8")
    except UnicodeDecodeError:
        raise UnreadableLineError("what was typed is no text", hint="check the encoding of the terminal") from None


def _pass_over(binary: BinaryIO) -> None:
    """Read to the end of the line."""
    for _ in range(_PATIENCE // LONGEST):
        rest = binary.readline(LONGEST)
        if not rest or rest.endswith(b"\n"):
            return
    raise UsageError(f"what was typed has no end within {_PATIENCE:,} bytes", hint="type one line an answer")
