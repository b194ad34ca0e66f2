"""What a model was shown is kept in parts, each of them once, under the hash that its decision names."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.store.making import begun, committed, decision, on_loop, step

from statemachine_agent.canonical import canonical, digest
from statemachine_agent.errors import StoreError
from statemachine_agent.store import payloads
from statemachine_agent.store.sqlite import SqliteStore

RULES = ["the rules, ", None, " in words. " * 40]
QUESTION = ["what now?"]
ANSWER = ["and after that?"]


def hash_of(*parts: list[str | None]) -> str:
    """The name of a prompt: over the names of its parts."""
    return digest([digest(part) for part in parts])


@on_loop
async def test_a_prompt_is_read_back_under_the_hash_of_its_decision(tmp_path: Path) -> None:
    """Whole, in order, a part that comes twice too; and of one that nobody kept, nothing."""
    parts = [RULES, QUESTION, RULES]
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        await store.commit(step(task, decision(prompt=parts, prompt_hash=hash_of(*parts)), decision(2)), lease)
        kept, unkept = (r["prompt_hash"] for r in await store.history("task-1") if r["table"] == "decision")
        assert await store.prompt(kept) == parts
        assert await store.prompt(unkept) is None


@on_loop
async def test_what_two_prompts_share_is_stored_once(tmp_path: Path) -> None:
    """Most of a prompt was in the one before it; only its end is new. A long part is compressed, a short one is not."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        first, second = [RULES, QUESTION], [RULES, ANSWER]
        task = await committed(store, task, lease, decision(prompt=first, prompt_hash=hash_of(*first)))
        before = {row[0] for row in store._reader.execute("SELECT hash FROM payload")}
        await store.commit(step(task, decision(prompt=second, prompt_hash=hash_of(*second))), lease)
        after = {row[0] for row in store._reader.execute("SELECT hash FROM payload")}
        assert {bytes.fromhex(digest(ANSWER)), bytes.fromhex(hash_of(*second))} <= after - before
        assert bytes.fromhex(digest(RULES)) in before
        size = dict(store._reader.execute("SELECT hash, length(body) FROM payload").fetchall())
        assert size[bytes.fromhex(digest(RULES))] < len(canonical(RULES)) / 5
        assert size[bytes.fromhex(digest(ANSWER))] == len(canonical(ANSWER))
        assert (await store.prompt(hash_of(*first)), await store.prompt(hash_of(*second))) == (first, second)


@on_loop
async def test_a_prompt_under_the_hash_of_another_is_not_written(tmp_path: Path) -> None:
    """Whoever looks it up later would be shown what the model never saw."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        task, lease = await begun(store)
        with pytest.raises(StoreError) as caught:
            await store.commit(step(task, decision(prompt=[RULES], prompt_hash=hash_of(QUESTION))), lease)
        assert (caught.value.message, caught.value.reason) == (
            "a prompt was given with the hash of another one",
            "programming",
        )
        assert await store.load("task-1") == task


@pytest.mark.parametrize(
    "value", ["x", {}, None, ["x"], [1], [digest(QUESTION), None], ["A" * 64], [digest(QUESTION) + "\n"]]
)
@on_loop
async def test_what_is_no_list_of_parts_is_no_prompt(tmp_path: Path, value: object) -> None:
    """A payload is whole, and somebody named it where a prompt belongs."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        key = await store._write(lambda c: (payloads.put(c, QUESTION), payloads.put(c, value))[1])
        with pytest.raises(StoreError) as caught:
            await store.prompt(key.hex())
        assert (caught.value.message, caught.value.hint, caught.value.reason) == (
            f"the payload {key.hex()[:12]} is no list of parts",
            "restore the file from a backup",
            "store",
        )


@on_loop
async def test_a_part_that_is_missing_or_of_another_kind_is_told(tmp_path: Path) -> None:
    """And so is a hash that is none."""
    with SqliteStore(tmp_path / "tasks.db") as store:
        names = [digest(RULES), digest({"no": "part"})]
        key = await store._write(lambda c: payloads.put(c, names))
        with pytest.raises(StoreError, match=f"^the payload {digest(RULES)[:12]} is missing from the store"):
            await store.prompt(key.hex())
        await store._write(lambda c: (payloads.put(c, RULES), payloads.put(c, {"no": "part"})))
        for asked, why in ((key.hex(), '`{"no": "part"}` was never written'), ("no hash", "non-hexadecimal")):
            with pytest.raises(StoreError) as caught:
                await store.prompt(asked)
            assert caught.value.message.startswith(f"the prompt {asked[:12]} cannot be read: {why}")
