"""Every reachable configuration of every shipped machine, and of small ones with regions: what was saved is what is restored."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from nested.test_regions import NESTED, TOOLS, TWO

from statemachine_agent import Catalogue, Identity, Reach, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.chart.chart import Availability, Chart, is_end
from statemachine_agent.chart.compile import CompiledMachine, compile_machine
from statemachine_agent.chart.configuration import Leaves
from statemachine_agent.loop.draft import Draft
from statemachine_agent.records import Checkpoint
from support.refund import catalogue as everything
from support.world import catalogue

NOW = "2026-11-30T12:00:00Z"
INPUTS = {"string": "8472", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def catalogues() -> Iterator[tuple[str, Catalogue]]:
    shipped = everything()
    yield from ((name, shipped) for name in shipped.machines)
    yield "tiny", catalogue(TWO, *TOOLS)
    yield "tiny", catalogue(NESTED, *TOOLS)


CASES = list(catalogues())
URLS = ("PAYMENTS_URL", "REFUNDS_URL", "POLICY_URL", "NOTIFICATIONS_URL")
REACH = Reach(dict.fromkeys(URLS, "http://127.0.0.1:1"), python_packages=frozenset({"nowhere"}))


def reachable(chart: Chart) -> list[Leaves]:
    """Every configuration that some answers of the guards lead to."""
    found, waiting = {chart.initial}, [chart.initial]
    while waiting:
        leaves = waiting.pop()
        for event in sorted({t.event for t in chart.transitions if chart.accepts(leaves, t.event)}):
            guards = sorted({g for row in chart.rows(leaves, event) for g in row.guards})
            for answers in itertools.product([True, False], repeat=len(guards)):
                after = chart.fire(leaves, event, dict(zip(guards, answers, strict=True)).__getitem__).after
                if after not in found:
                    found.add(after)
                    waiting.append(after)
    return sorted(found)


def offered(machine: CompiledMachine, leaves: Leaves) -> list[list[Availability]]:
    """The allow-list of each state that chooses, under every answer to a few questions about the guards."""
    calls = machine.call_guards.__contains__
    asks = (lambda _: True, lambda _: False, lambda name: len(name) % 2 == 0)
    return [
        machine.chart.available(leaves, ask, calls, state) for ask in asks for state in machine.choosing(leaves)
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "known"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)])
def test_save_restore_save_gives_the_same_bytes_and_the_same_tools(name: str, known: Catalogue, tmp_path: Path) -> None:
    machine = compile_machine(known, name)
    environment = SimulatedEnvironment()
    who = Identity("cust-3391" if known.people and "cust-3391" in known.people.people else "ann", "asserted")
    inputs = {n: NOW if p.format else INPUTS[p.kind] for n, p in machine.definition.input.items()}

    async def main() -> list[Leaves]:
        configurations = reachable(machine.chart)
        with SqliteStore(tmp_path / "tasks.db", environment) as store:
            runtime = Runtime(known, store, ScriptedModel.of(), environment=environment, reach=REACH)
            for leaves in configurations:
                started = await runtime.start(name, inputs, who)
                async with runtime._leased(started.task.id) as (context, checkpoint):

                    async def save(checkpoint: Checkpoint, leaves: Leaves = leaves) -> tuple[bytes, Checkpoint]:
                        draft = Draft(context, checkpoint, "test")
                        draft.set_head(configuration=leaves)
                        transaction, _ = draft.finish()
                        await store.commit(transaction, context.lease)
                        return stored(checkpoint.task.no), await store.load(checkpoint.task.id)

                    before, restored = await save(checkpoint)
                    assert restored.head.configuration == leaves
                    again, _ = await save(restored, restored.head.configuration)
                    assert before == again
                if not is_end(leaves):
                    assert offered(machine, restored.head.configuration) == offered(machine, leaves)
        return configurations

    def stored(task_no: int) -> bytes:
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
            row = connection.execute("SELECT configuration FROM task WHERE no = ?", (task_no,)).fetchone()
        return str(row[0]).encode()

    found = environment.run(main())
    states = {leaf for leaves in found for leaf in leaves}
    written = {n for n, s in machine.definition.all_states.items() if s.kind != "states"}
    routes = {n for n, s in machine.definition.all_states.items() if s.kind == "route"}
    assert written <= states | routes, "every state is reached"
