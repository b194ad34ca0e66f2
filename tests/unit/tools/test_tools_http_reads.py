"""A read over HTTP gives its declared fields or fails; it may be asked again, each time under an id of its own."""

from __future__ import annotations

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
    read_tool,
    shipped,
)

from statemachine_agent.sandbox import control
from statemachine_agent.tools.outcome import Failed, Ok
from statemachine_agent.tools.toolbox import Toolbox

ORDER = shipped()["lookup_order"]
RETRY = {"attempts": 3, "backoff": "0.5s", "errors": ["timeout", "unavailable"]}


@on_loop
async def test_a_read_gives_what_the_manifest_declares_and_nothing_else(urls: dict[str, str]) -> None:
    found = await outcome_of(ORDER, {"order_id": "8472"}, reach(urls))
    assert isinstance(found, Ok)
    assert set(found.payload) == set(ORDER.returns)
    assert found.payload["order_id"] == "8472"


@pytest.mark.parametrize(
    ("fault", "error_class", "tries"),
    [("drop", "unavailable", 3), ("drop_before", "unavailable", 3), ("unavailable", "unavailable", 3),
     ("garbage", "bad_result", 1), ("huge", "too_large", 1)],
)  # fmt: skip
@on_loop
async def test_what_a_misbehaving_service_means_for_a_read(
    urls: dict[str, str], fault: str, error_class: str, tries: int
) -> None:
    control.set_fault(urls["PAYMENTS_URL"], fault, times=None, on="read")
    attempts = await attempts_of(ORDER, {"order_id": "8472"}, reach(urls))
    assert [(a.outcome.error_class, a.number) for a in attempts if isinstance(a.outcome, Failed)] == [
        (error_class, n) for n in range(1, tries + 1)
    ]
    assert len({a.request_id for a in attempts}) == tries


@on_loop
async def test_a_read_that_fails_twice_succeeds_at_the_third_try(urls: dict[str, str]) -> None:
    control.set_fault(urls["PAYMENTS_URL"], "unavailable", times=1, on="read")
    control.set_fault(urls["PAYMENTS_URL"], "drop", times=1, on="read")
    attempts = await attempts_of(ORDER, {"order_id": "8472"}, reach(urls))
    assert [type(a.outcome) for a in attempts] == [Failed, Failed, Ok]


@on_loop
async def test_slowness_is_a_timeout_and_tried_again(urls: dict[str, str]) -> None:
    control.set_fault(urls["PAYMENTS_URL"], "slow", seconds=1.0, on="read")
    attempts = await attempts_of(hasty("lookup_order"), {"order_id": "8472"}, reach(urls))
    assert attempts[0].outcome == Failed(
        "timeout", f"{place(urls, 'PAYMENTS_URL')}: no answer within 0.3 s", retryable=True
    )
    assert isinstance(attempts[1].outcome, Ok)


@on_loop
async def test_what_is_not_there_is_not_asked_for_again(urls: dict[str, str]) -> None:
    (attempt,) = await attempts_of(ORDER, {"order_id": "999"}, reach(urls))
    assert isinstance(attempt.outcome, Failed)
    assert (attempt.outcome.error_class, attempt.outcome.retryable) == ("not_found", False)


@pytest.mark.parametrize(
    ("status", "error_class", "tries"),
    [(302, "http_302", 1), (400, "http_400", 1), (404, "http_404", 1), (429, "rate_limited", 1), (500, "unavailable", 3),
     (503, "unavailable", 3)],
)  # fmt: skip
@on_loop
async def test_only_the_errors_of_the_manifest_are_tried_again(status: int, error_class: str, tries: int) -> None:
    async with answering(answer(status)) as service:
        attempts = await attempts_of(read_tool(service.url, retry=RETRY), {})
        assert len(service.requests) == len(attempts) == tries
    found = attempts[-1].outcome
    assert isinstance(found, Failed)
    assert (found.error_class, found.retryable) == (error_class, tries > 1)


@on_loop
async def test_a_manifest_may_name_other_errors_to_try_again() -> None:
    tool = {"retry": {**RETRY, "errors": ["rate_limited", "bad_result"]}}
    async with answering(answer(429), answer(200, b"x"), answer()) as service:
        attempts = await attempts_of(read_tool(service.url, **tool), {})
    assert [type(a.outcome) for a in attempts] == [Failed, Failed, Ok]
    async with answering(answer(500)) as service:
        assert len(await attempts_of(read_tool(service.url, **tool), {})) == 1


@on_loop
async def test_every_try_has_an_id_of_its_own_which_the_service_is_told() -> None:
    told: list[tuple[str, int]] = []
    async with answering(answer(500)) as service:
        attempts = await attempts_of(
            read_tool(service.url, retry=RETRY), {}, on_request=lambda name, n: told.append((name, n))
        )
        sent = [r.headers["x-request-id"] for r in service.requests]
    assert sent == [a.request_id for a in attempts] == [name for name, _ in told]
    assert [n for _, n in told] == [1, 2, 3]
    assert len(set(sent)) == 3 and all(name.startswith("req-") for name in sent)


