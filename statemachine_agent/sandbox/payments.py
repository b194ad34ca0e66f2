"""The payments service: orders and what was captured for them; must not know refunds. It is only ever read."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from .exchange import Answer, Problem, Request
from .seeds import seeds
from .service import Route, Service


class Payments(Service):
    """``GET /orders/{order_id}``."""

    name = "payments"
    schema = (
        "CREATE TABLE orders (order_id TEXT PRIMARY KEY, customer_id TEXT NOT NULL, total_inr INTEGER NOT NULL)",
        "CREATE TABLE payments (payment_id TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders,"
        " amount_inr INTEGER NOT NULL, status TEXT NOT NULL, at TEXT NOT NULL)",
    )
    write_modes = frozenset[str]()

    def routes(self) -> Sequence[Route]:
        """One order with its payments."""
        return (Route("GET", "/orders/{order_id}", self.order),)

    def seed(self, connection: sqlite3.Connection) -> None:
        """The orders of the seeds."""
        for order in seeds("orders"):
            connection.execute("INSERT INTO orders VALUES (:order_id, :customer_id, :total_inr)", order)
            connection.executemany(
                "INSERT INTO payments (payment_id, order_id, amount_inr, status, at)"
                " VALUES (:payment_id, :order_id, :amount_inr, :status, :at)",
                [{**payment, "order_id": order["order_id"]} for payment in order["payments"]],
            )

    def order(self, request: Request) -> Answer:
        """``{"order_id", "customer_id", "total_inr", "payments"}``, the payments oldest first; or 404."""
        wanted = (request.names["order_id"],)
        with self.database.transaction() as connection:
            order = connection.execute("SELECT * FROM orders WHERE order_id = ?", wanted).fetchone()
            payments = connection.execute(
                "SELECT payment_id, amount_inr, status, at FROM payments WHERE order_id = ? ORDER BY at, payment_id",
                wanted,
            ).fetchall()
        if order is None:
            raise Problem(404, "not_found")
        return Answer(200, {**dict(order), "payments": [dict(payment) for payment in payments]})
