"""Payloads: canonical JSON stored once under its hash, compressed where that helps, and checked whenever it is read.

It must not know what a payload means.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256

from statemachine_agent.canonical import canonical
from statemachine_agent.errors import StoreError

_HASH = re.compile("[0-9a-f]{64}")
_WORTH_IT = 128  # bytes; below that compression only costs


def put(connection: sqlite3.Connection, value: object) -> bytes:
    """Store `value` unless it is there; its hash."""
    text = canonical(value)
    key = sha256(text).digest()
    _insert(connection, key, text)
    return key


def _insert(connection: sqlite3.Connection, key: bytes, text: bytes) -> None:
    packed = zlib.compress(text, 6) if len(text) > _WORTH_IT else text
    compressed = len(packed) < len(text)
    connection.execute(
        "INSERT INTO payload (hash, compressed, body) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING",
        (key, int(compressed), packed if compressed else text),
    )


def put_parts(connection: sqlite3.Connection, parts: Iterable[object]) -> bytes:
    """Store each part that is not there, and the list of their hashes; the hash of that list.

    Most of the parts of a prompt were in the one before it: what is there is not compressed once more.
    """
    texts = [canonical(part) for part in parts]
    keys = [sha256(text).digest() for text in texts]
    names = canonical([key.hex() for key in keys])
    for text, key in zip([*texts, names], [*keys, whole := sha256(names).digest()], strict=True):
        if connection.execute("SELECT 1 FROM payload WHERE hash = ?", (key,)).fetchone() is None:
            _insert(connection, key, text)
    return whole


def get_parts(connection: sqlite3.Connection, key: bytes) -> list[object]:
    """The parts under the hash of their list."""
    names = get(connection, key)
    if not isinstance(names, list) or not all(isinstance(n, str) and _HASH.fullmatch(n) for n in names):
        raise StoreError(f"the payload {key.hex()[:12]} is no list of parts", hint="restore the file from a backup")
    keys = [bytes.fromhex(name) for name in names]
    found = get_many(connection, keys)
    return [found[part] for part in keys]


def get(connection: sqlite3.Connection, key: bytes) -> object:
    """The value under `key`; StoreError where it is missing or was altered."""
    return get_many(connection, [key])[key]


def get_many(connection: sqlite3.Connection, keys: Iterable[bytes]) -> dict[bytes, object]:
    """The values under several keys."""
    wanted = list(dict.fromkeys(keys))
    found: dict[bytes, object] = {}
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        marks = ",".join("?" * len(part))
        query = f"SELECT hash, compressed, body FROM payload WHERE hash IN ({marks})"  # noqa: S608
        rows = connection.execute(query, part).fetchall()  # a question that is still open would hold its snapshot
        for key, compressed, body in rows:
            found[key] = _unpacked(key, bool(compressed), body)
    missing = next((k for k in wanted if k not in found), None)
    if missing is not None:
        raise StoreError(
            f"the payload {missing.hex()[:12]} is missing from the store", hint="restore the file from a backup"
        )
    return found


def _decompressed(body: bytes) -> tuple[bytes, bytes]:
    """The text, and what lies behind its end."""
    unpacking = zlib.decompressobj()
    return unpacking.decompress(body), unpacking.unused_data


def _unpacked(key: bytes, compressed: bool, body: bytes) -> object:  # noqa: FBT001
    with suppress(zlib.error, ValueError, RecursionError):
        text, rest = _decompressed(body) if compressed else (body, b"")
        if sha256(text).digest() == key and not rest:
            return json.loads(text)
    raise StoreError(
        f"the payload {key.hex()[:12]} was altered after it was written",
        hint="nothing was done with it; restore the file from a backup",
        reason="payload_altered",
    )
