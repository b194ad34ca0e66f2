"""What is kept of long words: what a model is told of several calls, and the last word of a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import NotSentError
from support.peeks import PEEKS, TEXTS, batch, call
from support.playing import play, swap, to_its_end
from support.world import World

LONG = "x" * 5_000
ONE_STEP = swap(PEEKS, ("steps: 6", "steps: 1"))


def test_of_several_calls_each_is_told_in_its_share(tmp_path: Path) -> None:
    """Arguments at most 120 characters, and of two calls each has half the room, however long a service speaks."""

    async def body(here: World) -> Checkpoint:
        end = await here.run(machine="peeks")
        assert [r["detail"] for r in await here.rows(end, "call")] == [None, LONG[:500]]
        return end

    loud = NotSentError(LONG, reason="unavailable")
    step = batch(call("look", "c1", LONG), call("peek", "c2"))
    end = play(tmp_path, body, step, machine=ONE_STEP, texts=TEXTS, peek=[loud])
    thing = '{"thing":"' + LONG
    first = f"c1 (`look`) {thing[:119]}…: ev-1; "
    second = 'c2 (`peek`) {"thing":"box"}: failed (unavailable): '
    text = (end.head.observation or {})[""]["text"]
    assert text.startswith(first + second + "xxx") and text.endswith("x…")
    assert len(text) - len(first) == 950
    rows = [e.asked["thing"] for e in end.evidence]
    assert rows == [LONG]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"call": "ask_user", "with": {"question": LONG}}, "x" * 3_999 + "…"),
        ({"call": "cannot_continue", "with": {"reason": " so\nit  is "}}, "so it is"),
    ],
    ids=["cut", "one line"],
)
def test_the_last_word_of_a_task_is_one_line(tmp_path: Path, step: dict[str, Any], said: str) -> None:
    """Of four thousand characters at most: a person reads it."""
    assert play(tmp_path, to_its_end, step).head.output == said
