"""What becomes of an MCP server's own text: on loopback, in this process, a server that says what it is told to."""

from __future__ import annotations

import base64
import json
import logging
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from unit.tools.making import on_loop, outcome_of

from statemachine_agent import Environment
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.settings import McpServer
from statemachine_agent.tools.hush import hushed
from statemachine_agent.tools.mcp import McpBinding
from statemachine_agent.tools.outcome import Failed, Ok, Outcome, Unknown
from statemachine_agent.tools.request import Reach

TOKEN = "SeCrEt-AbCdEfGhIjKlMnOp-0123456789"  # noqa: S105  an invented one
LISTED = {"name": "read", "description": f"Reads with {TOKEN}.", "inputSchema": {"type": "object", "title": TOKEN}}

#: writes what it likes to the connection, for the request with this id
Says = Callable[[BaseHTTPRequestHandler, Any], None]


def sent(
    body: bytes, kind: str = "application/json", *, more: bytes = b"", packed: str = "", status: int = 200
) -> Says:
    """An answer of these bytes; of `more` of them for as long as somebody reads."""

    def say(to: BaseHTTPRequestHandler, _: Any) -> None:
        to.send_response(status)
        to.send_header("Content-Type", kind)
        to.send_header("Connection", "close")
        if packed:
            to.send_header("Content-Encoding", packed)
        if not more:
            to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        to.wfile.write(body)
        while more:
            to.wfile.write(more)

    return say


def result(**given: Any) -> Says:
    """A result of the protocol."""

    def say(to: BaseHTTPRequestHandler, number: Any) -> None:
        sent(json.dumps({"jsonrpc": "2.0", "id": number, "result": given}).encode())(to, number)

    return say


def text(given: str, **more: Any) -> Says:
    return result(content=[{"type": "text", "text": given}], **more)


