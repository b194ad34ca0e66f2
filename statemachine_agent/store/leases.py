"""Leases: who may write to a task now. A claim raises the fencing token; every write compares it.

It must not know what is written.
"""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from statemachine_agent.environment import Environment, ProcessIdentity
from statemachine_agent.errors import LeaseLostError, TaskHeldError
from statemachine_agent.records import Lease
from statemachine_agent.store import shapes
from statemachine_agent.store.codec import json_text, readable
from statemachine_agent.times import time_of, time_text


def claim(
    connection: sqlite3.Connection,
    environment: Environment,
    task: tuple[int, str],
    owner: ProcessIdentity,
    seconds: float,
) -> Lease:
    """Take the lease of task (number, id); TaskHeldError while its owner lives and its time has not run out."""
    task_no, task_id = task
    now = environment.now()
    row = connection.execute("SELECT token, owner, until, reclaims FROM lease WHERE task_no = ?", (task_no,)).fetchone()
    token, reclaims = (row["token"], row["reclaims"]) if row else (0, 0)
    if row and row["owner"] is not None:
        with readable(f"the lease of task {task_id}"):
            holder, until = _owner(row["owner"]), time_of(row["until"])
        if now < until and not environment.is_gone(holder):
            raise TaskHeldError(
                f"task {task_id} is being worked on by process {holder.pid} on {holder.host.partition('/')[0]}",
                hint="wait for it, or stop that process",
            )
        reclaims += 1
    connection.execute(
        "INSERT INTO lease (task_no, token, owner, until, reclaims) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (task_no) DO UPDATE SET token = excluded.token, owner = excluded.owner,"
        " until = excluded.until, reclaims = excluded.reclaims",
        (task_no, token + 1, _owner_text(owner), time_text(now + timedelta(seconds=seconds)), reclaims),
    )
    return Lease(task_no, task_id, token + 1, owner, reclaims)


def heartbeat(connection: sqlite3.Connection, environment: Environment, lease: Lease, seconds: float) -> None:
    """Hold the lease for `seconds` from now."""
    until = time_text(environment.now() + timedelta(seconds=seconds))
    changed = connection.execute(
        "UPDATE lease SET until = ? WHERE task_no = ? AND token = ? AND owner IS NOT NULL",
        (until, lease.task_no, lease.token),
    ).rowcount
    if changed != 1:
        raise LeaseLostError(f"the lease of task {lease.task_id} was lost to another worker")


def release(connection: sqlite3.Connection, lease: Lease) -> None:
    """Give the lease back in good order: the task was not lost, so the count of losses begins anew."""
    connection.execute(
        "UPDATE lease SET owner = NULL, until = NULL, reclaims = 0 WHERE task_no = ? AND token = ?",
        (lease.task_no, lease.token),
    )


def check(connection: sqlite3.Connection, lease: Lease) -> None:
    """LeaseLostError unless `lease` is still the newest claim. One whose time ran out and nobody took is still good."""
    row = connection.execute("SELECT token, owner FROM lease WHERE task_no = ?", (lease.task_no,)).fetchone()
    if row is None or row["token"] != lease.token or row["owner"] is None:
        raise LeaseLostError(f"the lease of task {lease.task_id} was lost to another worker: nothing was written")


def _owner_text(owner: ProcessIdentity) -> str:
    return json_text({"host": owner.host, "pid": owner.pid, "started": owner.started})


def _owner(text: str) -> ProcessIdentity:
    found = shapes.parsed(text, shapes.OWNER)
    return ProcessIdentity(found["host"], found["pid"], found["started"])
