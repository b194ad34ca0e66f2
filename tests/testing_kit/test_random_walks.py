"""Random walks of every machine there is; and that the invariants they hold do notice what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Catalogue
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.records import Checkpoint, EffectStatus, Status
from statemachine_agent.testing import (
    Subject,
    Walk,
    load_machine,
    machine_from_texts,
    random_walks,
    record,
    walk,
    walks_of,
)
from statemachine_agent.testing import invariants as held
from statemachine_agent.testing.at_random import RandomWalk
from statemachine_agent.testing.subject import subject_of
from statemachine_agent.testing.walking import close_all
from support.refund import ROOT
from support.world import ACT, DONE, FIND, GOOD, LOOK, MACHINE, NONE, PEOPLE

SMALL = Path(__file__).parents[1] / "machines" / "small"
PAYMENT = {"payment_id": "pay_5a1", "amount_inr": 2000, "status": "captured", "at": "2026-10-20T09:14:02Z"}
LATER = {**PAYMENT, "payment_id": "pay_5a2", "at": "2026-10-20T09:15:40Z"}
POLICY = {"doc": "POL-REF-004", "version": "v4", "section": "3.2", "text": "…"}

#: what leads far into a machine
LIKELY: Mapping[str, Mapping[str, Any]] = {
    "refund": {
        "inputs": {"order_id": "8472"},
        "actor": "cust-3391",
        "results": {
            "lookup_order": [
                {"order_id": "8472", "customer_id": "cust-3391", "total_inr": 2000, "payments": [PAYMENT, LATER]}
            ],
            "get_refund_status": [{"order_id": "8472", "refunds": []}],
            "search_policy": [{"passages": [POLICY]}],
            "find_refund_for_payment": [{"refunds": []}],
        },
        "arguments": {"issue_refund": [{"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}]},
    },
    "tiny": {
        "inputs": {"thing": "box"},
        "results": {"look": [GOOD]},
        "arguments": {"act": [{"thing": "box", "amount": a} for a in (5, 200, 600)]},
    },
}


def small(name: str) -> Subject:
    files = [SMALL / "greenhouse.yaml", SMALL / "launch.yaml"]
    return subject_of(checked_catalogue(Catalogue.read(files, [SMALL / "tools"], SMALL / "people.yaml")), name)


def tiny(machine: str = MACHINE, act: str = ACT) -> Subject:
    return machine_from_texts(machine, LOOK, act, FIND, people=PEOPLE)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


@pytest.mark.parametrize("name", ["tiny", "greenhouse", "launch", "refund"])
def test_nothing_breaks_an_invariant(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    versions, judge = [], held.of_checkpoint
    monkeypatch.setattr(held, "of_checkpoint", lambda m, c: (versions.append(c.head.version), judge(m, c))[1])
    subject = {"tiny": tiny, "refund": lambda: load_machine("refund", ROOT)}.get(name, lambda: small(name))()
    random_walks(subject, examples=10, steps=25, seed_of_walks=seed, **LIKELY.get(name, {}))
    assert max(versions) > 0, "no walk led anywhere"


def test_what_is_met_by_chance_counts_as_exercised_by_no_test(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a threshold of coverage would hold in one run and fail in the next."""
    monkeypatch.setattr(record, "RECORD", {})
    subject = tiny()
    random_walks(subject, examples=5, steps=25, seed_of_walks=seed, **LIKELY["tiny"])
    assert not any(record.of(subject.compiled).as_json().values())
    walk(subject, {"thing": "box"}).choose("look", thing="box").ok(GOOD)
    assert record.of(subject.compiled).states


def test_a_replay_is_walked_too(seed: int) -> None:
    """Where the service knows its keys, sending once more is no second effect."""
    replay = ACT[: ACT.index("  reconcile:")] + "  replay: true\n" + ACT[ACT.index("approval:") :]
    subject = machine_from_texts(MACHINE, LOOK, replay, people=PEOPLE)
    random_walks(subject, examples=8, steps=25, seed_of_walks=seed, **LIKELY["tiny"])


# ---------------------------------------------------------------- the walks notice