def broken_header(to: BaseHTTPRequestHandler, _: Any) -> None:
    to.wfile.write(f"HTTP/1.1 200 OK\r\nBad Header {TOKEN}\r\n\r\n".encode())


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked went away."""


@contextmanager
def serving(says: Says) -> Iterator[Reach]:
    """A server that answers a call in this way, behind settings that send it the token."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.close_connection = True
            with suppress(BrokenPipeError, ConnectionResetError):
                match asked["method"]:
                    case "initialize":
                        about = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
                        result(**about, serverInfo={"name": "x", "version": "1"})(self, asked["id"])
                    case "tools/list":
                        result(tools=[LISTED])(self, asked["id"])
                    case "tools/call":
                        says(self, asked["id"])
                    case _ if "id" in asked:
                        no = {"code": -32601, "message": "no"}
                        sent(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": no}).encode())(self, None)
                    case _:
                        sent(b"", status=202)(self, None)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        yield reach(McpServer(url=url, headers={"X-Key": "${TOKEN}"}))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reach(server: McpServer) -> Reach:
    return Reach(variables={"TOKEN": TOKEN}, environ={}, servers={"desk": server})


def tool(effect: str = "read", **more: Any) -> ToolManifest:
    given: dict[str, Any] = {
        "tool": "it", "version": 1, "summary": "It.", "effect": effect, "source": "desk",
        "binding": {"mcp": {"server": "desk", "tool": "read", **({"key_argument": "key"} if effect == "write" else {})}},
        "args": {}, "returns": {"id": {"type": "string"}}, "timeout": "20s", "max_bytes": 1000,
    }  # fmt: skip
    if effect == "write":
        given |= {"idempotency": {"key": "k:k", "replay": True}, "approval": []}
    return ToolManifest.model_validate({**given, **more})


async def called(reached: Reach, manifest: ToolManifest | None = None) -> Outcome:
    manifest = manifest or tool()
    key = None if manifest.is_read else "k:k"
    return await outcome_of(manifest, {}, reached, clock=Environment(), key=key)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """All that was logged, at every level, and by whom."""
    caplog.set_level(logging.DEBUG)
    ours = ("asyncio", "statemachine_agent")  # the test's own loop says which selector it has
    return lambda: "".join(f"{r.name}: {r.getMessage()}{r.exc_text}" for r in caplog.records if r.name not in ours)


UNREADABLE = {
    "no JSON": sent(f'{{"x": "{TOKEN}'.encode()),
    "no message": sent(json.dumps({"a": TOKEN}).encode()),
    "no message in an event": sent(
        f'event: message\ndata: {{"a": "{TOKEN}"}}\n\n'.encode(), "text/event-stream; charset=utf-8"
    ),
    "no result": result(content=TOKEN),
    "no content": result(content=[{"type": TOKEN}]),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@on_loop
async def test_what_cannot_be_read_is_neither_logged_nor_quoted(
    kind: str, logged: Callable[[], str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The library logs it with a traceback, and what quotes it leaves out its middle, so that no value is found in it."""
    with serving(UNREADABLE[kind]) as reached:
        found = await called(reached)
    assert isinstance(found, Failed) and found.error_class == "bad_result", found
    assert found.detail == "desk: what the server wrote cannot be read"
    assert logged() == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("says", [broken_header, sent(b"", TOKEN)], ids=["a header", "a kind of content"])
@on_loop
async def test_what_is_quoted_of_an_answer_names_the_value(says: Says, logged: Callable[[], str]) -> None:
    with serving(says) as reached:
        found = await called(reached)
    assert isinstance(found, Failed) and "${TOKEN}" in found.detail, found
    assert TOKEN.lower() not in found.detail.lower() + logged().lower()


def on_stdio(noise: str) -> Reach:
    """A program that answers, and before an answer to a call does this."""
    program = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    match asked['method']:\n"
        "        case 'initialize':\n"
        "            version = asked['params']['protocolVersion']\n"
        "            found = {'protocolVersion': version, 'capabilities': {}, 'serverInfo': {'name': '', 'version': ''}}\n"
        f"        case 'tools/list': found = {{'tools': [{LISTED!r}]}}\n"
        "        case 'tools/call':\n"
        f"            {noise}\n"
        "            found = {'content': [], 'structuredContent': {'id': 'x'}}\n"
        "        case _: found = {}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked.get('id'), 'result': found}), flush=True)\n"
    )
    return reach(McpServer(command=(sys.executable, "-S", "-c", program), environment=("TOKEN",)))


@on_loop
async def test_a_line_that_is_no_message_is_passed_over_and_not_logged(
    logged: Callable[[], str], capfd: pytest.CaptureFixture[str]
) -> None:
    noise = "print(os.environ['TOKEN'], 'is not JSON'); print(json.dumps({'a': os.environ['TOKEN']}))"
    found = await called(on_stdio(noise))
    assert isinstance(found, Ok) and found.payload == {"id": "x"}, found
    assert logged() == ""
    assert capfd.readouterr() == ("", "")


def test_what_others_log_under_the_same_names_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """An application may have servers of its own, and want to read of them."""
    logger = logging.getLogger("mcp.client.of_somebody_else")
    with hushed() as log:
        logger.error("ours")
        other = Thread(target=logger.error, args=("theirs",))
        other.start()
        other.join()
    logger.error("later")
    assert log.erred
    assert [r.getMessage() for r in caplog.records] == ["theirs", "later"]


# ---------------------------------------------------------------- a value in what is shown


@pytest.mark.parametrize("before", [0, 125, 140, 150, 395])
@on_loop
async def test_a_failure_that_is_cut_within_the_value_shows_nothing_of_it(before: int) -> None:
    with serving(text("x" * before + " " + TOKEN, isError=True)) as reached:
        found = await called(reached)
    assert isinstance(found, Failed), found
    assert TOKEN[:4] not in found.detail and found.detail.startswith("desk: the tool failed: x"[: 22 + before])


FORMS = {
    "as it is": TOKEN, "upper": TOKEN.upper(), "base64": base64.b64encode(TOKEN.encode()).decode(),
    "hexadecimal": TOKEN.encode().hex(), "escaped": "".join(f"\\u{ord(c):04x}" for c in TOKEN),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@on_loop
async def test_a_value_is_found_in_the_forms_that_services_write(form: str) -> None:
    """As it is in answers over HTTP."""
    for says in (
        text(json.dumps({"id": FORMS[form]})),
        result(content=[], structuredContent={"id": FORMS[form]}),
    ):
        with serving(says) as reached:
            found = await called(reached)
        assert isinstance(found, Ok) and "${TOKEN}" in str(found.payload), found
        assert FORMS[form][8:-8] not in str(found.payload)


@on_loop
async def test_keys_that_differ_only_by_the_value_are_no_answer() -> None:
    with serving(text(json.dumps({"id": "1", TOKEN: 1, "${TOKEN}": 2}))) as reached:
        found = await called(reached)
    assert isinstance(found, Failed) and found.error_class == "bad_result", found


@on_loop
async def test_a_value_in_a_list_of_tools_is_not_shown_and_the_hash_is_that_of_what_is() -> None:
    """A draft of a manifest is written from it."""
    with serving(text('{"id": "1"}')) as reached:
        binding = McpBinding(reached, Environment())
        (offer,) = await binding.offered("desk", 20)
        await binding.close()
        assert TOKEN not in repr(offer) and offer.input_schema["title"] == "${TOKEN}"
        pinned = {"mcp": {"server": "desk", "tool": "read", "schema_hash": offer.schema_hash}}
        found = await called(reached, tool(binding=pinned))
    assert isinstance(found, Ok), found


# ---------------------------------------------------------------- answers without end

_BEGIN = zlib.compressobj(wbits=31)
_EMPTY = _BEGIN.compress(b" ") + _BEGIN.flush(zlib.Z_SYNC_FLUSH)
_NOTE = b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "%b"}}\n\n'
ENDLESS = {
    "blanks": sent(b" ", more=b" " * 200_000),
    "an event": sent(b"data: ", "text/event-stream", more=b"a" * 200_000),
    "events": sent(b"", "text/event-stream", more=_NOTE % (b"x" * 100_000)),
    "an error": sent(b" ", more=b" " * 200_000, status=400),
    "packed, much of it": sent(zlib.compress(b" " * 50_000_000), packed="deflate"),
    "packed, nothing of it": sent(_EMPTY, packed="gzip", more=b"\0\0\0\xff\xff" * 40_000),
    "behind what was packed": sent(zlib.compress(b" "), packed="deflate", more=b"a" * 200_000),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("effect", ["read", "write"])
@on_loop
async def test_an_answer_without_end_is_not_read_to_the_end_of_the_memory(kind: str, effect: str) -> None:
    """The library would read until the time is over; a write may have been done all the same."""
    with serving(ENDLESS[kind]) as reached:
        binding = {"mcp": {"server": "desk", "tool": "read"}}
        if effect == "write":
            offers = McpBinding(reached, Environment())
            (offer,) = await offers.offered("desk", 20)
            await offers.close()
            binding["mcp"] |= {"key_argument": "key", "schema_hash": offer.schema_hash}
        found = await called(reached, tool(effect, binding=binding))
    assert isinstance(found, Failed if effect == "read" else Unknown), found
    assert found.error_class == "too_large" and found.detail == "desk: the server sent more than 4,194,304 bytes"


@pytest.mark.parametrize(
    ("noise", "told", "error_class"),
    [
        ("print('a' * 5_000_000)", "more than 4,194,304 bytes", "too_large"),
        ("print('0,' * 300_000)", "more than 262,144 values", "too_large"),
        ("sys.stdout.buffer.write(bytes([255, 10]))", "what is no UTF-8", "bad_result"),
    ],
)
@on_loop
async def test_a_program_that_writes_too_much_is_heard_no_longer(noise: str, told: str, error_class: str) -> None:
    """Nor is one waited for that writes what no line can be read from."""
    found = await called(on_stdio(noise))
    assert isinstance(found, Failed) and found.error_class == error_class, found
    assert found.detail == f"desk: the server sent {told}"


@on_loop
async def test_values_without_number_are_not_made_objects_of() -> None:
    """The library tells five faults of each value that it did not expect: two million of them took a gigabyte."""
    with serving(sent(b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [' + b"0," * 300_000 + b"0]}}")) as reached:
        found = await called(reached)
    assert isinstance(found, Failed) and found.error_class == "too_large", found
    assert found.detail == "desk: the server sent more than 262,144 values"


@on_loop
async def test_what_is_packed_otherwise_is_no_answer() -> None:
    with serving(sent(b"{}", packed="br")) as reached:
        found = await called(reached)
    assert isinstance(found, Failed) and found.error_class == "bad_result", found
    assert found.detail == "desk: the server sent what is packed in a way that nobody asked for"
