"""Claims about a state and a tool, without the way there; and the values that are made up for them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from statemachine_agent.definition.schema import Property, misfit
from statemachine_agent.errors import UsageError
from statemachine_agent.testing import Subject, assert_accepted, assert_illegal, assert_refused, machine_from_texts
from statemachine_agent.testing.patterns import texts_like
from statemachine_agent.testing.samples import sample_of, variants_of
from support.world import ACT, BAD, FIND, GOOD, LOOK, MACHINE, PEOPLE


@pytest.fixture(scope="module")
def tiny() -> Subject:
    return machine_from_texts(MACHINE, LOOK, ACT, FIND, people=PEOPLE)


BOX = {"thing": "box"}


def test_what_holds(tiny: Subject) -> None:
    for state, tool in (("LOOKING", "find"), ("ACTING", "act"), ("ASKING", "finish"), ("SUCCEEDED", "look")):
        assert_illegal(tiny, state, tool)
    assert_refused(tiny, "LOOKING", "act", text="look first")
    assert_refused(tiny, "LOOKING", "act", BOX, evidence={"look": BAD}, inputs=BOX, text="not this thing")
    assert_refused(tiny, "LOOKING", "act", {"thing": "jar"}, evidence={"look": GOOD}, inputs=BOX, text="not this thing")
    assert_refused(tiny, "LOOKING", "finish", text="completion rejected")
    assert_accepted(tiny, "LOOKING", "act", BOX, evidence={"look": GOOD}, inputs=BOX, actor="ann")


FAILING: dict[str, tuple[Callable[[Subject], None], str]] = {
    "legal": (lambda m: assert_illegal(m, "LOOKING", "look"), "`look` is a transition of LOOKING"),
    "hidden is not illegal": (lambda m: assert_illegal(m, "LOOKING", "act"), "`act` is a transition of LOOKING"),
    "accepted": (lambda m: assert_refused(m, "LOOKING", "look"), "LOOKING accepts `look`"),
    "invalid": (lambda m: assert_refused(m, "LOOKING", "look", {"thing": 7}), "is invalid, not refused"),
    "other text": (lambda m: assert_refused(m, "LOOKING", "act", text="pay"), "does not say 'pay'"),
    "not accepted": (
        lambda m: assert_accepted(m, "LOOKING", "act"),
        "`act` in LOOKING is refused: refused: look first",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_does_not_hold_says_what_is(tiny: Subject, name: str) -> None:
    claim, text = FAILING[name]
    with pytest.raises(AssertionError, match=re.escape(text)):
        claim(tiny)


@pytest.mark.parametrize(
    ("state", "tool", "text"),
    [
        ("LOKING", "act", "did you mean `LOOKING`"),
        ("LOOKING", "atc", "did you mean `act`"),
        ("LOOKING", "rm", "no tool"),
    ],
)
def test_a_name_that_is_nowhere_is_an_error_and_no_claim_that_holds(
    tiny: Subject, state: str, tool: str, text: str
) -> None:
    for claim in (assert_illegal, assert_refused, assert_accepted):
        with pytest.raises(UsageError, match=re.escape(text)):
            claim(tiny, state, tool)


# ---------------------------------------------------------------- made up


@pytest.mark.parametrize(
    "pattern",
    [
        "^[0-9]+$", "^pay_[a-z0-9]+$", "^[0-9]{13}$", "^[a-z]{2,4}-[A-Z]?$", "^(?:ab|cd)x*$", "^\\d{4}-\\d\\d$", "a.c",
        "^[^a-z]{3}$", "^[\\w.]+@[\\w.]+$", "^$", "^(one|two)+$", "^[A-F]{2}(:[A-F]{2})*$",
    ],
)  # fmt: skip
def test_a_text_for_a_pattern_fits_it(pattern: str) -> None:
    assert re.search(pattern, sample_of(Property.model_validate({"pattern": pattern})))


@pytest.mark.parametrize("pattern", ["(?=x)", "[", "(", "*", "\\b", "a{"])
def test_what_cannot_be_read_gives_no_text_and_no_exception(pattern: str) -> None:
    assert list(texts_like(pattern)) in ([], ["a"])


def test_where_nothing_can_be_made_up_it_says_so() -> None:
    with pytest.raises(UsageError, match="give the value in the test"):
        sample_of(Property.model_validate({"pattern": "^\\p{Greek}{7}$"}))


@pytest.mark.parametrize(
    ("declared", "some"),
    [
        ({"enum": ["a", "b"]}, ["a", "b"]), ({"type": "boolean"}, [True, False]),
        ({"type": "integer", "minimum": 3, "maximum": 9}, [3, 9]), ({"type": "number", "minimum": 0.5}, [0.5]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, [[], ["a"], ["a", "b"]]), ({"format": "date"}, ["2026-10-20"]),
        ({"type": "array", "minItems": 2, "items": {"type": "boolean"}}, [[True, True]]), ({"minLength": 9}, ["x" * 9]),
        ({"properties": {"x": {"type": "boolean", "optional": True}}}, [{"x": True}, {"x": False}, {}]),
    ],
)  # fmt: skip
def test_variants_differ_where_a_guard_could_tell(declared: dict, some: list) -> None:
    found = list(variants_of(Property.model_validate(declared)))
    assert all(value in found for value in some)
    assert all(misfit(Property.model_validate(declared), value) is None for value in found)
