"""A write over HTTP has four outcomes, and which one it is depends on whether anything was sent."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from unit.tools.making import (
    Clock,
    answer,
    answering,
    attempts_of,
    free_port,
    hasty,
    on_loop,
    outcome_of,
    place,
    reach,
    shipped,
    write_tool,
)

from statemachine_agent.canonical import canonical
from statemachine_agent.sandbox import Sandbox, control
from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.toolbox import Toolbox

REFUND = shipped()["issue_refund"]


def fresh() -> tuple[dict[str, Any], str]:
    """The arguments of a refund of an order that nobody else uses, and its key."""
    order = str(uuid.uuid4().int)[:20]
    return {"order_id": order, "payment_id": "pay_1", "amount_inr": 2000}, f"refund:order-{order}:pay_1:v1"


@on_loop
async def test_a_write_is_sent_once_under_its_key_and_its_receipt_comes_back(urls: dict[str, str]) -> None:
    args, key = fresh()
    (attempt,) = await attempts_of(REFUND, args, reach(urls), key=key)
    (made,) = control.refunds(urls["REFUNDS_URL"], args["order_id"])
    receipt = {"refund_id": made["refund_id"], "status": "pending"}
    assert attempt.outcome == Ok(receipt, size=len(canonical(receipt)))
    (entry,) = [e for e in control.log(urls["REFUNDS_URL"]) if e["key"] == key]
    assert (entry["method"], entry["path"], entry["body"]) == ("POST", "/refunds", args)


@pytest.mark.parametrize(
    ("fault", "outcome", "made"),
    [
        ("commit_then_drop", Unknown("unavailable"), 1),
        ("drop_before", Unknown("unavailable"), 0),
        ("unavailable", Unknown("unavailable"), 0),
        ("garbage", Unknown("bad_result"), 1),
        ("refuse", Failed("rejected"), 0),
        ("queued", Ok({}), 1),
        ("rejected", Ok({}), 1),
        ("huge", Ok({}), 1),
    ],
)
@on_loop
async def test_what_a_misbehaving_service_means_for_a_write(
    urls: dict[str, str], fault: str, outcome: Any, made: int
) -> None:
    args, key = fresh()
    control.set_fault(urls["REFUNDS_URL"], fault, times=None)
    clock = Clock()
    attempts = await attempts_of(REFUND, args, reach(urls), key=key, clock=clock)
    assert len(attempts) == 1 and clock.slept == []  # whatever it was, it was sent, and is never simply sent again
    found = attempts[0].outcome
    assert type(found) is type(outcome)
    assert getattr(found, "error_class", None) == getattr(outcome, "error_class", None)
    refunds = control.refunds(urls["REFUNDS_URL"], args["order_id"])
    assert len(refunds) == made
    if isinstance(found, Ok):
        assert found.payload == {"refund_id": refunds[0]["refund_id"], "status": refunds[0]["status"]}


@pytest.mark.parametrize("fault", ["slow", "slow_before"])
@on_loop
async def test_an_answer_that_comes_too_late_leaves_it_open(urls: dict[str, str], fault: str) -> None:
    args, key = fresh()
    control.set_fault(urls["REFUNDS_URL"], fault, seconds=1.0)
    found = await outcome_of(hasty("issue_refund"), args, reach(urls), key=key)
    assert found == Unknown("timeout", f"{place(urls, 'REFUNDS_URL')}: no answer within 0.3 s")


@on_loop
async def test_where_nobody_listens_nothing_was_sent_and_it_is_tried_again_as_often_as_the_manifest_says() -> None:
    args, key = fresh()
    clock = Clock()
    down = reach({"REFUNDS_URL": f"http://127.0.0.1:{free_port()}"})
    attempts = await attempts_of(REFUND, args, down, key=key, clock=clock)
    assert [a.number for a in attempts] == [1, 2, 3]
    assert len({a.request_id for a in attempts}) == 3
    assert all(isinstance(a.outcome, Blocked) and a.outcome.reason == "unavailable" for a in attempts)
    assert clock.bounds == [(0, 0.5), (0, 1.0)]
    waited = [(b.started_at - a.started_at).total_seconds() for a, b in itertools.pairwise(attempts)]
    assert clock.slept == pytest.approx(waited, abs=1e-5)


@on_loop
async def test_a_service_that_comes_up_between_two_attempts_gets_exactly_one_request() -> None:
    port, clock = free_port(), Clock()
    running = answering(answer(201), port=port)
    services: list[Any] = []

    async def start() -> None:
        services.append(await running.__aenter__())

    clock.meanwhile = [start]
    try:
        attempts = await attempts_of(write_tool(f"http://127.0.0.1:{port}/"), {"amount": 1}, clock=clock, key="w:1")
    finally:
        await running.__aexit__(None, None, None)
    assert [type(a.outcome) for a in attempts] == [Blocked, Ok]
    (request,) = services[0].requests
    assert request.headers["x-request-id"] == attempts[1].request_id


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@on_loop
async def test_a_redirect_is_not_followed_and_leaves_it_open(status: int) -> None:
    async with answering() as elsewhere, answering(answer(status, headers={"Location": elsewhere.url})) as service:
        found = await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1")
        assert isinstance(found, Unknown) and found.error_class == f"http_{status}"
        assert len(service.requests) == 1
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 429, 451])
@on_loop
async def test_an_answer_that_the_manifest_does_not_declare_leaves_it_open(status: int) -> None:
    async with answering(answer(status, {"error": "nobody\nsaid what this means"})) as service:
        found = await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1")
    assert isinstance(found, Unknown)
    assert found.error_class == ("rate_limited" if status == 429 else f"http_{status}")
    assert f"HTTP {status}" in found.detail and "nobody" in found.detail and "\n" not in found.detail


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
@on_loop
async def test_a_service_that_fails_after_it_was_asked_leaves_it_open(status: int) -> None:
    async with answering(answer(status, b"")) as service:
        found = await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1")
    assert found == Unknown("unavailable", f"{service.url}: HTTP {status}: no text")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff" * 50, b"x" * 2_000_000])
@on_loop
async def test_a_declared_no_is_a_no_whatever_else_it_says(body: bytes) -> None:
    async with answering(answer(422, body)) as service:
        found = await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1")
    assert isinstance(found, Failed) and (found.error_class, found.retryable) == ("rejected", False)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"HTTP/1.1 201 Created\r\n",
        b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"nonsense\r\n\r\n",
        answer(201, b'{"value": 1'),
        answer(201, b'{"value": NaN}'),
        answer(201, b'{"value": 1, "value": 2}'),
        answer(201, b'[{"value": 1}]'),
        answer(201, b'"done"'),
        answer(201, {"value": "one"}),
        answer(201, {}),
        answer(201, b'{"value":' * 100_000),
    ],
)
@on_loop
async def test_an_answer_that_is_no_usable_one_leaves_it_open(raw: bytes | None) -> None:
    async with answering(raw) as service:
        found = await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1")
        assert isinstance(found, Unknown)
        assert found.error_class in ("unavailable", "bad_result")
        assert len(service.requests) == 1


@on_loop
async def test_a_connection_that_cannot_be_made_safe_sends_nothing() -> None:
    async with answering(at_once=b"\x15\x03\x01\x00\x02\x02\x28") as service:  # it breaks TLS off
        secure = write_tool(service.url.replace("http:", "https:"))
        found = await outcome_of(secure, {"amount": 1}, key="w:1")
        assert isinstance(found, Blocked) and found.reason == "unavailable"
        assert service.requests == []


@on_loop
async def test_nothing_content_is_an_empty_result_where_none_was_promised() -> None:
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as service:
        promised = write_tool(service.url)
        assert isinstance(await outcome_of(promised, {"amount": 1}, key="w:1"), Unknown)
        nothing = write_tool(service.url, returns={})
        assert await outcome_of(nothing, {"amount": 1}, key="w:1") == Ok({}, size=2)


@on_loop
async def test_a_connection_of_a_write_is_never_used_twice(urls: dict[str, str]) -> None:
    """A connection kept open may be closed by the service just when it is used: a write must not meet that."""
    toolbox = Toolbox(reach(urls), Clock())
    for _ in range(2):
        args, key = fresh()
        (attempt,) = await toolbox.call(REFUND, args, key=key, seconds=60)
        assert isinstance(attempt.outcome, Ok)
    assert toolbox._http._outside is not None
    (pool,) = toolbox._http._outside[0]._pools.values()
    assert pool.connections == []
    await toolbox.close()


@on_loop
async def test_a_killed_service_is_told_apart_from_one_that_was_asked(sandbox: Sandbox) -> None:
    args, key = fresh()
    sandbox.kill("notifications")
    try:
        message = {"order_id": args["order_id"], "refund_id": "rf_1", "message": "hello"}
        found = await outcome_of(shipped()["notify_customer"], message, reach(sandbox.urls), key=key)
    finally:
        sandbox.start("notifications")
    assert isinstance(found, Blocked)
    assert isinstance(await outcome_of(shipped()["notify_customer"], message, reach(sandbox.urls), key=key), Ok)
