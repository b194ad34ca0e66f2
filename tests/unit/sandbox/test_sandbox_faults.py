"""Each way to misbehave, on writes and on reads."""

from __future__ import annotations

import json
import time
from http.client import RemoteDisconnected
from typing import Any
from urllib.parse import quote

import pytest

from statemachine_agent.sandbox import control

PATHS = {"REFUNDS_URL": "/refunds", "NOTIFICATIONS_URL": "/messages"}
WAIT = 0.1
FOR_EVER = 600


def body(service: str, order_id: str) -> dict[str, Any]:
    if service == "REFUNDS_URL":
        return {"order_id": order_id, "payment_id": "pay_1", "amount_inr": 100}
    return {"order_id": order_id, "refund_id": "rf_1", "message": "hello"}


def stored(urls: dict[str, str], service: str, order_id: str) -> list[dict[str, Any]]:
    find = control.refunds if service == "REFUNDS_URL" else control.messages
    return find(urls[service], order_id)


@pytest.fixture(params=sorted(PATHS))
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_commit_then_drop_does_the_work_and_a_repeat_finds_it(urls: dict[str, str], call: Any, service: str) -> None:
    url = urls[service] + PATHS[service]
    control.set_fault(urls[service], "commit_then_drop")
    with pytest.raises(RemoteDisconnected):
        call("POST", url, body(service, "ctd"), key="ctd:1")
    (made,) = stored(urls, service, "ctd")
    again = call("POST", url, body(service, "ctd"), key="ctd:1")
    assert (again.status, again.json()) == (200, made)
    assert len(stored(urls, service, "ctd")) == 1


def test_drop_before_does_nothing_and_a_repeat_does_it(urls: dict[str, str], call: Any, service: str) -> None:
    url = urls[service] + PATHS[service]
    control.set_fault(urls[service], "drop_before")
    with pytest.raises(RemoteDisconnected):
        call("POST", url, body(service, "db"), key="db:1")
    assert stored(urls, service, "db") == []
    assert call("POST", url, body(service, "db"), key="db:1").status == 201


def test_a_dropped_connection_is_closed_without_a_byte(urls: dict[str, str], post_without_waiting: Any) -> None:
    control.set_fault(urls["REFUNDS_URL"], "drop_before")
    with post_without_waiting(urls["REFUNDS_URL"], "/refunds", {}, "byte:1") as connection:
        assert connection.recv(1) == b""


def test_refuse_leaves_nothing_under_the_key(urls: dict[str, str], call: Any, service: str) -> None:
    url = urls[service] + PATHS[service]
    control.set_fault(urls[service], "refuse")
    reply = call("POST", url, body(service, "refuse"), key="refuse:1")
    assert (reply.status, reply.json()) == (422, {"error": "refused"})
    assert stored(urls, service, "refuse") == []
    # The key is as good as new: even another body may use it.
    other = {**body(service, "refuse"), "order_id": "refuse-other"}
    assert call("POST", url, other, key="refuse:1").status == 201


def test_unavailable_stores_nothing(urls: dict[str, str], call: Any, service: str) -> None:
    url = urls[service] + PATHS[service]
    control.set_fault(urls[service], "unavailable", times=2)
    statuses = [call("POST", url, body(service, "un"), key="un:1").status for _ in range(3)]
    assert statuses == [503, 503, 201]


@pytest.mark.parametrize("status", ["queued", "rejected"])
def test_a_new_refund_can_be_queued_or_rejected(urls: dict[str, str], call: Any, status: str) -> None:
    url = urls["REFUNDS_URL"]
    control.set_fault(url, status)
    reply = call("POST", f"{url}/refunds", body("REFUNDS_URL", status), key=f"{status}:1")
    assert (reply.status, reply.json()["status"]) == (201, status)
    again = call("POST", f"{url}/refunds", body("REFUNDS_URL", status), key=f"{status}:1")
    assert (again.status, again.json()) == (200, reply.json())


