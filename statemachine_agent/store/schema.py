"""The tables, and how a file of an older version becomes one of this.

How it is thought:

A *task* is one run of a machine for one input. Its row in `task` says who and what it is (never changed) and how it stands
(the head: version, status, configuration, usage, what waits). Every *version* is one commit; version 0 is its start.

What happened is appended to seven tables and never changed: `checkpoint` (one row a version), `transition` (the chart
moved), `decision` (one inference), `call` (one request to a tool), `evidence` (a recorded result), `effect_event` (an
effect came a step further), `approval_event` (a request, an answer, a refused attempt) and `note`. All rows of a task share
one numbering: the key of a row is `task_no << 20 | row`, so that the rows of a task lie together, in the order of their
writing, whichever table they are in. `row` counts on in the task's head. What a task has at version 0, before anything was
asked or called, it was given by the task that it is forked from; a `note` says which.

Rows chain: `chain` is SHA-256 over the chain of the row before it and the row's own content; the newest stands in the
head. `checkpoint.head` is the hash of the head as it was written, which is kept as a payload.

Three tables say how things stand and are written over: `effect` (one row for each key of a task), `approval` and `timer`.
A key that may have happened belongs to one effect of the whole store: a unique index holds that.

A *payload* is canonical JSON, stored once under the SHA-256 of its text, compressed where that helps. What a column calls
`…_hash` is such a key. A prompt is a list of such keys: its parts, most of which the next prompt has too.

`lease` says who may write: every write compares its `token`, which each claim raises. Claims and heartbeats raise no version.

Times are ISO 8601 in UTC. Money is text in decimal digits. Everything is STRICT.
"""

from __future__ import annotations

import re
from typing import Any

#: marks the file as ours (`PRAGMA application_id`): "SMA1"
APPLICATION_ID = 0x534D4131

#: raised with every migration (`PRAGMA user_version`)
VERSION = 1

#: number of rows that a task can have
ROW_BITS = 20

