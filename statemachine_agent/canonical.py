"""Canonical JSON and the hashes over it: one value, one text, one hash, whichever process writes it.

A float that names one integer (below 2**53) is written as that integer, so `2000.0` and `2000` have one hash; integers
are written in full, so 9007199254740992 and 9007199254740993 differ. NaN, infinities, integers of more than `MAX_BITS`
bits, lone surrogates, keys that are not text, and nesting deeper than `MAX_DEPTH` are refused, naming the path of the
value. It must not know what is hashed or why.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from statemachine_agent.errors import CanonicalError

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

MAX_DEPTH = 64
MAX_BITS = 4096  # Python itself refuses to write out much longer ones
_EXACT = 2**53  # beyond it a float no longer names one integer


def canonical(value: object) -> bytes:
    """The canonical JSON text of `value`, as UTF-8; CanonicalError names the path of what is not JSON."""
    text = json.dumps(_plain(value, (), 0), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def digest(value: object) -> str:
    """SHA-256 over the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """SHA-256 of `data`, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def plain(value: object) -> JSON:
    """`value` as plain JSON data (dict, list, str, int, float, bool, None) with canonical numbers."""
    return _plain(value, (), 0)


def _plain(value: object, path: tuple[str | int, ...], depth: int) -> JSON:
    if depth > MAX_DEPTH:
        raise _refused(path, f"is nested deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case int():
            return _whole(value, path)
        case str():
            return _text(value, path)
        case float():
            return _number(value, path)
        case Mapping():
            return {_key(k, path): _plain(v, (*path, str(k)), depth + 1) for k, v in value.items()}
        case bytes() | bytearray():
            raise _refused(path, "is bytes")
        case Sequence():
            return [_plain(v, (*path, i), depth + 1) for i, v in enumerate(value)]
        case _:
            raise _refused(path, f"is a {type(value).__name__}")


def _key(key: object, path: tuple[str | int, ...]) -> str:
    if not isinstance(key, str):
        refused = _refused(path, f"has the key {key!r}, which is not text")
        refused.problem = "has a key that is not text"
        raise refused
    return _text(key, path)


def _text(value: str, path: tuple[str | int, ...]) -> str:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(path, "holds a lone surrogate") from None
    return value


def _whole(value: int, path: tuple[str | int, ...]) -> int:
    if value.bit_length() > MAX_BITS:
        raise _refused(path, f"is an integer of more than {MAX_BITS} bits")
    return value


def _number(value: float, path: tuple[str | int, ...]) -> int | float:
    if not math.isfinite(value):
        raise _refused(path, f"is {value}")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _refused(path: tuple[str | int, ...], problem: str) -> CanonicalError:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".") or "the value"
    found = CanonicalError(f"{where} {problem}", hint="only JSON values can be stored and hashed")
    found.problem = problem
    return found
