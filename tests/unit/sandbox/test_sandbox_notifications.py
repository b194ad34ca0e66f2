"""The notifications service: one key, one message."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from statemachine_agent.sandbox import control


def body(order_id: str, **others: object) -> dict[str, Any]:
    return {"order_id": order_id, "refund_id": "rf_9001", "message": "Your refund of ₹2,000 is on its way.", **others}


def test_a_message_is_sent_and_can_be_found(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['NOTIFICATIONS_URL']}/messages"
    made = call("POST", url, body("found"), key="case:found")
    message = made.json()
    assert made.status == 201
    assert message["message_id"].startswith("msg_")
    assert (message["status"], message["message"]) == ("sent", body("found")["message"])
    assert call("GET", f"{url}?key=case%3Afound").json() == {"key": "case:found", "messages": [message]}
    assert call("GET", f"{url}?order_id=found").json() == {"order_id": "found", "messages": [message]}
    assert call("GET", f"{url}?key=unused").json() == {"key": "unused", "messages": []}
    assert control.messages(urls["NOTIFICATIONS_URL"], "found") == [message]


def test_one_key_is_one_message(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['NOTIFICATIONS_URL']}/messages"
    statuses = [
        call("POST", url, body("once"), key="once:1").status,
        call("POST", url, body("once"), key="once:1").status,
        call("POST", url, body("once", message="Something else"), key="once:1").status,
        call("POST", url, body("once")).status,
    ]
    assert statuses == [201, 200, 409, 400]
    assert len(control.messages(urls["NOTIFICATIONS_URL"], "once")) == 1


def test_eight_callers_with_one_key_send_one_message(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['NOTIFICATIONS_URL']}/messages"
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: call("POST", url, body("race"), key="race:1"), range(8)))
    assert sorted(reply.status for reply in replies) == [200] * 7 + [201]
    assert len(control.messages(urls["NOTIFICATIONS_URL"], "race")) == 1


def test_a_message_needs_no_refund(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['NOTIFICATIONS_URL']}/messages"
    reply = call("POST", url, body("none", refund_id=None), key="none:1")
    assert (reply.status, reply.json()["refund_id"]) == (201, None)


@pytest.mark.parametrize("wrong", [{"message": ""}, {"message": " \n"}, {"message": "x" * 10_001}, {"refund_id": 9001}])
def test_an_invalid_message_is_not_sent(urls: dict[str, str], call: Any, wrong: dict[str, object]) -> None:
    url = f"{urls['NOTIFICATIONS_URL']}/messages"
    assert call("POST", url, body("invalid", **wrong), key="invalid:1").status == 422
    assert control.messages(urls["NOTIFICATIONS_URL"], "invalid") == []


def test_half_a_character_is_not_sent(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['NOTIFICATIONS_URL']}/messages"
    assert call("POST", url, body("half", message="broken \ud83d"), key="half:1").status == 422
