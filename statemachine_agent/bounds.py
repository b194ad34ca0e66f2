"""A bound on what one HTTP client reads, however it is packed, so that no server fills the memory.

Libraries read an answer whole before anybody looks at it. Here its bytes are counted while they come, and reading ends at the
bound. It must not know what is asked, or what an answer means.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

_PLAIN = ("", "identity")
_PACKED = ("gzip", "x-gzip", "deflate")


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


class Bound:
    """The most that one `httpx2` client reads of all its answers together; one for each client."""

    def __init__(self, most: int) -> None:
        """`most` in bytes, of what came and of what it unpacks to."""
        self.most = most
        #: why reading ended, as what "the server sent"; None while nothing was wrong
        self.trouble: str | None = None
        self._left = most

    @property
    def passed(self) -> bool:
        """Whether it was too much, and not something else."""
        return self._left < 0

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
            raise self._ended("what is packed in a way that nobody asked for") from None
        response.stream = _watched()(response.stream, lambda part: self._counted(part, unpack))

    def _counted(self, part: bytes, unpack: Callable[[bytes, int], bytes]) -> bytes:
        found = b""
        try:
            if len(part) <= self._left:
                found = unpack(part, self._left + 1)
        except PackingError:
            raise self._ended("what cannot be unpacked") from None
        self._left -= max(len(part), len(found))
        if self._left < 0:
            raise self._ended(f"more than {self.most:,} bytes")
        return found

    def _ended(self, trouble: str) -> Exception:
        self.trouble = trouble
        found: Exception = import_module("httpx2").ReadError(f"the server sent {trouble}")
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
