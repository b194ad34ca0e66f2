"""What stands at a path that somebody named, and its bytes: only plain files are read, and only so much of them.

A pipe would be waited for, a device never ends, and a path can be one that no file can have: each is refused with a
reason. It must not know what a file is for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path

from statemachine_agent.errors import UsageError

MAX_ENTRIES = 20_000
#: what `look` says where nothing stands
ABSENT = "is not there"


class Kind(Enum):
    """What can stand at a path."""

    FILE = auto()
    FOLDER = auto()
    OTHER = auto()  #: a pipe, a device, a socket
    NOTHING = auto()  #: or nothing that can be reached


class UnreadableError(Exception):
    """A file cannot be read; `reason` is the end of a sentence about it."""

    def __init__(self, reason: str, advice: str = "name a file that can be read") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


def look(path: Path) -> tuple[Kind, str]:
    """What stands at `path`, and what there is to say of it where that is no file; never an exception."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Kind.NOTHING, ABSENT
    except (OSError, ValueError) as problem:
        return Kind.NOTHING, f"cannot be read: {why(problem)}"
    if stat.S_ISREG(mode):
        return Kind.FILE, ""
    if stat.S_ISDIR(mode):
        return Kind.FOLDER, "is a folder"
    names = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return Kind.OTHER, f"is a {names.get(stat.S_IFMT(mode), 'device')}, and no file"


def is_absent(path: Path) -> bool:
    """True where nothing stands at `path`; what cannot be reached may be there."""
    return look(path) == (Kind.NOTHING, ABSENT)


def why(problem: OSError | ValueError) -> str:
    """The reason that the operating system gives, or Python for it."""
    return (problem.strerror if isinstance(problem, OSError) else str(problem)) or type(problem).__name__


def read_bytes(path: Path, limit: int) -> bytes:
    """The bytes of the plain file at `path`, at most `limit`; UnreadableError otherwise."""
    kind, reason = look(path)
    if kind in (Kind.FOLDER, Kind.OTHER):
        raise UnreadableError(reason)
    try:
        with path.open("rb") as file:
            found = file.read(limit + 1)  # not by its size: some files say 0, and others grow
    except (OSError, ValueError) as problem:
        raise UnreadableError(f"cannot be read: {why(problem)}") from None
    if len(found) > limit:
        size = max(path.stat().st_size, len(found))
        raise UnreadableError(f"is too large ({size:,} bytes)", f"it may have {limit:,} bytes; split it")
    return found


def below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The plain files in `folder`, and in the folders inside, that end so; UsageError where there is too much to look at."""
    found: list[Path] = []
    for number, path in enumerate(_walk(folder)):
        if number >= MAX_ENTRIES:
            raise UsageError(
                f"{folder} holds more than {MAX_ENTRIES:,} files", hint="name the folder of the definitions"
            )
        if path.suffix in suffixes and path.is_file():
            found.append(path)
    return sorted(found)


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):  # what may not be looked into is passed over
        yield from (Path(place, name) for name in (*folders, *names))
