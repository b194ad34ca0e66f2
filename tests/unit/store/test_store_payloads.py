"""Payloads are stored once under their hash, compressed, and never handed out when they are not what was stored."""

from __future__ import annotations

import zlib
from base64 import b85encode
from dataclasses import replace
from hashlib import sha256, sha512
from pathlib import Path
from typing import Any

import pytest
from unit.store.making import approval, begun, committed, decision, effect, evidence, new_task, on_loop, step

from statemachine_agent.canonical import canonical, digest
from statemachine_agent.errors import CanonicalError, StoreError
from statemachine_agent.records import EffectStatus, EvidenceRow
from statemachine_agent.store.sqlite import SqliteStore

LONG = {"text": "the same words again and again " * 400, "n": [1, 2.5, None, True]}


def stored(store: SqliteStore, value: object) -> Any:
    key = bytes.fromhex(digest(value))
    return store._reader.execute("SELECT compressed, body FROM payload WHERE hash = ?", (key,)).fetchone()


@on_loop
async def test_equal_values_are_stored_once_whoever_writes_them(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        for name in ("task-1", "task-2"):
            task, lease = await begun(store, name)
            for number in range(1, 4):
                row = EvidenceRow(evidence(number, {"n": LONG["n"], "text": LONG["text"]}))  # another order of keys
                task = await committed(store, task, lease, row)
            assert [e.payload for e in task.evidence] == [LONG] * 3
        count = store._reader.execute(
            "SELECT count(*) FROM payload WHERE length(body) > 60 AND hash NOT IN (SELECT head FROM checkpoint)"
        ).fetchone()[0]
        assert count == 2  # the definition and LONG


@on_loop
async def test_long_values_are_compressed_and_short_ones_are_not(tmp_path: Path) -> None:
    short = {"a": 1}
    noise = {"a": b85encode(sha512(b"a").digest() + sha512(b"b").digest()).decode()}
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        for number, value in enumerate((LONG, short, noise), 1):
            task = await committed(store, task, lease, EvidenceRow(evidence(number, value)))
        assert len(stored(store, LONG)["body"]) < len(canonical(LONG)) / 20
        assert (stored(store, LONG)["compressed"], stored(store, short)["compressed"]) == (1, 0)
        assert bytes(stored(store, short)["body"]) == b'{"a":1}'
        assert bytes(stored(store, noise)["body"]) == canonical(noise)  # it would only become longer
        assert [e.payload for e in task.evidence] == [LONG, short, noise]


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, "null", 2**63, 1.5, {"": {"": []}}])
@on_loop
async def test_any_json_value_is_a_payload(tmp_path: Path, value: object) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        done = effect(status=EffectStatus.EXECUTED, receipt={"value": value})
        task = await committed(store, task, lease, EvidenceRow(evidence(1, value)), effects=(done,))
        assert task.evidence[0].payload == value and type(task.evidence[0].payload) is type(value)
        assert task.effects[0].receipt == {"value": value}


@pytest.mark.parametrize(
    "body",
    [
        b'{"amount":1}',
        zlib.compress(b'{"amount":1}'),
        zlib.compress(canonical(LONG)) + b"x",
        zlib.compress(canonical(LONG))[:-9],
        b"",
        b"\xff\xfe",
    ],
)
@on_loop
async def test_an_altered_payload_is_refused_and_named(tmp_path: Path, body: bytes) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await committed(store, task, lease, EvidenceRow(evidence(1, LONG)))
        key = bytes.fromhex(digest(LONG))
        await store._write(lambda c: c.execute("UPDATE payload SET body = ? WHERE hash = ?", (body, key)))
        for reading in (store.load, store.history):
            with pytest.raises(StoreError, match=f"payload {digest(LONG)[:12]} was altered after it was written"):
                await reading("task-1")


@pytest.mark.parametrize("body", [b"x", b"\xff", b"[" * 100_000, b""])
@on_loop
async def test_a_payload_that_was_written_by_hand_is_refused_too(tmp_path: Path, body: bytes) -> None:
    """Its hash fits, and it is no JSON, or nested deeper than anything that is read."""
    key = sha256(body).digest()
    with SqliteStore(tmp_path / "tasks.db") as store:
        await store.create(new_task())
        await store._write(lambda c: c.execute("INSERT INTO payload VALUES (NULL, ?, 0, ?)", (key, body)).rowcount)
        await store._write(lambda c: c.execute("UPDATE task SET input_hash = ?", (key,)).rowcount)
        with pytest.raises(StoreError, match=f"^the payload {key.hex()[:12]} was altered after it was written"):
            await store.load("task-1")


