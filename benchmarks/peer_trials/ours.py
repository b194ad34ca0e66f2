"""Our column in the peer trials: one task that starts, waits for a person, and calls one tool `pay`.

It uses the product as a user would: a machine and manifests as files in the trial's folder, Python tools, the store on
`box.db`, approvals by a person. Run it with `benchmarks/peer_trials/run.sh`, which needs the trials' own folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from box import AMOUNT, CHANGED, Box, says

from statemachine_agent import (
    Catalogue,
    Checkpoint,
    Identity,
    Prompt,
    RawCall,
    RawReply,
    Reach,
    Reply,
    Runtime,
    ScriptedModel,
    SmaError,
    Spent,
    SqliteStore,
)
from statemachine_agent.canonical import canonical  # to change a stored payload as somebody would who knows the source

NAME = "statemachine-agent"
PACKAGES = ["python-statemachine"]
WHY_NOT: dict[int, str] = {}
REMARKS = {
    2: "the intent was written: the look-up says that nothing was paid, and it is sent under the same key",
    8: "a task is finished on the definition that it was started with",
}

PEOPLE = """
people:
  shop: {scopes: [money:write]}
  boss: {roles: [boss]}
"""
PAY = """
tool: pay
version: 1
summary: Pay an amount.
effect: write
source: bank
scopes: [money:write]
binding: {python: "trial_tools:pay"}
args: {amount: {type: integer, minimum: 1}}
returns: {paid: {type: integer}}
idempotency:
  key: pay:{amount}:v1
  reconcile: {tool: payments, with: {amount: args.amount}, found: result.payments.size() == 1,
              absent: result.payments.size() == 0, result: "result.payments[0]"}
approval: [{by: boss, because: every payment}]
"""
PAYMENTS = """
tool: payments
version: 1
summary: What was paid of this amount.
effect: read
source: bank
binding: {python: "trial_tools:payments"}
args: {amount: {type: integer}}
returns: {payments: {type: array, items: {type: object, properties: {paid: {type: integer}}}}}
"""
NOTE = """
tool: note
version: 1
summary: Something to read.
effect: read
source: desk
binding: {python: "trial_tools:note"}
args: {number: {type: integer}, size: {type: integer}}
returns: {text: {type: string}}
"""
MACHINE = """
machine: trial
version: 1
summary: Pay once a person said yes.
input: {amount: {type: integer}}
limits: {steps: 1000, active_time: 10m, tokens: 1000000, tool_calls: 1000}
guards:
  same_amount: call.args.amount == input.amount
  paid: effects.exists(e, e.tool == "pay" && e.status == "executed")
success: [paid]
initial: PROPOSING
states:
  PROPOSING:
    choose:
      note: stay
      pay:
        - {when: same_amount, goto: WAITING_FOR_BOSS}
  WAITING_FOR_BOSS:
    approval: {of: pay, by: boss, expires: 1h}
    then: {approved: PAYING, rejected: DENIED, expired: NEEDS_INPUT}
  PAYING:
    call: pay
    with: proposal
    then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: ASKING}
  ASKING:
    reconcile: pay
    then: {found: SUCCEEDED, absent: PAYING, failed: FAILED}
at_most: {pay: 2}
"""
TOOLS = '''
"""The tools of the trial: they pay into, and read, the ledger of the trial's folder."""

import os

from box import Box

BOX = Box(os.environ["TRIAL_BOX"])


def pay(amount):
    BOX.pay(amount)
    return {"paid": amount}


def payments(amount):
    return {"payments": [{"paid": p} for p in BOX.payments() if p == amount]}


def note(number, size):
    return {"text": f"{number}:".ljust(size, "x")}
