"""The payments service and the orders it starts with."""

from __future__ import annotations

from typing import Any

import pytest


def test_the_founding_order_is_as_the_story_tells_it(urls: dict[str, str], call: Any) -> None:
    reply = call("GET", f"{urls['PAYMENTS_URL']}/orders/8472")
    assert reply.status == 200
    assert reply.json() == {
        "order_id": "8472",
        "customer_id": "cust-3391",
        "total_inr": 2000,
        "payments": [
            {"payment_id": "pay_5a1", "amount_inr": 2000, "status": "captured", "at": "2026-10-20T09:14:02Z"},
            {"payment_id": "pay_5a2", "amount_inr": 2000, "status": "captured", "at": "2026-10-20T09:14:41Z"},
        ],
    }


@pytest.mark.parametrize(
    ("order_id", "customer_id", "amounts"),
    [
        ("8473", "cust-3391", [1500]),
        ("8474", "cust-1187", [800, 800]),
        ("8475", "cust-1187", [25000, 25000]),
        ("8476", "cust-3391", [1200, 1200]),
        ("9999", "cust-7000", [2000, 2000]),
    ],
)
def test_the_other_orders(urls: dict[str, str], call: Any, order_id: str, customer_id: str, amounts: list[int]) -> None:
    order = call("GET", f"{urls['PAYMENTS_URL']}/orders/{order_id}").json()
    assert order["customer_id"] == customer_id
    assert [payment["amount_inr"] for payment in order["payments"]] == amounts


@pytest.mark.parametrize("order_id", ["1", "8472'--", "%00", "..%2F8472", "%FF", "8472%20OR%201=1"])
def test_an_unknown_order_is_not_found(urls: dict[str, str], call: Any, order_id: str) -> None:
    reply = call("GET", f"{urls['PAYMENTS_URL']}/orders/{order_id}")
    assert (reply.status, reply.json()) == (404, {"error": "not_found"})
