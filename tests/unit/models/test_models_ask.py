"""A person plays the model: what they see, what they may type, and what becomes of it."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from typing import Any

import pytest

from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.ask import AskModel, ask
from statemachine_agent.models.decision import InvalidDecision, RawCall, RawReply, ToolCalls, decision_of
from statemachine_agent.models.port import OfferedTool, Prompt, Quoted

ORDER = OfferedTool(
    "lookup_order",
    "The order.",
    {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "Its number"},
            "amount": {"type": "integer"},
            "rows": {"type": "array"},
        },
        "required": ["order_id"],
        "additionalProperties": False,
    },
)
FINISH = OfferedTool(
    "finish", "The goal is met.", {"properties": {"answer": {"type": "string"}}, "required": ["answer"]}
)
FORM = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "refunded": {"type": "boolean"}, "note": {"type": "string"}},
    "required": ["text", "refunded"],
}
REFUND = OfferedTool("issue_refund", "Pay back.", ORDER.schema)
NOTHING = OfferedTool("get_status", "How it stands.", {"type": "object", "properties": {}})


def prompt(**changes: Any) -> Prompt:
    given: dict[str, Any] = {"tools": (ORDER, NOTHING, FINISH), "remaining": {"steps": 7, "tool_calls": 3}}
    return Prompt("refund", "INVESTIGATING", 4, "Find out what was charged.", **{**given, **changes})


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str, **changes: Any) -> RawCall:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return ask(prompt(**changes))


@pytest.mark.parametrize("choice", ["1", "lookup_order", " 1 ", "  lookup_order\t"])
def test_a_tool_is_chosen_by_its_number_or_its_name(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    found = typed(monkeypatch, choice, "8472", "2000", "")
    assert found == RawCall("call-4", "lookup_order", {"order_id": "8472", "amount": 2000})
    assert isinstance(decision_of_one(found), ToolCalls)


def decision_of_one(call: RawCall) -> Any:
    return decision_of(RawReply((call,)))


def test_texts_are_taken_as_they_are_and_anything_else_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    found = typed(monkeypatch, "1", ' "8472" ', "5", '["a", 1]')
    assert found.arguments == {"order_id": ' "8472" ', "amount": 5, "rows": ["a", 1]}
    found = typed(monkeypatch, "1", "", "-5", "")
    assert found.arguments == {"order_id": "", "amount": -5}  # what was typed is proposed, and judged like any other


def test_a_tool_without_arguments_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed(monkeypatch, "2") == RawCall("call-4", "get_status", {})


@pytest.mark.parametrize(
    "wrong", ["", "0", "4", "-1", "+1", "01", "1.0", "²", "٣", "Lookup_order", "lookup", "9" * 5000, "1 2"]
)
def test_a_wrong_choice_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    found = typed(monkeypatch, wrong, wrong, "3", "done")
    assert found == RawCall("call-4", "finish", {"answer": "done"})
    told = capsys.readouterr().err
    assert told.count("there is no choice") == 2
    assert max(len(line) for line in told.splitlines()) < 200


@pytest.mark.parametrize("wrong", ["x", "{", "1,", "'1'", "[" * 100_000, "null", "true", '"5"', "5.0", "{}"])
def test_a_value_that_is_no_json_or_of_another_kind_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    found = typed(monkeypatch, "1", "8472", wrong, "5", "")
    assert found.arguments == {"order_id": "8472", "amount": 5}
    assert "write a JSON integer" in capsys.readouterr().err


def test_a_tool_that_is_not_available_yet_is_said_to_be_refused_and_filled_in_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has to know by heart which arguments it takes."""
    later = {"unavailable": {"issue_refund": "look up the order first"}, "hidden": (REFUND,)}
    found = typed(monkeypatch, "issue_refund", "8472", "80", "", **later)
    assert found == RawCall("call-4", "issue_refund", {"order_id": "8472", "amount": 80})
    told = capsys.readouterr().err
    assert "  issue_refund will be refused: look up the order first\n  order_id (Its number): " in told
    bare = OfferedTool("issue_refund", "", NOTHING.schema)
    assert typed(monkeypatch, "issue_refund", **{**later, "hidden": (bare,)}).arguments == {}
    assert "it takes no arguments" in capsys.readouterr().err


