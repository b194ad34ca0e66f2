"""Results that count for a while, reads that may repeat, and how much of a result the model is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from statemachine_agent import ScriptedModel, SimulatedEnvironment
from statemachine_agent.analysis.lint import lint
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.records import Checkpoint
from support.world import ACT, ANN, BOB, FIND, LOOK, LOOK_STEP, MACHINE, World, act_step, catalogue, world

FRESH = LOOK + "fresh_for: 10m\n"
POLLING = LOOK + "polling: true\n"
SHORT = LOOK + "render: {max_chars: 200}\n"


def run(folder: Path, body: Any, *steps: Any, look: str, **how: Any) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        async with world(folder, *steps, texts=(look, ACT, FIND), environment=environment, **how) as here:
            return await body(here)

    return environment.run(main())


def test_a_result_that_is_no_longer_fresh_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    """The proposal comes eleven minutes after the look: it is refused with the row's text, until somebody looks again."""
    held: list[World] = []
    script = ScriptedModel.of(LOOK_STEP, act_step(), LOOK_STEP, act_step())

    class Slow:
        spec = "slow"
        waits_for_person = True  # so that the time it takes is no active time

        async def decide(self, prompt: Prompt) -> Reply:
            if prompt.step == 2:
                held[0].environment.advance(11 * 60)
            return await script.decide(prompt)

    async def body(w: World) -> tuple[Checkpoint, list[str]]:
        held.append(w)
        end = await w.run()
        return end, await w.told(end)

    end, told = run(tmp_path, body, look=FRESH, model=Slow())
    assert end.head.status == "SUCCEEDED"
    assert ["look first" in text for text in told] == [True]


def test_what_was_accepted_on_fresh_evidence_stays_accepted(tmp_path: Path) -> None:
    """The lead takes an hour: the write is judged again on what it was accepted on."""

    async def body(w: World) -> Checkpoint:
        asked = await w.run()
        w.environment.advance(50 * 60)
        await w.runtime.approve(asked.approvals[0].id, BOB)
        return await w.runtime.resume(asked.task.id)

    assert run(tmp_path, body, LOOK_STEP, act_step(200), look=FRESH).head.status == "SUCCEEDED"


def test_reads_of_which_repeats_are_expected_are_no_circle(tmp_path: Path) -> None:
    patient = MACHINE.replace("steps: 6", "steps: 12")
    steps = [LOOK_STEP] * 9 + [act_step()]
    end = run(tmp_path, lambda w: w.run(ANN), *steps, look=POLLING, machine=patient)
    assert (end.head.status, end.head.steps) == ("SUCCEEDED", 10)


def test_a_long_result_is_shown_cut_and_read_whole(tmp_path: Path) -> None:
    script = ScriptedModel.of(LOOK_STEP, act_step())
    prompts: list[Prompt] = []

    class Model:
        spec = "listens"

        async def decide(self, prompt: Prompt) -> Reply:
            prompts.append(prompt)
            return await script.decide(prompt)

    long = {"good": True, "note": "x" * 5000}

    async def body(w: World) -> Checkpoint:
        w.tools["look"].plays[:] = [long]
        return await w.run()

    end = run(tmp_path, body, look=SHORT, model=Model())
    (quoted,) = [q for q in prompts[-1].quoted if q.label.startswith("look")]
    assert quoted.value["characters"] == len(json.dumps(long, separators=(",", ":")))
    assert len(quoted.value["cut"]) <= 200
    assert end.evidence[0].payload == long
    assert end.head.status == "SUCCEEDED"


def test_success_that_asks_for_what_ages_is_a_finding() -> None:
    aging = MACHINE.replace("success: [acted]", "success: [acted, good]")
    found = [str(f.message) for f in lint(catalogue(aging, FRESH, ACT, FIND))]
    assert any("when it may no longer be fresh" in message for message in found)
    assert not any("no longer be fresh" in str(f.message) for f in lint(catalogue(MACHINE, FRESH, ACT, FIND)))


def test_a_machine_that_writes_and_asks_nothing_of_its_end_is_a_finding() -> None:
    """Its model may say of a refused write that it is done."""
    careless = MACHINE.replace("success: [acted]", "success: []")
    found = [str(f.message) for f in lint(catalogue(careless, LOOK, ACT, FIND))]
    assert "`finish` is accepted whatever became of `act`" in found
    assert not any("whatever became" in str(f.message) for f in lint(catalogue(MACHINE, LOOK, ACT, FIND)))
