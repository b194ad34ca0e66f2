"""The refund machine against real services that misbehave, and proposals that the evidence does not carry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from statemachine_agent.errors import RefusedError
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint
from statemachine_agent.sandbox import Sandbox, control
from support.refund import CUSTOMER, FINANCE, INPUT, LEAD, NOTIFY, PROPOSE, READS, SECOND_LEAD, Story, script, story

KEY = "refund:order-8472:pay_5a2:v1"


def told(services: Sandbox, folder: Path, body: Callable[[Story], Awaitable[Any]], *steps: Any) -> Any:
    async def main() -> Any:
        async with story(folder, services.urls, script(*steps) if steps else None) as refund:
            return await body(refund)

    return asyncio.run(main())


async def through(refund: Story) -> Checkpoint:
    return await refund.finish(await refund.propose())


def posts(services: Sandbox, name: str = "REFUNDS_URL") -> list[str]:
    return [r["key"] for r in control.log(services.urls[name]) if r["method"] == "POST"]


# ---------------------------------------------------------------- services that misbehave


@pytest.mark.parametrize("service", ["REFUNDS_URL", "NOTIFICATIONS_URL"])
def test_commits_and_then_drops_the_connection(services: Sandbox, tmp_path: Path, service: str) -> None:
    """The machine's `reconcile` finds it by key and goes on: one call, one of each."""
    control.set_fault(services.urls[service], "commit_then_drop")
    end = told(services, tmp_path, through)
    assert (end.head.status, end.head.version) == ("SUCCEEDED", 12)
    assert len(posts(services, service)) == 1
    assert len(control.refunds(services.urls["REFUNDS_URL"], "8472")) == 1
    assert len(control.messages(services.urls["NOTIFICATIONS_URL"], "8472")) == 1


@pytest.mark.parametrize("mode", ["drop_before", "unavailable"])
def test_drops_before_it_commits(services: Sandbox, tmp_path: Path, mode: str) -> None:
    """Absent, so it is sent again under the same key."""
    control.set_fault(services.urls["REFUNDS_URL"], mode)
    end = told(services, tmp_path, through)
    assert end.head.status == "SUCCEEDED"
    assert posts(services) == [KEY, KEY]
    assert len(control.refunds(services.urls["REFUNDS_URL"], "8472")) == 1


def test_answers_garbage_after_committing(services: Sandbox, tmp_path: Path) -> None:
    """No usable answer: unknown, found by key."""
    control.set_fault(services.urls["REFUNDS_URL"], "garbage")
    end = told(services, tmp_path, through)
    assert end.head.status == "SUCCEEDED"
    assert posts(services) == [KEY]


def test_refuses(services: Sandbox, tmp_path: Path) -> None:
    """A declared no: FAILED/rejected, the effect is rejected, nothing is under its key."""
    control.set_fault(services.urls["REFUNDS_URL"], "refuse")
    end = told(services, tmp_path, through)
    assert (end.head.status, end.head.reason) == ("FAILED", "rejected")
    assert [e.status for e in end.effects] == ["rejected"]
    assert control.refunds(services.urls["REFUNDS_URL"], "8472") == []


def test_refuses_a_message_and_gets_another(services: Sandbox, tmp_path: Path) -> None:
    """`failed: NOTIFYING`: the model may word it anew, under another key; three times at the most."""
    control.set_fault(services.urls["NOTIFICATIONS_URL"], "refuse")
    other = {"call": "notify_customer", "with": {"message": "Your refund rf_9001 is on its way."}}
    end = told(services, tmp_path, through, *READS, PROPOSE, NOTIFY, other)
    assert end.head.status == "SUCCEEDED"
    keys = posts(services, "NOTIFICATIONS_URL")
    assert len(keys) == 2 and keys[0] != keys[1]
    assert len(control.messages(services.urls["NOTIFICATIONS_URL"], "8472")) == 1


