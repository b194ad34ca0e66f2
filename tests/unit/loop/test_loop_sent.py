"""Before something is sent, on values alone: what the ledger says of its key, and what is read once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from unit.loop.making import ACTOR, act, standing

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.chart.compile import texts_of
from statemachine_agent.errors import LeaseLostError, RefusedError
from statemachine_agent.loop.call import Call, Finding
from statemachine_agent.loop.context import LEASE, Event
from statemachine_agent.loop.execute import execute
from statemachine_agent.loop.phases import (
    AuthorisedCall,
    CheckedCall,
    LookedUp,
    Observation,
    Outcome,
    Planned,
    Proposal,
)
from statemachine_agent.records import (
    Approval,
    ApprovalRow,
    ApprovalStatus,
    Effect,
    EffectRow,
    EffectStatus,
    Transaction,
)
from statemachine_agent.store.port import KeyTakenError
from statemachine_agent.tools.outcome import Attempt, Blocked, Failed, Ok, Unknown
from support.playing import swap
from support.world import ACT, DONE, FIND, LOOK, MACHINE, NONE, ONE

CHECKED = ACT + "precondition: {tool: look, with: {thing: args.thing}, holds: result.good, reason: gone}\n"
TIMED = swap(
    CHECKED,
    (
        "with: {thing: args.thing}, holds: result.good",
        'with: {thing: now}, holds: now > timestamp("2026-10-28T11:00:00Z")',
    ),
)
HIDING = swap(
    LOOK, ("  thing: {type: string}\n", "  thing: {type: string, maxLength: 2}\n  two: {type: string, maxLength: 2}\n")
)
NOTE = ("args:\n", "args:\n  note: {type: string, optional: true}\n")
ASKING = swap(CHECKED, ("with: {thing: args.thing}", "with: {thing: args.thing, two: args.thing}"))

UNREAD, TOO = "the precondition could not be read: ", '"box" is longer than 2 characters'
LIMITED = swap(MACHINE, ("initial:", "at_most: {act: 3, look: 2}\ninitial:"))


class Services:
    """A ledger and tools that answer as a test says; what was asked of them is kept."""

    def __init__(self, known: tuple[str, Effect] | None, tenant: str, answers: Mapping[str, Any]) -> None:
        self.known, self.tenant, self.answers = known, tenant, answers
        self.asked: list[tuple[str, Mapping[str, Any], str | None]] = []
        self.committed: list[tuple[Transaction, int]] = []
        self.heard: list[Event] = []
        self.resting = True
        #: what happens while something is committed
        self.takes: Callable[[], None] | None = None
        #: what the task pinned that has the key
        self.texts: Mapping[str, Any] = {}

    async def effect_by_key(self, key: str) -> tuple[str, Effect] | None:
        return self.known

    async def load(self, task_id: str) -> Any:
        return SimpleNamespace(task=SimpleNamespace(actor={**ACTOR, "tenant": self.tenant}, definition_hash="h"))

    async def definition(self, definition_hash: str) -> Any:
        return self.texts

    async def call(self, manifest: Any, args: Any, *, key: str | None, on_attempt: Any, **_: Any) -> None:
        self.asked.append((manifest.tool, args, key))
        on_attempt(Attempt(1, "r", cast("Any", None), 0, self.answers[manifest.tool]))

    async def at_rest(self, manifest: Any, key: str) -> bool:
        return self.resting

    async def commit(self, transaction: Transaction, lease: Any) -> None:
        """What was committed, and how many calls had been made by then."""
        if self.takes is not None:
            self.takes()
        self.committed.append((transaction, len(self.asked)))


def before(
    known: Mapping[str, Any] | None = None,
    *,
    texts: tuple[str, ...] = (LOOK, ACT, FIND),
    of: str = "task-2",
    tenant: str = "default",
    purpose: str = "call",
    resting: bool = True,
    leased: bool = True,
    readable: bool = True,
    while_committed: Callable[[SimulatedEnvironment], None] | None = None,
    approval_id: str | None = None,
    finding: Finding | None = None,
    planned: Mapping[str, Any] | None = None,
    parts: Mapping[str, Any] | None = None,
    **answers: Any,
) -> tuple[Outcome, Services]:
    """A call that is about to be sent; `known` is what differs in the effect that the ledger has under its key."""
    heard: list[Event] = []
    context, checkpoint = standing("ACTING", texts=texts, machine=LIMITED, heard=heard)
    action, machine = act(context.machine), context.machine
    effect = Effect(action.key, "act", EffectStatus.EXECUTED, action.hash, action.args, receipt=DONE)
    services = Services((of, replace(effect, **known)) if known is not None else None, tenant, answers)
    services.heard, services.resting = heard, resting
    clock = context.environment
    assert isinstance(clock, SimulatedEnvironment)
    services.takes = None if while_committed is None else lambda: while_committed(clock)
    services.texts = texts_of(machine) if readable else {"machine": {"name": "m.yaml", "text": "?"}, "tools": {}}
    every, lease = cast("Any", services), cast("Any", "lease" if leased else None)
    checkpoint = replace(checkpoint, **(parts or {}))
    observation = Observation(replace(context, store=every, toolbox=every, lease=lease), checkpoint, "ACTING")
    tool = (planned or {}).get("tool", "act")
    plan = Planned(tool, action.args, purpose, effect if purpose == "reconcile" else None)
    plan = replace(plan, **(planned or {}))
    call = Call(plan.tool, plan.args, manifest=machine.tools[tool], action=action, finding=finding)
    checked = CheckedCall(Proposal(observation, 1, planned=plan), None, (call,))
    return asyncio.run(execute(AuthorisedCall(checked, (call,), approval_id))), services


@pytest.mark.parametrize(
    ("known", "how", "why", "said"),
    [
        ({}, {"tenant": "other"}, "key_reused", "the key `act:box:10` is taken"),
        (
            {"args": {"thing": "box"}},
            {},
            "key_reused",
            "the key `act:box:10` was used with other arguments by task task-2",
        ),
        ({"tool": "do"}, {}, "key_reused", "the key `act:box:10` was used with other arguments by task task-2"),
        (
            {"status": EffectStatus.UNKNOWN},
            {},
            "effect_open",
            "the effect `act:box:10` of task task-2 is still unknown",
        ),
        ({"receipt": None}, {}, "effect_done", "`act:box:10` was executed by task task-2"),
    ],
    ids=["of another tenant", "other arguments", "another tool", "open", "no receipt"],
)
def test_what_the_ledger_says_against_it(known: dict[str, Any], how: dict[str, Any], why: str, said: str) -> None:
    """Nothing is sent; of another tenant's task not even the name is told."""
    found, services = before(known, **how)
    assert (found.finding, found.receipt, found.receipt_of) == (Finding("blocked", why, said), None, "")
    assert (services.asked, found.attempts, found.checkpoint.head.version) == ([], (), 7)


