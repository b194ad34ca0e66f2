"""What a model is shown of what is known: all of it while there is room, then less, and never silently nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import ScriptedModel
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.records import Checkpoint
from support.playing import play, swap
from support.world import ACT, BAD, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, act_step

#: forty looks, each at another thing
LONG = swap(MACHINE, ("steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10", "steps: 60, tokens: 900000"))


@dataclass
class Watching:
    """A script whose prompts are kept."""

    script: ScriptedModel
    prompts: list[Prompt] = field(default_factory=list)
    spec: str = "test"

    async def decide(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        return await self.script.decide(prompt)


def prompts_of(folder: Path, *steps: Any, **how: Any) -> tuple[list[Prompt], Checkpoint]:
    model = Watching(ScriptedModel.of(*steps))
    end = play(folder, model=model, **how)
    return model.prompts, end


def noted(sizes: list[int]) -> list[Any]:
    """Results whose notes have these lengths, each told from the others by its number."""
    return [{"good": True, "note": f"{n}:".ljust(size, "x")} for n, size in enumerate(sizes, 1)]


def shown(folder: Path, sizes: list[int]) -> dict[str, Any]:
    """What is quoted after looks of these sizes, by name."""
    steps = [{"call": "look", "with": {"thing": f"t{n}"}} for n in range(len(sizes))]
    prompts, _ = prompts_of(folder, *steps, machine=LONG, look=noted(sizes))
    return {q.id: q.value for q in prompts[len(sizes)].quoted}


def test_everything_is_shown_while_there_is_room(tmp_path: Path) -> None:
    """Oldest first, each whole and under its name."""
    found = shown(tmp_path, [10, 20, 30])
    assert list(found) == ["input", "ev-1", "ev-2", "ev-3"]
    assert [len(found[f"ev-{n}"]["note"]) for n in (1, 2, 3)] == [10, 20, 30]


@pytest.mark.parametrize(("size", "whole"), [(11_970, True), (11_980, False)])
def test_room_is_for_twenty_four_thousand_characters(tmp_path: Path, size: int, whole: bool) -> None:
    """Two results that just fit are whole; a little more, and the older one is cut to what is left, saying how long it was."""
    found = shown(tmp_path, [size, size])
    assert len(found["ev-2"]["note"]) == size
    if whole:
        assert len(found["ev-1"]["note"]) == size
    else:
        assert found["ev-1"]["characters"] == size + len('{"good":true,"note":""}')
        assert 11_900 < len(found["ev-1"]["cut"]) < 24_000 - size
        assert found["ev-1"]["cut"].startswith('{"good":true,"note":"1:xxx')


def test_behind_one_that_was_cut_nothing_older_is_whole(tmp_path: Path) -> None:
    """A small old result does not slip in between: what is whole is the newest."""
    found = shown(tmp_path, [10, 30_000, 10])
    assert "cut" in found["ev-1"] and "cut" in found["ev-2"] and "note" in found["ev-3"]


def test_what_is_too_old_to_be_shown_is_named_and_counted(tmp_path: Path) -> None:
    """Whole, then ten that are cut, then twenty names, and how many there are in all."""
    found = shown(tmp_path, [23_000] * 40)
    assert list(found) == ["input", "earlier", *(f"ev-{n}" for n in range(30, 41))]
    assert "note" in found["ev-40"] and all("cut" in found[f"ev-{n}"] for n in range(30, 40))
    assert found["earlier"] == {"newest of them": [f"ev-{n} look" for n in range(10, 30)], "number": 29}


def test_a_prompt_says_what_is_whole_and_with_what_a_read_was_answered(tmp_path: Path) -> None:
    """For models that choose from a list of recorded values; what was cut is none, and is not shown otherwise."""
    steps = [{"call": "look", "with": {"thing": f"t{n}"}} for n in range(2)]
    prompts, _ = prompts_of(tmp_path, *steps, machine=LONG, look=noted([12_000, 12_000]))
    first, last = prompts[0], prompts[2]
    assert [q.whole for q in last.quoted] == [True, False, True]
    answered = {tool.name: tool.answered for tool in first.tools}
    assert set(answered.values()) == {()}
    answered = {tool.name: tool.answered for tool in last.tools}
    assert answered.pop("look") == ({"thing": "t0"}, {"thing": "t1"}) and set(answered.values()) == {()}


def test_with_what_a_read_was_answered_is_told_as_the_model_asks_it(tmp_path: Path) -> None:
    """What the machine fills in is no part of the question; a read that may be repeated (`polling`) is never answered."""
    pinned = swap(MACHINE, ("look: stay", "look: {with: {thing: input.thing}}"))
    prompts, _ = prompts_of(tmp_path / "a", {"call": "look"}, machine=pinned)
    assert [t.answered for t in prompts[1].tools if t.name == "look"] == [({},)]
    polled = (LOOK + "polling: true\n", ACT, FIND)
    prompts, _ = prompts_of(tmp_path / "b", {"call": "look"}, machine=pinned, texts=polled)
    assert [t.answered for t in prompts[1].tools if t.name == "look"] == [()]


def test_a_look_on_behalf_of_a_write_is_no_finding_of_the_models(tmp_path: Path) -> None:
    """The precondition's read is on record, and not among what the model found out."""
    act = ACT + "precondition: {tool: look, with: {thing: args.thing}, holds: result.good, reason: gone}\n"
    machine = swap(
        MACHINE,
        ("blocked: FAILED", "blocked: LOOKING"),
        ("- {when: bad, goto: DENIED, reason: bad_thing}", "- {when: acted, goto: SUCCEEDED}"),
    )
    prompts, end = prompts_of(
        tmp_path, LOOK_STEP, act_step(), machine=machine, texts=(LOOK, act, FIND), look=[GOOD, BAD]
    )
    assert [e.purpose for e in end.evidence] == ["step", "precondition"]
    assert [[q.id for q in p.quoted] for p in prompts[:3]] == [["input"], ["input", "ev-1"], ["input", "ev-1"]]


