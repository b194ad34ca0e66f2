"""Processes that use one store at once: `python -m unit.store.workers WHAT PATH …`, and how a test starts them.

Each says "ready", waits for a line, and does its work; the last line of its output is a JSON value.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unit.store.making import begun, full_step, new_task, step

from statemachine_agent.environment import Environment
from statemachine_agent.errors import StoreError, TaskHeldError
from statemachine_agent.records import Checkpoint
from statemachine_agent.store.sqlite import SqliteStore
from support import forks

HOUR = 3600.0
SECONDS = 60.0


class Child:
    """A worker, seen from the test."""

    def __init__(self, *arguments: object) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = forks.Popen(
            [sys.executable, "-m", "unit.store.workers", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ,
        )  # fmt: skip

    def say(self, line: object = "go") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker ended; its traceback stands in the captured output"
        return line.rstrip("\n")

    def result(self) -> Any:
        found = json.loads(self.hear())
        assert self.process.wait(SECONDS) == 0
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def children(*each: tuple[object, ...]) -> Iterator[list[Child]]:
    """One worker for each list of arguments, all of them ready; none of them outlives the block."""
    started = [Child(*arguments) for arguments in each]
    try:
        for child in started:
            assert child.hear() == "ready"
        yield started
    finally:
        for child in started:
            child.close()


# ---------------------------------------------------------------- what they do


def open_many(name: str) -> None:
    """Make or open the store at each path that is said, and create a task there."""
    for path in sys.stdin:
        with SqliteStore(path.strip()) as store:
            asyncio.run(store.create(new_task(name)))
        say("done")


async def commit_own(path: str, name: str, count: str) -> list[float]:
    """Commit to a task of one's own, again and again; when it was done each time."""
    moments = []
    with SqliteStore(path) as store:
        task, lease = await begun(store, name)
        for number in range(1, int(count) + 1):
            transaction = step(task, *full_step(number, {"n": number}))
            await store.commit(transaction, lease)
            moments.append(time.monotonic())
            task = Checkpoint(task.task, transaction.head)
    return moments


async def fight(path: str, name: str, count: str) -> dict[str, int]:
    """Claim the one task, commit once, let go, until `count` commits are made; how often it was held by another."""
    me, held = Environment().process(), 0
    with SqliteStore(path) as store:
        done = 0
        while done < int(count):
            try:
                lease = await store.claim(name, me, HOUR)
            except TaskHeldError:
                held += 1
                await asyncio.sleep(0.001)
                continue
            task = await store.load(name)
            await store.commit(step(task, head={"output": f"{os.getpid()}"}), lease)
            await store.release(lease)
            done += 1
    return {"done": done, "held": held}


async def read(path: str, name: str, count: str) -> list[str]:
    """Read the task again and again while another process writes; everything that does not fit together."""
    faults: list[str] = []
    newest = -1
    with SqliteStore(path, create=False) as store:
        for number in range(int(count)):
            if number % 25 == 0:  # both go on together
                say("25 more")
                await asyncio.to_thread(sys.stdin.readline)
            task = await store.load(name)
            if task.head.version < newest:
                faults.append(f"version {task.head.version} after {newest}")
            newest = task.head.version
            faults += inconsistencies(task, await store.history(name))
    return [*faults, f"last {newest}"]


def inconsistencies(task: Checkpoint, history: Any) -> Iterator[str]:
    """What no committed state of `commit_own` shows."""
    version = task.head.version
    numbers = [e.payload["n"] for e in task.evidence]
    if numbers != list(range(1, version + 1)):
        yield f"version {version} with the evidence {numbers[-3:]}"
    if task.head.steps != version:
        yield f"version {version} with step {task.head.steps}"
    rows = [row["row"] for row in history]
    if rows != list(range(1, len(rows) + 1)) or history[-1]["table"] != "checkpoint":
        yield f"a history that ends in {history[-1]['table']} {rows[-3:]}"


def nursery(path: str, name: str) -> None:
    """For each line a process that commits until it is killed: first its number is said, at last that it is dead."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            say(os.getpid())
            asyncio.run(commit_for_ever(path, name))
        os.waitpid(child, 0)
        say("dead")


async def commit_for_ever(path: str, name: str) -> None:
    """Commit until one is killed; each version is said when it is durable."""
    with SqliteStore(path) as store:
        lease = await store.claim(name, Environment().process(), HOUR)
        while True:
            task = await store.load(name)
            number = task.head.version + 1
            await store.commit(step(task, *full_step(number, {"n": number, "pad": "x" * 3000})), lease)
            say(number)


async def fill(path: str, name: str) -> dict[str, Any]:
    """Commit until files may not grow any more, see what is told and left, then go on when they may again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    noise = os.urandom(300_000).hex()
    with SqliteStore(path) as store:
        task, lease = await begun(store, name)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        problem = None
        while problem is None:
            number = task.head.version + 1
            try:
                await store.commit(step(task, *full_step(number, {"n": number, "noise": noise[number:]})), lease)
            except StoreError as found:
                problem = found
            else:
                task = await store.load(name)
        kept = await store.load(name) == task
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.commit(step(task, *full_step(task.head.version + 1, {"n": task.head.version + 1})), lease)
        after = await store.load(name)
    return {"reason": problem.reason, "message": problem.message, "kept": kept, "version": after.head.version}


def say(what: object) -> None:
    print(what, flush=True)


def main(what: str, *arguments: str) -> None:
    say("ready")
    told = {f.__name__: f for f in (open_many, nursery)}
    if what in told:
        told[what](*arguments)
        return
    work = {f.__name__: f for f in (commit_own, fight, read, fill)}[what]
    sys.stdin.readline()
    say(json.dumps(asyncio.run(work(*arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
