"""The demo's story again and again with decisions that are drawn: what a model is worth is seen beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from statemachine_agent.cli.demo import CUSTOMER, LEAD, MESSAGE, ORDER, runtime_of
from statemachine_agent.cli.options import run_async
from statemachine_agent.cli.output import say
from statemachine_agent.definition.settings import Project
from statemachine_agent.environment import Environment
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.runtime.runtime import Runtime
from statemachine_agent.store.sqlite import SqliteStore


def compare(project: Project, place: Path, runs: int, name: str, ended: Checkpoint) -> None:
    """Print how the demo's own run ended, and how `runs` runs by chance do, from the seeds from 1 on."""
    say()
    say(f"Now {runs} runs in which each decision is drawn from the same kind of list: a tool, then each argument …")
    ends = by_chance(project, place, runs)
    say()
    say(f"{name}: {ended.head.status} ({ended.head.reason}) after {ended.head.steps} decisions")
    say(f"random chooser: {ends[str(Status.SUCCEEDED)]} of {runs} reach SUCCEEDED")
    say("the others end as " + ", ".join(f"{end} {count}" for end, count in ends.most_common() if end != "SUCCEEDED"))


def by_chance(project: Project, place: Path, runs: int) -> Counter[str]:
    """How many runs ended with each status. Services and store are new wherever the run before changed anything."""
    from statemachine_agent.sandbox import Sandbox, forget

    ends: Counter[str] = Counter()
    while ends.total() < runs:
        _clear(place)
        forget(place / "sandbox")
        with Sandbox(place / "sandbox", None) as services, SqliteStore(place / "tasks.db") as store:
            run_async(
                _until_changed(runtime_of(project, store, services.urls, Environment()), services.urls, runs, ends)
            )
    _clear(place)
    return ends


def _clear(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for file in place.glob("tasks.db*"):
        file.unlink()


async def _until_changed(opened: Runtime, urls: Mapping[str, str], runs: int, ends: Counter[str]) -> None:
    """Runs that leave the services as they were, and the first that does not."""
    from statemachine_agent.sandbox import control

    async with opened as runtime:
        while ends.total() < runs:
            ends[await _one(runtime, ends.total() + 1)] += 1
            if control.refunds(urls["REFUNDS_URL"], ORDER):
                return


async def _one(runtime: Runtime, seed: int) -> str:
    """One run, with the support lead's yes where it comes to that."""
    task = await runtime.run("refund", {"order_id": ORDER, "message": MESSAGE}, CUSTOMER, model=f"chance:{seed}")
    if task.head.status is Status.AWAITING_APPROVAL:
        request = next(a for a in task.approvals if str(a.status) == "open")
        await runtime.approve(request.id, LEAD)
        task = await runtime.resume(task.task.id)
    return str(task.head.status)