@on_loop
async def test_tries_wait_a_random_time_under_a_bound_that_doubles_and_ends_at_thirty_seconds() -> None:
    waits = set()
    for seed in range(5):
        clock = Clock(seed)
        async with answering(answer(500)) as service:
            tool = read_tool(service.url, retry={**RETRY, "attempts": 10})
            attempts = await attempts_of(tool, {}, clock=clock, seconds=1000)
        assert len(attempts) == 10
        assert clock.bounds == [(0, b) for b in (0.5, 1, 2, 4, 8, 16, 30, 30, 30)]
        assert all(0 <= wait <= bound for wait, (_, bound) in zip(clock.slept, clock.bounds, strict=True))
        waits.add(tuple(clock.slept))
    assert len(waits) == 5  # full jitter: no two seeds wait alike


@on_loop
async def test_where_nobody_listens_a_read_fails_as_often_as_it_may_be_asked() -> None:
    tool = read_tool(f"http://127.0.0.1:{free_port()}/", retry=RETRY)
    attempts = await attempts_of(tool, {})
    assert [a.outcome.error_class for a in attempts if isinstance(a.outcome, Failed)] == ["unavailable"] * 3


@on_loop
async def test_a_kept_connection_that_the_service_closed_is_no_lasting_harm() -> None:
    tool = read_tool("${URL}/", retry=RETRY)
    async with answering(answer()) as service:  # it says nothing of closing, and closes after each answer
        toolbox = Toolbox(reach({"URL": service.url}), Clock())
        for _ in range(5):
            attempts = await toolbox.call(tool, {}, seconds=60)
            assert isinstance(attempts[-1].outcome, Ok)
        await toolbox.close()


BAD = [
    ({"value": "1"}, 'value: "1" is not of type "integer"'),
    ({"value": 1.5}, 'value: 1.5 is not of type "integer"'),
    ({"value": None}, 'value: null is not of type "integer"'),
    ({}, '"value" is a required property'),
    ({"value": 1, "rows": [{"at": "2026-10-28T11:17:43Z"}, {"at": "yesterday"}]}, 'rows.1.at: "yesterday" is not'),
    ({"value": 1, "rows": {}}, "rows: {} is not of type"),
    ({"value": 1, "rows": [{"at": 5}]}, "rows.0.at: 5 is not"),
    ({"value": True}, 'value: true is not of type "integer"'),
]


@pytest.mark.parametrize(("body", "fault"), BAD)
@on_loop
async def test_an_answer_that_does_not_fit_names_the_field(body: Any, fault: str) -> None:
    item = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    returns = {"value": {"type": "integer"}, "rows": {"type": "array", "items": item, "optional": True}}
    async with answering(answer(200, body)) as service:
        found = await outcome_of(read_tool(service.url, returns=returns), {})
    assert isinstance(found, Failed) and found.error_class == "bad_result"
    assert fault in found.detail, found.detail


@on_loop
async def test_fields_that_are_not_declared_are_dropped_at_every_depth() -> None:
    returns = {
        "value": {"type": "integer"},
        "note": {"type": "string", "optional": True},
        "one": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "free": {"type": "object", "optional": True},
    }
    body = {
        "value": 1, "note": None, "secret": "x", "free": {"any": {"thing": [1]}},
        "one": {"a": 1, "b": 2}, "rows": [{"a": 1, "b": {"c": 3}}, {"a": 2}],
    }  # fmt: skip
    async with answering(answer(200, body)) as service:
        found = await outcome_of(read_tool(service.url, returns=returns), {})
    wanted = {"value": 1, "one": {"a": 1}, "rows": [{"a": 1}, {"a": 2}], "free": {"any": {"thing": [1]}}}
    assert isinstance(found, Ok)
    assert found.payload == wanted  # the optional null counts as absent


@on_loop
async def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    async with answering(answer(200, b'{"value": 2000.0}'), answer(200, b'{"value": 2e3}')) as service:
        for _ in range(2):
            found = await outcome_of(read_tool(service.url), {})
            assert isinstance(found, Ok)
            assert found.payload == {"value": 2000} and type(found.payload["value"]) is int


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"value": "\\ud800"}', "lone surrogate"),
        (b'{"value": 1e999}', "is inf"),
        (b'{"value": ' + b"[" * 80 + b"]" * 80 + b"}", "nested deeper"),
        (b'{"value": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"<html>&lt;</html>", "is not JSON: <html>&lt;</html>"),
        (b'{"value": 1} {"value": 2}', "is not JSON"),
        (b'{"value": 1, "value": 1}', "is not JSON"),
    ],
)
@on_loop
async def test_what_is_no_json_value_is_refused(body: bytes, problem: str) -> None:
    returns = {"value": {"type": "string", "optional": True}}
    async with answering(answer(200, body)) as service:
        found = await outcome_of(read_tool(service.url, returns=returns), {})
    assert isinstance(found, Failed) and found.error_class == "bad_result"
    assert problem in found.detail
