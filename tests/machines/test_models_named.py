"""Which model decides: the state's, the machine's, what else there is; and whoever names one means it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Catalogue, ScriptedModel
from statemachine_agent.chart.compile import compile_machine
from statemachine_agent.definition.source import Source
from statemachine_agent.errors import UsageError
from statemachine_agent.models.port import Model
from statemachine_agent.models.scripted import ScriptedStep
from statemachine_agent.records import Checkpoint
from support.playing import swap
from support.world import ANN, FIND, LOOK, LOOK_STEP, simulated, world

JUDGING = """
machine: judging
version: 1
summary: Look around, then judge.
input:
  thing: {type: string}
limits: {steps: 6}
guards:
  looked: has(evidence.look)
success: []
initial: LOOKING
states:
  LOOKING:
    choose: [look]
    then:
      - {when: looked, goto: JUDGING}
  JUDGING:
    model: strong
    choose: {look: stay, finish: SUCCEEDED}
"""
FINISH = {"call": "finish", "with": {"answer": "it is good"}}
STEPS = (LOOK_STEP, FINISH)
FAST = swap(JUDGING, ("initial: LOOKING", "model: fast\ninitial: LOOKING"))


def script(spec: str, *steps: Mapping[str, Any]) -> ScriptedModel:
    return ScriptedModel([ScriptedStep.model_validate(dict(s)) for s in steps], spec)


def finder(*names: str, steps: tuple[Mapping[str, Any], ...] = STEPS) -> Callable[[str], Model]:
    """Finds the models of these names, as the settings do."""
    known = {name: script(name, *steps) for name in names}

    def found(spec: str) -> Model:
        if spec not in known:
            raise UsageError(f"there is no model `{spec}`", hint=f"known: {', '.join(names)}")
        return known[spec]

    return found


def decided(
    folder: Path, machine: str, source: Any, *, held: tuple[str, ...] = (), name: str = "judging", **named: Any
) -> tuple[Checkpoint, list[tuple[str, str]]]:
    """The task at its end, and by which model each decision in which state was made."""

    async def main() -> Any:
        async with world(folder, machine=machine, texts=(LOOK, FIND), held=held, model=source) as here:
            task = await here.runtime.run(name, {"thing": "box"}, ANN, **named)
            return task, [(r["state"], r["model"]) for r in await here.rows(task, "decision")]

    return simulated(main)


def test_a_state_names_one_and_the_task_has_another(tmp_path: Path) -> None:
    task, models = decided(tmp_path, JUDGING, finder("cheap", "strong"), otherwise="cheap")
    assert task.head.status == "SUCCEEDED"
    assert models == [("LOOKING", "cheap"), ("JUDGING", "strong")]


def test_a_machine_names_one_for_all_its_states_but_those_that_name_their_own(tmp_path: Path) -> None:
    _, models = decided(tmp_path, FAST, finder("cheap", "fast", "strong"), otherwise="cheap")
    assert models == [("LOOKING", "fast"), ("JUDGING", "strong")]


def test_where_all_states_have_theirs_no_other_is_needed(tmp_path: Path) -> None:
    """Also none that would be missed: the settings' own model may lack its key."""
    task, models = decided(tmp_path, FAST, finder("fast", "strong"), otherwise="cheap")
    assert task.head.status == "SUCCEEDED"
    assert [name for _, name in models] == ["fast", "strong"]


@pytest.mark.parametrize("machine", [JUDGING, FAST])
def test_whoever_names_a_model_means_all_of_the_task(tmp_path: Path, machine: str) -> None:
    """`--model`, and `model` of `start`; also when the task is resumed by a process that was told nothing."""
    source = finder("played")

    async def main() -> Any:
        async with world(tmp_path, machine=machine, texts=(LOOK, FIND), model=source) as here:
            made = await here.runtime.start("judging", {"thing": "box"}, ANN, model="played", otherwise="cheap")
            task = await here.runtime.resume(made.task.id)
            return task.task.model, [r["model"] for r in await here.rows(task, "decision")]

    assert simulated(main) == ("only played", ["played", "played"])


