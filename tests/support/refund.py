"""The shipped refund machine on a real store and real services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from statemachine_agent import Catalogue, Environment, Runtime, ScriptedModel, SqliteStore
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.request import Reach

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "machines"
TOOLS = ROOT / "tool_manifests"
PEOPLE = ROOT / "people.yaml"
SCRIPT = ROOT / "scripts" / "refund-8472.yaml"

CUSTOMER = Identity("cust-3391", "asserted")
LEAD = Identity("lead@example.com", "asserted")
SECOND_LEAD = Identity("second.lead@example.com", "asserted")
FINANCE = Identity("finance@example.com", "asserted")
INPUT = {"order_id": "8472", "message": "Order 8472 was charged twice."}


@cache
def catalogue() -> Catalogue:
    """Everything that is shipped, read and checked once."""
    return checked_catalogue(Catalogue.read([MACHINES], [TOOLS], PEOPLE))


def reach(urls: Mapping[str, str]) -> Reach:
    return Reach(dict(urls), frozenset({"127.0.0.1"}), environ={})


@dataclass
class Story:
    """One task of the refund machine, run in pieces."""

    runtime: Runtime
    store: SqliteStore
    path: Path

    async def propose(self, inputs: Mapping[str, Any] = INPUT, actor: Identity = CUSTOMER) -> Checkpoint:
        return await self.runtime.run("refund", inputs, actor)

    async def approve(self, waiting: Checkpoint, who: Identity = LEAD) -> Checkpoint:
        return await self.runtime.approve(request_of(waiting), who)

    async def finish(self, waiting: Checkpoint) -> Checkpoint:
        await self.approve(waiting)
        return await self.runtime.resume(waiting.task.id)

    async def history(self, task_id: str, *tables: str) -> list[Mapping[str, Any]]:
        rows = await self.store.history(task_id)
        return [r for r in rows if not tables or r["table"] in tables]


def request_of(checkpoint: Checkpoint) -> str:
    return next(a.id for a in checkpoint.approvals if a.status == "open")


def script(*steps: Mapping[str, Any]) -> ScriptedModel:
    return ScriptedModel.of(*steps)


def shipped_script() -> ScriptedModel:
    return ScriptedModel.load(SCRIPT)


READS: Sequence[Mapping[str, Any]] = (
    {"call": "lookup_order"},
    {"call": "get_refund_status"},
    {"call": "search_policy", "with": {"query": "duplicate card capture refund approval threshold"}},
)
PROPOSE: Mapping[str, Any] = {
    "call": "issue_refund",
    "with": {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000},
}
NOTIFY: Mapping[str, Any] = {"call": "notify_customer", "with": {"message": "Refunded under rf_9001."}}


@asynccontextmanager
async def story(
    folder: Path, urls: Mapping[str, str], model: Any = None, environment: Environment | None = None, **more: Any
):
    """A runtime with the shipped script (or `model`) on a store in `folder`."""
    path = folder / "tasks.db"
    with SqliteStore(path, environment) as store:
        async with Runtime(
            catalogue(), store, model or shipped_script(), reach=reach(urls), environment=environment, **more
        ) as runtime:
            yield Story(runtime, store, path)
