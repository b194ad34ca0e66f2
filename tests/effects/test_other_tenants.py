"""A key that a task of another tenant holds: nothing is sent, and nothing of that task is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import Identity, Runtime, ScriptedModel, SimulatedEnvironment, SqliteStore
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.people import People
from statemachine_agent.definition.source import Source
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError
from support.world import ACT, ANN, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, Played, act_step

SCOPES = ["things:read", "things:write"]
PEOPLE = People.model_validate(
    {"people": {
        "ann": {"tenant": "north", "scopes": SCOPES},
        "nan": {"tenant": "north", "scopes": SCOPES},
        "kim": {"tenant": "south", "scopes": SCOPES},
        "bob": {"roles": ["boss", "chief"]},
    }}
)  # fmt: skip
NAN, KIM = Identity("nan", "asserted"), Identity("kim", "asserted")
RECEIPT = "receipt-of-the-first"


def both(tmp_path: Path, first: Identity, act: list[Any]) -> tuple[Checkpoint, Checkpoint, str, int]:
    """`first` and then Ann do the same thing: both tasks, all that is told of Ann's, and how often it was sent."""
    environment = SimulatedEnvironment()
    tools = {"look": Played([GOOD]), "act": Played(act), "find": Played([{"items": [{"id": "x"}, {"id": "y"}]}])}

    async def main() -> tuple[Checkpoint, Checkpoint, str, int]:
        sources = [Source(f"{n}.yaml", text) for n, text in enumerate((LOOK, ACT, FIND))]
        catalogue = Catalogue.build([Source("machine.yaml", MACHINE)], sources, PEOPLE)
        with SqliteStore(tmp_path / "tasks.db", environment) as store:
            model = ScriptedModel.of(LOOK_STEP, act_step())
            async with Runtime(catalogue, store, model, environment=environment, bindings=tools) as runtime:
                other = await runtime.run("tiny", {"thing": "box"}, first)
                mine = await runtime.run("tiny", {"thing": "box"}, ANN)
                told = json.dumps([dict(r) for r in await store.history(mine.task.id)], default=str) + repr(mine)
                return other, mine, told, len(tools["act"].calls)

    return environment.run(main())


@pytest.mark.parametrize(
    ("act", "status"),
    [([{"id": RECEIPT}], "executed"), ([LostError("gone", reason="timeout")], "unknown")],
    ids=["done", "open"],
)
def test_a_key_of_another_tenant_is_taken_and_no_more_is_said(tmp_path: Path, act: list[Any], status: str) -> None:
    """Neither receipt, nor task, nor whether it happened."""
    other, mine, told, sent = both(tmp_path, KIM, act)
    assert [e.status for e in other.effects] == [status]
    assert (mine.head.status, mine.head.reason, sent) == ("FAILED", "key_reused", 1)
    assert mine.head.output == "the key `act:box:10` is taken"
    assert RECEIPT not in told and other.task.id not in told and "kim" not in told and "south" not in told


def test_within_a_tenant_the_receipt_answers(tmp_path: Path) -> None:
    """Once is enough: the second task is told what the first one's effect gave, and by which task."""
    other, mine, told, sent = both(tmp_path, NAN, [{"id": RECEIPT}])
    assert (mine.head.status, sent) == ("SUCCEEDED", 1)
    assert [(e.receipt, e.inherited) for e in mine.effects] == [({"id": RECEIPT}, True)]
    assert other.task.id in told