def test_a_receipt_of_the_task_itself_answers() -> None:
    """It is asked of nobody else."""
    found, services = before({}, of="task-1", tenant="never asked")
    assert (found.receipt, found.receipt_of, found.finding, services.asked) == (DONE, "task-1", None, [])


def test_a_receipt_of_another_task_answers_if_that_task_can_be_read() -> None:
    """What it did not keep cannot be told otherwise."""
    found, services = before({})
    assert (found.receipt, found.receipt_of, found.finding, services.asked) == (DONE, "task-2", None, [])
    ill, services = before({}, readable=False)
    said = "`act:box:10` was executed by task task-2, whose receipt does not hold what can be read of it"
    assert (ill.finding, ill.receipt, services.asked) == (Finding("blocked", "effect_done", said), None, [])


def open_effect(key: str) -> dict[str, Any]:
    return {"effects": (Effect(key, "act", EffectStatus.UNKNOWN, "h", {}),)}


def called(tool: str, times: int) -> dict[str, Any]:
    _, checkpoint = standing("ACTING")
    return {"head": replace(checkpoint.head, calls={tool: times})}


@pytest.mark.parametrize(
    ("parts", "why", "said"),
    [
        (called("act", 3), "at_most", "`act` was called as often as a task may"),
        (open_effect("act:bag:1"), "effect_open", "the effect `act:bag:1` is still unknown"),
    ],
    ids=["called too often", "another effect is open"],
)
def test_what_the_task_itself_says_against_it(parts: dict[str, Any], why: str, said: str) -> None:
    """Nobody is asked, not even the precondition."""
    found, services = before(parts=parts, texts=(LOOK, CHECKED, FIND))
    assert (found.finding, found.looked_up, services.asked) == (Finding("blocked", why, said), None, [])


