"""The same answers as server-sent events, in each provider's own words; the server can be held in the middle, or break off."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from providers.wire import Says

SIZE = 7  # characters of a piece of a word or of arguments


@dataclass
class Streams:
    """An answer that is sent in pieces."""

    says: Says
    #: so many events are sent, and then: `end`, `hold` until `go` is set, `close` politely, or `cut` the connection
    then: str = "end"
    after: int = 10_000
    go: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    size: int = SIZE


def cut_up(text: str, size: int) -> list[str]:
    """A text in pieces."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def parsed(arguments: Any) -> Any:
    """Two of the three send arguments as JSON within JSON's own values."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def openai(model: str, says: Says, size: int) -> Iterator[str]:
    """Chunks of a chat completion."""

    def chunk(delta: dict[str, Any], stop: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": stop}
        return _data({**about, "choices": [choice]})

    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": model}
    yield chunk({"role": "assistant", "content": ""})
    for part in cut_up(says.text or "", size):
        yield chunk({"content": part})
    for n, call in enumerate(says.calls):
        first = {"index": n, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield chunk({"tool_calls": [first]})
        for part in cut_up(call.arguments, size):
            yield chunk({"tool_calls": [{"index": n, "function": {"arguments": part}}]})
    yield chunk({}, "length" if says.cut else "tool_calls" if says.calls else "stop")
    if says.usage is not None:
        read, written = says.usage
        used = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        yield _data({**about, "choices": [], "usage": used})
    yield "data: [DONE]\n\n"


def anthropic(model: str, says: Says, size: int) -> Iterator[str]:
    """Events of a message."""
    read, written = says.usage or (0, 0)
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": read, "output_tokens": 1},
    }  # fmt: skip
    yield _event("message_start", message=message)
    index = 0
    if says.text is not None:
        yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for part in cut_up(says.text, size):
            yield _event("content_block_delta", index=index, delta={"type": "text_delta", "text": part})
        yield _event("content_block_stop", index=index)
        index += 1
    for call in says.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield _event("content_block_start", index=index, content_block=block)
        for part in cut_up(call.arguments, size):
            delta = {"type": "input_json_delta", "partial_json": part}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
        index += 1
    stop = "max_tokens" if says.cut else "tool_use" if says.calls else "end_turn"
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": written})
    yield _event("message_stop")


def google(model: str, says: Says, size: int) -> Iterator[str]:
    """Chunks of a generated content; a call comes whole."""

    def chunk(parts: list[dict[str, Any]], **more: Any) -> str:
        content = {"role": "model", "parts": parts}
        return _data({"candidates": [{"content": content, **more}], "modelVersion": model, "responseId": "r1", **used})

    used: dict[str, Any] = {}
    if says.usage is not None:
        used["usageMetadata"] = {"promptTokenCount": says.usage[0], "candidatesTokenCount": says.usage[1]}
    for part in cut_up(says.text or "", size):
        yield chunk([{"text": part}])
    for c in says.calls:
        yield chunk([{"functionCall": {"id": c.id, "name": c.name, "args": parsed(c.arguments)}}])
    yield chunk([], finishReason="MAX_TOKENS" if says.cut else "STOP")


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _event(kind: str, **more: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"


STREAMS = {"openai": openai, "anthropic": anthropic, "google": google}


def is_asked_for(kind: str, body: Any, path: str) -> bool:
    """Whether a request wants its answer in pieces."""
    return "streamGenerateContent" in path if kind == "google" else bool(body.get("stream"))


def send(request: BaseHTTPRequestHandler, kind: str, model: str, play: Streams, stopping: threading.Event) -> None:
    """The answer, chunk by chunk over HTTP's own chunks."""
    request.send_response(200)
    request.send_header("content-type", "text/event-stream")
    request.send_header("transfer-encoding", "chunked")
    request.end_headers()
    for number, text in enumerate(STREAMS[kind](model, play.says, play.size)):
        if number == play.after and play.then == "hold":
            play.held.set()
            while not play.go.wait(0.01):
                if stopping.is_set():
                    return
        elif number == play.after and play.then == "cut":
            return
        elif number == play.after and play.then == "close":
            break
        data = text.encode("utf-8", "surrogatepass")
        request.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        request.wfile.flush()
    request.wfile.write(b"0\r\n\r\n")
    request.wfile.flush()