def test_slow_has_done_the_work_before_it_answers(
    urls: dict[str, str], post_without_waiting: Any, eventually: Any, service: str
) -> None:
    control.set_fault(urls[service], "slow", seconds=FOR_EVER)
    with post_without_waiting(urls[service], PATHS[service], body(service, "slow"), "slow:1"):
        eventually(lambda: len(stored(urls, service, "slow")) == 1)
        assert control.log(urls[service])[-1]["status"] is None, "it has answered"


def test_slow_before_has_done_nothing_while_it_waits(
    urls: dict[str, str], post_without_waiting: Any, eventually: Any, service: str
) -> None:
    before = len(control.log(urls[service]))
    control.set_fault(urls[service], "slow_before", seconds=FOR_EVER)
    with post_without_waiting(urls[service], PATHS[service], body(service, "sb"), "sb:1"):
        eventually(lambda: len(control.log(urls[service])) > before)
        assert stored(urls, service, "sb") == []


@pytest.mark.parametrize("mode", ["slow", "slow_before"])
def test_a_slow_service_answers_in_the_end(urls: dict[str, str], call: Any, mode: str) -> None:
    control.set_fault(urls["REFUNDS_URL"], mode, seconds=WAIT)
    start = time.monotonic()
    reply = call("POST", urls["REFUNDS_URL"] + "/refunds", body("REFUNDS_URL", f"end-{mode}"), key=f"end:{mode}")
    assert time.monotonic() - start >= WAIT
    assert [reply.json()] == stored(urls, "REFUNDS_URL", f"end-{mode}")


def test_garbage_is_not_json_but_the_work_is_done(urls: dict[str, str], call: Any, service: str) -> None:
    url = urls[service] + PATHS[service]
    control.set_fault(urls[service], "garbage")
    reply = call("POST", url, body(service, "garbage"), key="garbage:1")
    assert reply.status == 201
    with pytest.raises(ValueError, match="Expecting value"):
        reply.json()
    assert len(stored(urls, service, "garbage")) == 1


def test_huge_is_the_right_answer_and_two_megabytes_more(urls: dict[str, str], call: Any, service: str) -> None:
    url = urls[service] + PATHS[service]
    control.set_fault(urls[service], "huge")
    reply = call("POST", url, body(service, "huge"), key="huge:1")
    answer = reply.json()
    assert 2_000_000 < len(reply.content) < 2_100_000
    del answer["padding"]
    assert stored(urls, service, "huge") == [answer]


@pytest.mark.parametrize("mode", ["drop", "drop_before"])
def test_reads_can_be_dropped_while_writes_go_on(urls: dict[str, str], call: Any, mode: str) -> None:
    url = urls["REFUNDS_URL"]
    control.set_fault(url, mode, on="read")
    assert call("POST", f"{url}/refunds", body("REFUNDS_URL", mode), key=f"read:{mode}").status == 201
    by_key = f"{url}/refunds/by-key/{quote(f'read:{mode}', safe='')}"
    with pytest.raises(RemoteDisconnected):
        call("GET", by_key)
    assert call("GET", by_key).status == 200


def test_reads_can_be_unavailable_garbage_or_huge(urls: dict[str, str], call: Any) -> None:
    url = urls["PAYMENTS_URL"]
    for mode in ("unavailable", "garbage", "huge"):
        control.set_fault(url, mode, on="read")
    replies = [call("GET", f"{url}/orders/8472") for _ in range(4)]
    assert [reply.status for reply in replies] == [503, 200, 200, 200]
    with pytest.raises(ValueError, match="Expecting value"):
        replies[1].json()
    assert len(replies[2].content) > 2_000_000
    assert "padding" not in replies[3].json()


@pytest.mark.parametrize(
    ("name", "method", "path", "sent", "on"),
    [
        ("PAYMENTS_URL", "GET", "/orders/8472", None, "read"),
        ("REFUNDS_URL", "GET", "/refunds?order_id=1", None, "read"),
        ("POLICY_URL", "POST", "/policy/search", {"query": "refund"}, "write"),
        ("NOTIFICATIONS_URL", "GET", "/messages?order_id=1", None, "read"),
    ],
)
def test_every_service_can_be_slow(
    urls: dict[str, str], call: Any, name: str, method: str, path: str, sent: object, on: str
) -> None:
    control.set_fault(urls[name], "slow", seconds=WAIT, on=on)
    start = time.monotonic()
    assert call(method, urls[name] + path, sent).status == 200
    assert time.monotonic() - start >= WAIT


