"""What one commit will write: the head, the rows that people read, and what an end closes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from unit.loop.making import TWO, act, drafted, effect, having, propose, request

from statemachine_agent.errors import GuardError
from statemachine_agent.records import (
    ApprovalRow,
    ApprovalStatus,
    EffectRow,
    EffectStatus,
    EvidenceRow,
    Timer,
    Transaction,
    TransitionRow,
    Usage,
)

# ---------------------------------------------------------------- what is spent, found and told


def test_what_is_spent_is_added() -> None:
    """What is less than nothing, or no number, gives nothing back."""
    before = Usage(1, 2, Decimal("0.1"), 3, 5)
    draft = drafted(usage=before, calls={"act": 1})
    for cost in (Decimal(-1), Decimal("NaN"), Decimal("Infinity")):
        draft.spend(input_tokens=-1, output_tokens=-1, cost=cost, tool_calls=-1)
    draft.spend()
    assert draft.head.usage == before
    draft.spend(input_tokens=10, output_tokens=20, cost="0.25", tool_calls=4)
    assert draft.head.usage == Usage(11, 22, Decimal("0.35"), 7, 5)
    draft.spend(input_tokens=1, output_tokens=1, cost=Decimal("0.5"))
    draft.count_call("look")
    draft.count_call("act")
    draft.count_call("act")
    assert draft.head.usage == Usage(12, 23, Decimal("0.85"), 10, 5)
    assert draft.head.calls == {"act": 3, "look": 1}


def test_each_result_has_the_next_number() -> None:
    """And its row."""
    draft = drafted(evidence_count=2)
    made = [
        draft.add_evidence(
            tool="look", purpose="step", call_id="c", request_id="r", attempt=1, source="things",
            at=draft.context.environment.now(), trust="system", payload={"n": n}, payload_hash=str(n), asked={},
        )
        for n in (1, 2)
    ]  # fmt: skip
    assert [e.name for e in made] == ["ev-3", "ev-4"]
    assert draft.head.evidence_count == 4
    assert draft.checkpoint.evidence == tuple(made)
    assert draft.rows == [EvidenceRow(e) for e in made]


def test_what_a_model_is_told_stands_until_the_next_thing_is() -> None:
    """In one line of two thousand characters, with what goes along; nothing is nothing."""
    draft = drafted(observation={"": {"text": "before"}})
    draft.tell("LOOKING", "a\n" + "b" * 3000, flag="stalled")
    assert draft.head.observation == {"": {"text": f"a {'b' * 1997}…", "flag": "stalled"}}
    draft.tell("LOOKING", None, flag="stalled")
    assert draft.head.observation is None


def test_models_of_other_regions_keep_what_they_were_told() -> None:
    """Unless their region is not active any more."""
    draft = drafted("LOOKING", "WONDERING", machine=TWO, observation={"RIGHT": {"text": "keep"}, "GONE": {"text": "x"}})
    draft.tell("LOOKING", "here")
    assert draft.head.observation == {"RIGHT": {"text": "keep"}, "LEFT": {"text": "here"}}
    draft.tell("LOOKING", "there")
    draft.tell("WONDERING", "")
    assert draft.head.observation == {"LEFT": {"text": "there"}}


# ---------------------------------------------------------------- effects and requests


def test_effects_stand_in_the_order_in_which_they_were_proposed() -> None:
    """One for each key, with the time of the commit; a row says each step, and by whom."""
    draft = drafted()
    first, second = effect(draft, 10, proposed_in=3, attempt=2), effect(draft, 20, proposed_in=5, reason="old")
    draft.put_effect(second)
    draft.put_effect(first, by="task-0")
    draft.move_effect(second.key, EffectStatus.REJECTED, "no", by="bob")
    draft.move_effect("act:nothing", EffectStatus.REJECTED, "no")
    draft.move_effect(first.key, EffectStatus.UNKNOWN)
    now = draft.context.environment.now()
    assert draft.checkpoint.effects == (
        replace(first, status=EffectStatus.UNKNOWN, at=now),
        replace(second, status=EffectStatus.REJECTED, reason="no", at=now),
    )
    assert draft.rows == [
        EffectRow(second.key, "act", EffectStatus.PROPOSED, 0, second.action_hash, "old", None),
        EffectRow(first.key, "act", EffectStatus.PROPOSED, 2, first.action_hash, None, "task-0"),
        EffectRow(second.key, "act", EffectStatus.REJECTED, 0, second.action_hash, "no", "bob"),
        EffectRow(first.key, "act", EffectStatus.UNKNOWN, 2, first.action_hash, None, None),
    ]


def test_of_a_state_the_newest_request_counts() -> None:
    draft = drafted()
    draft.put_approval(request(draft, state="OTHER"), "requested")
    draft.put_approval(request(draft), "requested")
    newer = replace(request(draft), id="apr-2")
    draft.put_approval(newer, "granted", by="bob", established="os", why="fine")
    assert draft.checkpoint.approvals == (request(draft, state="OTHER"), newer)
    assert draft.rows[2:] == [ApprovalRow("apr-2", "granted", "bob", "os", "fine", None)]


def test_an_accepted_write_is_the_proposal_and_an_effect() -> None:
    """The one before it is given up; the row says that it was replaced."""
    draft = drafted()
    propose(draft, 10)
    propose(draft, 20, raised=True)
    action = act(draft.context.machine, 20)
    assert draft.head.proposal == {
        "tool": "act", "version": 1, "args": {"thing": "box", "amount": 20}, "key": "act:box:20",
        "policy_version": action.policy_version, "action_hash": action.hash, "state": "LOOKING", "row": 2,
        "raised": True, "step": 4, "call_id": "c1",
    }  # fmt: skip
    now = draft.context.environment.now()
    assert draft.checkpoint.effects == (
        replace(effect(draft, 10, EffectStatus.ABANDONED), proposed_in=8, reason="replaced", at=now),
        replace(effect(draft, 20), proposed_in=8, at=now),
    )
    assert [(r.effect_key, r.status, r.reason) for r in draft.rows if isinstance(r, EffectRow)] == [
        ("act:box:10", "proposed", None), ("act:box:10", "abandoned", "replaced"), ("act:box:20", "proposed", None),
    ]  # fmt: skip


@pytest.mark.parametrize("status", EffectStatus)
def test_what_is_proposed_again_under_a_key(status: EffectStatus) -> None:
    """What is in doubt or done stays so, with its number of attempts; all else begins anew, and counts on."""
    draft = drafted()
    known = effect(draft, 10, status, attempt=2, reason="why")
    draft = having(draft, effects=(known,))
    propose(draft)
    (found,) = draft.checkpoint.effects
    if status.is_open or status.is_done:
        assert (found, draft.rows) == (known, [])
    else:
        assert found == replace(effect(draft), proposed_in=8, attempt=2, at=draft.context.environment.now())


@pytest.mark.parametrize("status", EffectStatus)
def test_what_is_dropped_ends_only_if_it_was_not_sent(status: EffectStatus) -> None:
    draft = drafted()
    propose(draft)
    draft = having(draft, effects=(effect(draft, 20), effect(draft, status=status)))
    draft.drop_proposal(EffectStatus.REJECTED, "rejected")
    draft.drop_proposal(EffectStatus.ABANDONED, "again")
    assert draft.head.proposal is None
    ends = EffectStatus.REJECTED if status.is_pending else status
    assert [(e.status, e.reason) for e in draft.checkpoint.effects] == [
        (EffectStatus.PROPOSED, None),
        (ends, "rejected" if status.is_pending else None),
    ]


# ---------------------------------------------------------------- ends


def test_an_end_closes_what_is_open() -> None:
    """Effects that were not sent are given up, requests are void, timers are gone; what happened stays as it is."""
    draft = drafted()
    now = draft.context.environment.now()
    propose(draft)
    effects = (effect(draft), effect(draft, 20, EffectStatus.APPROVED), effect(draft, 30, EffectStatus.EXECUTED))
    statuses = (ApprovalStatus.OPEN, ApprovalStatus.APPROVED, ApprovalStatus.CONSUMED, ApprovalStatus.REJECTED)
    asked = tuple(request(draft, status, f"S{n}") for n, status in enumerate(statuses))
    timers = (Timer("ASKING", "expired.act", now),)
    draft = having(draft, effects=effects, approvals=asked, timers=timers)
    draft.leave("exit.budget", "max_steps", detail="too many\nsteps")
    head = draft.head
    assert (head.status, head.reason, head.configuration, head.output, head.proposal) == (
        "BUDGET_EXHAUSTED", "max_steps", ("BUDGET_EXHAUSTED",), "too many steps", None,
    )  # fmt: skip
    assert [(e.args["amount"], e.status, e.reason) for e in draft.checkpoint.effects] == [
        (30, "executed", None), (10, "abandoned", "max_steps"), (20, "abandoned", "max_steps"),
    ]  # fmt: skip
    assert {a.id: a.status for a in draft.checkpoint.approvals} == {
        "apr-S0": "void", "apr-S1": "void", "apr-S2": "consumed", "apr-S3": "rejected",
    }  # fmt: skip
    assert [r for r in draft.rows if isinstance(r, ApprovalRow)] == [
        ApprovalRow("apr-S0", "void", reason="max_steps"), ApprovalRow("apr-S1", "void", reason="max_steps"),
    ]  # fmt: skip
    assert draft.checkpoint.timers == ()
    transaction, _ = draft.finish()
    assert transaction.timers == {"ASKING": None}


def test_what_a_person_reads_of_an_end_is_one_line() -> None:
    """Of a thousand characters; without a detail what stood there stays."""
    draft = drafted(output="Which one?")
    draft.leave("exit.budget", "deadline", detail="x" * 2000)
    assert draft.head.output == "x" * 999 + "…"
    draft = drafted(output="Which one?")
    draft.leave("exit.budget", "deadline")
    assert draft.head.output == "Which one?"


def test_while_an_effect_is_open_an_exit_is_remembered() -> None:
    """The first one; nothing else changes."""
    draft = drafted()
    draft = having(draft, effects=(effect(draft, status=EffectStatus.UNKNOWN),))
    draft.leave("exit.budget", "deadline", detail="late")
    draft.leave("exit.cancel", "cancelled", detail="never")
    assert draft.head.pending_exit == {"event": "exit.budget", "reason": "deadline", "detail": "late"}
    assert (draft.head.status, draft.rows) == ("RUNNING", [])
    draft.leave("exit.cancel", "cancelled", at_once=True)
    assert (draft.head.status, draft.head.reason, draft.head.pending_exit) == ("CANCELLED", "cancelled", None)


@pytest.mark.parametrize(
    ("event", "status", "reason"),
    [
        ("exit.cancel", EffectStatus.EXECUTED, "cancelled_after_effect"),
        ("exit.cancel", EffectStatus.VERIFIED, "cancelled_after_effect"),
        ("exit.cancel", EffectStatus.REJECTED, "why"),
        ("exit.budget", EffectStatus.EXECUTED, "why"),
    ],
)
def test_a_cancel_after_an_effect_says_so(event: str, status: EffectStatus, reason: str) -> None:
    draft = drafted()
    draft = having(draft, effects=(effect(draft, status=status),))
    draft.leave(event, "why")
    assert draft.head.reason == reason


def test_a_guard_that_errs_takes_back_the_move_and_nothing_before_it() -> None:
    """The task ends at once, and says which guard it was; what was recorded stays."""
    draft = drafted()
    draft = having(draft, effects=(effect(draft, status=EffectStatus.UNKNOWN),))
    draft.count_call("look")

    def move() -> None:
        draft.count_call("look")
        draft.fire("call.look")
        raise GuardError("some.guard", "has no answer")

    draft.surely(move)
    head = draft.head
    assert (head.status, head.reason, head.calls) == ("FAILED", "guard_error", {"look": 1})
    assert "some.guard" in (head.output or "") and "has no answer" in (head.output or "")
    assert [r.event for r in draft.rows if isinstance(r, TransitionRow)] == ["exit.guard_error"]
    draft = drafted()
    draft.fire_outcome("ok.act")  # nothing stands there for it
    assert (draft.head.status, draft.head.reason) == ("FAILED", "guard_error")


# ---------------------------------------------------------------- the end of the commit


def test_a_transaction_holds_what_changed_and_nothing_else() -> None:
    """Of two effects, requests and timers the ones that are other than before; and the time that was used."""
    draft = drafted(usage=Usage(active_ms=100))
    now = draft.context.environment.now()
    stays, goes, moves = (Timer(s, f"elapsed.{s}", now) for s in ("STAYS", "GOES", "MOVES"))
    draft = having(
        draft,
        effects=(effect(draft), effect(draft, 20, proposed_in=1)),
        approvals=(request(draft), request(draft, state="OTHER")),
        timers=(stays, goes, moves),
    )
    draft.context.environment.advance(1.5)  # type: ignore[attr-defined]
    draft.move_effect("act:box:20", EffectStatus.REJECTED, "no")
    draft.put_approval(request(draft, ApprovalStatus.REJECTED), "rejected", by="bob")
    later = replace(moves, due_at=now + timedelta(hours=1))
    new = replace(later, state="NEW")
    draft.checkpoint = replace(draft.checkpoint, timers=(stays, later, new))
    transaction, after = draft.finish()
    assert after == draft.checkpoint
    assert (after.head.version, after.head.usage) == (8, Usage(active_ms=1600))
    assert transaction == Transaction(
        task_no=3,
        expected_version=7,
        cause="step",
        head=after.head,
        rows=(
            EffectRow("act:box:20", "act", EffectStatus.REJECTED, 0, act(draft.context.machine, 20).hash, "no"),
            ApprovalRow("apr-ASKING", "rejected", "bob"),
        ),
        effects=(replace(effect(draft, 20, EffectStatus.REJECTED), proposed_in=1, reason="no", at=now),),
        approvals=(request(draft, ApprovalStatus.REJECTED),),
        timers={"MOVES": later, "NEW": new, "GOES": None},
        at=now,
    )


def test_what_is_done_elsewhere_leaves_a_proposal_waiting() -> None:
    """A call of another region is none of its business; its own is."""
    draft = drafted()
    propose(draft, 10)
    draft.no_longer_waits("act:box:20")
    assert draft.head.proposal is not None
    draft.no_longer_waits("act:box:10")
    assert draft.head.proposal is None