'''
BOSS, SHOP = Identity("boss", "asserted"), Identity("shop", "asserted")
PROPOSE = {"call": "pay", "with": {"amount": AMOUNT}}


class Says:
    """A scripted model that repeats raw replies, for what a script file cannot say."""

    spec = "trial"

    def __init__(self, *replies: RawReply) -> None:
        self.replies = replies

    async def decide(self, prompt: Prompt) -> Reply:
        """The reply of this step; the last one for ever."""
        return Reply(self.replies[min(prompt.step, len(self.replies)) - 1], Spent(10, 10), self.spec)


def files(box: Box, machine: str = MACHINE) -> Catalogue:
    """The definition files of the trial, read as a user's project would be."""
    import sys  # noqa: PLC0415

    os.environ["TRIAL_BOX"] = str(box.dir)
    folder = Path(box.dir) / "project"
    folder.mkdir(exist_ok=True)
    for name, text in (
        ("pay.tool.yaml", PAY), ("payments.tool.yaml", PAYMENTS), ("note.tool.yaml", NOTE), ("people.yaml", PEOPLE),
        ("trial.yaml", machine), ("trial_tools.py", TOOLS),
    ):  # fmt: skip
        part = folder / f"{name}.{os.getpid()}"
        part.write_text(text)
        part.replace(folder / name)  # in one move: processes of a race write the same files at once
    sys.path.insert(0, str(folder))
    tools = sorted(folder.glob("*.tool.yaml"))
    return Catalogue.read([folder / "trial.yaml"], tools, folder / "people.yaml")


def with_runtime(box: Box, body: Callable[[Runtime], Awaitable[Any]], model: Any = None, machine: str = MACHINE) -> Any:
    """Run `body` with a runtime on the trial's store; a refusal or an error of ours is what a caller would see."""

    async def main() -> Any:
        catalogue = files(box, machine)
        with SqliteStore(box.db) as store:
            reach = Reach(python_packages=frozenset({"trial_tools"}))
            async with Runtime(catalogue, store, model or ScriptedModel.of(PROPOSE), reach=reach) as runtime:
                return await body(runtime)

    try:
        return asyncio.run(main())
    except SmaError as problem:
        return says("error", f"{type(problem).__name__}: {problem}")


def reported(checkpoint: Checkpoint) -> dict[str, str]:
    """What the product reports of a task."""
    status, reason = str(checkpoint.head.status), checkpoint.head.reason
    if status == "SUCCEEDED":
        return says("done", f"{status} ({reason})")
    if status == "AWAITING_APPROVAL":
        return says("waiting")
    return says("error", f"{status} ({reason}) {checkpoint.head.output or ''}")


def machine_for(box: Box) -> str:
    """The machine, with the expiry that case 6 asks for."""
    return MACHINE.replace("expires: 1h", f"expires: {box.expiry:g}s") if box.expiry else MACHINE


def start(box: Box) -> dict[str, str]:
    """Start the task; it waits for the boss."""

    async def body(runtime: Runtime) -> Any:
        return reported(await runtime.run("trial", {"amount": AMOUNT}, SHOP))

    return with_runtime(box, body, machine=machine_for(box))


def approve(box: Box, machine: str | None = None) -> dict[str, str]:
    """The boss says yes, and a worker runs on to the end."""

    async def body(runtime: Runtime) -> Any:
        (task,) = await runtime.store.tasks()
        (row,) = await runtime.store.approvals(status=None)
        box.go()
        try:
            await runtime.approve(row["approval"].id, BOSS)
        except SmaError as problem:
            ended = (await runtime.status(task["id"])).head.status.is_end
            if ended or problem.exit_code != 1:  # a worker that is told so goes on to look at the task itself
                raise
        return reported(await runtime.resume(task["id"]))

    return with_runtime(box, body, machine=machine or machine_for(box))


def resume(box: Box) -> dict[str, str]:
    """Go on after a kill; nobody is asked again."""

    async def body(runtime: Runtime) -> Any:
        (task,) = await runtime.store.tasks()
        return reported(await runtime.resume(task["id"]))

    return with_runtime(box, body)


def tamper(box: Box) -> None:
    """Change the amount in the saved proposal, hash and all, as somebody with an editor and our source would."""
    connection = sqlite3.connect(box.db)
    rows = connection.execute("SELECT id, hash, compressed, body FROM payload").fetchall()
    for row_id, key, compressed, body in rows:
        value = json.loads(zlib.decompress(body) if compressed else body)
        if isinstance(value, dict) and "action_hash" in value and "args" in value:
            text = canonical({**value, "args": {"amount": CHANGED}})
            new = sha256(text).digest()
            connection.execute(
                "UPDATE payload SET hash = ?, compressed = 0, body = ? WHERE id = ?", (new, text, row_id)
            )
            connection.execute("UPDATE task SET proposal_hash = ? WHERE proposal_hash = ?", (new, key))
    connection.commit()
    connection.close()


def approve_renamed(box: Box) -> dict[str, str]:
    """As approve(), the waiting state being called otherwise in the file by now."""
    return approve(box, MACHINE.replace("WAITING_FOR_BOSS", "HOLD"))


def unknown_target(box: Box) -> dict[str, str]:
    """A definition with a target that does not exist."""
    return _loads(box, MACHINE.replace("approved: PAYING", "approved: PAYYING"))


def duplicate_key(box: Box) -> dict[str, str]:
    """A definition with one key twice."""
    return _loads(box, MACHINE.replace("initial: PROPOSING", "initial: PROPOSING\ninitial: PAYING"))


def misspelled_key(box: Box) -> dict[str, str]:
    """A definition with one misspelled key."""
    return _loads(box, MACHINE.replace("success:", "sucess:"))


def _loads(box: Box, machine: str) -> dict[str, str]:
    async def body(runtime: Runtime) -> Any:
        await runtime.start("trial", {"amount": AMOUNT}, SHOP)
        return says("loaded")

    return with_runtime(box, body, machine=machine)


#: amounts over 50 go to a gate; others are paid
GATED = MACHINE.replace(
    "      pay:\n        - {when: same_amount, goto: WAITING_FOR_BOSS}\n",
    "      note: stay\n      pay:\n        - {when: big, goto: WAITING_FOR_BOSS}\n        - {goto: PAYING}\n",
).replace("      note: stay\n      note: stay\n", "      note: stay\n")
FREE = [("approval: [{by: boss, because: every payment}]", "approval: []")]


def guard_raises(box: Box) -> dict[str, str]:
    """The guard compares a text with a number: it does not load."""
    return _gate(box, "big: input.amount > '50'")


def guard_unknown(box: Box) -> dict[str, str]:
    """The guard names what does not exist: it does not load."""
    return _gate(box, "big: input.amuont > 50")


def _gate(box: Box, guard: str) -> dict[str, str]:
    global PAY  # noqa: PLW0603  this process runs one step of one trial
    for old, new in FREE:
        PAY = PAY.replace(old, new)
    machine = GATED.replace("  same_amount: call.args.amount == input.amount", f"  {guard}")

    async def body(runtime: Runtime) -> Any:
        return reported(await runtime.run("trial", {"amount": AMOUNT}, SHOP))

    return with_runtime(box, body, machine=machine)


def long_run(box: Box, steps: int, size: int) -> dict[str, str]:
    """`steps` decisions, each with a result of `size` bytes, each committed."""
    reads = [{"call": "note", "with": {"number": n, "size": size}} for n in range(steps)]
    stop = {"call": "cannot_continue", "with": {"reason": "enough"}}

    async def body(runtime: Runtime) -> Any:
        end = await runtime.run("trial", {"amount": AMOUNT}, SHOP)
        return says("done", f"{end.head.steps} steps, version {end.head.version}")

    return with_runtime(box, body, ScriptedModel.of(*reads, stop))


def tool_not_allowed(box: Box) -> dict[str, str]:
    """The model proposes `pay` where only `note` is offered."""
    return _told(box, RawReply((RawCall("c1", "pay", {"amount": AMOUNT}),)), "      pay:\n        - {when: same_amount")


def truncated_json(box: Box) -> dict[str, str]:
    """The model's arguments are cut off."""
    return _told(box, RawReply((RawCall("c1", "pay", '{"amount": 1'),)), None)


def _told(box: Box, reply: RawReply, without: str | None) -> dict[str, str]:
    machine = MACHINE
    if without is not None:  # `pay` is offered in another state than the first
        machine = MACHINE.replace("initial: PROPOSING", "initial: READING").replace(
            "  PROPOSING:", "  READING:\n    choose: {note: {rows: [{goto: PROPOSING}]}}\n  PROPOSING:"
        )
    stop = RawReply((RawCall("c2", "cannot_continue", {"reason": "told"}),))

    async def body(runtime: Runtime) -> Any:
        end = await runtime.run("trial", {"amount": AMOUNT}, SHOP)
        rows = await runtime.store.history(end.task.id)
        told = [r["feedback"] for r in rows if r["table"] == "decision" and r["feedback"]]
        return says("told", told[0]) if told else says("silent")

    return with_runtime(box, body, Says(reply, stop), machine)


def checkpoints(box: Box, worker: int, count: int) -> None:
    """`count` commits of a task of this worker, on the file that all share."""
    reads = [{"call": "note", "with": {"number": worker * 1000 + n, "size": 20}} for n in range(count)]
    stop = {"call": "cannot_continue", "with": {"reason": "enough"}}

    async def body(runtime: Runtime) -> Any:
        box.go()
        await runtime.run("trial", {"amount": AMOUNT}, SHOP)

    failed = with_runtime(box, body, ScriptedModel.of(*reads, stop))
    if failed is not None:
        raise RuntimeError(failed["note"])


def stored(box: Box) -> int:
    """How many checkpoints the file holds."""
    connection = sqlite3.connect(box.db)
    count: int = connection.execute("SELECT count(*) FROM evidence").fetchone()[0]
    connection.close()
    return count
