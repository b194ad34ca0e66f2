"""What libraries log while an MCP server is asked: it quotes the server, so it goes nowhere, and only that it happened is kept.

Whatever else logs under the same names, in another thread or for somebody else's connection, is left alone. It must not know
servers or tools.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

#: the client of the protocol, which calls one of its loggers `client`, and what it stands on
_NAMES = ("mcp", "client", "mcp_types", "httpx2", "httpcore2", "anyio", "asyncio", "opentelemetry")


@dataclass
class Hushed:
    """What is left of the records of one connection."""

    #: whether one of them told of an error, which mostly is an answer that cannot be read
    erred: bool = False


_hushed: ContextVar[Hushed | None] = ContextVar("hushed", default=None)


class _Hush(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """False for a record of a connection of ours."""
        now = _hushed.get()
        if now is None:
            return True
        now.erred = now.erred or record.levelno >= logging.ERROR
        return False


_HUSH = _Hush()


@contextmanager
def hushed() -> Iterator[Hushed]:
    """Nothing is logged under these names from within, tasks and threads that begin there included.

    A filter counts for its own logger only, not for those below it, so each of them gets it, once. Those of modules that are
    imported later would not.
    """
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _NAMES:
            logger.addFilter(_HUSH)
    found = Hushed()
    token = _hushed.set(found)
    try:
        yield found
    finally:
        _hushed.reset(token)
