"""`demo`: order 8472 from investigation to message, on the settings in the package, with services started for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from statemachine_agent.cli.again import Again, program
from statemachine_agent.cli.live import Live
from statemachine_agent.cli.options import catalogue_of, reach_of, run_async, stoppable
from statemachine_agent.cli.output import EXIT_CODES, compact, say
from statemachine_agent.cli.rest import show_rest
from statemachine_agent.definition.settings import Project, demo_settings, load_project
from statemachine_agent.environment import Environment
from statemachine_agent.errors import SmaError, UsageError
from statemachine_agent.models.spec import model_of
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Checkpoint, Status
from statemachine_agent.runtime.drive import StoppedError
from statemachine_agent.runtime.runtime import Runtime
from statemachine_agent.store.sqlite import SqliteStore

ORDER = "8472"
MESSAGE = "Order 8472 was charged twice, and my refund has not arrived. Please investigate and resolve it."
CUSTOMER = Identity("cust-3391", "asserted")
LEAD = Identity("lead@example.com", "asserted")


class DemoError(SmaError):
    """The demo did not come to its end."""

    reason = "demo"


@click.command(short_help="The main job, end to end.")
@click.option("--dir", "folder", default=".sma/demo", show_default=True, help="Where database and diagram go.")
@click.option(
    "--model", "spec", metavar="SPEC", help="What decides; else a script. It may end otherwise than the script."
)
@click.option(
    "--chance", "runs", type=click.IntRange(0, 10_000), default=0, help="Then as many runs by chance, to compare."
)
def demo(folder: str, spec: str | None, runs: int) -> int:
    """Run the main job: investigate order 8472, propose, approve, refund once, verify, notify."""
    from statemachine_agent.sandbox import Sandbox

    place = Path(folder)
    _clear(place)
    project = load_project(environ={**os.environ, "SMA_SETTINGS": str(demo_settings())})
    if spec is not None:
        model_of(spec, Environment(), project.settings.models, project.environ)  # before anything is started for it
    who = "a script plays it; nothing is sent to any provider" if spec is None else spec
    say(f"Order 8472 was charged twice. A model proposes each step (here {who});")
    say("code decides what may happen. The services are real: four small programs on this machine.")
    say()
    with Sandbox(place / "sandbox", None) as services:
        say("services  " + ", ".join(f"{n.removesuffix('_URL').lower()} {u}" for n, u in services.urls.items()))
        checkpoint = run_async(_story(project, place, services.urls, spec))
        _show_end(checkpoint, services.urls, place)
    if runs:
        from statemachine_agent.cli.by_chance import compare

        compare(project, place / "chance", runs, spec or "the script", checkpoint)
    return EXIT_CODES[checkpoint.head.status]


def _clear(place: Path) -> None:
    """Begin anew: only files of an earlier demo are removed."""
    from statemachine_agent.sandbox import forget

    try:
        place.mkdir(parents=True, exist_ok=True)
        for file in [*place.glob("tasks.db*"), *place.glob("refund.svg")]:
            file.unlink()
        forget(place / "sandbox")
    except OSError as problem:
        raise UsageError(f"{place} cannot be written to: {problem.strerror}", hint="name a folder with --dir") from None


async def _story(project: Project, place: Path, urls: Mapping[str, str], named: str | None) -> Checkpoint:
    environment = Environment()
    spec = named or project.model_spec(None)
    with SqliteStore(place / "tasks.db", environment) as store:
        waiting = await _investigate(project, store, urls, spec, environment)
        if waiting.head.status is not Status.AWAITING_APPROVAL:
            if named is not None:  # a model may end as it can
                return waiting
            why = f"{waiting.head.status} ({waiting.head.reason})"
            raise DemoError(f"the investigation ended as {why}", hint="see the lines above")
        request = next(a for a in waiting.approvals if str(a.status) == "open")
        db = place / "tasks.db"
        again = Again(program(), "demo", str(db))
        say()
        show_rest(waiting, again)
        say()
        say(
            "No process needs to be alive now. A support lead looks at the action and says yes; the demo does it here, as"
        )
        say(f"$ {again('approve', request.id, '--as', LEAD.id)}", indent=2)
        async with runtime_of(project, store, urls, environment) as runtime:
            await runtime.approve(request.id, LEAD)
        say("would, and a new worker goes on, as with")
        say(f"$ {again('resume', waiting.task.id)}", indent=2)
        say()
        async with runtime_of(project, store, urls, environment) as runtime:
            runtime.watch(Live())
            return await _stopping(runtime, waiting.task.id)


async def _investigate(
    project: Project, store: SqliteStore, urls: Mapping[str, str], spec: str, environment: Environment
) -> Checkpoint:
    async with runtime_of(project, store, urls, environment) as runtime:
        runtime.watch(Live())
        created = await runtime.start("refund", {"order_id": ORDER, "message": MESSAGE}, CUSTOMER, model=spec)
        say(f"task      {created.task.id} of refund for {CUSTOMER.id}")
        say()
        return await _stopping(runtime, created.task.id)


async def _stopping(runtime: Runtime, task: str) -> Checkpoint:
    async with stoppable(runtime):
        try:
            return await runtime.resume(task)
        except StoppedError:
            raise KeyboardInterrupt from None


def runtime_of(project: Project, store: SqliteStore, urls: Mapping[str, str], environment: Environment) -> Runtime:
    """A runtime on the demo's own services."""
    reach = reach_of(project, urls)
    reach = type(reach)(
        reach.variables, reach.hosts, reach.python_packages, urls
    )  # the demo's own services, whatever is set
    return Runtime(
        catalogue_of(project),
        store,
        lambda spec: model_of(spec, environment, project.settings.models, project.environ),
        reach=reach,
        environment=environment,
    )


def _show_end(checkpoint: Checkpoint, urls: Mapping[str, str], place: Path) -> None:
    from statemachine_agent.cli.trail import trail_of
    from statemachine_agent.diagrams import diagram
    from statemachine_agent.sandbox import control

    say()
    db = place / "tasks.db"
    again = Again(program(), "demo", str(db))
    show_rest(checkpoint, again)
    refunds = control.refunds(urls["REFUNDS_URL"], ORDER)
    messages = control.messages(urls["NOTIFICATIONS_URL"], ORDER)
    say(f"the refund service holds {len(refunds)} refund:   {compact(refunds[0], 160) if refunds else 'none'}")
    say(
        f"the customer was sent {len(messages)} message:    {compact(messages[0]['message'], 240) if messages else 'none'}"
    )

    async def trail() -> bytes:
        with SqliteStore(place / "tasks.db", create=False) as store:
            machine, way = await trail_of(store, checkpoint.task.id)
            return diagram(machine, "svg", way)

    (place / "refund.svg").write_bytes(run_async(trail()))
    say(f"database {db}, and what happened, line by line:")
    say(again("trace", checkpoint.task.id), indent=9)
    say(f"diagram  {place / 'refund.svg'}")
