"""What is sent: exactly what the manifest says, to nobody but the hosts of the list, and the same bytes every time."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from unit.tools.making import (
    answering,
    attempts_of,
    on_loop,
    outcome_of,
    reach,
    read_tool,
    write_tool,
)

from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown

ANY: dict[str, Any] = {
    "text": {"type": "string", "optional": True},
    "number": {"type": "number", "optional": True},
    "yes": {"type": "boolean", "optional": True},
    "many": {"type": "array", "items": {"type": "string"}, "optional": True},
    "deep": {"type": "object", "optional": True},
}
#: what an attacker, or a customer with an odd name, may write
TEXTS = [
    "a b",
    "a&b=c",
    "a/b",
    "a?b",
    "a#b",
    "..%2f",
    "%2e%2e",
    "..\\..",
    "..;",
    "//127.0.0.1",
    "%00",
    "é\u202e\U0001f4b8",
    "a\nb",
    "a;b",
    "+",
    '"',
    "\x00",
    "{x}",
]


@on_loop
async def test_a_write_sends_its_arguments_as_canonical_json_with_key_and_id() -> None:
    args = {"b": 1, "a": {"z": [1.0, "é"], "y": None}}
    tool = {"args": {"b": {"type": "integer"}, "a": {"type": "object"}}}
    async with answering() as service:
        (attempt,) = await attempts_of(write_tool(f"{service.url}/things", **tool), args, key="w:1")
        (request,) = service.requests
    assert request.line == "POST /things HTTP/1.1"
    assert request.body == '{"a":{"y":null,"z":[1,"é"]},"b":1}'.encode()
    assert request.headers["idempotency-key"] == "w:1"
    assert request.headers["x-request-id"] == attempt.request_id
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept"] == "application/json"
    assert request.headers["host"] == urlsplit(service.url).netloc
    assert "cookie" not in request.headers and "authorization" not in request.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@on_loop
async def test_the_same_action_is_the_same_bytes_whatever_order_its_arguments_come_in(method: str) -> None:
    args: dict[str, Any] = {"text": "x y", "number": 2.0, "many": ["b", "a"], "yes": True, "deep": {"b": 1, "a": 2}}
    async with answering() as service:
        tool = write_tool(f"{service.url}/things", args=ANY, http={"method": method})
        for given in (args, dict(sorted(args.items())), {**args, "number": 2}):
            assert isinstance(await outcome_of(tool, given, key="w:1"), Ok)
        lines, bodies = {r.line for r in service.requests}, {r.body for r in service.requests}
    assert len(service.requests) == 3 and len(lines) == len(bodies) == 1


@on_loop
async def test_a_read_sends_what_has_no_place_in_the_address_as_its_query() -> None:
    args = {"text": "a b&c", "number": 2.5, "yes": False, "many": ["x", "y&z"], "deep": {"b": [1]}}
    async with answering() as service:
        assert isinstance(await outcome_of(read_tool(f"{service.url}/find?fixed=1", args=ANY), args), Ok)
        query = urlsplit(service.requests[0].line.split()[1]).query
    assert parse_qsl(query) == [
        ("fixed", "1"), ("deep", '{"b":[1]}'), ("many", "x"), ("many", "y&z"), ("number", "2.5"), ("text", "a b&c"),
        ("yes", "false"),
    ]  # fmt: skip


@on_loop
async def test_arguments_that_are_not_given_leave_no_trace_in_the_address() -> None:
    async with answering() as service:
        for url in ("/find", "/find?text={text}"):
            assert isinstance(await outcome_of(read_tool(service.url + url, args=ANY), {}), Ok)
            assert isinstance(await outcome_of(read_tool(service.url + url, args=ANY), {"many": [], "yes": None}), Ok)
        assert {r.line for r in service.requests} == {"GET /find HTTP/1.1"}


@pytest.mark.parametrize("text", TEXTS)
@on_loop
async def test_no_argument_changes_the_shape_of_the_request(text: str) -> None:
    args: dict[str, Any] = {"text": {"type": "string"}, "more": {"type": "string"}}
    async with answering() as service:
        tool = read_tool(f"{service.url}/a/{{text}}/b?q={{text}}", args=args)
        found = await outcome_of(tool, {"text": text, "more": text})
        assert isinstance(found, Ok), found
        (request,) = service.requests
    assert request.line.isascii() and len(request.line.split()) == 3
    parts = urlsplit(request.line.split()[1])
    assert parts.path.count("/") == 3 and parts.fragment == ""
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", text), ("more", text)]


@pytest.mark.parametrize("text", ["", ".", ".."])
@on_loop
async def test_a_path_segment_that_would_move_is_refused(text: str) -> None:
    async with answering() as service:
        tool = read_tool(f"{service.url}/a/{{text}}", args={"text": {"type": "string"}})
        found = await outcome_of(tool, {"text": text})
        assert isinstance(found, Failed) and found.error_class == "invalid_argument"
        assert service.requests == []


@on_loop
async def test_only_the_hosts_of_the_list_are_reached() -> None:
    async with answering() as service:
        port = service.url.rpartition(":")[2]

        async def reached(host: str, *allowed: str) -> bool:
            settings = reach({"URL": f"http://{host}:{port}"}, hosts=frozenset(allowed))
            found = await outcome_of(write_tool("${URL}/"), {}, settings, key="w:1")
            if isinstance(found, Blocked) and found.reason == "host_not_allowed":
                told = f": the host {host.rpartition('@')[2].lower()}:{port} is not in the list; add it to `hosts`"
                assert found.detail.startswith("${URL}") and told in found.detail
                assert "@" not in found.detail, "what stands before the host may be a password"
                return False
            return True

        assert await reached("127.0.0.1", "127.0.0.1")
        assert await reached("127.0.0.1", f"127.0.0.1:{port}")
        assert await reached("LOCALHOST", "localhost")
        assert await reached("localhost", "LocalHost")
        for allowed in ((), ("localhost",), ("127.0.0.1:1",), ("*",), ("127.0.0",), ("0.0.1",), ("",), (f":{port}",)):
            assert not await reached("127.0.0.1", *allowed)
        assert not await reached("127.0.0.1@localhost", "127.0.0.1")  # a name of a user is no host


@on_loop
async def test_a_manifest_cannot_be_led_elsewhere_by_a_variable() -> None:
    async with answering() as service, answering() as elsewhere:
        evil = elsewhere.url.replace("127.0.0.1", "localhost")
        host = urlsplit(service.url).netloc
        for value in (
            evil,
            f"{evil}/{host}",
            f"{service.url}@{urlsplit(evil).netloc}",
            f"{evil}?{host}",
            f"{evil}#{host}",
        ):
            found = await outcome_of(
                write_tool("${URL}/"), {}, reach({"URL": value}, hosts=frozenset({"127.0.0.1"})), key="w:1"
            )
            assert isinstance(found, Blocked), (value, found)
        assert service.requests == elsewhere.requests == []


@pytest.mark.parametrize(
    "value",
    ["http://127.0.0.1:99999", "http://[::1", "http://", "ftp://127.0.0.1", "127.0.0.1:80", "http://127.0.0.1:x",
     "http://127.0.0.1\n", "http://a b", "http:///x", "\x00", "http://" + "a" * 300, "http://127.0.0.1:-1"],
)  # fmt: skip
@on_loop
async def test_an_address_that_is_none_sends_nothing(value: str) -> None:
    found = await outcome_of(write_tool("${URL}/"), {}, reach({"URL": value}), key="w:1")
    assert isinstance(found, Blocked)
    assert found.reason in ("invalid_argument", "host_not_allowed")


@pytest.mark.parametrize(
    "headers",
    [{"Host": "elsewhere"}, {"content-length": "1"}, {"Transfer-Encoding": "chunked"}, {"Connection": "close"},
     {"X": "a\r\nY: b"}],
)  # fmt: skip
@on_loop
async def test_headers_that_would_change_how_the_request_is_read_are_refused(headers: dict[str, str]) -> None:
    async with answering() as service:
        found = await outcome_of(write_tool(service.url, http={"headers": headers}), {"amount": 1}, key="w:1")
        assert isinstance(found, Blocked) and found.reason == "not_configured"
        assert service.requests == []


@on_loop
async def test_a_manifest_may_say_what_it_accepts_and_never_who_asks() -> None:
    headers = {
        "accept": "text/json",
        "CONTENT-TYPE": "application/vnd.api+json",
        "x-request-id": "mine",
        "User-Agent": "us",
    }
    async with answering() as service:
        (attempt,) = await attempts_of(write_tool(service.url, http={"headers": headers}), {"amount": 1}, key="w:1")
        (request,) = service.requests
    assert request.headers["accept"] == "text/json"
    assert request.headers["content-type"] == "application/vnd.api+json"
    assert request.headers["user-agent"] == "us"
    assert request.headers["x-request-id"] == attempt.request_id


@on_loop
async def test_a_read_is_never_given_a_key() -> None:
    async with answering() as service:
        tool = read_tool(service.url, http={"method": "POST"}, args=ANY)
        assert isinstance(await outcome_of(tool, {"text": "x"}), Ok)
        assert "idempotency-key" not in service.requests[0].headers


@on_loop
async def test_the_key_of_a_write_is_told_the_same_every_time_and_by_nobody_else() -> None:
    """Neither a manifest's own header nor a break in the key changes what the service is told."""
    async with answering() as service:
        tool = write_tool(service.url, http={"headers": {"IDEMPOTENCY-KEY": "mine"}})
        for _ in range(3):
            assert isinstance(await outcome_of(tool, {"amount": 1}, key="w:1"), Ok)
        assert [r.headers["idempotency-key"] for r in service.requests] == ["w:1"] * 3
        for key in ("w:1\r\nX-Evil: 1", "w:1\n", "w:\x00", "w:é"):
            found = await outcome_of(tool, {"amount": 1}, key=key)
            assert isinstance(found, Blocked) and found.reason == "not_configured"
        assert len(service.requests) == 3


class Odd:
    """A binding that raises what no binding should."""

    async def send(self, *_: Any) -> object:
        raise RuntimeError("unheard of")


@on_loop
async def test_whatever_a_binding_raises_a_write_may_have_been_sent() -> None:
    tools = {"write_it": Odd(), "read_it": Odd()}
    found = await outcome_of(write_tool("http://127.0.0.1"), {}, bindings=tools, key="w:1")
    assert found == Unknown("exception", "RuntimeError: unheard of")
    assert await outcome_of(read_tool("http://127.0.0.1"), {}, bindings=tools) == Failed(
        "exception", "RuntimeError: unheard of"
    )