def test_an_object_is_asked_for_with_its_fields_until_it_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    form = OfferedTool("finish", "", {"properties": {"answer": FORM}, "required": ["answer"]})
    found = typed(monkeypatch, "finish", "80", '["x"]', '{"text": "done"}', tools=(form,))
    assert found.arguments == {"answer": {"text": "done"}}  # which fields are right is for the machine to say
    told = capsys.readouterr().err
    assert told.count('write a JSON object {"text": string, "refunded": boolean, "note": string [optional]}') == 2


def test_a_number_that_is_none_is_an_invalid_proposal_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = typed(
        monkeypatch, "1", "NaN", tools=(OfferedTool("weigh", "", {"properties": {"kg": {"type": "number"}}}),)
    )
    wrong = decision_of_one(found)
    assert isinstance(wrong, InvalidDecision) and wrong.error_class == "malformed_arguments"


@pytest.mark.parametrize("lines", [(), ("7",), ("1",), ("1", "8472"), ("3",)])
def test_the_end_of_the_input_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match="nobody is there to choose") as caught:
        typed(monkeypatch, *lines)
    assert caught.value.exit_code == 2
    assert caught.value.hint is not None and "--model" in caught.value.hint


def test_the_screen_shows_brief_evidence_choices_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(
        monkeypatch, "2",
        quoted=(Quoted("ev-1", "lookup_order from payments", {"total": 4000, "note": "é"}, "system"),),
        observation="refused: look it up first",
        unavailable={"issue_refund": "look up the order first"}, hidden=(REFUND,),
    )  # fmt: skip
    told = capsys.readouterr()
    assert told.out == ""  # standard output belongs to the result
    for part in (
        "step 4 · refund · INVESTIGATING", "Find out what was charged.", "[ev-1] lookup_order from payments (system)",
        '{"total": 4000, "note": "é"}', "! refused: look it up first", "  1. lookup_order: The order.",
        "     issue_refund: not available yet: look up the order first", "left: 7 steps, 3 tool calls",
    ):  # fmt: skip
        assert part in told.err


def test_nothing_from_outside_reaches_the_terminal_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u202c \u200b\x00\x9b1m\r\ninjected"
    tool = OfferedTool("t", evil, {"properties": {"a": {"type": "string", "description": evil}}, "required": ["a"]})
    typed(
        monkeypatch, evil.replace("\n", ""), "1", "x",
        tools=(tool,), quoted=(Quoted("ev-1", evil, {evil: [evil]}, "untrusted"),), observation=evil,
        unavailable={"issue_refund": evil}, hidden=(REFUND,),
    )  # fmt: skip
    told = capsys.readouterr().err
    assert not [c for c in told if not c.isprintable() and c != "\n"]
    assert "\\x1b[2J" in told and "\\u202e" in told
    assert not any(line.startswith("injected") for line in told.splitlines())


def test_it_asks_beside_the_loop_and_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("2\n"))
    found = asyncio.run(AskModel(Environment()).decide(prompt()))
    assert found.raw.calls == (RawCall("call-4", "get_status", {}),)
    assert (found.spent.input_tokens, found.spent.output_tokens, found.model) == (0, 0, "ask")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(UsageError):
        asyncio.run(AskModel(Environment()).decide(prompt()))


def test_in_a_process_of_its_own_with_bytes_that_are_no_text() -> None:
    code = (
        "from unit.models.test_models_ask import prompt\n"
        "from statemachine_agent.errors import UsageError\n"
        "from statemachine_agent.models.ask import ask\n"
        "try:\n    print(ask(prompt()))\n"
        "except UsageError as problem:\n    print('UsageError', problem)\n"
    )
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYTHONIOENCODING": "utf-8:strict",
    }
    for typed_bytes, told in (
        (b"2\n", "RawCall"),
        (b"\xff\xfe\n2\n", "RawCall"),  # said on standard error, and asked again
        (b"2" * 2_000_000 + b"\n2\n", "RawCall"),
        (b"", "UsageError nobody is there to choose"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code], input=typed_bytes, env=environ, capture_output=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode().startswith(told)