def test_leaves_the_refund_queued_and_is_read_again_later(services: Sandbox, tmp_path: Path) -> None:
    """WAITING with exit 4's status until the timer is due; then verified and told."""
    control.set_fault(services.urls["REFUNDS_URL"], "queued")

    async def body(refund: Story) -> Checkpoint:
        waiting = await through(refund)
        assert (waiting.head.status, waiting.head.configuration) == ("WAITING", ("SETTLING",))
        again = await refund.runtime.resume(waiting.task.id)
        assert again.head.version == waiting.head.version, "nothing is due yet"
        return again

    waiting = told(services, tmp_path, body)
    (timer,) = waiting.timers
    assert timer.event == "elapsed.SETTLING"


def test_a_rejected_refund_ends_with_its_reason(services: Sandbox, tmp_path: Path) -> None:
    """The service took it and rejected it: FAILED/refund_rejected, and the customer is not told otherwise."""
    control.set_fault(services.urls["REFUNDS_URL"], "rejected")
    end = told(services, tmp_path, through)
    assert (end.head.status, end.head.reason) == ("FAILED", "refund_rejected")
    assert control.messages(services.urls["NOTIFICATIONS_URL"], "8472") == []


def test_nothing_could_be_sent(services: Sandbox, tmp_path: Path) -> None:
    """The service is gone before anything was sent: blocked, abandoned, nothing to reconcile."""

    async def body(refund: Story) -> Checkpoint:
        waiting = await refund.propose()
        services.kill("notifications")
        return await refund.finish(waiting)

    end = told(services, tmp_path, body)
    assert (end.head.status, end.head.reason) == ("FAILED", "unavailable")
    assert [(e.tool, e.status) for e in end.effects] == [("issue_refund", "verified"), ("notify_customer", "abandoned")]
    assert end.open_effects == ()


def test_sent_and_gone_for_good_stays_open_until_a_person_settles_it(services: Sandbox, tmp_path: Path) -> None:
    """FAILED, the effect is listed as open; `resolve` settles it; never a second call under another key."""
    url = services.urls["REFUNDS_URL"]

    async def body(refund: Story) -> None:
        waiting = await refund.propose()
        control.set_fault(url, "commit_then_drop")
        control.set_fault(url, "drop", on="read", times=1)  # the precondition is asked for twice
        control.set_fault(url, "unavailable", on="read", times=1)
        await refund.approve(waiting)

        def gone(event: Any) -> None:
            if event.kind == "called" and event.data["tool"] == "issue_refund":
                services.kill("refunds")

        refund.runtime.watch(gone)
        end = await refund.runtime.resume(waiting.task.id)
        assert (end.head.status, end.head.reason) == ("FAILED", "unavailable")
        (row,) = await refund.store.effects(only_open=True)
        assert (row["effect"].key, row["task"]) == (KEY, end.task.id)
        with pytest.raises(RefusedError):
            await refund.runtime.resolve(end.task.id, KEY, CUSTOMER, found=None, why="it is mine")
        settled = await refund.runtime.resolve(
            end.task.id, KEY, LEAD, found={"refund_id": "rf_9001", "status": "pending"}, why="seen in the back office"
        )
        assert (settled.head.status, settled.effects[0].status) == ("FAILED", "executed")
        with pytest.raises(RefusedError) as refused:
            await refund.runtime.resolve(end.task.id, KEY, LEAD, found=None, why="again")
        assert refused.value.reason == "not_open"

    told(services, tmp_path, body)
    services.start("refunds")
    assert posts(services) == [KEY]


def test_a_refund_that_appeared_while_the_lead_was_thinking(services: Sandbox, tmp_path: Path) -> None:
    """The precondition is read again just before the money moves."""

    async def body(refund: Story) -> Checkpoint:
        waiting = await refund.propose()
        async with story(tmp_path / "other", services.urls) as other:
            done = await other.finish(await other.propose())
            assert done.head.status == "SUCCEEDED"
        return await refund.finish(waiting)

    (tmp_path / "other").mkdir()
    end = told(services, tmp_path, body)
    assert (end.head.status, end.head.reason) == ("FAILED", "already_refunded")
    assert [e.status for e in end.effects] == ["abandoned"]
    assert len(control.refunds(services.urls["REFUNDS_URL"], "8472")) == 1


