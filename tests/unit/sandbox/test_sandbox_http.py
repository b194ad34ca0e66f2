"""What all services have in common on the wire: errors in JSON, limits, connections, the log."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from statemachine_agent.sandbox import control


def received(connection: socket.socket, sent: bytes) -> bytes:
    """Send bytes, end the sending side, and read until the service closes."""
    with connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("service", ["payments", "refunds", "policy", "notifications"])
def test_every_service_is_healthy(urls: dict[str, str], call: Any, service: str) -> None:
    reply = call("GET", f"{urls[f'{service.upper()}_URL']}/_health")
    assert (reply.status, reply.json()) == (200, {"service": service, "ok": True})


@pytest.mark.parametrize("path", ["/", "/refund", "/refunds/", "/refunds/by-key/", "/refunds/a/b/c", "//", "/_nothing"])
def test_an_unknown_path_is_404(urls: dict[str, str], call: Any, path: str) -> None:
    reply = call("GET", f"{urls['REFUNDS_URL']}{path}")
    assert (reply.status, reply.json()["error"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_wrong_method_is_405_and_says_what_is_allowed(urls: dict[str, str], call: Any, method: str) -> None:
    reply = call(method, f"{urls['REFUNDS_URL']}/refunds", {})
    assert (reply.status, reply.json()["error"]) == (405, "method_not_allowed")
    assert reply.headers["allow"] == "GET, HEAD, POST"


def test_a_method_nobody_knows_is_405(urls: dict[str, str], call: Any) -> None:
    reply = call("BREW", f"{urls['REFUNDS_URL']}/refunds")
    assert (reply.status, reply.json()["error"]) == (405, "method_not_allowed")


def test_head_is_get_without_the_body(urls: dict[str, str], call: Any) -> None:
    url = f"{urls['PAYMENTS_URL']}/orders/8472"
    head, get = call("HEAD", url), call("GET", url)
    assert (head.status, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b'{"amount_inr": NaN}', b"[" * 100_000, b"9" * 10_000, b"{} {}"]
)
def test_a_body_that_is_not_json_is_400(urls: dict[str, str], call: Any, raw: bytes) -> None:
    reply = call("POST", f"{urls['REFUNDS_URL']}/refunds", raw=raw, key="bad:json")
    assert (reply.status, reply.json()["error"]) == (400, "bad_json")


@pytest.mark.parametrize("size", [(1 << 20) + 1, 6 << 20])
def test_a_body_that_is_too_large_is_413(urls: dict[str, str], call: Any, size: int) -> None:
    reply = call("POST", f"{urls['REFUNDS_URL']}/refunds", raw=b" " * size, key="too:large")
    assert (reply.status, reply.json()["error"]) == (413, "too_large")


def test_the_largest_body_allowed_is_read(urls: dict[str, str], call: Any) -> None:
    raw = json.dumps({"query": "lost parcel"}).encode().ljust(1 << 20)
    assert call("POST", f"{urls['POLICY_URL']}/policy/search", raw=raw).json()["passages"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /refunds HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /refunds HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /refunds HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413"),
        (b"POST /refunds HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"this is not HTTP at all\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_a_broken_request_is_refused_in_json_and_the_connection_closed(
    urls: dict[str, str], connect: Any, sent: bytes, status: bytes
) -> None:
    head, _, content = received(connect(urls["REFUNDS_URL"]), sent).partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert b"connection: close" in head.lower()
    assert "error" in json.loads(content)


def test_a_caller_that_leaves_in_the_middle_does_nothing(urls: dict[str, str], call: Any, connect: Any) -> None:
    half = b'POST /refunds HTTP/1.1\r\nHost: x\r\nIdempotency-Key: half:1\r\nContent-Length: 500\r\n\r\n{"order_id"'
    assert received(connect(urls["REFUNDS_URL"]), half) == b""
    assert call("GET", f"{urls['REFUNDS_URL']}/refunds/by-key/half%3A1").status == 404


def test_one_connection_serves_many_requests_even_after_errors(urls: dict[str, str]) -> None:
    connection = http.client.HTTPConnection(urlsplit(urls["REFUNDS_URL"]).netloc, timeout=10)
    statuses, sockets = [], set()
    for method, path, body in [
        ("GET", "/refunds?order_id=none", None),
        ("POST", "/nowhere", b'{"a body": "that nobody wants"}'),
        ("POST", "/refunds", b"not json"),
        ("HEAD", "/refunds?order_id=none", None),
        ("DELETE", "/refunds", b"{}"),
        ("GET", "/_health", None),
    ]:
        connection.request(method, path, body, {"Idempotency-Key": "keep:alive"})
        with connection.getresponse() as response:
            response.read()
            statuses.append(response.status)
        sockets.add(connection.sock)
    connection.close()
    assert statuses == [200, 404, 400, 200, 405, 200]
    assert len(sockets) == 1 and None not in sockets


def test_the_log_has_every_request_in_order_and_nothing_from_backstage(urls: dict[str, str], call: Any) -> None:
    url = urls["NOTIFICATIONS_URL"]
    before = len(control.log(url))
    sent = {"order_id": "log", "refund_id": "rf_1", "message": "hello"}
    call("POST", f"{url}/messages", sent, key="log:1")
    control.set_fault(url, "commit_then_drop")
    with pytest.raises(http.client.RemoteDisconnected):
        call("POST", f"{url}/messages", sent, key="log:2")
    control.messages(url, "log")
    call("GET", f"{url}/messages?key=log%3A2")
    call("POST", f"{url}/messages", raw=b"not json", key="log:3")
    call("POST", f"{url}/messages", raw=b" " * ((1 << 20) + 1))
    call("GET", f"{url}/nowhere")
    entries = control.log(url)[before:]
    assert [(e["method"], e["path"], e["key"], e["body"], e["status"], e["fault"]) for e in entries] == [
        ("POST", "/messages", "log:1", sent, 201, None),
        ("POST", "/messages", "log:2", sent, "dropped", "commit_then_drop"),
        ("GET", "/messages?key=log%3A2", None, None, 200, None),
        ("POST", "/messages", "log:3", "not json", 400, None),
        ("POST", "/messages", None, None, 413, None),
        ("GET", "/nowhere", None, None, 404, None),
    ]
    assert [e["number"] for e in entries] == list(range(before + 1, before + 7))
