"""Who there is now: the people file is read again when it has changed, so that whoever was taken out loses their say at once.

A file that is broken or gone lets nobody through. It must not know what anybody may do.
"""

from __future__ import annotations

from pathlib import Path

from statemachine_agent.definition import node
from statemachine_agent.definition.people import People
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.errors import SettingsError

#: what tells one content of a file from the next: when it was written, its size, which file it is
_Stamp = tuple[int, int, int]


class Roster:
    """The people of a long-lived process; `now()` gives them as the file has them."""

    def __init__(self, known: People | None, path: Path | None = None) -> None:
        """`known` are those that were read with the definitions; without `path` they stay."""
        self._known = known or People(people={})
        self._path = path
        self._stamp = self._stamped() if path is not None else None

    def now(self) -> People:
        """Everybody, as of now; SettingsError where the file cannot be read: then nobody is known to be anybody."""
        if self._path is not None and (stamp := self._stamped()) != self._stamp:
            self._known = self._read(self._path)
            self._stamp = stamp
        return self._known

    def _stamped(self) -> _Stamp | None:
        assert self._path is not None  # noqa: S101  asked only where there is a file
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    @staticmethod
    def _read(path: Path) -> People:
        source, faults = read_text(path)
        if not faults:
            document = read(source)
            people = node.validate(document, People)
            faults = document.faults
            if people is not None and not faults:
                return people
        raise SettingsError(
            f"the people file cannot be used any more: {faults[0].message}",
            hint=f"mend {path}, then `sma resume`; until then nobody is entitled to anything",
        )
