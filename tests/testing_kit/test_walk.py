"""Walks: each thing that a test can do, each claim, and what a claim that fails says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemachine_agent.errors import RefusedError, UsageError
from statemachine_agent.models.decision import RawCall
from statemachine_agent.testing import Subject, Walk, load_machine, machine_from_texts, record, walk
from statemachine_agent.testing.walking import close_all
from support.refund import ROOT
from support.world import ACT, BAD, DONE, FIND, GOOD, LOOK, MACHINE, NONE, ONE, PEOPLE


@pytest.fixture(scope="module")
def tiny() -> Subject:
    return machine_from_texts(MACHINE, LOOK, ACT, FIND, people=PEOPLE)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What the plugin does after each test."""
    yield
    close_all()


def looked(tiny: Subject) -> Walk:
    return walk(tiny, {"thing": "box"}).choose("look", thing="box").ok(GOOD)


def test_the_long_way(tiny: Subject) -> None:
    task = walk(tiny, {"thing": "box"})
    task.lands_in("LOOKING").offers("look", "ask_user").hides("act", "look first").forbids("find")
    task.choose("act", thing="box", amount=5).refused("look first").no_effect("act")
    task.choose("look", thing="box").calls("look", thing="box").ok(GOOD).accepted().offers("act")
    task.choose("act", thing="box", amount=600).lands_in("ASKING").waits_for("boss", "chief").effect("act", "proposed")
    task.approve().waits_for("boss", "chief").approve("ceo").lands_in("ACTING").effect("act", "intended")
    task.calls("act", amount=600).lost().lands_in("FINDING").effect("act", "unknown")
    task.calls("find", key="act:box:600").ok(NONE).lands_in("ACTING").crash().calls("find").ok(ONE)
    task.ends("SUCCEEDED", "completed").effect("act", "executed")


@pytest.mark.parametrize(
    ("play", "status", "reason"),
    [
        (lambda w: w.failed("rejected"), "FAILED", "rejected"),
        (lambda w: w.not_sent(), "FAILED", "unavailable"),
        (lambda w: w.answers("nonsense").calls("find").answers("nonsense"), "FAILED", "bad_result"),
        (lambda w: w.cancel().calls("find").ok(ONE), "SUCCEEDED", "completed"),
    ],
)
def test_whatever_a_tool_does(tiny: Subject, play: Callable[[Walk], Walk], status: str, reason: str) -> None:
    play(looked(tiny).choose("act", thing="box", amount=5).calls("act")).ends(status, reason)


def test_people_and_time(tiny: Subject) -> None:
    def asked() -> Walk:
        return looked(tiny).choose("act", thing="box", amount=200).waits_for("boss")

    asked().reject(why="too much").ends("DENIED", "rejected")
    asked().passes().ends("NEEDS_INPUT", "expired")
    asked().passes(60).lands_in("ASKING").approve("bob").ok(DONE).ends("SUCCEEDED")
    with pytest.raises(RefusedError, match="none of the roles"):
        asked().approve("eve")
    with pytest.raises(UsageError, match="did you mean"):
        asked().approve("bobb")


def test_a_read_that_is_tried_again_fails_as_a_whole(tiny: Subject) -> None:
    """Two attempts, one answer of the test; and the simulated clock has passed the pause between them."""
    task = walk(tiny, {"thing": "box"}).choose("look", thing="box").lost()
    assert [r["attempt"] for r in task.history if r["table"] == "call"] == [1, 2]
    task.lands_in("LOOKING").hides("act", "look first")