def led(act: str = ACT) -> RandomWalk:
    """A random walk that is led by hand: the write was sent, it happened, and the answer was lost."""
    one = walks_of(tiny(act=act), inputs={"thing": "box"})()
    one.walk.choose("look", thing="box").ok(GOOD).choose("act", thing="box", amount=5)
    one.outside.happens(one._sent())
    one.walk.lost().calls("find")
    one.all_invariants_hold()
    return one


def test_look_ups_tell_the_truth_about_what_happened() -> None:
    one = led()
    (effect,) = one.walk.checkpoint.effects
    act = one.subject.compiled.tools["act"]
    now = one.walk.environment.now()
    assert all(len(answer["items"]) == 1 for answer in one.outside.truthful(act, effect, now))
    one.outside.happened.clear()
    assert one.outside.truthful(act, effect, now) == [{"items": []}]
    one.teardown()


def test_a_second_effect_is_noticed() -> None:
    """A service that says `absent` of what it did: the machine sends again, and the walk fails with the key."""
    one = led()
    one.walk.ok(NONE).calls("act")
    one.outside.happens(one._sent())
    with pytest.raises(AssertionError, match="act:box:5 happened 2 times"):
        one.all_invariants_hold()
    one.teardown()


# ---------------------------------------------------------------- each invariant


def acting() -> Walk:
    """About to be told whether it happened."""
    task = walk(tiny(), {"thing": "box"}, tools={"look": GOOD}).choose("look", thing="box")
    return task.choose("act", thing="box", amount=200).approve().calls("act")


def changed(checkpoint: Checkpoint, **head: Any) -> Checkpoint:
    return replace(checkpoint, head=replace(checkpoint.head, **head))


def test_sending_needs_its_intent_and_its_approval() -> None:
    task = acting()
    (question,) = task.questions
    now = task.checkpoint
    (effect,) = now.effects
    assert list(held.of_sending(task.context, now, question)) == []
    for other, text in (
        (replace(now, effects=()), "without an intent"),
        (replace(now, effects=(replace(effect, status=EffectStatus.APPROVED),)), "without an intent"),
        (replace(now, effects=(replace(effect, args={}),)), "was intended"),
        (replace(now, effects=(replace(effect, approval_id=None),)), "without the approval that it needs"),
    ):
        assert any(text in broken for broken in held.of_sending(task.context, other, question)), text


def test_ends_need_what_they_say() -> None:
    task = acting().ok(DONE)
    end = task.checkpoint
    (effect,) = end.effects
    assert list(held.of_end(task.context, end)) == []
    for other, text in (
        (changed(end, reason="whatever"), "neither the product's nor the author's"),
        (changed(end, proposal={"tool": "act", "args": {}, "raised": False}), "something still waits"),
        (replace(end, effects=(replace(effect, status=EffectStatus.UNKNOWN),)), "is open"),
        (replace(end, effects=()), "although `acted` does not hold"),
    ):
        assert any(text in broken for broken in held.of_end(task.context, other)), text


def test_commits_steps_calls_and_restoring() -> None:
    task = acting()
    now, machine = task.checkpoint, task.subject.compiled
    assert list(held.of_checkpoint(machine, now)) == []
    assert list(held.of_checkpoint(machine, changed(now, steps=7))) == ["7 steps were taken, 6 are the limit"]
    assert any("`act` was called" in text for text in held.of_checkpoint(machine, changed(now, calls={"act": 4})))
    two = replace(now, effects=(*now.effects, replace(now.effects[0], key="other")))
    assert list(held.of_checkpoint(machine, two)) == ["two effects of `act` are open at once"]
    assert any("head differs" in t for t in held.of_restoring(task.context, now, changed(now, steps=3), None))
    assert any("effects differ" in t for t in held.of_restoring(task.context, now, replace(now, effects=()), None))
    prompt = walk(tiny(), {"thing": "box"}).questions[0].prompt
    looking = changed(now, configuration=("LOOKING",), status=Status.RUNNING, proposal=None)
    assert any("restoring offers" in t for t in held.of_restoring(task.context, looking, looking, prompt))
    assert list(held.of_effects({"a": 1, "b": 2})) == ["b happened 2 times"]
