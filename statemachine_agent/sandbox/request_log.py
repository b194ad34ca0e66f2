"""The list of the requests one service has seen, in its SQLite file; must not know what they ask for."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from .database import Database
from .exchange import Json, Request, parse

SCHEMA = (
    "CREATE TABLE request_log (number INTEGER PRIMARY KEY, at TEXT NOT NULL, method TEXT NOT NULL,"
    " path TEXT NOT NULL, key TEXT, body TEXT NOT NULL, status INTEGER, fault TEXT, dropped INTEGER NOT NULL DEFAULT 0)"
)


class RequestLog:
    """Requests in the order of their arrival, kept across restarts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def arrived(self, request: Request) -> int:
        """Note the request before anything is done about it; returns its number."""
        row = (now(), request.method, request.target, request.key, json.dumps(_readable(request.raw)))
        with self._database.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO request_log (at, method, path, key, body) VALUES (?, ?, ?, ?, ?)", row
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def ended(self, number: int, status: int | None, fault: str | None) -> None:
        """Note how the request ended: a status about to be sent, or None for a connection about to be dropped."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE request_log SET status = ?, dropped = ?, fault = ? WHERE number = ?",
                (status, status is None, fault, number),
            )

    def all(self) -> list[Json]:
        """Every request, as a mapping.

        Its keys: ``number``, ``at`` (UTC), ``method``, ``path`` (with its query), ``key``, ``body``, ``status``, ``fault``.
        ``body`` is the JSON value, the text where it was not JSON, null where there was none. ``status`` is a number,
        ``"dropped"``, or null while the request is being served and for ever if the service was killed during it.
        """
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT * FROM request_log ORDER BY number").fetchall()
        return [
            {
                "number": row["number"],
                "at": row["at"],
                "method": row["method"],
                "path": row["path"],
                "key": row["key"],
                "body": json.loads(row["body"]),
                "status": "dropped" if row["dropped"] else row["status"],
                "fault": row["fault"],
            }
            for row in rows
        ]


def now() -> str:
    """This moment as ``2026-10-20T09:14:02Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _readable(raw: bytes) -> object:
    if not raw:
        return None
    try:
        return parse(raw)
    except ValueError:
        return raw.decode("utf-8", errors="replace")