def test_a_text_that_hides_a_tool_counts_for_its_row(tiny: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """As proposing the tool does, which the model cannot; that it is hidden for some reason claims nothing of a row."""
    monkeypatch.setattr(record, "RECORD", {})
    task = walk(tiny, {"thing": "box"}).hides("act")
    assert record.of(tiny.compiled).rows == set()
    task.hides("act", "look")
    counted = record.of(tiny.compiled).rows
    assert [t.refuse for t in tiny.compiled.chart.transitions if t.index in counted] == ["look first"]


def test_talk_and_malformed_replies(tiny: Subject) -> None:
    task = walk(tiny, {"thing": "box"})
    task.say("I have done it.").invalid("text_without_call")
    task.propose(RawCall("c", "look", '{"thing": "bo'), stop_reason="length").invalid("truncated")
    task.choose("look", thing=7).invalid("invalid_arguments", "thing")


def test_tools_that_answer_by_themselves(tiny: Subject) -> None:
    task = walk(tiny, {"thing": "box"}, tools={"look": [BAD], "find": NONE})
    task.choose("look", thing="box").ends("DENIED", "bad_thing")
    with pytest.raises(UsageError, match="uses no tool `loook`"):
        walk(tiny, tools={"loook": GOOD})


def test_what_is_not_given_is_made_up_to_fit() -> None:
    """Patterns, ranges, formats of the shipped machine; a walk of it needs no services."""
    task = walk(load_machine("refund", ROOT))
    assert re.fullmatch("[0-9]+", task.checkpoint.task.input["order_id"])
    task.choose("lookup_order").ok().lands_in("INVESTIGATING").accepted()


FAILING: dict[str, tuple[Callable[[Walk], object], str]] = {
    "another state": (lambda w: w.lands_in("ASKING"), "it is in LOOKING, not in ASKING"),
    "no such state": (lambda w: w.lands_in("ASKIN"), "no state `ASKIN` (did you mean `ASKING`?)"),
    "not ended": (lambda w: w.ends("FAILED"), "it has not ended"),
    "another end": (lambda w: w.choose("ask_user", question="?").ends("FAILED"), "ended as NEEDS_INPUT (ask_user)"),
    "nobody is asked": (lambda w: w.waits_for("boss"), "nobody is asked for approval"),
    "nobody to approve": (lambda w: w.approve(), "nobody is asked for approval"),
    "hidden": (lambda w: w.offers("act"), "`act` is hidden here: look first"),
    "illegal": (lambda w: w.offers("find"), "`find` is illegal here"),
    "offered": (lambda w: w.hides("look"), "`look` is offered here, not hidden"),
    "other text": (lambda w: w.hides("act", "buy first"), "does not say 'buy first'"),
    "not forbidden": (lambda w: w.forbids("act"), "`act` is hidden here, not illegal"),
    "no proposal": (lambda w: w.refused(), "no proposal is recorded yet; the model is to decide"),
    "refused": (lambda w: w.choose("act", thing="a", amount=1).accepted(), "it was refused: refused: look first"),
    "invalid": (lambda w: w.choose("fly").refused(), "it was invalid, not refused"),
    "another class": (lambda w: w.choose("fly").invalid("truncated"), "invalid as illegal_tool, not as truncated"),
    "told otherwise": (lambda w: w.choose("fly").invalid(text="cannot fly"), "does not say 'cannot fly'"),
    "no call": (lambda w: w.calls("look"), "no tool waits here"),
    "no answer wanted": (lambda w: w.ok(), "no tool waits here, to answer; the model is to decide"),
    "another tool": (lambda w: w.choose("look", thing="a").calls("find"), "`look` was called, not `find`"),
    "other arguments": (lambda w: w.choose("look", thing="a").calls("look", thing="b"), "thing = 'a', not 'b'"),
    "answer first": (lambda w: w.choose("look", thing="a").choose("look", thing="a"), "add `.ok(…)`"),
    "ended": (lambda w: w.cancel().choose("look"), "the task has ended as CANCELLED (cancelled)"),
    "no effect": (lambda w: w.effect("act", "executed"), "there is no effect of `act`"),
    "no timer": (lambda w: w.passes(), "no timer runs"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_claim_that_fails_says_why_and_the_way(tiny: Subject, name: str) -> None:
    claim, text = FAILING[name]
    with pytest.raises(AssertionError, match=re.escape(text)) as raised:
        claim(walk(tiny, {"thing": "box"}))
    assert "the way: " in str(raised.value)


def test_claims_about_effects_fail_too(tiny: Subject) -> None:
    task = looked(tiny).choose("act", thing="box", amount=200)
    for claim, text in (
        (lambda: task.effect("act", "executed"), "is proposed, not executed"),
        (lambda: task.no_effect("act"), "there is an effect of `act`"),
        (lambda: task.waits_for("chief"), "people of the roles boss are asked"),
        (lambda: task.choose("look"), "the task rests in ASKING"),
    ):
        with pytest.raises(AssertionError, match=re.escape(text)):
            claim()


def test_a_walk_in_an_async_test_is_an_error_that_names_the_way_out(tiny: Subject) -> None:
    async def main() -> None:
        walk(tiny)

    with pytest.raises(UsageError, match="in an async test, use `world`"):
        asyncio.run(main())


def test_closing_gives_the_files_back(tiny: Subject) -> None:
    with walk(tiny) as task:
        folder = Path(task._folder.name)
        assert folder.exists()
    assert not folder.exists()
    task.close()