M001 = (
    """
    CREATE TABLE payload (
      id INTEGER PRIMARY KEY,
      hash BLOB NOT NULL UNIQUE,
      compressed INTEGER NOT NULL,            -- 1: zlib
      body BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE definition (
      hash TEXT PRIMARY KEY,
      machine TEXT NOT NULL,
      version INTEGER NOT NULL,
      texts_hash BLOB NOT NULL                -- the machine's text and those of its manifests
    ) STRICT
    """,
    """
    CREATE TABLE task (
      no INTEGER PRIMARY KEY,
      id TEXT NOT NULL UNIQUE,
      trace_id TEXT NOT NULL,
      machine TEXT NOT NULL,
      machine_version INTEGER NOT NULL,
      definition_hash TEXT NOT NULL REFERENCES definition (hash),
      actor TEXT NOT NULL,                    -- JSON: id, tenant, roles, scopes, established
      actor_id TEXT NOT NULL,
      tenant TEXT NOT NULL,
      input_hash BLOB NOT NULL,
      model TEXT NOT NULL,
      started_at TEXT NOT NULL,
      -- the head: how it stands
      version INTEGER NOT NULL,
      status TEXT NOT NULL,
      reason TEXT,
      configuration TEXT NOT NULL,            -- JSON: the active leaves in document order
      steps INTEGER NOT NULL,
      head TEXT NOT NULL,                     -- JSON: usage, visits, calls, progress, what waits
      proposal_hash BLOB,
      wake_at TEXT,                           -- the earliest timer
      cancel_requested TEXT,                  -- JSON: who and when
      updated_at TEXT NOT NULL,
      row INTEGER NOT NULL,                   -- the number of the newest row
      chain BLOB NOT NULL                     -- the chain of the newest row
    ) STRICT
    """,
    "CREATE INDEX task_by_status ON task (status, updated_at)",
    "CREATE INDEX task_by_wake ON task (wake_at) WHERE wake_at IS NOT NULL",
    """
    CREATE TABLE checkpoint (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      at TEXT NOT NULL,
      cause TEXT NOT NULL,
      status TEXT NOT NULL,
      reason TEXT,
      configuration TEXT NOT NULL,
      steps INTEGER NOT NULL,
      tokens INTEGER NOT NULL,
      token INTEGER NOT NULL,                 -- the lease under which it was written
      head BLOB NOT NULL,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE transition (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      event TEXT NOT NULL,
      source TEXT NOT NULL,
      target TEXT,                            -- NULL: stayed
      row_no INTEGER NOT NULL,                -- which row of the compiled machine was taken
      asked TEXT NOT NULL,                    -- JSON: guards and their answers, in the order of asking
      reason TEXT,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE decision (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      step INTEGER NOT NULL,
      attempt INTEGER NOT NULL,
      state TEXT NOT NULL,
      model TEXT NOT NULL,
      schema_version INTEGER NOT NULL,
      prompt_hash TEXT NOT NULL,
      response_hash BLOB,
      input_tokens INTEGER NOT NULL,
      output_tokens INTEGER NOT NULL,
      cost_usd TEXT NOT NULL,
      latency_ms INTEGER NOT NULL,
      stop_reason TEXT,
      result TEXT NOT NULL,                   -- accepted, refused, invalid, failed
      error_class TEXT,
      retryable INTEGER NOT NULL,
      feedback TEXT,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE call (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      step INTEGER NOT NULL,
      call_id TEXT NOT NULL,
      tool TEXT NOT NULL,
      purpose TEXT NOT NULL,                  -- step, call, reconcile, precondition
      args_hash BLOB NOT NULL,
      request_id TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      outcome TEXT NOT NULL,                  -- ok, failed, blocked, unknown, found, absent
      latency_ms INTEGER NOT NULL,
      observation_bytes INTEGER NOT NULL,
      error_class TEXT,
      retryable INTEGER NOT NULL,
      detail TEXT,
      effect_key TEXT,
      evidence TEXT,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE evidence (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      name TEXT NOT NULL,                     -- ev-3
      tool TEXT NOT NULL,
      purpose TEXT NOT NULL,
      call_id TEXT NOT NULL,
      request_id TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      source TEXT NOT NULL,
      at TEXT NOT NULL,
      trust TEXT NOT NULL,                    -- system, mixed
      payload_hash BLOB NOT NULL,
      asked_hash BLOB NOT NULL,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE effect_event (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      effect_key TEXT NOT NULL,
      tool TEXT NOT NULL,
      status TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      action_hash TEXT NOT NULL,
      reason TEXT,
      by TEXT,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE approval_event (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      approval_id TEXT NOT NULL,
      event TEXT NOT NULL,                    -- requested, approved, rejected, expired, consumed, void, refused
      by TEXT,
      established TEXT,                       -- how the identity was established
      why TEXT,
      reason TEXT,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE note (
      key INTEGER PRIMARY KEY,
      version INTEGER NOT NULL,
      event TEXT NOT NULL,
      by TEXT,
      established TEXT,
      why TEXT,
      chain BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE effect (
      id INTEGER PRIMARY KEY,
      task_no INTEGER NOT NULL REFERENCES task (no),
      key TEXT NOT NULL,
      tool TEXT NOT NULL,
      status TEXT NOT NULL,
      action_hash TEXT NOT NULL,
      args_hash BLOB NOT NULL,
      proposed_in INTEGER NOT NULL,           -- the version in which it was proposed last
      attempt INTEGER NOT NULL,
      receipt_hash BLOB,
      approval_id TEXT,
      reason TEXT,
      inherited INTEGER NOT NULL,             -- 1: executed by another task, whose receipt this one holds
      at TEXT NOT NULL,
      UNIQUE (task_no, key)
    ) STRICT
    """,
    """
    CREATE UNIQUE INDEX effect_happens_once ON effect (key)
      WHERE status IN ('intended', 'unknown', 'executed', 'verified') AND inherited = 0
    """,
    """
    CREATE TABLE approval (
      id TEXT PRIMARY KEY,
      task_no INTEGER NOT NULL REFERENCES task (no),
      state TEXT NOT NULL,
      tool TEXT NOT NULL,
      action_hash TEXT NOT NULL,
      effect_key TEXT NOT NULL,
      policy_version TEXT NOT NULL,
      roles TEXT NOT NULL,                    -- JSON: each is filled by another person
      requested_at TEXT NOT NULL,
      expires_at TEXT NOT NULL,
      status TEXT NOT NULL,                   -- open, approved, rejected, expired, consumed, void
      answers TEXT NOT NULL,                  -- JSON
      shown_hash BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX approval_by_task ON approval (task_no)",
    "CREATE INDEX approval_open ON approval (requested_at) WHERE status = 'open'",
    """
    CREATE TABLE timer (
      task_no INTEGER NOT NULL REFERENCES task (no),
      state TEXT NOT NULL,
      event TEXT NOT NULL,
      due_at TEXT NOT NULL,
      PRIMARY KEY (task_no, state)
    ) STRICT
    """,
    """
    CREATE TABLE lease (
      task_no INTEGER PRIMARY KEY REFERENCES task (no),
      token INTEGER NOT NULL,
      owner TEXT,                             -- JSON: host, process, its start; NULL: nobody
      until TEXT,
      reclaims INTEGER NOT NULL
    ) STRICT
    """,
)


_MADE = re.compile(r"\s*CREATE (?:TABLE|(?:UNIQUE )?(INDEX)) (\w+)")


def look(connection: Any) -> tuple[int, str | None]:
    """The version that the file names, and what of that version's tables and indexes is not as it was made, if anything.

    One statement, and so one moment: another process may be making the store.
    """
    rows = connection.execute(
        "SELECT name, sql, NULL FROM sqlite_master UNION ALL SELECT NULL, NULL, user_version FROM pragma_user_version"
    ).fetchall()
    version = int(next(number for _, _, number in rows if number is not None))
    found = {name: sql or "" for name, sql, _ in rows if name is not None}
    if version == 0:
        left = [name for _, name, _ in _objects() if name in found]
        return version, f"it has `{left[0]}` and names no version" if left else None
    if version < 0:
        return version, f"it names the version {version}"
    for kind, name, text in _objects() if version == VERSION else ():
        if name not in found:
            return version, f"the {kind} `{name}` is missing"
        if kind == "index" and _words(found[name]) != text:  # one that is not unique holds nothing together
            return version, f"the index `{name}` is another one"
    return version, None


def _objects() -> list[tuple[str, str, str]]:
    """What the statements make: kind, name, and the words of the statement."""
    made = ((_MADE.match(statement), statement) for statement in M001)
    return [("index" if m[1] else "table", m[2], _words(text)) for m, text in made if m is not None]


def _words(sql: str) -> str:
    return " ".join(sql.split())


def migrate(connection: Any) -> None:
    """Bring the database of `connection` (sqlite3) to this version, one transaction a migration."""
    from sqlite_utils import Database  # noqa: PLC0415  only a new or an older file needs it
    from sqlite_utils.migrations import Migrations  # noqa: PLC0415

    migrations = Migrations("statemachine-agent")

    @migrations()  # type: ignore[untyped-decorator]
    def m001_tasks_history_effects_approvals(db: Database) -> None:
        """The first tables."""
        for statement in M001:
            db.execute(statement)

    migrations.apply(Database(connection))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
