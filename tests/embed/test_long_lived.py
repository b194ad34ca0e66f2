"""A runtime that lives long in another program: people change, who looks on fails, tasks are cancelled at any moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from statemachine_agent import Catalogue, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.errors import RefusedError, SettingsError
from statemachine_agent.loop.context import Event
from statemachine_agent.records import Checkpoint
from support.world import ACT, ANN, BOB, DONE, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, Played, World, act_step, world

ANN_LINE = "  ann: {scopes: ['things:read', 'things:write']}\n"
PEOPLE = f"people:\n{ANN_LINE}  bob: {{roles: [boss]}}\n  ceo: {{roles: [chief, clerk]}}\n"


class Office:
    """A project in files, and a runtime on it."""

    def __init__(self, folder: Path) -> None:
        self.people = folder / "people.yaml"
        self.people.write_text(PEOPLE)
        (folder / "tiny.yaml").write_text(dedent(MACHINE))
        for name, text in (("look", LOOK), ("act", ACT), ("find", FIND)):
            (folder / f"{name}.tool.yaml").write_text(dedent(text))
        catalogue = Catalogue.read([folder / "tiny.yaml"], sorted(folder.glob("*.tool.yaml")), self.people)
        self.environment = SimulatedEnvironment()
        self.store = SqliteStore(folder / "tasks.db", self.environment)
        self.tools = {"look": Played([GOOD]), "act": Played([DONE]), "find": Played([{"items": []}])}
        model = ScriptedModel.of(LOOK_STEP, act_step(200))
        self.runtime = Runtime(catalogue, self.store, model, environment=self.environment, bindings=self.tools)

    async def asked(self) -> Checkpoint:
        return await self.runtime.run("tiny", {"thing": "box"}, ANN)

    def write(self, text: str) -> None:
        """As an editor does it: a new file takes the place of the old one."""
        new = self.people.with_suffix(".new")
        new.write_text(text)
        new.replace(self.people)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    with made.store:
        yield made


def test_whoever_is_taken_out_of_the_people_file_can_say_yes_no_more(office: Office) -> None:
    async def main() -> None:
        asked = await office.asked()
        office.write(f"people:\n{ANN_LINE}  bob: {{roles: [clerk]}}\n")
        with pytest.raises(RefusedError) as refused:
            await office.runtime.approve(asked.approvals[0].id, BOB)
        assert refused.value.reason == "wrong_role"

    office.environment.run(main())


def test_a_yes_of_somebody_who_has_lost_the_role_since_is_worth_nothing(office: Office) -> None:
    async def main() -> Checkpoint:
        asked = await office.asked()
        await office.runtime.approve(asked.approvals[0].id, BOB)
        office.write(f"people:\n{ANN_LINE}  bob: {{roles: [clerk]}}\n")
        return await office.runtime.resume(asked.task.id)

    end = office.environment.run(main())
    assert end.head.status == "FAILED"
    assert office.tools["act"].calls == []


def test_a_people_file_that_is_broken_or_gone_lets_nobody_through_and_loses_nothing(office: Office) -> None:
    async def main() -> Checkpoint:
        asked = await office.asked()
        for broken in ("people: [", "people:\n  bob: {rolls: [boss]}\n", None):
            office.write(broken) if broken else office.people.unlink()
            with pytest.raises(SettingsError, match="people file"):
                await office.runtime.approve(asked.approvals[0].id, BOB)
            with pytest.raises(SettingsError, match="people file"):
                await office.runtime.resume(asked.task.id)
        office.write(PEOPLE)
        await office.runtime.approve(asked.approvals[0].id, BOB)
        return await office.runtime.resume(asked.task.id)

    assert office.environment.run(main()).head.status == "SUCCEEDED"
    assert len(office.tools["act"].calls) == 1


def test_a_watcher_that_fails_changes_nothing_and_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment, seen = SimulatedEnvironment(), []

    def fails(event: Event) -> None:
        raise BrokenPipeError(event.kind)

    async def main() -> Checkpoint:
        async with world(tmp_path, LOOK_STEP, act_step(), environment=environment) as here:
            here.runtime.watch(fails)
            here.runtime.watch(seen.append)
            return await here.run()

    with caplog.at_level(logging.ERROR):
        assert environment.run(main()).head.status == "SUCCEEDED"
    assert len(seen) == len([r for r in caplog.records if "a watcher failed" in r.message]) > 5


def test_a_cancellation_that_comes_while_the_last_step_before_a_rest_is_taken(tmp_path: Path) -> None:
    """The worker holds the task, so it is the one to carry it out, though it would have come to rest."""
    environment = SimulatedEnvironment()
    held: list[World] = []

    async def look(_: object) -> object:
        (running,) = await held[0].store.tasks()
        after = await held[0].runtime.cancel(running["task"].id if "task" in running else running["id"], ANN)
        assert after.head.status == "RUNNING"
        return {"good": False}

    async def main() -> Checkpoint:
        waits = MACHINE.replace("{when: bad, goto: DENIED, reason: bad_thing}", "{when: bad, goto: RESTING}")
        waits += "  RESTING: {wait: {for: 1h}, then: {elapsed: LOOKING}}\n"
        async with world(tmp_path, LOOK_STEP, environment=environment, machine=waits, look=[look]) as here:
            held.append(here)
            return await here.run()

    end = environment.run(main())
    assert (end.head.status, end.head.reason) == ("CANCELLED", "cancelled")


def test_one_runtime_on_two_event_loops_one_after_the_other(office: Office) -> None:
    """A web server's tests do that; `stop` and waiting belong to no loop."""
    asked = asyncio.run(office.asked())
    asyncio.run(office.runtime.approve(asked.approvals[0].id, BOB))
    end = asyncio.run(office.runtime.resume(asked.task.id))
    assert end.head.status == "SUCCEEDED"


def test_for_a_task_there_is_nobody_but_the_people_of_its_tenant(office: Office) -> None:
    """The role alone does not count: neither a yes nor a no, neither cancelling nor a signal, of another tenant's people."""

    async def main() -> None:
        asked = await office.asked()
        office.write(f"people:\n{ANN_LINE}  bob: {{tenant: rival, roles: [boss], scopes: ['tasks:cancel']}}\n")
        for attempt in (
            office.runtime.approve(asked.approvals[0].id, BOB),
            office.runtime.reject(asked.approvals[0].id, BOB, why="no"),
            office.runtime.cancel(asked.task.id, BOB),
            office.runtime.signal(asked.task.id, "reply", {}, BOB),
        ):
            with pytest.raises(RefusedError) as refused:
                await attempt
            assert refused.value.reason == "unknown_person"

    office.environment.run(main())


def test_who_was_taken_out_of_the_people_file_acts_no_more_not_even_for_their_own_task(office: Office) -> None:
    async def main() -> None:
        asked = await office.asked()
        office.write("people:\n  bob: {roles: [boss]}\n")
        for attempt in (
            office.runtime.cancel(asked.task.id, ANN),
            office.runtime.signal(asked.task.id, "reply", {}, ANN),
        ):
            with pytest.raises(RefusedError) as refused:
                await attempt
            assert refused.value.reason == "unknown_person"

    office.environment.run(main())
