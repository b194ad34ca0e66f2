"""A bound on what one HTTP client reads, however it is packed, so that no server fills the memory.

Libraries read an answer whole before anybody looks at it, and make objects of all that is in it. Here its bytes are counted while
they come, and so are the values that they hold as JSON, and reading ends at the bound. It must not know what is asked, or what an
answer means.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

_PLAIN = ("", "identity")
_PACKED = ("gzip", "x-gzip", "deflate")
_VALUES = (b",", b"[", b"{")  # there is one for each value, and in texts some more


class PackingError(Exception):
    """A body is packed in a way that cannot be unpacked within a bound."""


def unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    """How a body of this content encoding is unpacked, never to more than is asked for; PackingError where it cannot be."""
    encoding = encoding.strip().lower()
    if encoding in _PLAIN:
        return lambda part, _most: part
    if encoding not in _PACKED:
        raise PackingError
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: gzip or zlib, as its first bytes say

    def unpack(part: bytes, most: int) -> bytes:
        if unpacker.eof:  # what stands behind the end would be collected
            return b""
        try:
            return unpacker.decompress(part, most)
        except zlib.error:
            raise PackingError from None

    return unpack


class BoundError(Exception):
    """Nothing more is read."""


class Bound:
    """The most that is read on one connection, or by one `httpx2` client, of all answers together; one for each."""

    def __init__(self, most: int, values: int) -> None:
        """`most` in bytes, of what came and of what it unpacks to; `values` of JSON, each of which is an object of many bytes."""
        self.most = most
        self.values = values
        #: why reading ended, as what "the server sent"; None while nothing was wrong
        self.trouble: str | None = None
        self._left = most
        self._values_left = values

    @property
    def passed(self) -> bool:
        """Whether it was too much, and not something else."""
        return self._left < 0 or self._values_left < 0

    def counted(self, part: bytes, unpack: Callable[[bytes, int], bytes] = lambda part, _most: part) -> bytes:
        """What comes of the next `part`; BoundError, and the reason in `trouble`, where that is too much."""
        found = b""
        try:
            if len(part) <= self._left:
                found = unpack(part, self._left + 1)
        except PackingError:
            self.trouble = "what cannot be unpacked"
            raise BoundError from None
        self._left -= max(len(part), len(found))
        self._values_left -= sum(map(found.count, _VALUES))
        if self.passed:
            self.trouble = f"more than {self.most:,} bytes" if self._left < 0 else f"more than {self.values:,} values"
            raise BoundError
        return found

    @property
    def hooks(self) -> Mapping[str, list[Callable[[Any], Awaitable[None]]]]:
        """The client's `event_hooks`."""
        return {"request": [self._ask], "response": [self._watch]}

    async def _ask(self, request: Any) -> None:
        request.headers["Accept-Encoding"] = "identity"  # a library would unpack without looking how much comes of it

    async def _watch(self, response: Any) -> None:
        try:
            unpack = unpacking(response.headers.pop("content-encoding", ""))
        except PackingError:
            self.trouble = "what is packed in a way that nobody asked for"
            raise self._broken_off() from None
        response.stream = _watched()(response.stream, lambda part: self._looked_at(part, unpack))

    def _looked_at(self, part: bytes, unpack: Callable[[bytes, int], bytes]) -> bytes:
        try:
            return self.counted(part, unpack)
        except BoundError:
            raise self._broken_off() from None

    def _broken_off(self) -> Exception:
        """An error of the library's own kind: it closes the connection."""
        found: Exception = import_module("httpx2").ReadError(f"the server sent {self.trouble}")
        return found


class _Watched:
    """A stream of bytes whose parts are looked at on their way."""

    def __init__(self, stream: Any, look: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._look = look

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = self._stream.__aiter__()
        try:
            async for part in parts:
                yield self._look(part)
        finally:
            if hasattr(parts, "aclose"):
                await parts.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def _watched() -> Any:
    """The same as a stream of the library's own kind: it takes no other, and is imported only where it is used."""
    return type("Watched", (_Watched, import_module("httpx2").AsyncByteStream), {})
