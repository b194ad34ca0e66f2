"""The trace of the founding example, number by number."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from statemachine_agent.runtime.trace import trace_of
from statemachine_agent.sandbox import Sandbox, control
from statemachine_agent.times import time_of
from support.refund import story


def test_order_8472_gives_the_numbers_of_the_source(services: Sandbox, tmp_path: Path) -> None:
    """Versions 0→4, steps 1–4, tokens, evidence, key, hash and expiry; then version 11, step 5, SUCCEEDED."""

    async def main() -> None:
        async with story(tmp_path, services.urls) as refund:
            waiting = await refund.propose()
            versions = await refund.history(waiting.task.id, "checkpoint")
            assert [(v["version"], v["steps"], v["tokens"]) for v in versions] == [
                (0, 0, 0),
                (1, 1, 1260),
                (2, 2, 2965),
                (3, 3, 5335),
                (4, 4, 8310),
            ]
            assert [(e.name, e.tool, e.source) for e in waiting.evidence] == [
                ("ev-1", "lookup_order", "payments-service"),
                ("ev-2", "get_refund_status", "refunds-service"),
                ("ev-3", "search_policy", "policy-store"),
            ]
            assert waiting.evidence[0].payload == {
                "order_id": "8472",
                "customer_id": "cust-3391",
                "total_inr": 2000,
                "payments": [
                    {"payment_id": "pay_5a1", "amount_inr": 2000, "status": "captured", "at": "2026-10-20T09:14:02Z"},
                    {"payment_id": "pay_5a2", "amount_inr": 2000, "status": "captured", "at": "2026-10-20T09:14:41Z"},
                ],
            }
            assert waiting.head.status == "AWAITING_APPROVAL"
            (effect,) = waiting.effects
            assert (effect.key, effect.status) == ("refund:order-8472:pay_5a2:v1", "proposed")
            (approval,) = waiting.approvals
            assert approval.action_hash == effect.action_hash
            assert approval.roles == ("support_lead",)
            assert approval.requested_at is not None
            assert time_of(approval.expires_at) - approval.requested_at == timedelta(hours=2)
            assert len({e.request_id for e in waiting.evidence}) == 3

            done = await refund.finish(waiting)
            assert (done.head.version, done.head.steps, done.head.status) == (11, 5, "SUCCEEDED")
            assert done.head.reason == "completed"
            assert [(e.tool, e.status) for e in done.effects] == [
                ("issue_refund", "verified"),
                ("notify_customer", "executed"),
            ]
            causes = [v["cause"] for v in await refund.history(waiting.task.id, "checkpoint")]
            assert causes == [
                "start", "step", "step", "step", "step", "approval", "intent", "outcome", "outcome", "step", "intent",
                "outcome",
            ]  # fmt: skip

    asyncio.run(main())
    (refund,) = control.refunds(services.urls["REFUNDS_URL"], "8472")
    assert (refund["refund_id"], refund["payment_id"], refund["amount_inr"]) == ("rf_9001", "pay_5a2", 2000)
    (message,) = control.messages(services.urls["NOTIFICATIONS_URL"], "8472")
    assert "rf_9001" in message["message"]


def test_the_trace_has_a_line_for_each_step_and_each_call(services: Sandbox, tmp_path: Path) -> None:
    """Index, action, arguments, observation size, latency, error class and attempt stand in each."""

    async def main() -> list[dict]:
        async with story(tmp_path, services.urls) as refund:
            done = await refund.finish(await refund.propose())
            return trace_of(await refund.store.history(done.task.id))

    lines = asyncio.run(main())
    assert [line["index"] for line in lines] == list(range(len(lines)))
    steps = [line for line in lines if line["kind"] == "step"]
    assert [(s["step"], s["action"], s["attempt"], s["error_class"]) for s in steps] == [
        (1, "lookup_order", 1, None),
        (2, "get_refund_status", 1, None),
        (3, "search_policy", 1, None),
        (4, "issue_refund", 1, None),
        (5, "notify_customer", 1, None),
    ]
    calls = [line for line in lines if line["kind"] == "call"]
    assert [c["action"] for c in calls] == [
        "lookup_order", "get_refund_status", "search_policy", "find_refund_for_payment", "issue_refund", "get_refund",
        "notify_customer",
    ]  # fmt: skip
    for line in calls:
        assert line["observation_bytes"] > 0
        assert line["latency_ms"] >= 0
        assert line["arguments"]
        assert (line["error_class"], line["attempt"]) == (None, 1)
