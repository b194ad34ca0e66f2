"""A masked field: nowhere in the store's file, nowhere in what the model is shown, and the tool's answer is used all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemachine_agent import ScriptedModel
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.records import Checkpoint
from support.world import ACT, FIND, LOOK, LOOK_STEP, act_step, simulated, world

CARD = "4111-1111-1111-1111"
MASKING = LOOK + "redact: [note]\n"
MASKING_ACT = (
    ACT.replace(
        "returns:\n  id: {type: string}", "returns:\n  id: {type: string}\n  card: {type: string, optional: true}"
    )
    + "redact: [card]\n"
)


@pytest.mark.parametrize("note", [CARD, CARD + "x" * 400_000])
def test_what_is_masked_is_written_nowhere(tmp_path: Path, note: str) -> None:
    """Also where the answer is refused because it is too large: the complaint quotes nothing of it."""
    script, prompts = ScriptedModel.of(LOOK_STEP, act_step()), []

    class Model:
        spec = "listens"

        async def decide(self, prompt: Prompt) -> Reply:
            prompts.append(prompt)
            return await script.decide(prompt)

    async def main() -> Checkpoint:
        texts = (MASKING, MASKING_ACT, FIND)
        look, act = [{"good": True, "note": note}], [{"id": "a1", "card": CARD}]
        async with world(tmp_path, texts=texts, look=look, act=act, model=Model()) as here:
            return await here.run()

    end = simulated(main)
    if note == CARD:
        assert end.head.status == "SUCCEEDED"
        assert end.evidence[0].payload == {"good": True, "note": "[redacted]"}
    assert all(CARD not in prompt.text for prompt in prompts)
    for file in tmp_path.iterdir():
        assert CARD.encode() not in file.read_bytes(), file


def test_a_complaint_about_a_masked_field_does_not_quote_it(tmp_path: Path) -> None:
    strict = MASKING.replace(
        "note: {type: string, optional: true, untrusted: true}", "note: {type: string, maxLength: 5}"
    )

    async def main() -> list[str]:
        async with world(tmp_path, LOOK_STEP, texts=(strict, ACT, FIND), look=[{"good": True, "note": CARD}]) as here:
            end = await here.run()
            return [str(r) for r in await here.rows(end)]

    rows = simulated(main)
    assert any("does not fit `returns`: note" in row for row in rows)
    assert not any(CARD in row for row in rows)
