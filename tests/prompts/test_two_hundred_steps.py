"""A task of two hundred steps, each of which brings another document: no step costs much more than an early one."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from statemachine_agent import ScriptedModel
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.models.prices import estimated
from statemachine_agent.store import payloads
from support.playing import play, swap
from support.world import MACHINE, World

STEPS = 200
LONG = swap(
    MACHINE,
    (
        "steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10",
        f"steps: {STEPS}, active_time: 1h, tokens: 90000000, tool_calls: 1000",
    ),
)


def document(number: int) -> dict[str, Any]:
    """Three to ten thousand characters that no other document has."""
    drawn = random.Random(number)  # noqa: S311
    words = " ".join(f"{drawn.choice(('paid', 'sent', 'late', 'owed'))}{drawn.randrange(10**6)}" for _ in range(1000))
    return {"good": True, "note": f"{number}: {words}"[: drawn.randint(3_000, 10_000)]}


@dataclass
class Kept:
    """What the test asks of the run."""

    prompts: list[Prompt]
    rows: list[Mapping[str, Any]]
    shown: Mapping[int, str]
    #: bytes in the store: of all payloads but the heads of past versions, and of the results alone
    stored: int
    results: int
    end: str


@dataclass
class Watching:
    script: ScriptedModel
    prompts: list[Prompt]
    spec: str = "watched"

    async def decide(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        return await self.script.decide(prompt)


@cache
def ran() -> Kept:
    """One run for all tests; at steps 20 and 200 the model fails once, and an estimate is booked."""
    steps = [{"call": "look", "with": {"thing": f"t{n}"}} for n in range(1, STEPS + 1)]
    for due in (20, STEPS):
        steps[due - 1]["fail"] = 1
    model = Watching(ScriptedModel.of(*steps), [])

    async def body(here: World) -> Kept:
        task = await here.run()
        rows = await here.rows(task, "decision")
        shown = {}
        for row in rows:
            parts = await here.store.prompt(row["prompt_hash"])
            assert parts is not None
            shown[row["step"]] = "".join("TAG" if piece is None else piece for part in parts for piece in part)
        connection = here.store._reader
        (stored,) = connection.execute(
            "SELECT sum(length(body)) FROM payload WHERE hash NOT IN (SELECT head FROM checkpoint)"
        ).fetchone()
        hashes = {e.payload_hash for e in task.evidence}
        sizes = connection.execute("SELECT hash, length(body) FROM payload").fetchall()
        results = sum(size for key, size in sizes if key.hex() in hashes)
        return Kept(model.prompts, rows, shown, stored, results, task.head.reason or "")

    with TemporaryDirectory() as folder:
        kept: Kept = play(
            Path(folder), body, machine=LONG, model=model, look=[document(n) for n in range(1, STEPS + 1)]
        )
    return kept


def booked(step: int) -> int:
    """The tokens that a failed attempt at this step was booked with."""
    (row,) = [r for r in ran().rows if r["step"] == step and r["result"] == "failed"]
    return int(row["input_tokens"])


def test_the_last_step_costs_at_most_a_fifth_more_than_the_twentieth() -> None:
    assert ran().end == "max_steps"
    assert len({r["step"] for r in ran().rows}) == STEPS
    assert booked(STEPS) <= 1.2 * booked(20)
    assert booked(20) == estimated(len(next(p.text for p in ran().prompts if p.step == 20)))


def test_no_step_costs_more_than_the_budget_says() -> None:
    """Six thousand tokens of results whole, ten that are cut, and what is named; the rest of this prompt is short."""
    sizes = [estimated(len(p.text)) for p in ran().prompts]
    assert max(sizes) < 6_000 + 10 * 160 + 300 + 1_000
    assert max(sizes[19:]) <= 1.1 * min(sizes[19:])  # wherever one begins to compare


@pytest.mark.parametrize("step", [2, 20, 100, STEPS])
def test_the_newest_result_is_there_and_whole(step: int) -> None:
    newest = document(step - 1)["note"]
    prompt = next(p for p in ran().prompts if p.step == step)
    assert prompt.quoted[-1].id == f"ev-{step - 1}" and prompt.quoted[-1].whole
    assert newest in prompt.text


def test_what_was_shown_is_found_under_its_hash() -> None:
    """All of it, at each step, but for the random tag."""
    for prompt in ran().prompts:
        tag = prompt.text.partition("Between lines marked ")[2].partition(" ")[0]
        assert ran().shown[prompt.step] == prompt.text.replace(tag, "TAG")
    assert {r["prompt_hash"] for r in ran().rows} == {p.hash for p in ran().prompts}


def test_what_was_shown_before_is_not_stored_again() -> None:
    """Beside the results themselves: each as it was shown whole, cut to what was left, and cut; and a list of hashes a step."""
    assert ran().stored < 3.5 * ran().results
    texts = sum(len(text) for text in ran().shown.values())
    assert ran().stored < texts / 3


def test_the_same_parts_are_one_payload() -> None:
    """Also in another order, and where nothing of it is new."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE payload (hash BLOB UNIQUE, compressed INTEGER, body BLOB)")
    first = payloads.put_parts(connection, [["a"], ["b", None], ["a"]])
    assert payloads.put_parts(connection, [["a"], ["b", None], ["a"]]) == first
    assert payloads.put_parts(connection, [["b", None], ["a"]]) != first
    assert connection.execute("SELECT count(*) FROM payload").fetchone() == (4,)
    assert payloads.get_parts(connection, first) == [["a"], ["b", None], ["a"]]
