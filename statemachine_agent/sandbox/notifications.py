"""The notifications service: sends one message to a customer for each key; must not know why it is sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from . import idempotency
from .exchange import Answer, Json, Request
from .fields import IDENTIFIER, OPTIONAL_IDENTIFIER, TEXT, take
from .request_log import now
from .service import Route, Service

SELECT = (
    "SELECT 'msg_' || number AS message_id, order_id, refund_id, message, status, created_at"
    " FROM messages LEFT JOIN keys ON keys.thing = messages.number"
)


class Notifications(Service):
    """``POST /messages``, ``GET /messages``."""

    name = "notifications"
    schema = (
        "CREATE TABLE messages (number INTEGER PRIMARY KEY, order_id TEXT NOT NULL, refund_id TEXT,"
        " message TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL)",
        idempotency.SCHEMA,
    )

    def routes(self) -> Sequence[Route]:
        """The public paths, and one backstage: to look without a trace in the log."""
        return (
            Route("POST", "/messages", self.create),
            Route("GET", "/messages", self.search),
            Route("GET", "/_admin/messages", self.search),
        )

    def seed(self, connection: sqlite3.Connection) -> None:
        """Nothing has been sent yet."""

    def create(self, request: Request) -> Answer:
        """201 and the message sent; 200 and the message when this key sent it with this body before.

        ``refund_id`` may be null: a customer can also be told that there is no refund.
        """
        key = idempotency.required_key(request)
        body = take(request.json(), {"order_id": IDENTIFIER, "refund_id": OPTIONAL_IDENTIFIER, "message": TEXT})
        row = {**body, "created_at": now()}
        with self.database.transaction() as connection:
            number, created = idempotency.once(connection, key, body, lambda: _insert(connection, row))
            (message,) = _select(connection, "number", number)
        return Answer(201 if created else 200, message)

    def search(self, request: Request) -> Answer:
        """``{"order_id" | "key": what was asked for, "messages": [oldest first]}``."""
        name, value = request.choice("order_id", "key")
        with self.database.transaction() as connection:
            return Answer(200, {name: value, "messages": _select(connection, name, value)})


def _insert(connection: sqlite3.Connection, row: Json) -> int:
    cursor = connection.execute(
        "INSERT INTO messages (order_id, refund_id, message, status, created_at)"
        " VALUES (:order_id, :refund_id, :message, 'sent', :created_at)",
        row,
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _select(connection: sqlite3.Connection, column: str, value: str | int) -> list[Json]:
    """The messages with this value; ``column`` comes from this file, never from a caller."""
    rows = connection.execute(f"{SELECT} WHERE {column} = ? ORDER BY number", (value,))
    return [dict(row) for row in rows]
