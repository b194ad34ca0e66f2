"""The scripted model: the number of the step picks the decision, whichever process asks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.definition.faults import FaultyDefinitionError
from statemachine_agent.environment import Environment, SimulatedEnvironment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.decision import InvalidDecision, RawCall, decision_of
from statemachine_agent.models.port import MOST, ModelUnavailableError, Piece, Prompt, Reply, Spent
from statemachine_agent.models.scripted import ScriptedModel
from statemachine_agent.models.spec import model_of


def prompt(step: int) -> Prompt:
    return Prompt("refund", "INVESTIGATING", step, "Find out.", ())


def reply(model: ScriptedModel, step: int) -> Reply:
    return asyncio.run(model.decide(prompt(step)))


STEPS: list[dict[str, Any]] = [
    {"call": "lookup_order", "tokens": {"input": 1210, "output": 50}, "cost_usd": 0.0042},
    {"calls": [{"call": "a", "with": {"x": 1}}, {"call": "b", "id": "mine"}], "say": "both"},
    {"say": "a text", "stop_reason": "stop"},
]


def test_the_step_picks_the_decision_and_asking_again_gives_it_again() -> None:
    model = ScriptedModel.of(*STEPS)
    for _ in range(2):
        first = reply(model, 1)
        assert first.raw.calls == (RawCall("call-1-1", "lookup_order", {}),)
        assert first.spent == Spent(1210, 50, Decimal("0.0042"))
        assert reply(model, 2).raw.calls == (RawCall("call-2-1", "a", {"x": 1}), RawCall("mine", "b", {}))
        assert (reply(model, 3).raw.text, reply(model, 3).raw.stop_reason) == ("a text", "stop")


def test_a_new_process_goes_on_where_the_last_one_stopped() -> None:
    assert reply(ScriptedModel.of(*STEPS), 2).raw == reply(ScriptedModel.of(*STEPS), 2).raw


@pytest.mark.parametrize("step", [4, 5, 1000])
def test_past_its_end_it_says_nothing_and_that_is_no_finish(step: int) -> None:
    found = reply(ScriptedModel.of(*STEPS), step)
    assert found.raw.stop_reason == "end of script"
    wrong = decision_of(found.raw)
    assert isinstance(wrong, InvalidDecision) and wrong.error_class == "empty"


def test_a_provider_that_fails_as_often_as_the_script_says_then_answers() -> None:
    model = ScriptedModel.of({"call": "a", "fail": 2}, {"call": "b"})
    for _ in range(2):
        with pytest.raises(ModelUnavailableError, match="the script says that the provider fails here") as caught:
            reply(model, 1)
        assert caught.value.retryable
    assert reply(model, 1).raw.calls[0].name == "a"
    assert reply(model, 2).raw.calls[0].name == "b"


def test_what_a_script_gives_as_arguments_may_be_anything_a_model_could_send() -> None:
    given: list[Any] = ['{"order_id": "8472"', "", [1], 5, {"a": {"b": None}}]
    model = ScriptedModel.of(*({"call": "t", "with": value} for value in given))
    assert [reply(model, n).raw.calls[0].arguments for n in range(1, 6)] == given


def script(folder: Path, text: str) -> Path:
    path = folder / "script.yaml"
    path.write_text(text)
    return path


def test_a_file_is_the_same_as_its_steps(tmp_path: Path) -> None:
    path = script(tmp_path, 'script: x\nsteps:\n  - {call: a, with: {n: 1, yes: "NO"}}\n  - {say: hello}\n')
    model = model_of(f"scripted:{path}", Environment())
    assert isinstance(model, ScriptedModel)
    assert model.spec == f"scripted:{path}"
    assert reply(model, 1).raw.calls == (RawCall("call-1-1", "a", {"n": 1, "yes": "NO"}),)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("script: x\nsteps:\n  - {cal: a}\n", ":3:6: ", "`cal`"),
        ("script: x\nsteps:\n  - call: a\n    calls: [{call: b}]\n", ":3:5: ", "`call` or `calls`, not both"),
        ("script: x\nsteps:\n  - call: a\n    fail: -1\n", ":4:11: ", ""),
        ("script: x\nsteps:\n  - call: a\n    tokens: {input: -5}\n", ":4:21: ", ""),
        ("script: x\nsteps:\n  - call: a\n    tokens: {input: lots}\n", ":4:21: ", ""),
        ("script: x\nsteps:\n  - call: a\n    cost_usd: -0.5\n", ":4:15: ", ""),
        ("script: x\nsteps:\n  - call: a\n    cost_usd: .nan\n", ":4:15: ", ""),
        ("script: x\nsteps:\n  - call: a\n    cost_usd: .inf\n", ":4:15: ", ""),
        ("script: x\nsteps: 5\n", ":2:8: ", ""),
        ("script: x\n", ":1:1: ", "`steps`"),
        ("steps: [\n", ":", ""),
        ("", ":1:1: ", "empty"),
        ("script: x\nscript: y\nsteps: []\n", ":2:1: ", "`script`"),
        ("script: x\nsteps: &a [*a]\n", ":2:", ""),
    ],
)
def test_faults_of_a_script_say_where_they_are(tmp_path: Path, text: str, where: str, message: str) -> None:
    path = script(tmp_path, text)
    with pytest.raises(FaultyDefinitionError) as caught:
        ScriptedModel.load(path)
    told = str(caught.value)
    assert f"{path}{where}" in told, told
    assert message in told, told
    assert caught.value.exit_code == 21


def test_all_faults_of_a_script_are_told_in_one_run(tmp_path: Path) -> None:
    path = script(tmp_path, "script: x\nsteps:\n  - {call: a, fail: x}\n  - {say: hello, extra: 1}\n")
    with pytest.raises(FaultyDefinitionError) as caught:
        ScriptedModel.load(path)
    assert ":3:" in str(caught.value) and ":4:" in str(caught.value)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "no/such/folder.yaml"])
def test_a_script_that_cannot_be_read_is_a_fault_of_its_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(FaultyDefinitionError, match=r"\S+"):
        model_of(f"scripted:{tmp_path / name}", Environment())


@pytest.mark.parametrize("spec", ["", "gpt", "scripted", "scripted:", "ask:me", "ASK", "openai:", "other:x", " ask"])
def test_a_model_that_there_is_none_is_told_what_there_is(spec: str) -> None:
    with pytest.raises(UsageError, match="there is no model") as caught:
        model_of(spec, Environment())
    assert caught.value.hint is not None and "scripted:FILE" in caught.value.hint


# ---------------------------------------------------------------- what an inference cost


@pytest.mark.parametrize(
    "given", [-1, -(10**30), float("-inf"), float("nan"), float("inf"), None, "5", Decimal("NaN"), Decimal("sNaN"), []]
)
def test_whatever_a_provider_claims_no_budget_is_given_back(given: Any) -> None:
    assert Spent(given, given, given) == Spent(0, 0, Decimal(0))


@pytest.mark.parametrize("given", [-5, Decimal(-5), Decimal("-Infinity"), Decimal("-0"), -0.01])
def test_a_negative_cost_costs_nothing(given: Any) -> None:
    assert Spent(1, 1, given).cost_usd == 0


@pytest.mark.parametrize(
    ("given", "counted"), [(10**30, MOST), (2.7, 2), (True, 1), (Decimal("1e400"), MOST), (1e300, MOST)]
)
def test_a_number_without_measure_counts_as_much_as_one_can(given: Any, counted: int) -> None:
    spent = Spent(given, given, given)
    assert (spent.input_tokens, spent.output_tokens) == (counted, counted)
    assert type(spent.input_tokens) is int and spent.cost_usd.is_finite()


def test_an_honest_number_is_kept_exactly() -> None:
    spent = Spent(1210, 50, Decimal("0.0042"))
    assert (spent.input_tokens, spent.output_tokens, str(spent.cost_usd)) == (1210, 50, "0.0042")
    assert Spent(1, 1, 0.1).cost_usd == Decimal("0.1")  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "most"), [(None, 2.0), (600, 2.0), (4, 0.2)])
def test_a_long_decision_that_somebody_hears_does_not_take_its_time_from_the_task(
    seconds: int | None, most: float
) -> None:
    """All of it is heard, in seconds that do not grow with it and are a small part of what is left."""
    clock = SimulatedEnvironment()
    model = replace(ScriptedModel.of({"call": "write", "with": {"text": "a b " * 9_000}}), environment=clock)
    asked = replace(prompt(1), remaining={} if seconds is None else {"seconds": seconds})
    heard: list[Piece] = []
    assert clock.run(model.decide_aloud(asked, heard.append)) == reply(model, 1)
    assert len("".join(piece.text for piece in heard)) > 36_000
    assert most / 2 < clock.monotonic() <= most + 0.01
