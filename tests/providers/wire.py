"""Servers on loopback that speak as providers do: chat completions, messages, generateContent. Requests take plays in turn."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from providers import streams
from providers.streams import parsed

READ = 123
WRITTEN = 17


@dataclass(frozen=True)
class Call:
    """One call of an answer; `arguments` is JSON text, or anything that a provider had parsed."""

    name: str
    arguments: Any = "{}"
    id: str = "call_1"


@dataclass(frozen=True)
class Says:
    """An answer of a model, in no provider's words."""

    calls: tuple[Call, ...] = ()
    text: str | None = None
    #: cut off by the limit of its length
    cut: bool = False
    #: tokens read and written, as the provider tells them; None: it does not
    usage: tuple[Any, Any] | None = (READ, WRITTEN)


@dataclass(frozen=True)
class Fails:
    """An answer that is none: a status, or what becomes of the connection."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    #: `cut`: half an answer; `hang`: none until the server stops; `endless`: one that never ends, of `body`
    connection: str = ""
    #: what an endless answer begins with
    first: bytes = b""


def calls(*given: Call, **more: Any) -> Says:
    """An answer of calls."""
    return Says(given, **more)


# ---------------------------------------------------------------- what goes over the wire


def openai(model: str, says: Says) -> dict[str, Any]:
    """A chat completion."""
    made = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in says.calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": says.text}
    if made:
        message["tool_calls"] = made
    stop = "length" if says.cut else "tool_calls" if made else "stop"
    answer: dict[str, Any] = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop}],
    }  # fmt: skip
    if says.usage is not None:
        read, written = says.usage
        answer["usage"] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return answer


def anthropic(model: str, says: Says) -> dict[str, Any]:
    """A message."""
    content: list[dict[str, Any]] = [] if says.text is None else [{"type": "text", "text": says.text}]
    content += [{"type": "tool_use", "id": c.id, "name": c.name, "input": parsed(c.arguments)} for c in says.calls]
    stop = "max_tokens" if says.cut else "tool_use" if says.calls else "end_turn"
    answer: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop, "stop_sequence": None,
    }  # fmt: skip
    if says.usage is not None:
        answer["usage"] = {"input_tokens": says.usage[0], "output_tokens": says.usage[1]}
    return answer


def google(model: str, says: Says) -> dict[str, Any]:
    """A generated content."""
    parts: list[dict[str, Any]] = [] if says.text is None else [{"text": says.text}]
    parts += [{"functionCall": {"id": c.id, "name": c.name, "args": parsed(c.arguments)}} for c in says.calls]
    answer: dict[str, Any] = {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "MAX_TOKENS" if says.cut else "STOP"}
        ],
        "modelVersion": model,
        "responseId": "r1",
    }
    if says.usage is not None:
        read, written = says.usage
        answer["usageMetadata"] = {"promptTokenCount": read, "candidatesTokenCount": written}
    return answer


WIRES = {"openai": openai, "anthropic": anthropic, "google": google}


# ---------------------------------------------------------------- the server


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Any


class Provider:
    """A server of one kind; the last play is for ever."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.plays: list[Any] = []  # Says, Fails, or what is only streamed
        self.asked: list[Asked] = []
        self.stopping = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                provider.answer(self)

            def log_message(self, *args: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False

    @property
    def url(self) -> str:
        """Where it is, as a user writes it into the settings."""
        return f"http://127.0.0.1:{self.server.server_port}" + ("/v1" if self.kind == "openai" else "")

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """The next play, in pieces where that is asked for."""
        body = json.loads(request.rfile.read(int(request.headers.get("content-length") or 0)) or b"null")
        self.asked.append(Asked(request.path, {k.lower(): v for k, v in request.headers.items()}, body))
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        request.close_connection = True
        if not isinstance(play, Fails) and streams.is_asked_for(self.kind, body, request.path):
            streaming = streams.Streams(play) if isinstance(play, Says) else play
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked went away
                streams.send(request, self.kind, self.model(body, request.path), streaming, self.stopping)
            return None
        if isinstance(play, Says):
            return self.send(request, 200, {}, json.dumps(WIRES[self.kind](self.model(body, request.path), play)))
        match play.connection:
            case "hang":
                self.stopping.wait(30)
            case "cut":
                whole = json.dumps(WIRES[self.kind]("m", Says((Call("look", '{"thing": "box"}'),))))
                self.send(request, 200, {}, whole, half=True)
            case "endless":
                self.endless(request, play)
            case _:
                text = (
                    play.body
                    if isinstance(play.body, str | bytes)
                    else json.dumps(play.body or fault(self.kind, play.status))
                )
                self.send(request, play.status, play.headers, text)
        return None

    def model(self, body: Any, path: str) -> str:
        """The model that was asked for."""
        return str(body.get("model") or path.rpartition("/models/")[2].partition(":")[0])

    def endless(self, request: BaseHTTPRequestHandler, play: Fails) -> None:
        """The same for as long as somebody reads it."""
        request.send_response(200)
        for name, value in play.headers.items():
            request.send_header(name, value)
        request.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):
            request.wfile.write(play.first)
            while not self.stopping.is_set():
                request.wfile.write(play.body)

    @staticmethod
    def send(
        request: BaseHTTPRequestHandler,
        status: int,
        headers: Mapping[str, str],
        text: str | bytes,
        *,
        half: bool = False,
    ) -> None:
        """An answer; half of it where the connection is to break."""
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        request.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data[: len(data) // 2] if half else data)
        request.wfile.flush()


def fault(kind: str, status: int) -> dict[str, Any]:
    """An error in the words of a provider."""
    match kind:
        case "openai":
            return {"error": {"message": "it was not to be", "type": "server_error", "code": None, "param": None}}
        case "anthropic":
            word = {
                400: "invalid_request_error",
                404: "not_found_error",
                429: "rate_limit_error",
                529: "overloaded_error",
            }
            return {"type": "error", "error": {"type": word.get(status, "api_error"), "message": "it was not to be"}}
        case _:
            word = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
            return {"error": {"code": status, "message": "it was not to be", "status": word.get(status, "INTERNAL")}}


@contextmanager
def served(kind: str) -> Iterator[Provider]:
    """A provider's server while it is needed."""
    provider = Provider(kind)
    thread = threading.Thread(target=provider.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.stopping.set()
        provider.server.shutdown()
        provider.server.server_close()
        thread.join()
