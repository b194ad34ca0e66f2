"""A document without the parts that have faults: numbers and places stay those of the file."""

from __future__ import annotations

from statemachine_agent.definition.document import Document
from statemachine_agent.definition.source import Source, read

TEXT = "rows:\n  - a\n  - b\n  - {c: 1, d: 2}\n  - e\nother: x\n"


def without(*paths) -> Document:
    found = read(Source("f.yaml", TEXT))
    for path in paths:
        found.leave_out(path)
    return found


def test_what_is_left_out_is_not_read_and_all_else_is() -> None:
    found = without(("rows", 1), ("rows", 2, "c"), ("other",))
    assert found.readable() == {"rows": ["a", {"d": 2}, "e"]}
    assert isinstance(found.data, dict)
    assert found.data["other"] == "x"


def test_places_of_later_elements_are_those_of_the_file() -> None:
    found = without(("rows", 0), ("rows", 2))
    assert found.readable() == {"rows": ["b", "e"], "other": "x"}
    fault = found.fault(("rows", 1), "wrong", "mend it")
    assert fault.line == "  - e"
    assert found.at(("rows", 1)) == "e"
    assert found.in_file(("rows", 1, "x")) == ("rows", 3, "x")


def test_incomplete_is_what_something_was_left_out_of() -> None:
    found = without(("rows", 2, "c"))
    found.readable()
    assert found.incomplete(("rows",)) and found.incomplete(("rows", 2)) and found.incomplete(())
    assert not found.incomplete(("rows", 1)) and not found.incomplete(("other",))
    assert found.left_out(("rows", 2)) == {"c"}
    assert found.left_out(("rows",)) == set()


def test_a_stand_in_is_read_and_counts_as_left_out() -> None:
    found = without()
    found.stand_in((), "limits", {"steps": 1})
    assert found.readable() == {"rows": ["a", "b", {"c": 1, "d": 2}, "e"], "other": "x", "limits": {"steps": 1}}
    assert found.incomplete(("limits",)) and not found.incomplete(("other",))
