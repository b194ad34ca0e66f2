"""Whether a store's files are still those that were opened: one that was deleted or replaced meanwhile would swallow commits.

SQLite goes on writing into a file that has lost its name, and says nothing. It must not know what is written.
"""

from __future__ import annotations

from pathlib import Path

from statemachine_agent.errors import StoreError

#: what tells one file from another: device and inode; None where there is none
_File = tuple[int, int] | None


class Place:
    """The files of one opened store."""

    def __init__(self, path: Path) -> None:
        """The file is the one that stands at `path` now; its log is the first that is seen."""
        self._path = path.absolute()
        real = self._path.resolve()  # a log lies beside the file itself, not beside a link to it
        self._log = real.with_name(f"{real.name}-wal")
        self._file = _file(self._path)
        self._its_log: _File = None

    def check(self) -> None:
        """StoreError where a commit would be lost; asked within a transaction, when SQLite has its log open."""
        if _file(self._path) != self._file:
            raise _gone(self._path)
        log = _file(self._log)
        if self._its_log is None:
            self._its_log = log
        elif log != self._its_log:
            raise _gone(self._log)


def _file(path: Path) -> _File:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _gone(path: Path) -> StoreError:
    return StoreError(
        f"{path} was deleted or replaced while it was in use: nothing was written",
        hint="put the file back, then resume: it holds all that was committed",
        reason="store_gone",
    )
