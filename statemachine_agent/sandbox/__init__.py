"""Four small shop services as real processes, for demonstrations and tests; must not know who calls them.

``payments``, ``refunds``, ``policy`` and ``notifications`` speak JSON over HTTP on 127.0.0.1. Each has its own
process and its own SQLite file, and each can be told to misbehave: see ``control.set_fault``.

    with Sandbox(folder) as sandbox:
        sandbox.urls["REFUNDS_URL"]  # "http://127.0.0.1:PORT"
"""

from __future__ import annotations

from .launch import DEFAULT_PORTS, FolderInUse, PortInUse, Sandbox, ServiceNotStarted, forget

__all__ = ["DEFAULT_PORTS", "FolderInUse", "PortInUse", "Sandbox", "ServiceNotStarted", "forget"]
