"""Size and time: what is read of an answer is bounded however it is packed, and a call ends when its time is over."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from typing import Any

import pytest
from unit.tools.making import (
    MINUTE,
    Clock,
    answer,
    answering,
    attempts_of,
    on_loop,
    outcome_of,
    reach,
    read_tool,
    shipped,
    write_tool,
)

from statemachine_agent.sandbox import control
from statemachine_agent.tools import http
from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.toolbox import Toolbox

SEVEN = gzip.compress(b'{"value": 7}', mtime=0)
TEXT = {"value": {"type": "string"}}


@on_loop
async def test_a_read_that_is_too_large_tells_its_head_its_tail_and_its_size(urls: dict[str, str]) -> None:
    control.set_fault(urls["PAYMENTS_URL"], "huge", on="read")
    found = await outcome_of(shipped()["lookup_order"], {"order_id": "8472"}, reach(urls))
    assert isinstance(found, Failed) and found.error_class == "too_large"
    head, mark, tail = found.detail.partition(" … ")
    assert head.startswith("the answer has 200") and "bytes, more than 262144: {" in head
    assert mark and tail.endswith('xxx"}')
    assert len(found.detail) < 600


@on_loop
async def test_the_limit_counts_what_would_be_kept() -> None:
    longest = 256 - len('{"value":""}')
    bodies = [{"value": "x" * n, "more": "y" * 300} for n in (longest, longest + 1)]  # what is dropped does not count
    async with answering(*(answer(200, body) for body in bodies)) as service:
        tool = read_tool(service.url, returns=TEXT, max_bytes=256)
        fits, over = await outcome_of(tool, {}), await outcome_of(tool, {})
    assert isinstance(fits, Ok) and fits.size == 256
    assert isinstance(over, Failed) and over.error_class == "too_large"


@on_loop
async def test_a_receipt_that_is_too_large_is_cut_and_its_outcome_kept() -> None:
    returns = {
        "refund_id": {"type": "string", "minLength": 1},
        "log": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "string"}},
    }
    receipt = {"refund_id": "rf_" + "1" * 40, "log": "l" * 50_000, "lines": ["x" * 20] * 900}
    async with answering(answer(201, receipt)) as service:
        found = await outcome_of(write_tool(service.url, returns=returns, max_bytes=4096), {"amount": 1}, key="w:1")
    assert isinstance(found, Ok)
    assert found.payload["refund_id"] == receipt["refund_id"]  # ids stay whole
    assert found.payload["log"].startswith("lll") and found.payload["log"].endswith("…")
    assert len(str(found.payload)) < 8192
    assert found.size > 50_000


def endless(pack: Any = None) -> bytes:
    """An answer that would never end, its size not announced; so much of it that nobody wants it all."""
    body = b'{"value":"' + b"x" * (8 if pack else 2) * http.ROOM
    packed = pack(body) if pack else body
    encoding = {None: "", gzip.compress: "Content-Encoding: gzip\r\n", zlib.compress: "Content-Encoding: deflate\r\n"}
    return f"HTTP/1.1 200 OK\r\n{encoding[pack]}\r\n".encode() + packed


@pytest.mark.parametrize("pack", [None, gzip.compress, zlib.compress])
@on_loop
async def test_a_huge_answer_takes_bounded_memory_however_it_is_packed(pack: Any) -> None:
    raw = endless(pack)
    async with answering(raw) as service:
        tool = read_tool(service.url, returns=TEXT)
        await outcome_of(tool, {})  # imports and buffers
        tracemalloc.start()
        try:
            found = await outcome_of(tool, {})
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert isinstance(found, Failed) and found.error_class == "too_large"
    assert f"the answer has more than {http.ROOM} bytes" in found.detail
    assert most < 4 * http.ROOM


@on_loop
async def test_a_huge_answer_to_a_write_leaves_it_open() -> None:
    async with answering(endless()) as service:
        found = await outcome_of(write_tool(service.url, returns=TEXT), {"amount": 1}, key="w:1")
    assert isinstance(found, Unknown) and found.error_class == "too_large"


@on_loop
async def test_an_announced_size_is_told_although_nobody_reads_so_far() -> None:
    size = 10**9
    raw = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * (http.ROOM + 1)
    async with answering(raw, hold=True) as service:
        found = await outcome_of(read_tool(service.url, returns=TEXT), {})
    assert isinstance(found, Failed)
    assert found.detail.startswith(f"the answer has {size} bytes, more than 262144: xxx")


@pytest.mark.parametrize(
    ("pack", "name"), [(gzip.compress, "gzip"), (gzip.compress, "X-GZIP"), (zlib.compress, "deflate")]
)
@on_loop
async def test_a_packed_answer_is_read_although_nobody_asked_for_one(pack: Any, name: str) -> None:
    async with answering(answer(200, pack(b'{"value": 7}'), {"Content-Encoding": name})) as service:
        assert await outcome_of(read_tool(service.url), {}) == Ok({"value": 7}, size=11)
        assert service.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"value": 7}', "gzip"),
        (SEVEN[:-6] + b"123456", "gzip"),  # the checksum does not fit
        (b"\x0b\x05\x80\x7b\x7d\x03", "br"),
        (SEVEN, "gzip, gzip"),
    ],
)
@on_loop
async def test_what_cannot_be_unpacked_is_no_result(body: bytes, name: str) -> None:
    async with answering(answer(200, body, {"Content-Encoding": name})) as service:
        found = await outcome_of(read_tool(service.url), {})
        assert isinstance(found, Failed) and found.error_class == "bad_result"
        assert isinstance(await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1"), Unknown)


@pytest.mark.parametrize(
    ("seconds", "timeout", "told"),
    [(0.25, "10s", "0.25"), (MINUTE, "250ms", "0.25"), (0.0, "10s", None), (-5, "10s", None)],
)
@on_loop
async def test_a_call_ends_with_its_timeout_or_with_what_is_left_for_it(
    seconds: float, timeout: str, told: str | None
) -> None:
    async with answering(b"", hold=True) as service:  # it takes the request, and says nothing
        read = await outcome_of(read_tool(service.url, timeout=timeout), {}, seconds=seconds)
        write = await outcome_of(write_tool(service.url, timeout=timeout), {"amount": 1}, key="w:1", seconds=seconds)
        asked = len(service.requests)
    assert isinstance(read, Failed) and read.error_class == "timeout"
    if told is None:
        assert asked == 0
        assert write == Blocked("timeout", "no time was left")
    else:
        assert asked == 2
        assert read.detail == f"{service.url}: no answer within {told} s"
        assert write == Unknown("timeout", f"{service.url}: no answer within {told} s")


@on_loop
async def test_an_answer_that_drips_does_not_outlive_the_timeout() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", hold=True) as service:
        found = await outcome_of(read_tool(service.url, timeout="50ms"), {})
    assert isinstance(found, Failed) and found.error_class == "timeout"


@on_loop
async def test_no_try_begins_that_would_have_no_time() -> None:
    clock = Clock()
    async with answering(answer(503)) as service:
        tool = read_tool(service.url, retry={"attempts": 10, "backoff": "8s"})
        attempts = await attempts_of(tool, {}, clock=clock, seconds=20)
        assert len(service.requests) == len(attempts) < 10
    assert sum(clock.slept) < 20
    assert isinstance(attempts[-1].outcome, Failed)
    assert attempts[-1].outcome.error_class == "unavailable"  # what it was, and not that there was no time for more


@on_loop
async def test_a_call_that_is_cancelled_lets_go_at_once() -> None:
    async with answering(b"", hold=True) as service:
        toolbox = Toolbox(reach(), Clock())
        call = asyncio.ensure_future(toolbox.call(read_tool(service.url), {}, seconds=MINUTE))
        while not service.requests:
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await toolbox.close()


@on_loop
async def test_many_calls_run_at_once_on_one_toolbox() -> None:
    async with answering(answer()) as service:
        toolbox = Toolbox(reach(), Clock())
        calls = [toolbox.call(read_tool(service.url), {}, seconds=MINUTE) for _ in range(100)]
        assert all(isinstance(a[-1].outcome, Ok | Failed) for a in await asyncio.gather(*calls))
        await toolbox.close()
        assert len({r.headers["x-request-id"] for r in service.requests}) == 100


@on_loop
async def test_headers_without_end_are_no_answer() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 20_000
    async with answering(endless) as service:
        read = await outcome_of(read_tool(service.url), {})
        write = await outcome_of(write_tool(service.url), {"amount": 1}, key="w:1")
    assert isinstance(read, Failed) and read.error_class == "unavailable"
    assert isinstance(write, Unknown) and write.error_class == "unavailable"


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\nthe card 4711-4711\r\n\r\n", b"the card 4711-4711\r\n\r\n"])
@on_loop
async def test_an_answer_that_is_no_http_is_not_quoted_where_something_is_masked(said: bytes) -> None:
    async with answering(said) as service:
        tool = read_tool(f"{service.url}/x")
        quoting = await outcome_of(tool, {}, reach())
        masking = await outcome_of(tool.model_copy(update={"redact": ("value",)}), {}, reach())
    assert isinstance(quoting, Failed)
    assert isinstance(masking, Failed)
    assert "4711" in quoting.detail
    assert "4711" not in masking.detail
    assert masking.detail.endswith(
        "RemoteProtocolError; its text is not shown, since some of the tool's results are masked"
    )
    assert masking.error_class == quoting.error_class


@pytest.mark.parametrize("more", [b"a", b"\0\0\0\xff\xff"], ids=["behind its end", "nothing at all"])
@on_loop
async def test_what_is_packed_and_unpacks_to_nothing_is_not_read_for_ever(
    monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    """All the bytes that come count, not only those that are left of them."""
    monkeypatch.setattr(http, "ROOM", 50_000)
    begin = zlib.compressobj(wbits=31)
    first = begin.compress(b" ") + begin.flush(zlib.Z_SYNC_FLUSH) if more[:1] == b"\0" else SEVEN
    head = b"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: 99999999\r\n\r\n"
    async with answering(head + first + more * (60_000 // len(more)), hold=True) as service:
        found = await outcome_of(read_tool(service.url, max_bytes=1000, timeout="5s"), {})
    assert isinstance(found, Failed) and found.error_class == "too_large", found
