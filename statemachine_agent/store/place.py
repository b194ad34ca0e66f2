"""Where a store's files stand: under one name, and still those that were opened.

SQLite keeps its log and its locks beside the *name* of a file. A file that has two names would have two of each, and what is
held under one would not be seen under the other; one that has lost its name would swallow commits. SQLite says nothing of
either. It must not know what is written.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from statemachine_agent.errors import StoreError

#: what tells one file from another: device and inode; None where there is none
_File = tuple[int, int] | None

#: where Linux lists what is mounted; elsewhere there is no such file, and nothing is asked
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Place:
    """The files of one opened store."""

    def __init__(self, path: Path) -> None:
        """The file is the one that stands at `path` now; its log is the first that is seen."""
        self._path = path.absolute()
        #: the file itself, wherever links lead: its log lies beside it
        self.real = self._path.resolve()
        self._log = self.real.with_name(f"{self.real.name}-wal")
        self._file = _file(_stat(self._path))
        self._its_log: _File = None

    def check(self) -> None:
        """StoreError where a commit would be lost, or not be seen by all; asked within a transaction: the log is open."""
        _refuse_links(self._path, self.found())
        log = _file(_stat(self._log))
        if self._its_log is None:
            self._its_log = log
        elif log != self._its_log:
            raise _gone(self._log)

    def found(self) -> os.stat_result | None:
        """The file under its name; StoreError where that names another one, or none: what is read would be of yesterday."""
        found = _stat(self._path)
        if _file(found) != self._file:
            raise _gone(self._path)
        return found


def refuse_second_names(path: Path) -> None:
    """StoreError where the file at `path` can be reached under another name, which would share neither log nor locks."""
    _refuse_links(path, _stat(path))
    if os.fsencode(path.resolve()) in _mounted():
        raise StoreError(
            f"{path} is mounted by itself, and its log would not lie beside the same file elsewhere: nothing was changed",
            hint="mount the folder that holds it, and never the file alone",
            reason="second_name",
        )


def _refuse_links(path: Path, found: os.stat_result | None) -> None:
    if found is not None and found.st_nlink > 1:
        raise StoreError(
            f"{path} has more than one name (a hard link), and no lock would be seen under all of them: nothing was written",
            hint="remove the other names (`find -samefile` lists them), or name a copy of its own",
            reason="second_name",
        )


def _mounted() -> set[bytes]:
    """The points at which something is mounted."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return set()
    points = (fields[4] for line in lines if len(fields := line.split(b" ")) > 4)  # noqa: PLR2004  the fifth field
    return {_ESCAPED.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), point) for point in points}


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _file(found: os.stat_result | None) -> _File:
    return None if found is None else (found.st_dev, found.st_ino)


def _gone(path: Path) -> StoreError:
    return StoreError(
        f"{path} was deleted or replaced while it was in use: nothing was written",
        hint="put the file back, then resume: it holds all that was committed",
        reason="store_gone",
    )
