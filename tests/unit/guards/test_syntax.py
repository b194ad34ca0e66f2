"""What an expression reads, compares and calls, from its syntax tree."""

from __future__ import annotations

import pytest

from statemachine_agent.definition.schema import Property
from statemachine_agent.guards import types
from statemachine_agent.guards.contexts import NOW
from statemachine_agent.guards.syntax import Syntax, analyse

ROOTS = {
    "now": NOW,
    "input": {
        "a": Property(type="string"),
        "e": Property(enum=("x", "y")),
        "o": Property(type="object", properties={"e": Property(enum=("x",))}),
        "l": Property(type="array", items=Property(type="object", properties={"n": Property(type="integer")})),
    },
}


def syntax(text: str) -> tuple[Syntax, types.MessageTypes]:
    environment, known = types.environment(ROOTS)
    return analyse(environment.compile(text).checked), known


def test_paths_are_read_to_their_ends_also_inside_calls_and_loops() -> None:
    found, _ = syntax("input.a == 'q' && input.l.exists(p, p.n > 1) && [input.o.e].size() == 1 && has(input.e)")
    assert found.paths == {("input", "a"), ("input", "l"), ("input", "o", "e"), ("input", "e")}
    assert found.roots == {"input"}


def test_a_name_that_a_loop_introduces_is_no_root() -> None:
    found, _ = syntax("input.l.exists(input, input.n == 1)")
    assert found.paths == {("input", "l")}


def test_fields_are_known_inside_lists_and_has_reads_none() -> None:
    found, known = syntax("input.l.exists(p, p.n > 1) && has(input.a)")
    assert {(known.known[message][0], name) for message, name in found.fields} == {("input", "l"), ("input.l[]", "n")}


@pytest.mark.parametrize(
    ("text", "field", "literals"),
    [
        ("input.e == 'x'", "e", ["x"]),
        ("'x' != input.e", "e", ["x"]),
        ("input.o.e in ['x', 'z']", "e", ["x", "z"]),
        ("input.l[0].n == 3", "n", [3]),
    ],
)
def test_comparisons_with_literals_are_found_with_their_places(text: str, field: str, literals: list[object]) -> None:
    found, _ = syntax(text)
    (comparison,) = found.comparisons
    assert (comparison.field, [value for value, _ in comparison.literals]) == (field, literals)
    assert [text[offset:].strip("'")[: len(str(v))] for v, offset in comparison.literals] == [str(v) for v in literals]


def test_texts_of_a_certain_form_are_found() -> None:
    found, _ = syntax("timestamp('t') < now || duration('d') > duration(input.a) || input.a.matches('m')")
    assert [(name, text) for name, text, _ in found.formed] == [("timestamp", "t"), ("duration", "d"), ("matches", "m")]


def test_a_time_in_seconds_is_a_literal_too() -> None:
    found, _ = syntax("timestamp(0) < now && timestamp(-5) < now && timestamp(input.a) < now")
    assert found.formed == [("timestamp", 0, 10), ("timestamp", -5, 32)]
