"""`run`, `resume`, `cancel`: tasks are started, go on, and are called off."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from statemachine_agent.cli.again import Again
from statemachine_agent.cli.forming import Forming, FormingLines, stream_option
from statemachine_agent.cli.live import Live
from statemachine_agent.cli.options import (
    Interrupted,
    catalogue_of,
    db_option,
    identity_of,
    json_option,
    opened,
    project_of,
    run_async,
    stoppable,
)
from statemachine_agent.cli.output import EXIT_CODES, say, show_json, show_json_line
from statemachine_agent.cli.rest import show_rest, summary
from statemachine_agent.definition.check_given import a_kind
from statemachine_agent.definition.schema import Properties
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.spec import model_of
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.runtime.deciding import deciders, named_models, stored_spec
from statemachine_agent.runtime.drive import StoppedError
from statemachine_agent.runtime.livefile import LiveWriter
from statemachine_agent.runtime.runtime import Runtime
from statemachine_agent.text import did_you_mean

History = Sequence[Mapping[str, Any]]
#: where a run came to rest, its history where it ended badly, and the signals that it waits for, by state
Rested = tuple[Checkpoint, History, Mapping[str, str]]

_ENDED_BADLY = (Status.FAILED, Status.NO_PROGRESS, Status.BUDGET_EXHAUSTED)


@click.command(short_help="Start a task and run it.")
@click.argument("machine")
@click.option("-i", "--input", "inputs", multiple=True, metavar="KEY=VALUE", help="One input; repeat for more.")
@click.option("--actor", metavar="ID", help="Who the task acts for.")
@click.option(
    "--model",
    metavar="SPEC",
    help="What decides: `ask`, `scripted:FILE`, `openai:NAME` …; else what the machine names, or the setting `model`.",
)
@stream_option
@db_option
@json_option
@click.pass_context
def run(
    context: click.Context,
    machine: str,
    inputs: tuple[str, ...],
    actor: str | None,
    model: str | None,
    stream: bool,  # noqa: FBT001
    db: str | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Start a task of MACHINE and run it until it ends or waits."""
    project = project_of(context)

    again = Again.of(context, db, identity=project.settings.identity)
    catalogue = catalogue_of(project)  # what is wrong with the call is said before a store is made
    definition = catalogue.machine(machine).definition
    given = parse_inputs(definition.input, inputs)
    otherwise = project.model_spec(None)
    spec = stored_spec(definition, model, otherwise)
    deciders(definition, spec, lambda name: model_of(name, Environment(), project.settings.models, project.environ))
    who = identity_of(project, actor)

    async def main() -> Rested:
        async with opened(project, db, create=True, catalogue=catalogue) as runtime:
            created = await runtime.start(machine, given, who, model=model, otherwise=otherwise)
            if not as_json:
                names = ", ".join(named_models(definition, spec))
                say(f"task     {created.task.id} of {machine} for {who.id}, decided by {names}")
            return await _on(runtime, created.task.id, again, as_json=as_json, stream=stream)

    return _finish(*run_async(main()), again, as_json=as_json, stream=stream)


@click.command(short_help="Recover a task and run on.")
@click.argument("task")
@stream_option
@db_option
@json_option
@click.pass_context
def resume(context: click.Context, task: str, stream: bool, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Recover TASK, fire the timers that are due, and run on until it ends or waits."""
    project = project_of(context)
    again = Again.of(context, db, identity=project.settings.identity)

    async def main() -> Rested:
        async with opened(project, db) as runtime:
            return await _on(runtime, task, again, as_json=as_json, stream=stream)

    return _finish(*run_async(main()), again, as_json=as_json, stream=stream)


async def _on(runtime: Runtime, task: str, again: Again, *, as_json: bool, stream: bool) -> Rested:
    if stream:  # first, so that its line has ended when the next one begins
        runtime.watch(FormingLines() if as_json else Forming(), pieces=True)
    if not as_json:
        runtime.watch(Live())
    with passed_on(runtime, stream=stream):
        return await _to_rest(runtime, task, again)


@contextmanager
def passed_on(runtime: Runtime, *, stream: bool) -> Iterator[None]:
    """Whoever watches the tasks of this runtime from another process hears what is heard here."""
    if not stream:
        yield
        return
    with LiveWriter(runtime.store, runtime.environment) as writer:
        runtime.watch(writer, pieces=True)
        yield


async def _to_rest(runtime: Runtime, task: str, again: Again) -> Rested:
    async with stoppable(runtime) as came:
        try:
            rested = await runtime.resume(task)
            history = await runtime.store.history(task) if rested.head.status in _ENDED_BADLY else ()
            return rested, history, await runtime.awaited(rested) if rested.timers else {}
        except StoppedError:
            raise Interrupted(came[0], again("resume", task)) from None
        except UsageError as problem:  # nobody was there to decide; the task stands where it stood
            hint = f"{problem.hint}; the task goes on with `{again('resume', task)}`"
            raise type(problem)(problem.message, hint=hint) from None


def _finish(
    checkpoint: Checkpoint, history: History, awaited: Mapping[str, str], again: Again, *, as_json: bool, stream: bool
) -> int:
    if as_json and stream:
        show_json_line({"kind": "rest", **summary(checkpoint, awaited)})
    elif as_json:
        show_json(summary(checkpoint, awaited))
    else:
        show_rest(checkpoint, again, history=history, awaited=awaited)
    return EXIT_CODES[checkpoint.head.status]


@click.command(short_help="Call a task off.")
@click.argument("task")
@click.option("--as", "claim", metavar="WHO", help="Who calls it off.")
@db_option
@json_option
@click.pass_context
def cancel(context: click.Context, task: str, claim: str | None, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Call TASK off: now, or as soon as no effect of it is open."""
    project = project_of(context)

    async def main() -> Checkpoint:
        async with opened(project, db) as runtime:
            return await runtime.cancel(task, identity_of(project, claim))

    checkpoint = run_async(main())
    if as_json:
        show_json(summary(checkpoint))
    elif checkpoint.head.status.is_end:
        say(f"task {checkpoint.task.id} is {checkpoint.head.status} ({checkpoint.head.reason})")
    else:
        say(f"task {checkpoint.task.id} will be cancelled as soon as no effect of it is open, unless it ends before")
    return 0


def parse_inputs(properties: Properties, given: tuple[str, ...]) -> Mapping[str, Any]:
    """`key=value` pairs as inputs: text as it is, anything else as JSON; UsageError names what is wrong."""
    found: dict[str, Any] = {}
    for pair in given:
        name, mark, text = pair.partition("=")
        if not mark:
            raise UsageError(f"`-i {pair}` is not KEY=VALUE", hint=f"write -i {next(iter(properties), 'name')}=…")
        if name not in properties:
            raise UsageError(f"there is no input `{name}`", hint=did_you_mean(name, properties))
        if name in found:
            raise UsageError(f"the input `{name}` is given twice", hint="give it once")
        found[name] = text if properties[name].kind == "string" else _json(name, text, properties[name].kind)
    return found


def _json(name: str, text: str, kind: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(
            f"the input `{name}` is {a_kind(kind)}, and `{text}` is none", hint="write it as JSON"
        ) from None
