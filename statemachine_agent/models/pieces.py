"""A provider's answer as it is sent: its pieces are told as they come, and what is given back is the whole, or nothing.

It must not read the whole: that is done where an answer that came at once is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from statemachine_agent.models.port import Hear, ModelUnavailableError, Piece

#: characters of one answer, thoughts included; far more than any decision has, and no server can fill the memory
_MOST = 4_000_000


async def told(stream: Any, hear: Hear, label: str) -> Any:
    """The library's response, when all of it has come; ModelUnavailableError where it broke off before its end.

    A connection that is closed politely in the middle looks to the libraries like an end: only what the provider gave a reason
    for has ended.
    """
    numbers: dict[int, int] = {}
    left = _MOST
    async for event in stream:
        found = list(_pieces(event, numbers))
        left -= sum(len(piece.text) for piece in found) or _silent(event)
        if left < 0:
            raise ModelUnavailableError(f"{label} sent more than {_MOST:,} characters")
        for piece in found:
            hear(piece)
    response = stream.get()
    ended = (response.provider_details or {}).get("finish_reason") or response.finish_reason == "content_filter"
    if not ended or response.state == "incomplete":
        raise ModelUnavailableError(f"{label} broke off in the middle of its answer")
    return response


def _pieces(event: Any, numbers: dict[int, int]) -> Iterator[Piece]:
    """What an event of the library adds to words and calls; `numbers` holds which call each part is."""
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ToolCallPart,
        ToolCallPartDelta,
    )

    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            yield from _some("words", text)
        case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=args)):
            number = numbers.setdefault(index, len(numbers))
            yield from _some("call", name, number)
            yield from _some("arguments", args, number)
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(tool_name_delta=name, args_delta=args)):
            number = numbers.setdefault(index, len(numbers))
            yield from _some("call", name, number)
            yield from _some("arguments", args, number)


def _silent(event: Any) -> int:
    """Characters of what is kept and not told: thoughts."""
    if event.event_kind not in ("part_start", "part_delta"):
        return 0
    part = getattr(event, "part", None) or getattr(event, "delta", None)
    text = getattr(part, "content", None) or getattr(part, "content_delta", None)
    return len(text) if isinstance(text, str) else 0


def _some(kind: str, given: Any, number: int = 0) -> Iterator[Piece]:
    """A piece, unless there is nothing in it; two of three providers send arguments as text, one as values."""
    if given is not None and given != "":
        yield Piece(
            kind, given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str), number
        )
