"""A whole prompt as a value: what an adapter is given, whatever it makes of the text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from unit.loop.making import standing

from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import ModelInput
from statemachine_agent.loop.prompt import prompt, text_of
from statemachine_agent.models.port import OfferedTool, Quoted
from statemachine_agent.records import Evidence
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE

#: one argument of the look is filled in; looks count for ten minutes, and are asked for again and again where `polling`
WHERE = swap(LOOK, ("args:\n", "args:\n  where: {type: string}\n")) + "fresh_for: 10m\nrender: {max_chars: 200}\n"
PINNED = swap(
    MACHINE,
    ("      look: stay\n", "      look: {with: {where: input.thing}}\n"),
    ("guards:\n", "output: {price: {type: number}}\nguards:\n"),
    ("success: [acted]", "success: []"),
)


def result(
    number: int, payload: Any, asked: Any, purpose: str = "step", minutes: int = 0, tool: str = "look"
) -> Evidence:
    context, _ = standing()
    at = context.environment.now() - timedelta(minutes=minutes)
    return Evidence(f"ev-{number}", tool, purpose, "c", "r", 1, "things", at, "mixed", payload, "h", asked)


HERE = {"where": "box", "thing": "hat"}
KNOWN = (
    result(1, {"good": True}, {"where": "box", "thing": "old"}, minutes=11),
    result(2, {"good": True, "note": "n" * 300}, HERE),
    result(3, {"good": True}, {"where": "there", "thing": "bag"}),
    result(4, {"good": True}, {"where": "box", "thing": "pre"}, "precondition"),
    result(5, {"items": []}, {"key": "k"}, tool="find"),
)


def made(
    *known: Evidence, machine: str = PINNED, texts: tuple[str, ...] = (WHERE, ACT, FIND), **head: Any
) -> ModelInput:
    context, started = standing(machine=machine, texts=texts, **head)
    return prompt(observe(context, replace(started, evidence=known)))


def schema(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": required or list(properties), "additionalProperties": False,
    }  # fmt: skip


TEXT = {"type": "string", "minLength": 1}
LOOKING = OfferedTool("look", "Look at a thing.", schema(thing={"type": "string"}), ({"thing": "hat"},))
ACTING = OfferedTool(
    "act",
    "Do something to a thing. Proposed here, executed only after checks.",
    schema(thing={"type": "string"}, amount={"type": "integer", "minimum": 1, "maximum": 1000}),
)
CHOICES = (
    OfferedTool(
        "finish", "The goal is met: give the answer.",
        schema(answer=schema(price={"type": "number"})),
    ),
    OfferedTool("ask_user", "A fact is needed that only the user has: ask for it.", schema(question=TEXT)),
    OfferedTool("cannot_continue", "There is nothing useful left to do: say why.", schema(reason=TEXT)),
)  # fmt: skip


def test_the_whole_prompt_is_a_value() -> None:
    """Tools with what a model fills in, what was asked with that before, and the results that count."""
    found = made(*KNOWN, steps=2, observation={"": {"text": "`look` failed"}})
    shown = found.prompt
    assert (shown.machine, shown.state, shown.step, shown.brief) == ("tiny", "LOOKING", 3, "Look, then act.")
    assert shown.tools == (LOOKING, ACTING, *CHOICES)
    assert (dict(shown.unavailable), shown.hidden) == ({}, ())
    cut = shown.quoted[1].value
    assert cut == {"cut": '{"good":true,"note":"' + "n" * (len(cut["cut"]) - 22) + "…", "characters": 323}
    assert 190 <= len(cut["cut"]) <= 200
    label = "look from things at 2026-10-28T11:17:43.000000Z"
    assert shown.quoted == (
        Quoted("input", "what the task was started with", {"thing": "box"}, "untrusted"),
        Quoted("ev-2", label, cut, "untrusted", whole=False),
        Quoted("ev-3", label, {"good": True}, "untrusted"),
        Quoted("ev-5", label.replace("look", "find"), {"items": []}, "untrusted"),
    )
    assert (shown.observation, shown.at_once, shown.together) == ("`look` failed", 4, ("look",))
    assert shown.remaining == {"steps": 4, "tokens": 10_000, "tool_calls": 10, "seconds": 60}


def test_the_text_is_its_parts_with_a_tag() -> None:
    """Of which the first part stands in the next prompt too; the hash is that of the parts, whatever the tag."""
    first, second = made(*KNOWN), made(*KNOWN)
    shown = first.prompt
    tag = shown.text.partition("Between lines marked ")[2].partition(" ")[0]
    assert len(tag) == 12 and int(tag, 16) >= 0
    assert shown.text == text_of(first.sections, tag)
    assert shown.text[shown.stable :].startswith("## Data\n") and shown.text[: shown.stable].endswith(
        "proposed alone.\n"
    )
    assert shown.hash == second.prompt.hash != made(*KNOWN[1:3]).prompt.hash


def test_what_is_refused_now_is_there_for_a_person() -> None:
    """With the reason, and the form of its arguments; a state without a brief has the machine's summary."""
    machine = swap(MACHINE, ("    brief: Look, then act.\n", ""), ("initial:", "at_most: {look: 1}\ninitial:"))
    shown = made(machine=machine, texts=(LOOK, ACT, FIND), calls={"look": 1}).prompt
    assert shown.brief == "Look at a thing, then do something to it."
    assert dict(shown.unavailable) == {
        "look": "it may be called 1 times in a task, and was",
        "act": "look first",
        "finish": "completion rejected: not all of acted, effects_settled hold on the recorded evidence",
    }
    assert [t.name for t in shown.hidden] == list(shown.unavailable)
    assert shown.hidden[1] == ACTING and shown.hidden[2].schema == schema(answer=TEXT)
    assert "- look: it may be called 1 times in a task, and was\n" in shown.text.partition("## Not available yet\n")[2]
    assert (shown.at_once, shown.together) == (1, ())
    assert "## What you may propose: exactly one of these\n" in shown.text