def test_the_parts_of_a_prompt(tmp_path: Path) -> None:
    """Brief, what may be proposed with its arguments, what not yet and why, data with its source, and what is left."""
    prompts, _ = prompts_of(tmp_path, LOOK_STEP, act_step())
    first, second = prompts
    assert (first.machine, first.state, first.step, first.brief) == ("tiny", "LOOKING", 1, "Look, then act.")
    assert [t.name for t in first.tools] == ["look", "ask_user", "cannot_continue"]
    assert first.unavailable == {
        "act": "look first",
        "finish": "completion rejected: not all of acted, effects_settled hold on the recorded evidence",
    }
    assert [t.name for t in second.tools] == ["look", "act", "ask_user", "cannot_continue"]
    summaries = {t.name: t.summary for t in second.tools}
    assert summaries["look"] == "Look at a thing."
    assert summaries["act"] == "Do something to a thing. Proposed here, executed only after checks."
    arguments = {t.name: t.schema["required"] for t in second.tools}
    assert arguments == {
        "look": ["thing"],
        "act": ["thing", "amount"],
        "ask_user": ["question"],
        "cannot_continue": ["reason"],
    }
    asked = next(t.schema for t in second.tools if t.name == "ask_user")
    assert asked["additionalProperties"] is False
    assert asked["properties"] == {"question": {"type": "string", "minLength": 1}}
    assert [(q.id, q.trust) for q in second.quoted] == [("input", "untrusted"), ("ev-1", "untrusted")]
    assert second.quoted[1].label == "look from things at 2026-10-28T11:17:43.000000Z"
    assert first.remaining == {"steps": 6, "tokens": 10_000, "tool_calls": 10, "seconds": 60}
    assert second.remaining == {"steps": 5, "tokens": 10_000, "tool_calls": 9, "seconds": 60}
    for part in (
        "## Not available yet\n- act: look first\n",
        "## What you may propose: one of these, or several reads at once\n",
        '## Left\n{"seconds": 60',
    ):
        assert part in first.text
    assert "## Not available" in second.text and "What became of" not in second.text


def test_a_state_without_a_brief_is_introduced_by_the_machine(tmp_path: Path) -> None:
    """The machine's own summary, never an empty line."""
    prompts, _ = prompts_of(tmp_path, LOOK_STEP, machine=swap(MACHINE, ("    brief: Look, then act.\n", "")))
    assert prompts[0].brief == "Look at a thing, then do something to it."


def test_data_stands_between_lines_that_nobody_can_forge(tmp_path: Path) -> None:
    """Each prompt has a fence of its own; the hash, which is on record, is that of all the rest."""
    texts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        prompts, _ = prompts_of(tmp_path / name, LOOK_STEP, LOOK_STEP)
        texts += prompts[:2]
    tags = {p.text.partition("Between lines marked ")[2].partition(" ")[0] for p in texts[:2]}
    assert len(tags) == 2 and all(len(tag) == 12 for tag in tags)
    (again,) = {p.text.partition("Between lines marked ")[2].partition(" ")[0] for p in texts[:1]}
    assert texts[0].text.count(f"<{again} ") == texts[0].text.count(f"</{again}>") == 1
    assert texts[0].hash == texts[2].hash != texts[1].hash


def test_what_was_not_admitted_is_told_as_data(tmp_path: Path) -> None:
    """The model's own words come back fenced, like all that is not the author's."""
    prompts, _ = prompts_of(tmp_path, {"say": "I have done it."})
    told = prompts[1].text.partition("## What became of your last proposal\n")[2]
    label, line = told.splitlines()[:2]
    assert label.endswith(" observation>")
    assert json.loads(line).startswith("invalid proposal (text_without_call)")
    assert prompts[1].observation == json.loads(line)


def test_a_prompt_begins_as_the_one_before_it_in_the_same_state(tmp_path: Path) -> None:
    """So that a provider finds that part in its cache; the tag, which is another each time, stands behind it."""
    steps = [{"call": "look", "with": {"thing": f"t{n}"}} for n in range(4)]
    prompts, _ = prompts_of(tmp_path, *steps, machine=LONG, look=noted([10, 20, 30, 40]))
    second, third = prompts[1:3]  # the first is not offered `act`, since nothing was looked at
    assert 0 < second.stable == third.stable
    assert second.text[: second.stable] == third.text[: third.stable]
    assert second.text[second.stable :].startswith("## Data")
