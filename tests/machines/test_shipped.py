"""The other shipped machines, run over the real services of the sandbox from their scripts."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from statemachine_agent import Catalogue, Environment, Identity, Reach, Runtime, ScriptedModel, SqliteStore
from statemachine_agent.sandbox import Sandbox
from support.cli import Here, Sma
from support.refund import MACHINES, PEOPLE, ROOT, TOOLS

CUSTOMER, LEAD = Identity("cust-3391", "application"), Identity("lead@example.com", "application")


@pytest.fixture
def sma(services: Sandbox, tmp_path: Path) -> Sma:
    return Here(tmp_path, services.urls)


def script(name: str) -> str:
    return f"scripted:{ROOT / 'scripts' / f'{name}.yaml'}"


def test_spectrum_investigates_side_by_side_proposes_once_and_executes_the_fixed_way(sma: Sma) -> None:
    asked = sma(
        "run", "spectrum", "-i", "order_id=8472", "--actor", "cust-3391", "--model", script("spectrum"), "--json"
    )
    assert (asked.code, asked.json["steps"]) == (3, 4), asked
    task = asked.json["task"]
    decided = [(line["state"], line["action"]) for line in sma.trace(task) if line["kind"] == "step"]
    assert decided == [
        ("PAYMENTS", "lookup_order"),
        ("POLICY", "search_policy"),
        ("PAYMENTS", "get_refund_status"),
        ("PROPOSING", "issue_refund"),
    ]
    question = asked.json["approvals"][0]["id"]
    assert sma("approve", question, "--as", "second.lead@example.com").code == 0
    assert sma("resume", task).code == 3, "finance has not said yes"
    assert sma("approve", question, "--as", "finance@example.com").code == 0
    end = sma("resume", task, "--json")
    assert (end.code, end.json["reason"], end.json["steps"]) == (0, "completed", 4), end


class Later(Environment):
    """The real world, some time from now."""

    later = timedelta()

    def now(self) -> datetime:
        return super().now() + self.later


def test_a_refund_is_watched_through_the_night_and_told_of_in_the_morning(services: Sandbox, tmp_path: Path) -> None:
    """The clock of the runtime is put forward; nothing is waited for."""
    environment = Later()

    async def main() -> None:
        catalogue = Catalogue.read([MACHINES], [TOOLS], PEOPLE)
        reach = Reach(services.urls, frozenset({"127.0.0.1"}))
        script = ScriptedModel.load(ROOT / "scripts" / "refund-8472.yaml")
        with SqliteStore(tmp_path / "tasks.db", environment) as store:
            async with Runtime(catalogue, store, script, reach=reach, environment=environment) as runtime:
                asked = await runtime.run("refund", {"order_id": "8472", "message": "twice"}, CUSTOMER)
                await runtime.approve(asked.approvals[0].id, LEAD)
                assert (await runtime.resume(asked.task.id)).head.status == "SUCCEEDED"
            words = ScriptedModel.of(
                {"call": "notify_customer", "with": {"message": "Your refund rf_9001 has arrived."}}
            )
            async with Runtime(catalogue, store, words, reach=reach, environment=environment) as runtime:
                await watched(runtime, environment, services)
            script = ScriptedModel.load(ROOT / "scripts" / "aftercare.yaml")
            async with Runtime(catalogue, store, script, reach=reach, environment=environment) as runtime:
                await seen_through(runtime, environment)

    asyncio.run(main())


async def watched(runtime: Runtime, environment: Later, services: Sandbox) -> None:
    morning = environment.now() + timedelta(days=2)
    inputs = {"order_id": "8472", "key": "refund:order-8472:pay_5a2:v1", "not_before": morning.isoformat()}
    sleeps = await runtime.run("watch_refund", inputs, CUSTOMER)
    assert (sleeps.head.status, sleeps.head.configuration) == ("WAITING", ("SLEEPING",))
    async with httpx.AsyncClient() as bank:
        moved = await bank.post(f"{services.urls['REFUNDS_URL']}/_admin/refunds/rf_9001", json={"status": "settled"})
    assert moved.status_code == 200
    assert (await runtime.resume(sleeps.task.id)).head.configuration == ("SLEEPING",), (
        "nobody looks before the day is over"
    )
    environment.later = timedelta(days=1, minutes=1)
    waits = await runtime.resume(sleeps.task.id)
    assert (waits.head.configuration, waits.head.steps) == (("UNTIL_MORNING",), 0)
    assert [t.due_at for t in waits.timers] == [morning]
    environment.later = timedelta(days=2, minutes=1)
    end = await runtime.resume(sleeps.task.id)
    assert (end.head.status, end.head.reason, end.head.steps) == ("SUCCEEDED", "completed", 1)


async def seen_through(runtime: Runtime, environment: Later) -> None:
    """The same machine within another, and what follows its end there."""
    inputs = {"order_id": "8472", "key": "refund:order-8472:pay_5a2:v1", "not_before": environment.now().isoformat()}
    end = await runtime.run("aftercare", {**inputs, "question": "Why the later one?"}, CUSTOMER)
    assert (end.head.status, end.head.reason, end.head.steps) == ("SUCCEEDED", "completed", 3)
    assert {"WATCHING__UNTIL_MORNING", "ANSWERING__READING"} <= end.head.visits.keys()
    (answer,) = [e for e in end.evidence if e.tool == "policy_question"]
    assert (answer.payload["section"], answer.trust) == ("3.2", "mixed")


def test_an_answer_has_a_form_and_cites_what_was_found(sma: Sma) -> None:
    asked = (
        "-i",
        "question=Is a duplicate charge refunded?",
        "--actor",
        "cust-3391",
        "--model",
        script("policy_question"),
    )
    end = sma("run", "policy_question", *asked, "--json")
    assert (end.code, end.json["steps"]) == (0, 3), end
    assert json.loads(end.json["output"])["section"] == "3.2"
    lines = sma.trace(end.json["task"])
    assert len([line for line in lines if line["kind"] == "call"]) == 2, "both searches of one proposal"
    refused = [line["feedback"] for line in lines if line["kind"] == "step" and line["feedback"]]
    assert any("cite a document and section that a search has found" in text for text in refused)
