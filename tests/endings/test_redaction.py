"""A masked field: nowhere in the store's file, nowhere in what the model is shown, and the tool's answer is used all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import ScriptedModel
from statemachine_agent.loop.context import Event
from statemachine_agent.models.port import Piece, Prompt, Reply
from statemachine_agent.records import Checkpoint
from support.world import ACT, ANN, FIND, LOOK, LOOK_STEP, act_step, simulated, world

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


# ---------------------------------------------------------------- what a machine masks

PRIVATE = """
machine: tiny
version: 1
summary: Look, and ask somebody.
input:
  thing: {type: string}
  message: {type: string}
  pin: {type: integer, optional: true}
limits: {steps: 6}
signals:
  reply: {text: {type: string}, stars: {type: integer, optional: true}}
redact: [input.message, evidence.reply.text]
retain:
  input: [thing, message]
  evidence: {look: [good]}
guards:
  good: evidence.look.good
success: []
initial: LOOKING
states:
  LOOKING:
    choose: {look: stay, ask_user: ASKING, finish: SUCCEEDED}
  ASKING:
    wait: {signal: reply, expires: 1h}
    then:
      received: [{when: good, goto: SUCCEEDED}, {goto: FAILED}]
      expired: NEEDS_INPUT
"""


class Listening:
    """A scripted model that keeps what it was shown."""

    spec = "listens"

    def __init__(self, *steps: Any) -> None:
        self.script, self.prompts = ScriptedModel.of(*steps), []

    async def decide(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt.text)
        return await self.script.decide(prompt)


def test_what_a_machine_masks_or_does_not_retain_is_written_nowhere(tmp_path: Path) -> None:
    """Texts are masked; a number that is not kept is dropped; what is not named at all is kept."""
    ask = {"call": "ask_user", "with": {"question": "And?"}}
    model = Listening(LOOK_STEP, ask)
    noted = LOOK.replace("note: {", "codes: {type: array, items: {type: integer}}\n  note: {")

    async def main() -> Checkpoint:
        look = [{"good": True, "note": CARD, "codes": [9317755331]}]
        async with world(tmp_path, machine=PRIVATE, texts=(noted, ACT, FIND), look=look, model=model) as here:
            asked = await here.run(thing="box", message=CARD, pin=9317755331)
            assert asked.task.input == {"thing": "box", "message": "[redacted]"}
            return await here.runtime.signal(asked.task.id, "reply", {"text": CARD, "stars": 5}, ANN)

    end = simulated(main)
    assert end.head.status == "SUCCEEDED"
    assert [e.payload for e in end.evidence] == [
        {"good": True, "note": "[redacted]"},
        {"text": "[redacted]", "stars": 5},
    ]
    for hidden in (CARD, "9317755331"):
        assert not any(hidden in text for text in model.prompts)
        for file in tmp_path.iterdir():
            assert hidden.encode() not in file.read_bytes(), file


# ---------------------------------------------------------------- arguments

KEYED = LOOK.replace("thing: {type: string}", "thing: {type: string}\n  token: {type: string, maxLength: 30}")
KEYED += "redact: [args.token]\n"
KEYED_STEP = {"call": "look", "with": {"thing": "box", "token": CARD}}


@pytest.mark.parametrize("token", [CARD, CARD * 9])
def test_an_argument_that_is_masked_reaches_the_tool_and_nothing_else(tmp_path: Path, token: str) -> None:
    """Nor where it does not fit, and the model is told so; nor those who look on while it is being said."""
    events: list[Event] = []
    step = {"call": "look", "with": {"thing": "box", "token": token}}

    class Aloud(Listening):
        async def decide_aloud(self, prompt: Prompt, hear: Any) -> Reply:
            reply = await self.decide(prompt)
            for call in reply.raw.calls:
                hear(Piece("call", call.name))
                hear(Piece("arguments", str(call.arguments)))
            return reply

    async def main() -> tuple[Checkpoint, Any]:
        async with world(tmp_path, texts=(KEYED, ACT, FIND), model=Aloud(step, act_step())) as here:
            here.runtime.watch(events.append, pieces=True)
            return await here.run(), here.tools["look"].calls

    end, calls = simulated(main)
    if token == CARD:
        assert end.head.status == "SUCCEEDED"
        assert [call.args for call in calls] == [{"thing": "box", "token": CARD}]
        assert end.evidence[0].asked == {"thing": "box", "token": "[redacted]"}
    assert any(event.kind == "piece" for event in events)
    assert [event.kind for event in events if CARD in str(event)] == []
    for file in tmp_path.iterdir():
        assert CARD.encode() not in file.read_bytes(), file