def test_what_may_be_called_once_more_is_called() -> None:
    """The last of so many times, for a read as for a write."""
    for tool, times in (("look", 1), ("act", 2)):
        found, services = before(
            parts=called(tool, times), texts=(LOOK, CHECKED, FIND), planned={"tool": tool}, look=Ok({"good": False})
        )
        assert [a[0] for a in services.asked] == ["look"] and "often" not in str(found.finding)
    found, services = before(parts=called("look", 2), planned={"tool": "look"})
    assert (found.finding, services.asked) == (
        Finding("failed", "at_most", "`look` was called as often as a task may"),
        [],
    )


@pytest.mark.parametrize(
    ("answer", "act_text", "look", "why", "said"),
    [
        (Failed("timeout", "no answer"), CHECKED, LOOK, "precondition_unreadable", UNREAD + "no answer"),
        (Blocked("closed", "not now"), CHECKED, LOOK, "precondition_unreadable", UNREAD + "not now"),
        (Ok({"good": False}), CHECKED, LOOK, "gone", "the precondition does not hold: result.good"),
        (
            Ok({}), CHECKED, LOOK, "precondition_unreadable",
            "guard `act.precondition`: there is no `result.good` (in `result.good`); ask `has(result.good)` first",
        ),
        (None, swap(CHECKED, ("thing: args.thing", "thing: args.note"), NOTE), LOOK, "precondition_unreadable",
         "`args.note` is not there (`note` was not found)"),
        (None, ASKING, HIDING, "precondition_unreadable", f"`look`: thing: {TOO}; two: {TOO}"),
        (None, ASKING, HIDING + "redact: [args.two]\n", "precondition_unreadable", "`look`: thing; two"),
    ],
    ids=["no answer", "not asked", "it does not hold", "it errs", "nobody gave it", "it takes no such thing", "nor tells what"],
)  # fmt: skip
def test_a_precondition_that_stands_in_the_way(answer: Any, act_text: str, look: str, why: str, said: str) -> None:
    """What was read is kept with the refusal; the write is not sent."""
    found, services = before(texts=(look, act_text, FIND), look=answer)
    assert found.finding == Finding("blocked", why, said)
    assert [a[0] for a in services.asked] == (["look"] if answer else [])
    kept = found.looked_up
    assert (kept is None) is (answer is None)
    if isinstance(kept, LookedUp):
        assert (kept.manifest.tool, kept.args, kept.attempts[-1].outcome) == ("look", {"thing": "box"}, answer)


def test_a_precondition_may_look_at_the_clock() -> None:
    """In what it asks, and in what it says of the answer."""
    later = swap(TIMED, ("T11:00", "T12:00"))
    found, services = before(texts=(LOOK, later, FIND), look=Ok({"good": True}))
    assert services.asked == [("look", {"thing": "2026-10-28T11:17:43.000000Z"}, None)]
    assert found.finding is not None and found.finding.error_class == "gone"
    with pytest.raises(RefusedError, match="a write needs the lease of its task"):  # it holds
        before(texts=(LOOK, TIMED, FIND), look=Ok({"good": True}), leased=False)


# ---------------------------------------------------------------- the intent


def asked_for(name: str, state: str, status: ApprovalStatus = ApprovalStatus.APPROVED) -> Approval:
    return Approval(name, state, "act", "h", "act:box:10", "p", ("boss",), "2026-10-28T12:17:43Z", status)