@on_loop
async def test_who_was_refused_an_altered_payload_reads_what_is_written_after_it(tmp_path: Path) -> None:
    """As long as the refusal is remembered, as in a log or a test, no snapshot of then is held."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        other, other_lease = await begun(store, "task-2")
        await committed(store, task, lease, EvidenceRow(evidence(1, LONG)))
        key = bytes.fromhex(digest(LONG))
        await store._write(lambda c: c.execute("UPDATE payload SET body = x'00' WHERE hash = ?", (key,)).rowcount)
        with pytest.raises(StoreError) as remembered:
            await store.load("task-1")
        await store.commit(step(other), other_lease)
        assert (await store.load("task-2")).head.version == 1
        assert remembered.value.reason == "payload_altered"


@on_loop
async def test_a_missing_payload_is_named_and_other_tasks_can_still_be_read(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await begun(store, "task-2")
        await committed(store, task, lease, EvidenceRow(evidence(1, LONG)))
        await store._write(
            lambda c: c.execute("DELETE FROM payload WHERE hash = ?", (bytes.fromhex(digest(LONG)),)).rowcount
        )
        with pytest.raises(StoreError, match=f"payload {digest(LONG)[:12]} is missing"):
            await store.load("task-1")
        assert (await store.load("task-2")).task.id == "task-2"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("UPDATE task SET head = '{}'", "the head of task task-1"),
        ("UPDATE task SET status = 'DONE'", "the head of task task-1"),
        ("UPDATE task SET configuration = 'x'", "the head of task task-1"),
        ("UPDATE task SET configuration = '[1]'", "the head of task task-1"),
        ("UPDATE task SET actor = 'x'", "task task-1"),
        ("UPDATE task SET started_at = 'x'", "task task-1"),
        ("UPDATE effect SET status = 'done'", "the effect refund:1"),
        ("UPDATE effect SET at = 'yesterday'", "the effect refund:1"),
        ("UPDATE approval SET roles = 'x'", "the approval apr-1"),
        ("UPDATE approval SET roles = '[1]'", "the approval apr-1"),
        ("UPDATE approval SET answers = '[1, 2]'", "the approval apr-1"),
        ("UPDATE approval SET answers = '{}'", "the approval apr-1"),
        ('UPDATE approval SET answers = \'[{"by": "bob"}]\'', "the approval apr-1"),
        ("UPDATE approval SET status = 'sure'", "the approval apr-1"),
        ("UPDATE approval SET requested_at = ''", "the approval apr-1"),
        ("UPDATE evidence SET at = ''", "task task-1"),
    ],
)
@on_loop
async def test_a_row_that_was_altered_is_an_error_of_the_store_and_says_which(
    tmp_path: Path, change: str, where: str
) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await committed(
            store, task, lease, EvidenceRow(evidence(1, {})), effects=(effect(),), approvals=(approval(),)
        )  # fmt: skip
        await store._write(lambda c: c.execute(change).rowcount)
        with pytest.raises(StoreError, match=f"^{where} cannot be read: .* \\(it was altered"):
            await store.load("task-1")


@on_loop
async def test_more_payloads_than_one_question_can_name_are_read(tmp_path: Path) -> None:
    rows = [EvidenceRow(evidence(n, {"n": n})) for n in range(1, 1202)]
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        task = await committed(store, task, lease, *rows)
        assert [e.payload["n"] for e in task.evidence] == list(range(1, 1202))


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"a": {"b": [1, {"c": object()}]}}, r"a\.b\[1\]\.c is a object"),
        ({"a": {"b": [float("nan")]}}, r"a\.b\[0\] is nan"),
        ({"a": {"b": {"c": "\ud800"}}}, r"a\.b\.c holds a lone surrogate"),
        ({"a": {1: 2}}, r"a has the key 1, which is not text"),
    ],
)
@on_loop
async def test_a_value_that_cannot_be_stored_is_named_by_its_path_and_nothing_is_written(
    tmp_path: Path, payload: object, where: str
) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        before = await store.history("task-1")
        row = EvidenceRow(replace(evidence(1, {}), payload=payload))
        with pytest.raises(CanonicalError, match=where):
            await store.commit(step(task, decision(), row), lease)
        assert await store.history("task-1") == before
        await store.commit(step(task), lease)


@on_loop
async def test_a_number_that_the_database_cannot_hold_is_refused_and_the_store_goes_on(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        with pytest.raises(StoreError, match="too large"):
            await store.commit(step(task, decision(input_tokens=10**30)), lease)
        assert await store.load("task-1") == task
        await store.commit(step(task), lease)
