"""Functions for the Python binding: good ones, and every kind of bad one."""

from __future__ import annotations

import asyncio
import collections
import decimal
import enum
import functools
import sys
import threading
import types
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import ToolRequest

NO_FUNCTION = {"value": 1}
#: lets go of everything that hangs
over = threading.Event()
ran_in: list[str] = []


def good(number: int = 1, call: ToolRequest | None = None) -> dict[str, Any]:
    ran_in.append(threading.current_thread().name)
    return {
        "value": number,
        "key": call.key if call else "",
        "request": call.request_id if call else "",
        "more": object(),
    }


async def good_async(number: int = 1, call: ToolRequest | None = None) -> dict[str, Any]:
    await asyncio.sleep(0)
    return good(number, call)


def without_call(number: int = 1) -> dict[str, Any]:
    return {"value": number}


def everything(**given: Any) -> dict[str, Any]:
    return {"value": len(given)}


class Callable:
    def __call__(self, number: int = 1) -> dict[str, Any]:
        return {"value": number}


class AsyncCallable:
    async def __call__(self, number: int = 1) -> dict[str, Any]:
        return {"value": number}


an_object, an_async_object = Callable(), AsyncCallable()
partial = functools.partial(without_call, number=5)


def wrapped(number: int = 1) -> Any:
    """A decorator that forgot to be async."""
    return good_async(number)


def hang() -> dict[str, Any]:
    over.wait()
    return {"value": 1}


async def hang_async() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {"value": 1}


def not_sent() -> None:
    raise NotSentError("the queue is closed", reason="closed_queue")


def refused() -> None:
    raise RefusedByServiceError("over the limit", reason="over_limit")


def lost() -> None:
    raise LostError("no receipt", reason="no_receipt")


def raises_value_error() -> None:
    raise ValueError("line one\nline two \x1b[31m")


def raises_timeout() -> None:
    raise TimeoutError("the bank was slow")


def raises_exit() -> None:
    sys.exit(3)


def raises_interrupt() -> None:
    raise KeyboardInterrupt


def raises_stop_iteration() -> Any:
    return next(iter([]))


def raises_cancelled() -> None:
    raise asyncio.CancelledError


async def exits_async() -> None:
    sys.exit(3)


async def cancels_async() -> None:
    raise asyncio.CancelledError


async def raises_async() -> None:
    raise ValueError("async")


class Word(enum.StrEnum):
    SETTLED = "settled"


class Number(enum.IntEnum):
    ONE = 1


class Pair(collections.namedtuple("Pair", "a b")):  # noqa: PYI024  what old libraries return
    __slots__ = ()


class Broken(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise OSError("the cursor is closed")

    def __iter__(self) -> Any:
        return iter(["value"])

    def __len__(self) -> int:
        return 1

    def __contains__(self, key: object) -> bool:
        return True


_loop: dict[str, Any] = {}
_loop["value"] = _loop

RETURNS: dict[str, Any] = {
    "none": None, "text": "done", "list": [{"value": 1}], "true": True, "bytes": b"{}", "class": dict,
    "nan": {"value": float("nan")}, "infinite": {"value": float("inf")}, "decimal": {"value": decimal.Decimal(1)},
    "time": {"value": datetime(2026, 1, 1, tzinfo=UTC)}, "set": {"value": {1}}, "object": {"value": object()},
    "loop": _loop, "bool": {"value": True}, "text_number": {"value": "1"}, "missing": {}, "broken": Broken(),
    "generator": (n for n in range(3)),
}  # fmt: skip
GOOD_RETURNS: dict[str, Any] = {
    "enum": {"value": Number.ONE}, "ordered": collections.OrderedDict(value=1),
    "read_only": types.MappingProxyType({"value": 1}), "float": {"value": 1.0},
}  # fmt: skip


def returns(what: str) -> Any:
    return {**RETURNS, **GOOD_RETURNS}[what]


def rich() -> dict[str, Any]:
    return {"value": 1, "word": Word.SETTLED, "pair": Pair("x", "y"), "rows": ({"a": 1, "b": datetime.now(UTC)},)}


def raises_secret(number: str) -> dict[str, Any]:
    raise ValueError(f"no such card: {number}")


async def raises_secret_async(number: str) -> dict[str, Any]:
    raise ValueError(f"no such card: {number}")


def refuses_secret(number: str) -> dict[str, Any]:
    raise RefusedByServiceError(f"{number} is over its limit", hint=f"ask {number}", reason="limit")


def loses_secret(number: str) -> dict[str, Any]:
    raise LostError(f"no answer about {number}", reason=f"about {number}")


def never_sends_secret(number: str) -> dict[str, Any]:
    raise NotSentError(f"{number} was not sent", reason=f"{number}")