def test_two_tasks_for_one_order_share_one_effect(services: Sandbox, tmp_path: Path) -> None:
    """The second one is answered with the first one's receipt: nothing is sent, and it goes on to its end."""

    async def body(refund: Story) -> Checkpoint:
        first = await refund.propose()
        second = await refund.propose()
        done = await refund.finish(first)
        assert done.head.status == "SUCCEEDED"
        return await refund.finish(second)

    end = told(services, tmp_path, body)
    assert end.head.status == "SUCCEEDED"
    assert posts(services) == [KEY]
    assert len(posts(services, "NOTIFICATIONS_URL")) == 1
    assert all(e.inherited for e in end.effects)


# ---------------------------------------------------------------- who must say yes


async def ends_at_approval(refund: Story, order: str, actor: Identity) -> Checkpoint:
    return await refund.propose({"order_id": order, "message": "twice!"}, actor)


def proposal(order: str, payment: str, amount: int) -> dict[str, Any]:
    return {"call": "issue_refund", "with": {"order_id": order, "payment_id": payment, "amount_inr": amount}}


def test_below_the_threshold_nobody_is_asked(services: Sandbox, tmp_path: Path) -> None:
    """800 rupees: allowed by the rules, straight to the end."""
    message = {"call": "notify_customer", "with": {"message": "See rf_9001."}}

    async def body(refund: Story) -> Checkpoint:
        return await refund.propose({"order_id": "8474", "message": "twice"}, Identity("cust-1187", "asserted"))

    payments = control_payments(services, "8474")
    end = told(services, tmp_path, body, *READS, proposal("8474", payments[1], 800), message)
    assert end.head.status == "SUCCEEDED"
    assert end.approvals == ()


def test_above_the_second_threshold_two_people_of_two_roles(services: Sandbox, tmp_path: Path) -> None:
    """25,000 rupees: a lead and finance, two different people, in either order."""

    async def body(refund: Story) -> Checkpoint:
        waiting = await refund.propose({"order_id": "8475", "message": "twice"}, Identity("cust-1187", "asserted"))
        assert waiting.approvals[0].roles == ("finance", "support_lead")
        half = await refund.approve(waiting, LEAD)
        assert half.head.status == "AWAITING_APPROVAL"
        with pytest.raises(RefusedError) as refused:
            await refund.approve(half, SECOND_LEAD)
        assert refused.value.reason == "role_filled"
        await refund.approve(half, FINANCE)
        return await refund.runtime.resume(waiting.task.id)

    message = {"call": "notify_customer", "with": {"message": "See rf_9001."}}
    payments = control_payments(services, "8475")
    end = told(services, tmp_path, body, *READS, proposal("8475", payments[1], 25000), message)
    assert end.head.status == "SUCCEEDED"


def control_payments(services: Sandbox, order: str) -> list[str]:
    answer = httpx.get(f"{services.urls['PAYMENTS_URL']}/orders/{order}", trust_env=False)
    return [p["payment_id"] for p in answer.json()["payments"]]


# ---------------------------------------------------------------- proposals that the evidence does not carry

EVIDENCE = "the evidence does not show a duplicate capture that the policy refunds"
EXACT = "propose the later captured payment of this order and its exact amount"