def test_the_one_model_of_a_runtime_decides_everywhere(tmp_path: Path) -> None:
    _, models = decided(tmp_path, FAST, script("a script", *STEPS))
    assert {name for _, name in models} == {"a script"}


def test_a_name_that_nobody_knows_is_told_of_before_anything_is_decided(tmp_path: Path) -> None:
    """The state that needs it comes second; nothing was spent on the first."""

    async def main() -> Any:
        async with world(tmp_path, machine=JUDGING, texts=(LOOK, FIND), model=finder("cheap")) as here:
            made = await here.runtime.start("judging", {"thing": "box"}, ANN, otherwise="cheap")
            with pytest.raises(UsageError, match=r"no model `strong` \(the machine names it for `JUDGING`\)"):
                await here.runtime.resume(made.task.id)
            return await here.rows(made, "decision")

    assert simulated(main) == []


def test_where_the_first_fails_twice_the_one_behind_it_is_asked(tmp_path: Path) -> None:
    """For the rest of that decision only, and not where a proposal is merely bad."""
    machine = swap(JUDGING, ("model: strong", "model: {use: weak, fallback: strong}"))
    weak = script("weak", LOOK_STEP, {**FINISH, "fail": 2})
    found = {"cheap": script("cheap", *STEPS), "weak": weak, "strong": script("strong", *STEPS)}
    _, models = decided(tmp_path, machine, found.__getitem__, otherwise="cheap")
    assert models == [("LOOKING", "cheap"), ("JUDGING", "weak"), ("JUDGING", "weak"), ("JUDGING", "strong")]
    (tmp_path / "other").mkdir()
    bad = {**found, "weak": script("weak", LOOK_STEP, {"say": "done!"}, FINISH)}
    _, models = decided(tmp_path / "other", machine, bad.__getitem__, otherwise="cheap")
    assert models[1:] == [("JUDGING", "weak"), ("JUDGING", "weak")]


HOLDER = """
machine: holder
version: 1
summary: Have it judged.
input:
  thing: {type: string}
limits: {steps: 8}
model: outer
success: []
initial: ASIDE
states:
  ASIDE:
    machine: judging@1
    with: {thing: input.thing}
    then: {SUCCEEDED: TELLING, FAILED: FAILED}
  TELLING:
    choose: {finish: SUCCEEDED}
"""


@pytest.mark.parametrize(
    ("held", "expected"),
    [(FAST, ["fast", "strong", "outer"]), (JUDGING, ["outer", "strong", "outer"])],
    ids=["names its own", "names one for a state"],
)
def test_a_machine_in_another_brings_its_models_along(tmp_path: Path, held: str, expected: list[str]) -> None:
    source = finder("outer", "fast", "strong", steps=(*STEPS, FINISH))
    task, models = decided(tmp_path, HOLDER, source, held=(held,), name="holder")
    assert task.head.status == "SUCCEEDED"
    assert [name for _, name in models] == expected


def test_a_name_that_the_settings_lack_is_found_by_check_and_only_in_the_file_that_says_it() -> None:
    files = {"holder.yaml": HOLDER, "judging.yaml": FAST}
    machines = [Source(name, text) for name, text in files.items()]
    tools = [Source("look.yaml", LOOK)]
    told = Catalogue.build(machines, tools, models=frozenset({"outer", "strong", "fest"})).report.errors
    assert [(f.file, f.message, f.advice) for f in told if "model" in f.message] == [
        ("judging.yaml", "`fast` is no model of the settings", "did you mean `fest`?")
    ]
    unknown = Catalogue.build(machines, tools)
    assert not unknown.report.errors  # where no settings are known, nothing is said about them
    assert compile_machine(unknown, "holder").definition.models["ASIDE__JUDGING"].use == "strong"  # type: ignore[union-attr]