def test_a_fault_until_cleared_lasts_until_cleared(urls: dict[str, str], call: Any) -> None:
    url = urls["NOTIFICATIONS_URL"]
    control.set_fault(url, "unavailable", times=None)
    statuses = [call("POST", f"{url}/messages", body("", "until"), key="until:1").status for _ in range(3)]
    control.clear_faults(url)
    statuses.append(call("POST", f"{url}/messages", body("", "until"), key="until:1").status)
    assert statuses == [503, 503, 503, 201]


def test_clearing_ends_the_wait_of_a_slow_request(
    urls: dict[str, str], post_without_waiting: Any, eventually: Any
) -> None:
    url = urls["NOTIFICATIONS_URL"]
    control.set_fault(url, "slow_before", seconds=FOR_EVER)
    before = len(control.log(url))
    with post_without_waiting(url, "/messages", body("", "cleared"), "cleared:1"):
        eventually(lambda: len(control.log(url)) > before)
        control.clear_faults(url)
        eventually(lambda: control.log(url)[-1]["status"] == 201)


def test_faults_queue_and_can_be_listed(urls: dict[str, str], call: Any) -> None:
    url = urls["REFUNDS_URL"]
    control.set_fault(url, "refuse", times=2)
    control.set_fault(url, "unavailable", times=None)
    call("POST", f"{url}/refunds", body("REFUNDS_URL", "queue"), key="queue:1")
    assert call("GET", f"{url}/_faults").json() == {
        "faults": [
            {"mode": "refuse", "on": "write", "times": 1, "seconds": None},
            {"mode": "unavailable", "on": "write", "times": None, "seconds": None},
        ]
    }
    with pytest.raises(control.ControlError, match="never_reached"):
        control.set_fault(url, "refuse")


def test_a_request_that_leads_nowhere_uses_up_no_fault(urls: dict[str, str], call: Any) -> None:
    url = urls["REFUNDS_URL"]
    control.set_fault(url, "refuse")
    assert call("POST", f"{url}/nowhere", {}).status == 404
    assert call("POST", f"{url}/refunds", body("REFUNDS_URL", "nw"), key="nw:1").status == 422


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("REFUNDS_URL", {"mode": "explode"}),
        ("REFUNDS_URL", {"mode": ["slow"]}),
        ("REFUNDS_URL", {"mode": "slow"}),
        ("REFUNDS_URL", {"mode": "slow", "seconds": -1}),
        ("REFUNDS_URL", {"mode": "slow", "seconds": True}),
        ("REFUNDS_URL", {"mode": "refuse", "seconds": 1}),
        ("REFUNDS_URL", {"mode": "refuse", "times": 0}),
        ("REFUNDS_URL", {"mode": "refuse", "times": True}),
        ("REFUNDS_URL", {"mode": "refuse", "on": "read"}),
        ("REFUNDS_URL", {"mode": "refuse", "on": "always"}),
        ("REFUNDS_URL", {"mode": "refuse", "after": 1}),
        ("REFUNDS_URL", []),
        ("NOTIFICATIONS_URL", {"mode": "queued"}),
        ("PAYMENTS_URL", {"mode": "unavailable", "on": "write"}),
    ],
)
def test_a_fault_that_could_never_happen_is_refused(urls: dict[str, str], call: Any, name: str, fault: object) -> None:
    reply = call("POST", f"{urls[name]}/_faults", fault)
    assert (reply.status, reply.json()["error"]) == (422, "invalid")
    assert call("GET", f"{urls[name]}/_faults").json() == {"faults": []}


def test_the_error_of_control_says_what_the_service_said(urls: dict[str, str]) -> None:
    with pytest.raises(control.ControlError, match="the modes are") as caught:
        control.set_fault(urls["REFUNDS_URL"], "explode")
    assert json.loads(str(caught.value).split(": ", 1)[1])["error"] == "invalid"
