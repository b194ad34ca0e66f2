"""What is kept of a decision: each try with what it cost, what was shown and said, and what the model is told."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from unit.loop.making import effect, having, standing

from statemachine_agent.loop.call import Finding
from statemachine_agent.loop.draft import Draft
from statemachine_agent.loop.phases import AuthorisedCall, CheckedCall, Observation, Outcome, Proposal
from statemachine_agent.loop.record import record
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import ModelUnavailableError, Reply, Spent
from statemachine_agent.records import DecisionRow, EffectStatus, Usage

FAILED = DecisionRow(1, 1, "LOOKING", "m", 1, "h", None, 5, 6, Decimal("0.5"), 7, result="failed")
SAID = RawReply((RawCall("c1", "fond", {}),), "well", "length")


def decided(
    finding: Finding | None = None, reply: RawReply | None = SAID, *, open_effect: bool = False, **how: Any
) -> Draft:
    context, checkpoint = standing()
    if open_effect:
        begun = Draft(context, checkpoint, "step")
        checkpoint = having(begun, effects=(effect(begun, status=EffectStatus.UNKNOWN),)).checkpoint
    proposal = Proposal(
        Observation(context, checkpoint, "LOOKING"), 1, Reply(reply, Spent(7, 3, Decimal("0.25")), "n") if reply else None,
        None, "hash", [["shown"]], 9, (FAILED,), how.get("failure"),
    )  # fmt: skip
    authorised = AuthorisedCall(CheckedCall(proposal, fault=finding), ())
    return record(Outcome(authorised, checkpoint, finding=finding)).draft


def test_each_try_is_a_row_and_is_paid_for() -> None:
    """Of the one that counts all that was shown and said, and in two thousand characters what was wrong."""
    draft = decided(Finding("invalid", "illegal_tool", "x" * 3_000))
    said = {"text": "well", "calls": [{"id": "c1", "name": "fond", "arguments": {}}], "stop_reason": "length"}
    row = DecisionRow(
        1, 2, "LOOKING", "n", 1, "hash", said, 7, 3, Decimal("0.25"), 9, "length", "invalid", "illegal_tool",
        feedback="x" * 1_999 + "…", prompt=[["shown"]],
    )  # fmt: skip
    assert draft.rows[:2] == [FAILED, row]
    assert draft.head.usage == replace(Usage(), input_tokens=12, output_tokens=9, cost_usd=Decimal("0.75"))
    assert (draft.head.steps, draft.head.observation) == (1, {"": {"text": "x" * 1_999 + "…"}})


def test_a_guard_that_errs_is_what_the_end_says() -> None:
    """And what the row of the decision says."""
    draft = decided(Finding("guard_error", "guard_error", "it erred"))
    assert [r.feedback for r in draft.rows if isinstance(r, DecisionRow)] == [None, "it erred"]
    assert draft.head.output == "it erred"


@pytest.mark.parametrize(("kind", "ended"), [("guard_error", "FAILED"), ("denied", "RUNNING")])
def test_only_a_guard_that_errs_ends_it_at_once(kind: str, ended: str) -> None:
    """Anything else waits for an effect of which nobody knows."""
    draft = decided(Finding(kind, kind, "so"), open_effect=True)
    waits = {"event": "exit.denied", "reason": "denied", "detail": "so"}
    assert (draft.head.status, draft.head.pending_exit) == (ended, None if ended == "FAILED" else waits)


def test_where_no_model_answered_the_end_says_why() -> None:
    """And what was tried is paid for."""
    draft = decided(reply=None, failure=ModelUnavailableError("nobody home", retryable=False))
    assert (draft.head.status, draft.head.reason, draft.head.output) == ("FAILED", "model_failed", "nobody home")
    assert (draft.rows[0], draft.head.usage.tokens) == (FAILED, 11)
    assert decided(reply=None).head.output is None
