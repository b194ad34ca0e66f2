"""What a worker hears of a reply, put beside the store for as long as the decision takes, for a watcher in another process.

A file for each task, `<store>.live/<task>.jsonl`: for eyes only, no part of the store, bounded, readable by its owner alone, and
gone when the decision is recorded. Whoever reads it expects nothing of it: it may be absent, old, cut or garbage. It must
not know how a piece is shown.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemachine_agent.environment import Environment, ProcessIdentity
from statemachine_agent.models.port import PIECES

if TYPE_CHECKING:  # what only reads does not pay for what runs
    from statemachine_agent.loop.context import Event

#: bytes of one file; what comes after that is not passed on
MOST = 256 * 1024

_ONLY_NEW = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_ONLY_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def place_of(store: object, task_id: str) -> Path | None:
    """The file of a task beside its store; None where the store is no file, or the id cannot be a name."""
    path = getattr(store, "path", None)
    if not isinstance(path, Path) or not task_id or set(task_id) - set("0123456789abcdef-"):
        return None
    real = path.resolve()  # as the store's own log: beside the file itself, whichever link led to it
    return real.with_name(f"{real.name}.live") / f"{task_id}.jsonl"


class LiveWriter:
    """Passes on what is heard; a watcher of a runtime, told of pieces. It never fails: what cannot be written is left out."""

    def __init__(self, store: object, environment: Environment) -> None:
        """Nothing is written before the first piece."""
        self._store = store
        self._environment = environment
        #: of each task: the open file and the bytes that are left; None where it cannot be written
        self._files: dict[str, tuple[int, int] | None] = {}

    def __enter__(self) -> LiveWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for task_id in list(self._files):
            self._end(task_id)

    def __call__(self, event: Event) -> None:
        """One event."""
        if event.kind in ("piece", "cut_off"):
            if event.task_id not in self._files:
                self._files[event.task_id] = self._begun(event.task_id)
            self._write(event.task_id, {"event": event.kind, **event.data})
        elif event.kind == "committed":
            self._end(event.task_id)

    def _begun(self, task_id: str) -> tuple[int, int] | None:
        place = place_of(self._store, task_id)
        if place is None:
            return None
        who = self._environment.process()
        try:
            place.parent.mkdir(mode=0o700, exist_ok=True)
            if place.parent.is_symlink():
                return None
            place.unlink(missing_ok=True)  # of a worker that was killed
            self._files[task_id] = (os.open(place, _ONLY_NEW, 0o600), MOST)
        except OSError:
            return None
        about = {"host": who.host, "pid": who.pid, "started": who.started}
        self._write(task_id, {"event": "begun", "id": self._environment.random_bytes(8).hex(), "process": about})
        return self._files[task_id]

    def _write(self, task_id: str, line: Mapping[str, Any]) -> None:
        found = self._files[task_id]
        if found is None:
            return
        descriptor, left = found
        data = json.dumps(line).encode() + b"\n"
        if len(data) > left:
            return
        self._files[task_id] = (descriptor, left - len(data))
        with suppress(OSError):
            os.write(descriptor, data)

    def _end(self, task_id: str) -> None:
        found, place = self._files.pop(task_id, None), place_of(self._store, task_id)
        if found is None or place is None:
            return
        with suppress(OSError):
            os.close(found[0])
        with suppress(OSError):
            place.unlink(missing_ok=True)
            place.parent.rmdir()  # unless another task's lies there


class LiveReader:
    """What another process passes on; `news` gives what came since it was asked last."""

    def __init__(self, store: object, task_id: str, environment: Environment) -> None:
        """The file need not be there."""
        self._place = place_of(store, task_id)
        self._environment = environment
        self._id: str | None = None
        self._seen = 0
        #: whether a worker that lives was heard at the last look
        self.is_alive = False

    def news(self) -> list[Mapping[str, Any]]:
        """The pieces and cuts since then, each with what `is_told` says it has; never an exception."""
        first, *lines = self._lines() or [b""]
        begun = _object(first)
        name = begun.get("id")
        is_header = begun.get("event") == "begun" and isinstance(name, str)
        self.is_alive = is_header and not self._is_gone(begun.get("process"))
        if not self.is_alive:
            return []
        if name != self._id:
            self._id, self._seen = str(name), 0
        found = [_object(line) for line in lines[self._seen :]]
        self._seen = max(self._seen, len(lines))
        return [one for one in found if is_told(one)]

    def _lines(self) -> list[bytes]:
        """The whole lines of the file; a reader can come in the middle of one."""
        if self._place is None:
            return []
        try:
            descriptor = os.open(self._place, _ONLY_READ)
        except OSError:
            return []
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return []
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(MOST).split(b"\n")[:-1]
        except OSError:
            return []
        finally:
            os.close(descriptor)

    def _is_gone(self, who: Any) -> bool:
        """True where a worker left it behind; one that says nothing of itself is taken for such."""
        match who:
            case {"host": str() as host, "pid": int() as pid, "started": str() as started}:
                return self._environment.is_gone(ProcessIdentity(host, pid, started))
            case _:
                return True


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_told(line: Mapping[str, Any]) -> bool:
    """Whether this is a piece or a cut, with all that these have."""
    match line:
        case {"event": "piece", "step": int(), "attempt": int(), "kind": kind, "call": int(), "text": str()}:
            return kind in PIECES
        case {"event": "cut_off", "step": int(), "attempt": int(), "why": str(), "again": bool()}:
            return True
        case _:
            return False