@pytest.mark.parametrize(
    ("order", "bad", "text"),
    [
        ("8472", proposal("8472", "pay_5a1", 2000), EXACT),
        ("8472", proposal("8472", "pay_5a2", 1999), EXACT),
        ("8472", proposal("9999", "pay_5a2", 2000), EXACT),
        ("8473", proposal("8473", "pay_5b1", 1500), EVIDENCE),
        ("9999", proposal("9999", "pay_9a2", 2000), EVIDENCE),
    ],
    ids=["the earlier capture", "another amount", "another order", "charged once", "another customer's order"],
)
def test_a_proposal_that_the_evidence_does_not_carry_is_refused_with_the_rows_text(
    services: Sandbox, tmp_path: Path, order: str, bad: dict, text: str
) -> None:
    """It costs one step, touches nothing, and the model is told why and what is allowed."""

    async def body(refund: Story) -> tuple[Checkpoint, list]:
        end = await refund.propose({**INPUT, "order_id": order})
        return end, await refund.history(end.task.id, "decision")

    stop = {"call": "cannot_continue", "with": {"reason": "refused"}}
    end, decisions = told(services, tmp_path, body, *READS, bad, stop)
    assert end.head.reason == "no_action"
    assert (decisions[3]["result"], decisions[3]["error_class"]) == ("refused", "refused")
    assert text in decisions[3]["feedback"] and "Allowed now: " in decisions[3]["feedback"]
    assert end.effects == ()
    assert posts(services) == []


def test_no_policy_found(services: Sandbox, tmp_path: Path) -> None:
    """A search that found nothing carries no refund."""

    async def body(refund: Story) -> list:
        end = await refund.propose()
        return await refund.history(end.task.id, "decision")

    search = {"call": "search_policy", "with": {"query": "zzzz qqqq"}}
    stop = {"call": "cannot_continue", "with": {"reason": "refused"}}
    decisions = told(services, tmp_path, body, READS[0], READS[1], search, PROPOSE, stop)
    assert EVIDENCE in decisions[3]["feedback"]


def test_before_the_evidence_is_complete_it_is_hidden(services: Sandbox, tmp_path: Path) -> None:
    """Refused with the row's text, at the cost of a step."""

    async def body(refund: Story) -> list:
        end = await refund.propose()
        return await refund.history(end.task.id, "decision")

    stop = {"call": "cannot_continue", "with": {"reason": "refused"}}
    decisions = told(services, tmp_path, body, PROPOSE, stop)
    assert "look up the order, its refunds and the policy first" in decisions[0]["feedback"]


def test_a_refund_already_there_ends_in_the_same_step(services: Sandbox, tmp_path: Path) -> None:
    """DENIED/already_refunded as soon as the evidence shows it."""

    async def body(refund: Story) -> Checkpoint:
        return await refund.propose({**INPUT, "order_id": "8476"})

    end = told(services, tmp_path, body, *READS)
    assert (end.head.status, end.head.reason, end.head.steps) == ("DENIED", "already_refunded", 2)


def test_a_pinned_argument_in_a_proposal_is_invalid(services: Sandbox, tmp_path: Path) -> None:
    """The model neither sees nor fills what the machine pins."""

    async def body(refund: Story) -> list:
        end = await refund.propose()
        return await refund.history(end.task.id, "decision")

    stop = {"call": "cannot_continue", "with": {"reason": "refused"}}
    decisions = told(services, tmp_path, body, {"call": "lookup_order", "with": {"order_id": "9999"}}, stop)
    assert (decisions[0]["result"], decisions[0]["error_class"]) == ("invalid", "pinned_argument")
    assert [r for r in control.log(services.urls["PAYMENTS_URL"]) if "9999" in r["path"]] == []


def test_a_message_that_does_not_cite_the_refund_is_refused(services: Sandbox, tmp_path: Path) -> None:
    """Words are checked against recorded evidence before anybody reads them."""
    vague = {"call": "notify_customer", "with": {"message": "Your refund is on its way."}}
    end = told(services, tmp_path, through, *READS, PROPOSE, vague, NOTIFY)
    assert (end.head.status, end.head.steps) == ("SUCCEEDED", 6)
    assert len(control.messages(services.urls["NOTIFICATIONS_URL"], "8472")) == 1
