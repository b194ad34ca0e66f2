"""The refunds service: one key, one refund, whatever happens."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from statemachine_agent.sandbox import control


def body(order_id: str, amount_inr: int = 2000) -> dict[str, Any]:
    return {"order_id": order_id, "payment_id": f"pay_{order_id}", "amount_inr": amount_inr}


def test_a_refund_is_made_and_can_be_found_in_every_way(urls: dict[str, str], call: Any) -> None:
    url, key = f"{urls['REFUNDS_URL']}/refunds", "case:found/1:refund+%"
    made = call("POST", url, body("found"), key=key)
    refund = made.json()
    assert made.status == 201
    assert re.fullmatch(r"rf_9\d\d\d", refund["refund_id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", refund["created_at"])
    assert refund == {
        **body("found"),
        "refund_id": refund["refund_id"],
        "status": "pending",
        "created_at": refund["created_at"],
    }
    encoded = quote(key, safe="")
    assert call("GET", f"{url}?order_id=found").json() == {"order_id": "found", "refunds": [refund]}
    assert call("GET", f"{url}?payment_id=pay_found").json() == {"payment_id": "pay_found", "refunds": [refund]}
    assert call("GET", f"{url}?key={encoded}").json() == {"key": key, "refunds": [refund]}
    assert call("GET", f"{url}/by-key/{encoded}").json() == refund
    assert control.refunds(urls["REFUNDS_URL"], "found") == [refund]


def test_a_key_nobody_used_has_no_refund(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    assert call("GET", f"{url}?key=never%3Aused").json() == {"key": "never:used", "refunds": []}
    missing = call("GET", f"{url}/by-key/never%3Aused")
    assert (missing.status, missing.json()) == (404, {"error": "not_found"})


def test_the_seeded_refund_is_settled_and_has_no_key(urls: dict[str, str]) -> None:
    (refund,) = control.refunds(urls["REFUNDS_URL"], "8476")
    assert (refund["refund_id"], refund["payment_id"], refund["status"]) == ("rf_8001", "pay_5e2", "settled")


def test_the_same_key_and_body_give_the_original_refund(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    first = call("POST", url, body("again"), key="again:1")
    reordered = dict(reversed(body("again").items()))
    second = call("POST", url, reordered, key="again:1")
    assert (first.status, second.status) == (201, 200)
    assert first.json() == second.json()
    assert control.refunds(urls["REFUNDS_URL"], "again") == [first.json()]


def test_the_same_key_with_another_body_is_a_conflict(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    call("POST", url, body("other"), key="other:1")
    reply = call("POST", url, body("other", 1999), key="other:1")
    assert (reply.status, reply.json()["error"]) == (409, "key_reused")
    assert len(control.refunds(urls["REFUNDS_URL"], "other")) == 1


def test_numbers_count_up_by_one(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    numbers = [
        int(call("POST", url, body("count"), key=f"count:{turn}").json()["refund_id"].removeprefix("rf_"))
        for turn in range(3)
    ]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_eight_callers_with_one_key_make_one_refund(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: call("POST", url, body("race"), key="race:1"), range(8)))
    assert sorted(reply.status for reply in replies) == [200] * 7 + [201]
    assert len({reply.content for reply in replies}) == 1
    assert len(control.refunds(urls["REFUNDS_URL"], "race")) == 1


def test_eight_callers_with_eight_keys_make_eight_refunds(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda turn: call("POST", url, body("crowd"), key=f"crowd:{turn}"), range(8)))
    assert {reply.status for reply in replies} == {201}
    assert len({reply.json()["refund_id"] for reply in replies}) == 8


@pytest.mark.parametrize("key", [None, "", "a key with spaces", "k" * 256, "naïve"])
def test_without_a_usable_key_nothing_is_made(urls: dict[str, str], call: Any, key: str | None) -> None:
    reply = call("POST", f"{urls['REFUNDS_URL']}/refunds", body("nokey"), key=key)
    assert reply.status == 400
    assert reply.json()["error"] in ("no_key", "bad_key")
    assert control.refunds(urls["REFUNDS_URL"], "nokey") == []


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        "text",
        None,
        {},
        {"order_id": "invalid", "payment_id": "p"},
        {**body("invalid"), "note": "unknown field"},
        {**body("invalid"), "amount_inr": 0},
        {**body("invalid"), "amount_inr": -5},
        {**body("invalid"), "amount_inr": 10.0},
        {**body("invalid"), "amount_inr": True},
        {**body("invalid"), "amount_inr": "2000"},
        {**body("invalid"), "amount_inr": 10**30},
        {**body("invalid"), "payment_id": ""},
        {**body("invalid"), "payment_id": None},
        {**body("invalid"), "payment_id": "\ud800"},
        {**body("invalid"), "payment_id": "p" * 65},
    ],
)
def test_an_invalid_refund_leaves_nothing_under_its_key(urls: dict[str, str], call: Any, wrong: object) -> None:
    url = f"{urls['REFUNDS_URL']}/refunds"
    raw = b"null" if wrong is None else None
    reply = call("POST", url, wrong, key="invalid:1", raw=raw)
    assert (reply.status, reply.json()["error"]) == (422, "invalid")
    assert call("GET", f"{url}/by-key/invalid%3A1").status == 404


@pytest.mark.parametrize("query", ["", "?", "?order=1", "?order_id=1&key=2", "?order_id=1&limit=2"])
def test_a_search_needs_exactly_one_known_parameter(urls: dict[str, str], call: Any, query: str) -> None:
    reply = call("GET", f"{urls['REFUNDS_URL']}/refunds{query}")
    assert (reply.status, reply.json()["error"]) == (400, "bad_query")


def test_a_refund_moves_on_and_a_repeated_request_shows_it(urls: dict[str, str], call: Any) -> None:
    url = urls["REFUNDS_URL"]
    refund_id = call("POST", f"{url}/refunds", body("moves"), key="moves:1").json()["refund_id"]
    assert control.settle(url, refund_id, "settled")["status"] == "settled"
    again = call("POST", f"{url}/refunds", body("moves"), key="moves:1")
    assert (again.status, again.json()["refund_id"], again.json()["status"]) == (200, refund_id, "settled")


@pytest.mark.parametrize(("refund_id", "status", "code"), [("rf_1", "settled", "404"), ("rf_8001", "lost", "422")])
def test_moving_the_wrong_refund_or_to_nowhere_is_an_error(
    urls: dict[str, str], refund_id: str, status: str, code: str
) -> None:
    with pytest.raises(control.ControlError, match=code):
        control.settle(urls["REFUNDS_URL"], refund_id, status)
