"""One key, one thing: the store behind the ``Idempotency-Key`` header; must not know what the things are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from .exchange import Json, Problem, Request
from .fields import is_visible

SCHEMA = "CREATE TABLE keys (key TEXT PRIMARY KEY, body TEXT NOT NULL, thing INTEGER NOT NULL UNIQUE)"

LONGEST_KEY = 255


def required_key(request: Request) -> str:
    """The key of a request that must have one; a missing or unusable key is a ``Problem`` with status 400."""
    if not request.key:
        raise Problem(400, "no_key", "send an Idempotency-Key header that names this piece of work")
    if len(request.key) > LONGEST_KEY or not is_visible(request.key):
        raise Problem(400, "bad_key", f"an Idempotency-Key has 1 to {LONGEST_KEY} visible ASCII characters")
    return request.key


def once(connection: sqlite3.Connection, key: str, body: Json, create: Callable[[], int]) -> tuple[int, bool]:
    """The number of the thing under ``key`` and whether it was made just now, by ``create``.

    Runs inside the transaction of the caller, so that the thing and its key are stored together or not at all, and
    so that of two requests at once the second finds what the first one made. A known key with another body is a
    ``Problem`` with status 409.
    """
    wanted = json.dumps(body, sort_keys=True)
    row = connection.execute("SELECT body, thing FROM keys WHERE key = ?", (key,)).fetchone()
    if row is None:
        thing = create()
        connection.execute("INSERT INTO keys (key, body, thing) VALUES (?, ?, ?)", (key, wanted, thing))
        return thing, True
    if row["body"] != wanted:
        raise Problem(409, "key_reused", "this key was used with another body; use a new key for new work")
    return int(row["thing"]), False
