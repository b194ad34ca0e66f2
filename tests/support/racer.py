"""One of two processes that race: it does what it is told, and stops at a gate until both are let go by one pipe.

Usage: racer.py DB GATE_FD HOLD_FD. Lines of JSON come on standard input: {"gate": point, "task": id to resume, or
"approve": request, "now": time to stop the clock at, "hold": whether its tool waits for a byte}; lines of JSON go out:
{"ready": point} at the gate, then {"done": …} with what became of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from statemachine_agent import Reach, Runtime, ScriptedModel, SqliteStore
from statemachine_agent.environment import Environment, ProcessIdentity
from statemachine_agent.errors import SmaError
from statemachine_agent.records import Checkpoint, Lease, Transaction
from support import racing_tools
from support.racing_tools import entries
from support.world import ACT, BOB, FIND, LOOK, LOOK_STEP, MACHINE, catalogue

#: which commit belongs to which gate
CAUSES = {"intent": ("intent",), "outcome": ("outcome", "reconciliation")}


def racing_catalogue() -> Any:
    tools = [text.replace("nowhere:", "support.racing_tools:") for text in (LOOK, ACT, FIND)]
    machine = MACHINE.replace("      act:\n", "      act:\n        with: {thing: input.thing}\n        rows:\n")
    return catalogue(machine, *tools)


def racing_model(amount: int = 10) -> ScriptedModel:
    return ScriptedModel.of(LOOK_STEP, {"call": "act", "with": {"amount": amount}})


class GatedStore(SqliteStore):
    """The real store, with a gate just before one of its writes."""

    gate: str | None = None
    stop: Callable[[str], None]

    async def claim(self, task_id: str, owner: ProcessIdentity, seconds: float) -> Lease:
        self._pass("claim")
        return await super().claim(task_id, owner, seconds)

    async def commit(self, transaction: Transaction, lease: Lease) -> None:
        for gate, causes in CAUSES.items():
            if transaction.cause in causes:
                self._pass(gate)
        await super().commit(transaction, lease)

    def _pass(self, gate: str) -> None:
        if self.gate == gate:
            self.gate = None
            self.stop(gate)


class StoppedClock(Environment):
    """The real world, at a moment that the test chooses."""

    at: datetime | None = None

    def now(self) -> datetime:
        return self.at or super().now()


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main(db: str, gate_fd: int, hold_fd: int) -> None:
    with GatedStore(db) as store:

        def stop(gate: str) -> None:
            say(ready=gate)
            os.read(gate_fd, 1)

        store.stop = stop
        reach = Reach(python_packages=frozenset({"support"}))
        clock = StoppedClock()
        async with Runtime(racing_catalogue(), store, racing_model(), reach=reach, environment=clock) as runtime:
            for line in sys.stdin:
                order = json.loads(line)
                store.gate = order["gate"]
                racing_tools.held = hold_fd if order.get("hold") else None
                clock.at = datetime.fromisoformat(order["now"]) if "now" in order else None
                before = sum(e["pid"] == os.getpid() for e in entries())
                try:
                    end: Checkpoint = await (
                        runtime.approve(order["approve"], BOB) if "approve" in order else runtime.resume(order["task"])
                    )
                    result: dict[str, Any] = {"status": str(end.head.status), "code": 0}
                except SmaError as problem:
                    result = {"status": problem.reason, "code": problem.exit_code}
                store.gate = None
                say(done=result, calls=sum(e["pid"] == os.getpid() for e in entries()) - before)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
