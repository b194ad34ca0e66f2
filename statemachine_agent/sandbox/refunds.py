"""The refunds service: makes one refund for each key and tells what became of it; must not know payments."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from . import idempotency
from .exchange import Answer, Json, Problem, Request
from .faults import WRITE_MODES
from .fields import AMOUNT, IDENTIFIER, take
from .request_log import now
from .seeds import seeds
from .service import Route, Service

STATUSES = ("pending", "queued", "settled", "rejected")
OUTCOMES = frozenset({"queued", "rejected"})
"""Faults that decide the status of a new refund."""

BEFORE_FIRST = 9000
SELECT = (
    "SELECT 'rf_' || number AS refund_id, order_id, payment_id, amount_inr, status, created_at"
    " FROM refunds LEFT JOIN keys ON keys.thing = refunds.number"
)


class Refunds(Service):
    """``POST /refunds``, ``GET /refunds``, ``GET /refunds/by-key/{key}``."""

    name = "refunds"
    schema = (
        "CREATE TABLE refunds (number INTEGER PRIMARY KEY, order_id TEXT NOT NULL, payment_id TEXT NOT NULL,"
        " amount_inr INTEGER NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL)",
        idempotency.SCHEMA,
    )
    write_modes = WRITE_MODES | OUTCOMES

    def routes(self) -> Sequence[Route]:
        """The public paths, and two backstage: to look without a trace in the log, and to move a refund on."""
        return (
            Route("POST", "/refunds", self.create),
            Route("GET", "/refunds", self.search),
            Route("GET", "/refunds/by-key/{key}", self.by_key),
            Route("GET", "/_admin/refunds", self.search),
            Route("POST", "/_admin/refunds/{refund_id}", self.move),
        )

    def seed(self, connection: sqlite3.Connection) -> None:
        """The refunds of the seeds, made before anybody kept keys."""
        for refund in seeds("refunds"):
            row = {**refund, "number": int(refund["refund_id"].removeprefix("rf_"))}
            connection.execute(
                "INSERT INTO refunds VALUES (:number, :order_id, :payment_id, :amount_inr, :status, :created_at)", row
            )

    def create(self, request: Request) -> Answer:
        """201 and the new refund; 200 and the refund as it is now when this key made it with this body before."""
        key = idempotency.required_key(request)
        body = take(request.json(), {"order_id": IDENTIFIER, "payment_id": IDENTIFIER, "amount_inr": AMOUNT})
        status = request.fault if request.fault in OUTCOMES else "pending"
        row = {**body, "status": status, "created_at": now(), "before": BEFORE_FIRST}
        with self.database.transaction() as connection:
            number, created = idempotency.once(connection, key, body, lambda: _insert(connection, row))
            (refund,) = _select(connection, "number", number)
        return Answer(201 if created else 200, refund)

    def search(self, request: Request) -> Answer:
        """``{"order_id" | "payment_id" | "key": what was asked for, "refunds": [oldest first]}``."""
        name, value = request.choice("order_id", "payment_id", "key")
        with self.database.transaction() as connection:
            return Answer(200, {name: value, "refunds": _select(connection, name, value)})

    def by_key(self, request: Request) -> Answer:
        """The one refund made under the key, or 404."""
        with self.database.transaction() as connection:
            found = _select(connection, "key", request.names["key"])
        if not found:
            raise Problem(404, "not_found")
        return Answer(200, found[0])

    def move(self, request: Request) -> Answer:
        """Give a refund another status, as a bank would later; the refund, or 404."""
        meaning = f"one of: {', '.join(STATUSES)}"
        status = take(request.json(), {"status": (meaning, lambda value: value in STATUSES)})["status"]
        refund_id = request.names["refund_id"]
        with self.database.transaction() as connection:
            connection.execute("UPDATE refunds SET status = ? WHERE 'rf_' || number = ?", (status, refund_id))
            found = _select(connection, "refund_id", refund_id)
        if not found:
            raise Problem(404, "not_found")
        return Answer(200, found[0])


def _insert(connection: sqlite3.Connection, row: Json) -> int:
    cursor = connection.execute(
        "INSERT INTO refunds SELECT MAX(:before, COALESCE(MAX(number), 0)) + 1,"
        " :order_id, :payment_id, :amount_inr, :status, :created_at FROM refunds",
        row,
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _select(connection: sqlite3.Connection, column: str, value: str | int) -> list[Json]:
    """The refunds with this value; ``column`` comes from this file, never from a caller."""
    rows = connection.execute(f"{SELECT} WHERE {column} = ? ORDER BY number", (value,))
    return [dict(row) for row in rows]
