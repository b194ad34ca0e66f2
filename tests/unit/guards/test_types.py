"""Schemas as message types: the compiler knows names and types, also inside lists."""

from __future__ import annotations

import pytest

from statemachine_agent.definition.schema import Property
from statemachine_agent.guards import types
from statemachine_agent.guards.cel import CompileError

KINDS = {"string": "'a'", "integer": "1", "number": "1.0", "boolean": "true"}


def compiles(text: str, **properties: Property) -> bool:
    environment, _ = types.environment({"input": properties})
    try:
        environment.compile(text)
    except CompileError:
        return False
    return True


@pytest.mark.parametrize("declared", KINDS)
@pytest.mark.parametrize("compared", KINDS)
def test_a_value_compares_with_its_own_type_only(declared: str, compared: str) -> None:
    scalar = Property(type=declared)
    items = Property(type="array", items=Property(type="object", properties={"x": scalar}))
    assert compiles(f"input.x == {KINDS[compared]}", x=scalar) is (declared == compared)
    assert compiles(f"input.l.exists(p, p.x == {KINDS[compared]})", l=items) is (declared == compared)
    assert compiles(f"{KINDS[compared]} in input.l", l=Property(type="array", items=scalar)) is (declared == compared)


def test_a_field_that_is_not_declared_does_not_compile_however_deep() -> None:
    deep = Property(type="array", items=Property(type="object", properties={
        "o": Property(type="object", properties={"x": Property(type="string")})}))  # fmt: skip
    assert compiles("input.l[0].o.x == 'a'", l=deep)
    assert not compiles("input.l[0].o.y == 'a'", l=deep)
    assert not compiles("input.l[0].x == 'a'", l=deep)


def test_what_is_not_described_may_be_anything() -> None:
    assert compiles("input.free.any.thing == 3", free=Property(type="object"))
    assert compiles("input.lists[0][1] == 'x'", lists=Property(type="array", items=Property(type="array")))
    assert compiles("input.list[0].x == 'x'", list=Property(type="array"))


@pytest.mark.parametrize("name", ["json_name", "message", "a_b", "aB", "A_b", "M0", "__x__", "size", "type"])
def test_no_name_of_a_field_collides(name: str) -> None:
    assert compiles(f"input.{name} == 'a'", **{name: Property(type="string"), "a_b_c": Property(type="string")})


def test_messages_speak_of_paths_and_not_of_generated_names() -> None:
    many = {f"o{i}": Property(type="object", properties={"x": Property(type="string")}) for i in range(15)}
    environment, known = types.environment({"input": many})
    with pytest.raises(CompileError) as caught:
        environment.compile("input.o11.y == '1'")
    assert [known.author_words(p.message) for p in caught.value.problems] == ["`input.o11` has no field `y`"]


@pytest.mark.parametrize("names", [("a_b", "aB"), ("good", "good_"), ("x1", "x_1"), ("A", "a")])
def test_names_that_protobuf_takes_for_one_are_two(names: tuple[str, str]) -> None:
    """The messages never become JSON, where they would collide."""
    assert compiles(" != ".join(f"input.{name}" for name in names), **{name: Property(type="string") for name in names})
