"""What is masked stays masked in whatever way it comes: misshapen, as a key, as an error, from another task, as a hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import ScriptedModel
from statemachine_agent.loop.context import Event
from statemachine_agent.models.port import ModelUnavailableError, Piece, Prompt, Reply
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError
from support.playing import swap
from support.world import ACT, DONE, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, act_step, simulated, world

CARD = "4111-1111-1111-1111"
DEEP = LOOK.replace(
    "  thing: {type: string}\n",
    "  thing: {type: string}\n"
    "  auth: {type: object, optional: true, properties: {token: {type: string}}}\n"
    "  many: {type: array, optional: true, items: {type: object, properties: {token: {type: string}}}}\n",
)
DEEP += 'redact: [args.auth.token, "args.many[].token"]\n'


class Aloud:
    """A scripted model that says what it proposes while it forms it, and keeps what it was shown."""

    spec = "listens"

    def __init__(self, *steps: Any) -> None:
        self.script, self.prompts = ScriptedModel.of(*steps), []

    async def decide(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt.text)
        return await self.script.decide(prompt)

    async def decide_aloud(self, prompt: Prompt, hear: Any) -> Reply:
        reply = await self.decide(prompt)
        for call in reply.raw.calls:
            hear(Piece("call", call.name[:3]))
            hear(Piece("arguments", str(call.arguments)))
            hear(Piece("call", call.name[3:]))
            hear(Piece("arguments", str(call.arguments)))
        return reply


def nowhere(hidden: str, folder: Path, model: Aloud, events: list[Event]) -> None:
    """It is in no file of the store, in nothing that the model was shown, and in nothing that was told to who looks on."""
    assert not any(hidden in text for text in model.prompts)
    assert [event.kind for event in events if hidden in str(event)] == []
    for file in folder.iterdir():
        assert hidden.encode() not in file.read_bytes(), file


def asked_for(args: object, **more: object) -> dict[str, Any]:
    return {"call": "request_approval", "with": {"tool": "look", "args": args, "reason": "because", **more}}


@pytest.mark.parametrize(
    "step",
    [
        *(
            {"call": "look", "with": {"thing": "box", **args}}
            for args in (
                {"auth": {"token": CARD}},
                {"auth": CARD},
                {"auth": [{"token": CARD}]},
                {"auth": {"tokn": CARD}},
                {"auth": {"token": "x", CARD: 1}},
                {"many": {"token": CARD}},
                {"many": [CARD]},
                {"many": [[{"token": CARD}]]},
                {"thing": {"token": CARD}},
                {"token": CARD},
                {CARD: "token"},
                {CARD: "\ud800"},
                {"auth": {CARD: float("nan")}},
                {"auth": {"token": CARD, "\ud800": 1}},
            )
        ),
        asked_for({"auth": {"token": CARD}}),
        asked_for({"auth": [CARD]}),
        asked_for(CARD),
        asked_for([CARD]),
        asked_for({}, auth={"token": CARD}),
        asked_for({"auth": {"token": CARD}}, tool="lok"),
        {"call": "request_approval", "with": {"name": "look", "arguments": {"auth": {"token": CARD}}}},
        {"calls": [{"call": "look", "with": {"thing": "a", "auth": {"token": CARD + c}}, "id": c} for c in "ab"]},
    ],
    ids=lambda step: str(step).replace(CARD, "S"),
)
def test_an_argument_of_any_shape_is_written_nowhere(tmp_path: Path, step: dict[str, Any]) -> None:
    """Where it does not stand where it should, nobody knows what it is, and it is not kept; nor is a name that there is not."""
    events: list[Event] = []
    model = Aloud(step, LOOK_STEP, act_step())

    async def main() -> tuple[Checkpoint, list[dict[str, Any]]]:
        async with world(tmp_path, texts=(DEEP, ACT, FIND), model=model) as here:
            here.runtime.watch(events.append, pieces=True)
            end = await here.run()
            return end, [r["response"] for r in await here.rows(end, "decision")]  # type: ignore[misc]

    end, responses = simulated(main)
    assert end.head.status == "SUCCEEDED"
    assert any("[redacted]" in str(call["arguments"]) for call in responses[0]["calls"])
    nowhere(CARD, tmp_path, model, events)


@pytest.mark.parametrize(
    "answer",
    [
        {"good": True, "note": {CARD: float("nan")}},
        {"good": True, "note": {CARD: "\ud800"}},
        {"good": True, "note": {"x": {CARD: {1: 2}}}},
        {"good": CARD, "note": [CARD]},
        [CARD],
        CARD,
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_kept_is_not_quoted(tmp_path: Path, answer: object) -> None:
    """Not even the names that stand in it, nor those that lead to what is wrong with it."""
    events: list[Event] = []
    model = Aloud(LOOK_STEP, {"call": "finish", "with": {"answer": "x"}})

    async def main() -> list[str]:
        texts = (LOOK + "redact: [note]\n", ACT, FIND)
        async with world(tmp_path, texts=texts, model=model, look=[answer]) as here:
            here.runtime.watch(events.append)
            end = await here.run()
            return [str(row["detail"]) for row in await here.rows(end, "call")]

    assert all(text.startswith("the answer ") for text in simulated(main))
    nowhere(CARD, tmp_path, model, events)


@pytest.mark.parametrize("raised", [ValueError, ModelUnavailableError])
@pytest.mark.parametrize("masks", [True, False])
def test_a_model_that_breaks_off_is_not_quoted(tmp_path: Path, raised: type[Exception], masks: bool) -> None:
    """Its library may quote the call that it could not read; of a machine that masks no argument, it is told."""

    class Broken(Aloud):
        async def decide(self, prompt: Prompt) -> Reply:
            raise raised(f"the call cannot be read: {{'token': '{CARD}'}}")

    events: list[Event] = []
    model = Broken(LOOK_STEP)

    async def main() -> Checkpoint:
        async with world(tmp_path, texts=(DEEP if masks else LOOK, ACT, FIND), model=model) as here:
            here.runtime.watch(events.append, pieces=True)
            return await here.run()

    end = simulated(main)
    assert end.head.reason == "model_failed"
    assert (CARD in str(end.head.output)) is not masks
    if masks:
        nowhere(CARD, tmp_path, model, events)


def test_a_masked_argument_cannot_be_tried_out_on_what_is_stored(tmp_path: Path) -> None:
    """A hash of a PIN gives the PIN away: with whatever PIN, the memory of the monitor is the same."""
    keyed = LOOK.replace("  thing: {type: string}\n", "  thing: {type: string}\n  pin: {type: string}\n")
    keyed += "redact: [args.pin]\n"
    memories = []
    for pin in ("7351", "1234"):
        folder = tmp_path / pin
        folder.mkdir()
        calls = [{"call": "look", "with": {"thing": t, "pin": pin}, "id": t} for t in ("a", "b")]
        steps = ({"call": "look", "with": {"thing": "box", "pin": pin}}, {"calls": calls}, act_step())

        async def main(folder: Path = folder, steps: Any = steps) -> Checkpoint:
            async with world(folder, *steps, texts=(keyed, ACT, FIND)) as here:
                return await here.run()

        end = simulated(main)
        assert end.head.status == "SUCCEEDED"
        memories.append(end.head.progress)
    assert memories[0] == memories[1]
    assert len(memories[0]["pairs"]) == 3


# ---------------------------------------------------------------- an answer that becomes evidence

INNER = """
machine: asker
version: 1
summary: Give an answer.
limits: {steps: 4}
%s
success: []
initial: ONE
states:
  ONE: {choose: {look: {with: {thing: {text: box}}}, finish: SUCCEEDED}}