def test_first_it_is_committed_that_it_will_be_sent() -> None:
    """The effect with what is sent, one more call, and the yes that is used up: no other one."""
    old = Effect("act:box:10", "act", EffectStatus.REJECTED, "other", {"thing": "x"}, 2, 1, reason="closed")
    yes, other = asked_for("apr-1", "ASKING"), asked_for("apr-2", "ASKING_TOO")
    parts = {**called("act", 1), "effects": (old,), "approvals": (yes, other)}
    found, services = before(
        parts=parts, approval_id="apr-1", act=Ok(DONE), texts=(LOOK, CHECKED, FIND), look=Ok({"good": True})
    )
    ((transaction, calls),) = services.committed
    assert (transaction.cause, transaction.expected_version, calls) == ("intent", 7, 1)
    action = act(found.authorised.checked.proposal.observation.context.machine)
    (effect,) = found.checkpoint.effects
    assert replace(effect, at=None) == Effect(
        "act:box:10", "act", EffectStatus.INTENDED, action.hash, action.args, 8, 2, approval_id="apr-1"
    )
    assert [r for r in transaction.rows if isinstance(r, (EffectRow, ApprovalRow))] == [
        EffectRow("act:box:10", "act", EffectStatus.INTENDED, 2, action.hash),
        ApprovalRow("apr-1", "consumed"),
    ]
    assert {a.id: a.status for a in found.checkpoint.approvals} == {"apr-1": "consumed", "apr-2": "approved"}
    assert (found.checkpoint.head.version, found.checkpoint.head.calls) == (8, {"act": 2})
    assert services.asked == [("look", {"thing": "box"}, None), ("act", action.args, "act:box:10")]
    assert (found.attempts[0][-1].outcome, found.looked_up, found.finding) == (Ok(DONE), None, None)
    event = next(e for e in services.heard if e.kind == "committed")
    assert event == Event("committed", "task-1", {"transaction": transaction, "checkpoint": found.checkpoint})


def test_somebody_else_may_have_been_faster() -> None:
    """The key is theirs: nothing is sent, and what was read stays on record."""

    def taken(_: SimulatedEnvironment) -> None:
        raise KeyTakenError("it is theirs")

    found, services = before(texts=(LOOK, CHECKED, FIND), look=Ok({"good": True}), while_committed=taken)
    assert found.finding == Finding("blocked", "key_taken", "it is theirs")
    assert found.looked_up is not None and [a[0] for a in services.asked] == ["look"]


def test_a_worker_that_stood_still_sends_nothing() -> None:
    """For more than half a lease: somebody else may have taken over."""
    _, services = before(act=Ok(DONE), while_committed=lambda clock: clock.advance(LEASE / 2))
    assert [a[0] for a in services.asked] == ["act"]
    with pytest.raises(LeaseLostError) as problem:
        before(while_committed=lambda clock: clock.advance(LEASE / 2 + 1))
    assert problem.value.message == "the worker stood still between the intent and the call: nothing was sent"


def test_a_write_of_the_machine_itself_has_an_effect_from_then_on() -> None:
    """Nobody proposed it."""
    found, services = before(act=Ok(DONE))
    action = act(found.authorised.checked.proposal.observation.context.machine)
    (effect,) = found.checkpoint.effects
    assert replace(effect, at=None) == Effect(
        "act:box:10", "act", EffectStatus.INTENDED, action.hash, action.args, 8, 1
    )
    assert services.committed[0][0].effects == (effect,)


def test_without_its_lease_nothing_is_committed() -> None:
    """It is refused, and says why."""
    with pytest.raises(RefusedError) as problem:
        before(leased=False)
    assert (problem.value.message, problem.value.reason) == ("a write needs the lease of its task", "no_lease")


# ---------------------------------------------------------------- whether it happened

REPLAYED = ACT[: ACT.index("  reconcile:")] + "  replay: true\n" + ACT[ACT.index("approval:") :]
GUARDED = REPLAYED + CHECKED[len(ACT) :]
NOTED = swap(
    ACT, ("{key: effect.key}", "{key: args.note}"), ("args:\n", "args:\n  note: {type: string, optional: true}\n")
)
FOUND_ERRS, ABSENT_ERRS = (swap(ACT, (f"items.size() == {n}", f"itms.size() == {n}")) for n in (1, 0))
ILL = (
    "guard `act.reconcile.%s`: there is no `result.itms` (in `result.itms.size() == %d`); ask `has(result.itms)` first"
)
RUNNING = "the call itself still runs in this process"


