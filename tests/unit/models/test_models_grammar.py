"""The grammar that a small model is held to: what fits it is a call of the list, and nothing else fits."""

from __future__ import annotations

import json

import pytest

from statemachine_agent.models.decision import RawCall, RawReply, ToolCalls, decision_of
from statemachine_agent.models.grammar import grammar_of
from statemachine_agent.models.options import options_of
from statemachine_agent.models.port import Prompt
from support.gbnf import regex, rules
from support.offering import DAYS, ID, TEXT, WORDS, calls, prompt, tool


def grammar(asked: Prompt) -> str:
    return grammar_of(options_of(asked))


def test_it_holds_exactly_the_calls_of_the_list() -> None:
    """Every call of the list fits; another tool, another value, another order, more or less do not."""
    asked = prompt(
        tool("look"),
        tool("lend", book=ID, days=DAYS, loud={"type": "boolean"}, optional=("loud",)),
        one=["b_1", "b_2", 7],
    )
    fits = regex(grammar(asked)).fullmatch
    for name, arguments in calls(options_of(asked)):
        assert fits(f"{name} {arguments}")
    for other in (
        "", "look", "look {} ", "look {}look {}", "peek {}", 'look {"book": "b_1"}', 'lend {"book": "b_1"}',
        'lend {"book": "b_3", "days": 7}', 'lend {"book": "b_1", "days": 8}', 'lend {"days": 7, "book": "b_1"}',
        'lend {"book": "b_1", "days": 7, "loud": 1}', 'lend {"book": "b_1", "days": 7, "loud": true',
    ):  # fmt: skip
        assert not fits(other), other


def test_what_only_may_be_there_can_be_left_out_in_every_way() -> None:
    yes = {"enum": [1]}
    asked = prompt(tool("set", a=yes, b=yes, c=yes, optional=("a", "b", "c")))
    fits = regex(grammar(asked)).fullmatch
    assert len(calls(options_of(asked))) == 8
    assert all(fits(f"{name} {arguments}") for name, arguments in calls(options_of(asked)))
    assert not fits("set {, }") and not fits('set {"b": 1, "a": 1}') and not fits('set {"a": 1, }')


def test_it_grows_with_the_arguments_and_not_with_their_combinations() -> None:
    def size(count: int) -> int:
        names = [f"a{n:03}" for n in range(count)]
        return len(grammar(prompt(tool("set", **dict.fromkeys(names, ID), optional=tuple(names)), one=["b_1", "b_2"])))

    assert size(200) < 2.2 * size(100)


def test_words_of_its_own_hold_no_number_and_no_name() -> None:
    """Around the one value that a text quotes there are letters, spaces and stops: nothing that could be a fact."""
    fits = regex(grammar(prompt(tool("write", text=TEXT), one=["b_1", 300]))).fullmatch
    assert fits('write {"text": "Your book b_1 was lent, thank you."}') and fits('write {"text": "b_1"}')
    for other in ("Your book was lent", "Book b_1 costs 5", "b_2", "b_1 b_1", "b_1 \\n", "<b_1>", "b_1" + " a" * 200):
        assert not fits(f'write {{"text": "{other}"}}'), other


def test_a_text_without_a_fact_is_words_alone() -> None:
    fits = regex(grammar(prompt(tool("cannot_continue", reason=WORDS), one=["b_1"]))).fullmatch
    assert fits('cannot_continue {"reason": "nothing is left to do"}')
    assert not fits('cannot_continue {"reason": ""}') and not fits('cannot_continue {"reason": " "}')
    assert not fits('cannot_continue {"reason": "b_1"}')


@pytest.mark.parametrize(
    "hostile",
    [
        '"', "\\", '\\"', '" | "x', '"}\nroot ::= "x"', "root ::= [^]*", "\r\n\t\x00\x7f", "\u2028\u202e\U0001f600é",
        "[a-z]{1,99}", "#", 'b_1" ::= "',
    ],
)  # fmt: skip
def test_a_hostile_text_stays_a_literal(hostile: str) -> None:
    """It adds no rule and no alternative, and comes out as the same text, whatever signs it is made of."""
    quiet = grammar(prompt(tool("write", text=TEXT), tool("lend", book=ID), one=["b_1", "calm"]))
    loud = grammar(prompt(tool("write", text=TEXT), tool("lend", book=ID), one=["b_1", hostile]))
    assert loud.isascii() and loud.replace("\n", "").isprintable()
    assert list(rules(loud)) == list(rules(quiet))
    text = json.dumps({"text": hostile}).replace("\x7f", "\\u007f")
    assert regex(loud).fullmatch(f"write {text}") and not regex(loud).fullmatch("x")


def test_a_megabyte_of_text_does_not_get_in() -> None:
    big = grammar(prompt(tool("write", text=TEXT), tool("lend", book=ID), input="b_1" * 400_000, one="b_2"))
    assert len(big) < 1_000 and "b_1" not in big


def test_what_fits_is_a_decision() -> None:
    """The line's name and arguments are a proposal like any other."""
    asked = prompt(tool("write", text=TEXT), tool("lend", book=ID, days=DAYS), one=["b_1", 'a "b" \\ \u00e9', 2])
    for name, arguments in calls(options_of(asked)):
        assert isinstance(decision_of(RawReply((RawCall("c", name, arguments),))), ToolCalls)


def test_no_options_give_no_grammar() -> None:
    with pytest.raises(ValueError, match="no options"):
        grammar_of(())
