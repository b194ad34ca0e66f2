"""Stores for tests: new ones, quickly, in memory where the system has a folder that lies there.

A store holds one walk: two would meet under the keys of their effects. It must not know what is stored.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from statemachine_agent.environment import Environment
from statemachine_agent.store.sqlite import SqliteStore

_MEMORY = Path("/dev/shm")  # noqa: S108  a folder with a name of its own is made inside


def temporary_folder(name: str) -> TemporaryDirectory[str]:
    """A folder that goes away with its owner; nothing in it needs to survive."""
    in_memory = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    return TemporaryDirectory(prefix=f"{name}-", dir=_MEMORY if in_memory else None, ignore_cleanup_errors=True)


def new_store(folder: Path, environment: Environment) -> SqliteStore:
    """A new store in `folder`, opened; close it."""
    path = folder / "tasks.db"
    if not path.exists():
        path.write_bytes(_empty())
        path.chmod(0o600)
    return SqliteStore(path, environment)


@cache
def _empty() -> bytes:
    """The file of a store without tasks: making one takes longer than copying it."""
    with temporary_folder("store") as folder:
        path = Path(folder) / "empty.db"
        with SqliteStore(path):
            pass
        return path.read_bytes()
