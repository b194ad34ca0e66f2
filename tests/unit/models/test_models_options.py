"""The list of calls that a small model chooses from: the tools offered, with values that are recorded, and nothing made up."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from statemachine_agent.models.options import MOST_CALLS, MOST_VALUES, longest, options_of
from statemachine_agent.models.port import Prompt, Quoted
from support.offering import DAYS, ID, TEXT, WORDS, calls, prompt, tool


def test_a_value_comes_from_the_record_and_fits_its_schema() -> None:
    """The id by its pattern, the number by its limits; the number of calls is that of all combinations."""
    found = options_of(
        prompt(tool("lend", book=ID, days=DAYS), input={"note": "b_x"}, one={"ids": ["b_1", "b_2"], "n": 7}, two=99)
    )
    assert calls(found) == {("lend", f'{{"book": "{b}", "days": 7}}') for b in ("b_1", "b_2")}
    assert found[0].count == 2


def test_a_tool_whose_argument_nothing_fits_is_no_option() -> None:
    assert options_of(prompt(tool("lend", book=ID), input={"n": 3})) == ()


def test_enums_and_truth_values_need_no_record() -> None:
    found = options_of(prompt(tool("set", kind={"enum": ["a", 2]}, loud={"type": "boolean"}, optional=("loud",))))
    assert len(calls(found)) == found[0].count == 6
    assert ("set", '{"kind": 2, "loud": true}') in calls(found) and ("set", '{"kind": "a"}') in calls(found)


def test_arrays_and_objects_are_filled_from_the_record_too() -> None:
    inner = {"type": "object", "properties": {"book": ID}, "required": ["book"]}
    found = options_of(
        prompt(tool("pack", box=inner, ids={"type": "array", "items": ID, "maxItems": 9}), input=["b_1", "b_2"])
    )
    assert found[0].count == len(calls(found)) == 6
    assert ("pack", '{"box": {"book": "b_1"}, "ids": []}') in calls(found)
    assert options_of(prompt(tool("pack", ids={"type": "array", "items": ID, "minItems": 2}), input=["b_1"])) == ()


def test_a_text_quotes_a_recorded_value() -> None:
    """So a message can name a reference without inventing one; a short text is a name, and stands as it is recorded."""
    (find, named) = options_of(
        prompt(tool("find", query=TEXT), tool("open", shelf={"type": "string", "maxLength": 32}), one=["b_1", 5])
    )
    assert calls((find,)) == {("find", '{"query": "b_1"}'), ("find", '{"query": "5"}')}
    assert calls((named,)) == {("open", '{"shelf": "b_1"}')}


def test_what_is_said_to_people_without_a_fact_needs_none() -> None:
    found = options_of(prompt(tool("cannot_continue", reason=WORDS), tool("finish", answer=WORDS), one=["b_1", "b_2"]))
    assert [option.count for option in found] == [1, 2]


# ---------------------------------------------------------------- finished reads


def test_a_read_that_was_answered_is_gone() -> None:
    """With the same arguments only: others are still there, and the tool goes when none is left."""
    assert options_of(prompt(tool("look", {}), tool("wait"))) == options_of(prompt(tool("wait")))
    once = options_of(prompt(tool("read", {"book": "b_1"}, book=ID), input=["b_1", "b_2"]))
    assert calls(once) == {("read", '{"book": "b_2"}')}
    assert options_of(prompt(tool("read", {"book": "b_1"}, {"book": "b_2"}, book=ID), input=["b_1", "b_2"])) == ()


def test_a_search_must_be_for_something_new() -> None:
    """What an earlier text held is not quoted again, so that no two texts are equal."""
    found = options_of(prompt(tool("find", {"query": "who has b_1 now"}, query=TEXT), input=["b_1", "b_2"]))
    assert calls(found) == {("find", '{"query": "b_2"}')}
    assert options_of(prompt(tool("find", {"query": "b_1"}, query=TEXT), input=["b_1"])) == ()


def test_a_read_that_can_be_asked_in_millions_of_ways_is_counted_and_not_built() -> None:
    """The first of them that were not answered yet, in memory that does not grow with the product."""
    name = {"type": "string", "maxLength": 40}
    inner = {"type": "object", "properties": dict.fromkeys("abc", name), "required": list("abc")}
    asked = prompt(tool("search", {"f": dict.fromkeys("abc", "v0")}, f=inner), rows=[f"v{n}" for n in range(70)])
    tracemalloc.start()
    (found,) = options_of(asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.count == MOST_CALLS and peak < 3_000_000
    assert ("search", '{"f": {"a": "v0", "b": "v0", "c": "v1"}}') in calls((found,))
    assert ("search", '{"f": {"a": "v0", "b": "v0", "c": "v0"}}') not in calls((found,))


def test_a_count_beyond_measure_is_one_that_can_be_stored() -> None:
    """Of very many arguments the number of combinations has more digits than a record takes."""
    many = {f"a{n}": {"type": "integer"} for n in range(800)}
    (found,) = options_of(prompt(tool("set", **many), rows=list(range(70))))
    assert found.count == 2**53


# ---------------------------------------------------------------- what comes from outside


@pytest.mark.parametrize("hostile", ['"', "\\", '"}\nroot ::= "x"', "\x00\x7f\u2028\U0001f600", '\\"', "]] {1,9}"])
def test_a_hostile_text_is_a_value_like_any_other(hostile: str) -> None:
    """Written in printable ASCII, and the same text again when it is read."""
    found = options_of(prompt(tool("find", query=TEXT), input=[hostile]))
    ((_, arguments),) = calls(found)
    assert arguments.isascii() and arguments.isprintable() and json.loads(arguments) == {"query": hostile}


def test_what_is_huge_or_cut_is_no_value() -> None:
    """A megabyte of text, a result that is not shown whole; of very many values the newest stay."""
    cut = Quoted("ev-1", "look", {"cut": "b_7", "characters": 9}, "system", whole=False)
    many = [f"b_{n}" for n in range(1000)]
    found = options_of(
        Prompt("m", "S", 1, "", (tool("lend", book=ID),), quoted=(Quoted("input", "", ["b_" + "1" * 10**6], "u"), cut))
    )
    assert found == ()
    (one,) = options_of(prompt(tool("lend", book=ID), input=many))
    assert one.count == MOST_VALUES and longest(one.arguments) < 100


@pytest.mark.parametrize("broken", ["b_\ud800", float("nan"), float("inf"), 10**400, None, {"b": {}}])
def test_what_is_no_value_is_left_out(broken: object) -> None:
    asked = prompt(tool("lend", book=ID), tool("find", query=TEXT), tool("count", n={"type": "number"}), one=[broken])
    assert [option.name for option in options_of(asked)] == ["find"]
    assert calls(options_of(asked)) == {("find", '{"query": "unsaid"}')}


def test_nothing_offered_is_an_empty_list() -> None:
    assert options_of(prompt(input=["b_1"])) == ()


def test_the_same_prompt_gives_the_same_list() -> None:
    asked = prompt(
        tool("lend", book=ID, days=DAYS), tool("find", query=TEXT), input={"a": ["b_2", "b_1", 3], "b": "b_2"}
    )
    assert options_of(asked) == options_of(asked)
    assert [option.count for option in options_of(asked)] == [2, 3]