def looked_for(
    act_text: str = ACT, status: EffectStatus = EffectStatus.UNKNOWN, **how: Any
) -> tuple[Outcome, Services]:
    """A state that looks for an effect that stands so."""
    effect = Effect(
        "act:box:10", "act", status, "h", {"thing": "box", "amount": 10}, receipt=DONE if status.is_done else None
    )
    how.setdefault("planned", {"effect": effect})
    return before(texts=(LOOK, act_text, FIND), purpose="reconcile", **how)


@pytest.mark.parametrize(
    ("how", "why", "said", "asked"),
    [
        ({"planned": {"effect": None}}, "in_doubt", "there is no effect of `act` to look for", []),
        ({"resting": False, "find": Ok(NONE)}, "in_doubt", RUNNING, ["find"]),
        ({"act_text": REPLAYED, "resting": False}, "in_doubt", RUNNING, []),
        ({"find": Failed("closed", "not now")}, "closed", "`find` gave no answer: not now", ["find"]),
        ({"find": Blocked("x", "not asked")}, "unavailable", "`find` gave no answer: not asked", ["find"]),
        ({"find": Ok({"items": [DONE, DONE]})}, "in_doubt", "`find` answered neither found nor absent", ["find"]),
        (
            {"act_text": NOTED},
            "in_doubt", "`args.note` is not there (`note` was not found)", [],
        ),
        ({"act_text": FOUND_ERRS, "find": Ok(NONE)}, "in_doubt", ILL % ("found", 1), ["find"]),
        ({"act_text": ABSENT_ERRS, "find": Ok(NONE)}, "in_doubt", ILL % ("absent", 0), ["find"]),
        ({"act_text": REPLAYED, "act": Unknown("timeout", "no answer")}, "in_doubt", "the replay was not answered: no answer",
         ["act"]),
        ({"act_text": GUARDED, "look": Ok({"good": True}), "act": Blocked("x", "not sent")},
         "in_doubt", "the replay was not answered: not sent",
         ["look", "act"]),
        (
            {"act_text": GUARDED, "look": Ok({"good": False})}, "gone",
            "it was not sent again: the precondition does not hold: result.good", ["look"],
        ),
        (
            {"act_text": GUARDED, "finding": Finding("blocked", "approval_expired", "too late")}, "approval_expired",
            "it was not sent again: too late", [],
        ),
    ],
    ids=[
        "no effect", "still running", "still running, to be sent again", "refused", "not asked", "neither",
        "cannot be asked", "found errs", "absent errs",
        "sent again", "read and sent again", "no longer true", "no longer allowed",
    ],
)  # fmt: skip
def test_what_leaves_it_in_doubt(how: dict[str, Any], why: str, said: str, asked: list[str]) -> None:
    """It says why; what was asked is kept, and nothing is found or absent."""
    found, services = looked_for(**how)
    assert (found.reconciled, found.finding, found.found) == ("failed", Finding("failed", why, said), None)
    assert [a[0] for a in services.asked] == asked
    kept = [found.looked_up.manifest.tool] if found.looked_up else []
    assert kept + ["act"] * len(found.attempts) == asked


def test_what_is_found_and_what_is_absent() -> None:
    """By the ledger, by the look-up, or by the same request once more."""
    done, services = looked_for(status=EffectStatus.EXECUTED)
    assert (done.reconciled, done.receipt, done.found, services.asked) == ("found", DONE, None, [])
    there, services = looked_for(find=Ok(ONE), resting=False)
    assert (there.reconciled, there.found, there.finding) == ("found", DONE, None)
    assert services.asked == [("find", {"key": "act:box:10"}, None)] and there.looked_up is not None
    absent, _ = looked_for(find=Ok(NONE))
    assert (absent.reconciled, absent.found, absent.finding) == ("absent", None, None) and absent.looked_up is not None
    again, services = looked_for(GUARDED, act=Ok(DONE), look=Ok({"good": True}))
    assert (again.reconciled, again.found, again.attempts[0][-1].outcome) == ("found", DONE, Ok(DONE))
    assert services.asked == [("look", {"thing": "box"}, None), ("act", {"thing": "box", "amount": 10}, "act:box:10")]
    assert again.looked_up is not None and services.committed == []
