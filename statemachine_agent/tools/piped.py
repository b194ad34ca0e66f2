"""The bound on what an MCP server writes to its standard output, set where the library decodes it.

The library reads lines of any length, and takes the name of an encoding and nothing else: so the bound is an encoding, UTF-8
that is counted. What comes behind its end is dropped, for the library reads on until the program has ended. It must not know
messages.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from statemachine_agent.bounds import Bound, BoundError

ENCODING = "counted_utf_8"


@contextmanager
def counted(bound: Bound, stop: Callable[[], object]) -> Iterator[None]:
    """What is decoded from within, in tasks that begin there too, counts against `bound`; `stop` is called at its end."""
    token = _counting.set((bound, stop))
    try:
        yield
    finally:
        _counting.reset(token)


_counting: ContextVar[tuple[Bound, Callable[[], object]]] = ContextVar("counting")


class _Decoder(codecs.IncrementalDecoder):
    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._bound, self._stop = _counting.get()
        self._plain = codecs.getincrementaldecoder("utf-8")(errors)

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]  # noqa: FBT001, FBT002  as Python calls it
        if self._bound.trouble is not None:
            return ""
        try:
            return self._plain.decode(self._bound.counted(data), final)
        except UnicodeDecodeError:
            self._bound.trouble = "what is no UTF-8"
        except BoundError:
            pass
        self._stop()
        return ""


def _find(name: str) -> codecs.CodecInfo | None:
    if name != ENCODING:
        return None
    plain = codecs.lookup("utf-8")
    return codecs.CodecInfo(plain.encode, plain.decode, incrementaldecoder=_Decoder, name=ENCODING)


codecs.register(_find)
