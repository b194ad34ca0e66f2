"""`watch`: a task that another process works on, row by row as it is committed, and the call that its model is forming.

What it shows as having happened is read from the store; what is forming is passed on by the worker, and is for eyes only.
It must not write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from statemachine_agent.cli import streams
from statemachine_agent.cli.again import Again
from statemachine_agent.cli.forming import Forming, FormingLines
from statemachine_agent.cli.options import db_option, json_option, open_store, project_of, run_async
from statemachine_agent.cli.output import EXIT_CODES, say, show_json_line
from statemachine_agent.cli.rest import awaited_in, show_rest, summary
from statemachine_agent.cli.tasks import line_of
from statemachine_agent.environment import Environment
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.runtime.livefile import LiveReader
from statemachine_agent.runtime.trace import trace_of
from statemachine_agent.store.port import Store

_GLANCE = 0.15  # seconds between two looks
_SELDOM = 10  # looks after which rows without a new version are looked for, too
_QUIET = 15.0  # seconds without news after which it is said what may be the matter


@click.command(short_help="Watch a task that runs elsewhere.")
@click.argument("task")
@click.option("-n", "--lines", type=click.IntRange(0), help="Of what is there already, only the last so many lines.")
@db_option
@json_option
@click.pass_context
def watch(context: click.Context, task: str, lines: int | None, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Show what TASK does as it is committed, and what its model is forming where it runs with --stream.

    It ends when the task ends or waits, with the exit code of its status.
    """
    project = project_of(context)
    again = Again.of(context, db, identity=project.settings.identity)
    environment = Environment()

    async def main() -> tuple[Checkpoint, Mapping[str, str]]:
        with open_store(project, db) as store:
            loaded = await store.load(task)
            watched = _Watched(store, loaded.task.id, environment, again, as_json=as_json)
            rested = await watched.follow(lines)
            return rested, await awaited_in(store, rested)

    checkpoint, awaited = run_async(main())
    if as_json:
        show_json_line({"kind": "rest", **summary(checkpoint, awaited)})
    else:
        show_rest(checkpoint, again, environment.now(), awaited=awaited)
    return EXIT_CODES[checkpoint.head.status]


class _Watched:
    """One task, and how much of it was shown."""

    def __init__(self, store: Store, task_id: str, environment: Environment, again: Again, *, as_json: bool) -> None:
        self._store = store
        self._id = task_id
        self._environment = environment
        self._again = again
        self._as_json = as_json
        self._forming: Forming | FormingLines = FormingLines() if as_json else Forming()
        self._live = LiveReader(store, task_id, environment)
        self._lines = 0  # of the trace, seen
        self._version = -1
        self._step = 0  # the last one whose decision was seen
        self._heard_at = environment.monotonic()

    async def follow(self, only_last: int | None) -> Checkpoint:
        """Until the task rests, or nobody reads."""
        try:
            checkpoint = await self._look(only_last, at_rows=True)
            looks = 0
            while checkpoint.head.status is Status.RUNNING and not streams.is_lost():
                await self._environment.sleep(_GLANCE)
                looks += 1
                checkpoint = await self._look(None, at_rows=looks % _SELDOM == 0)
                self._overhear()
                self._say_if_quiet()
            return checkpoint
        finally:
            self._forming.close()

    async def _look(self, only_last: int | None, *, at_rows: bool) -> Checkpoint:
        """Show the rows that are new. The task is read first: what it rests on is in the rows that are read after it."""
        checkpoint = await self._store.load(self._id)
        if at_rows or checkpoint.head.version != self._version:
            self._version = checkpoint.head.version
            found = trace_of(await self._store.history(self._id))
            new = found[self._lines :]
            self._lines = len(found)
            if new:
                self._heard()
            for line in new if only_last is None else new[len(new) - min(only_last, len(new)) :]:
                self._show(line)
            self._step = max((line["step"] for line in found if line["kind"] == "step"), default=0)
        return checkpoint

    def _show(self, line: Mapping[str, Any]) -> None:
        self._forming.close()
        if self._as_json:
            show_json_line(line)
        else:
            say(line_of(line))

    def _overhear(self) -> None:
        """What is forming; what was decided meanwhile is no news."""
        for line in self._live.news():
            self._heard()
            if line["step"] > self._step:
                self._forming.show(line["event"], line)

    def _heard(self) -> None:
        self._heard_at = self._environment.monotonic()

    def _say_if_quiet(self) -> None:
        if not self._live.is_alive and self._environment.monotonic() - self._heard_at > _QUIET:
            self._heard_at = float("inf")  # once
            self._forming.close()
            how = self._again("resume", self._id)
            click.echo(f"sma: quiet for {_QUIET:g} s; where no process works on it, go on with `{how}`", err=True)