@pytest.mark.parametrize(
    ("look", "known"),
    [
        (WHERE, ()),
        (WHERE, KNOWN[:1]),
        (WHERE + "polling: true\n", KNOWN),
        (WHERE, KNOWN[3:]),
    ],
    ids=["nothing", "no longer fresh", "asked again and again", "read on behalf of a write"],
)
def test_what_does_not_count_as_asked(look: str, known: tuple[Evidence, ...]) -> None:
    """Asking so once more may bring something new."""
    assert made(*known, texts=(look, ACT, FIND)).prompt.tools[0].answered == ()


def test_what_is_pinned_and_not_there_leaves_nothing_that_was_asked() -> None:
    """It would be refused."""
    machine = swap(PINNED, ("where: input.thing", "where: evidence.look.note"))
    assert made(*KNOWN, machine=machine).prompt.tools[0].answered == ()


def test_an_adapter_may_do_with_it_what_it_likes() -> None:
    """What it shortens in place is its own."""
    found = made(*KNOWN)
    found.prompt.quoted[2].value["good"] = "gone"
    found.prompt.tools[0].schema["properties"].clear()  # type: ignore[index]
    assert KNOWN[2].payload == {"good": True}
    assert made(*KNOWN).prompt.tools[0].schema == LOOKING.schema


@pytest.mark.parametrize(("most", "said"), [(2, True), (1, False)])
def test_how_many_may_be_proposed_at_once_is_said(most: int, said: bool) -> None:
    """Where it is more than one."""
    machine = swap(PINNED, ("initial: LOOKING", f"parallel_calls: {most}\ninitial: LOOKING"))
    shown = made(machine=machine).prompt
    assert (
        shown.at_once,
        "Up to 2 different calls of look may be proposed at once, where none needs" in shown.text,
    ) == (most, said)