"""
OUTER = """
machine: tiny
version: 1
summary: Ask another one.
input: {thing: {type: string}}
limits: {steps: 6}
%s
success: []
initial: ONE
states:
  ONE: {machine: asker@1, then: {SUCCEEDED: TWO, FAILED: FAILED}}
  TWO: {choose: {look: stay, finish: SUCCEEDED}}
"""
FORM = "output: {card: {type: string}, known: {type: boolean}}"


@pytest.mark.parametrize(
    ("output", "masks", "answers"),
    [
        (FORM, "redact: [evidence.asker.card]", [{"card": CARD, "known": True}]),
        (FORM, "retain: {evidence: {asker: [known]}}", [{"card": CARD, "known": CARD}, {"card": CARD, "known": True}]),
        (FORM, "redact: [evidence.asker.card]", [CARD, {"card": [CARD]}, {CARD: 1}, {"card": CARD, "known": False}]),
        ("", "redact: [evidence.asker.answer]", [{"card": CARD}, CARD]),
    ],
)
def test_the_answer_of_an_inner_machine_is_masked_as_a_proposal_too(
    tmp_path: Path, output: str, masks: str, answers: list[Any]
) -> None:
    """Whether it is one or does not fit: in the decision, in what is told of it, and while it is formed."""
    events: list[Event] = []
    finish = [{"call": "finish", "with": {"answer": answer}} for answer in answers]
    model = Aloud(*finish, {"call": "finish", "with": {"answer": "done"}})

    async def main() -> Checkpoint:
        async with world(tmp_path, machine=OUTER % masks, held=(INNER % output,), model=model) as here:
            here.runtime.watch(events.append, pieces=True)
            return await here.run()

    end = simulated(main)
    assert (end.head.status, end.head.output) == ("SUCCEEDED", "done")
    assert [e.payload for e in end.evidence if "[redacted]" in str(e.payload)]
    nowhere(CARD, tmp_path, model, events)


# ---------------------------------------------------------------- a receipt of another task

CHARGE = swap(
    ACT,
    (
        "  id: {type: string}\n",
        "  id: {type: string}\n  card: {type: string, optional: true}\n  sum: {type: integer, optional: true}\n",
    ),
)
FOUND = swap(
    FIND, ("        id: {type: string}\n", "        id: {type: string}\n        card: {type: string, optional: true}\n")
)
CHARGED = {"id": "a1", "card": CARD, "sum": 10}
OTHER = swap(MACHINE, ("machine: tiny", "machine: other"))


def masking(machine: str, masks: str) -> str:
    return swap(machine, ("limits:", f"{masks}\nlimits:"))


def one_after_the_other(
    folder: Path, first: str, second: str, *, lost: bool = False
) -> tuple[Checkpoint, Checkpoint, list[str]]:
    """Two tasks of two machines that do the same thing; what the model of the second was shown."""
    model = Aloud(LOOK_STEP, act_step(), LOOK_STEP, act_step())
    find, act = [{"items": [CHARGED]}], [LostError("gone") if lost else CHARGED]

    async def main() -> tuple[Checkpoint, Checkpoint, list[str]]:
        texts = (LOOK, CHARGE, FOUND)
        async with world(folder, machine=first, held=(second,), texts=texts, model=model, act=act, find=find) as here:
            one = await here.run()
            model.prompts.clear()
            other = await here.run(machine="other")
            assert len(here.tools["act"].calls) == 1
            return one, other, list(model.prompts)

    return simulated(main)


@pytest.mark.parametrize("masks", ["redact: [evidence.act.card]", "retain: {evidence: {act: [id]}}"])
def test_a_receipt_of_another_task_is_masked_as_the_own_machine_does(tmp_path: Path, masks: str) -> None:
    _, other, prompts = one_after_the_other(tmp_path, MACHINE, masking(OTHER, masks))
    assert other.head.status == "SUCCEEDED"
    kept = {"id": "a1", "card": "[redacted]", **({} if "retain" in masks else {"sum": 10})}
    assert other.evidence[-1].payload == kept
    assert other.effects[0].receipt == kept
    assert not any(CARD in text for text in prompts)


@pytest.mark.parametrize(
    ("masks", "lost"),
    [
        ("redact: [evidence.act.card, 'evidence.find.items[].card']", "card"),
        ("retain: {evidence: {act: [id], find: ['items[].id']}}", "card, sum"),
        ("retain: {evidence: {act: [id, card]}}", "sum"),
        ("retain: {evidence: {act: [card, sum]}}", "id"),
    ],
)
@pytest.mark.parametrize("reconciled", [False, True])
def test_a_receipt_of_which_less_was_kept_answers_nothing(
    tmp_path: Path, masks: str, lost: str, reconciled: bool
) -> None:
    """A mask would be taken for what was answered; it happened, so it is not sent either."""
    _, other, _ = one_after_the_other(tmp_path, masking(MACHINE, masks), OTHER, lost=reconciled)
    assert (other.head.status, other.head.reason) == ("FAILED", "effect_done")
    assert str(other.head.output).endswith(f"whose receipt does not hold {lost}")
    assert [e.tool for e in other.evidence] == ["look"]


def test_a_receipt_that_both_mask_alike_answers(tmp_path: Path) -> None:
    masks = "redact: [evidence.act.card]"
    _, other, _ = one_after_the_other(tmp_path, masking(MACHINE, masks), masking(OTHER, masks))
    assert other.head.status == "SUCCEEDED"
    assert other.evidence[-1].payload == {"id": "a1", "card": "[redacted]", "sum": 10}


# ---------------------------------------------------------------- a mask that would become data


def test_a_mask_is_no_argument_of_a_write(tmp_path: Path) -> None:
    """A model repeats what it was shown: two things that it cannot tell apart would be one action."""
    act = {"call": "act", "with": {"thing": "[redacted]", "amount": 10}}

    async def main() -> tuple[Checkpoint, list[str]]:
        async with world(tmp_path, LOOK_STEP, act, act_step(), look=[GOOD]) as here:
            end = await here.run(thing="[redacted]")
            return end, await here.told(end)

    end, told = simulated(main)
    assert "invalid proposal (masked_argument): an argument is `[redacted]`" in told[0]
    assert end.effects == ()


def test_masked_argument(tmp_path: Path) -> None:
    """Nor where the machine itself would fill it in: nothing is sent, under no key."""
    machine = """
machine: tiny
version: 1
summary: Act at once.
input: {thing: {type: string}}
limits: {steps: 2}
success: []
initial: ACTING
states:
  ACTING:
    call: act
    with: {thing: input.thing, amount: 5}
    then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}
  FINDING: {reconcile: act, then: {found: SUCCEEDED, absent: FAILED, failed: FAILED}}
"""

    async def main() -> Checkpoint:
        async with world(tmp_path, machine=machine, act=[DONE]) as here:
            end = await here.run(thing="[redacted]")
            assert here.tools["act"].calls == []
            return end

    end = simulated(main)
    assert (end.head.status, end.head.reason) == ("FAILED", "masked_argument")
    assert end.effects == ()
