"""Every (state, tool) pair of every shipped machine: illegal, hidden or offered, and what a proposal of it does.

Generated from the compiled machines, so a new state or tool is tried without a line here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment, SqliteStore
from statemachine_agent.chart.chart import Standing
from statemachine_agent.chart.compile import CompiledMachine, compile_machine
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.roster import Roster
from statemachine_agent.definition.states import ChooseState
from statemachine_agent.errors import IllegalTransitionError
from statemachine_agent.loop.context import Context, Stopwatch
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import Proposal
from statemachine_agent.loop.validate import validate
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Reply, Spent
from statemachine_agent.records import Checkpoint, Evidence, Head, Status, Task
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.toolbox import Toolbox
from support.refund import catalogue as known


def shipped() -> list[CompiledMachine]:
    catalogue = known()
    assert not catalogue.report.errors, str(catalogue.report)
    return [compile_machine(catalogue, name) for name in catalogue.machines]


#: `request_approval` is another way to propose a tool; it has tests of its own
_CONTROLS = [c for c in CONTROLS if c != "request_approval"]


def plain(machine: CompiledMachine) -> list[str]:
    """The states that hold no others."""
    return [name for name, state in machine.definition.all_states.items() if state.kind != "states"]


def pairs() -> Iterator[Any]:
    for machine in shipped():
        for state, tool in itertools.product(plain(machine), [*machine.tools, *_CONTROLS]):
            yield pytest.param(machine, state, tool, id=f"{machine.name}-{state}-{tool}")


def example(schema: Any) -> Any:
    """Some value of a property."""
    if schema.enum:
        return schema.enum[0]
    match schema.kind:
        case "integer" | "number":
            return schema.minimum or 1
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {name: example(p) for name, p in (schema.properties or {}).items()}
        case _:
            patterns = {"^[0-9]+$": "8472", "^pay_[a-z0-9]+$": "pay_5a2"}
            return patterns.get(schema.pattern, "2026-10-20T09:14:02Z" if schema.format else "x1")


def stand(machine: CompiledMachine, state: str, folder: Path) -> tuple[Context, Checkpoint, SqliteStore]:
    """A task of the machine that stands in `state`, with some evidence of every tool."""
    environment = SimulatedEnvironment()
    store = SqliteStore(folder / "tasks.db", environment)
    catalogue = known()
    toolbox = Toolbox(Reach(), environment)
    roster = Roster(catalogue.people)
    context = Context(machine, roster, roster.now(), environment, toolbox, store, Stopwatch(environment))
    inputs = {name: example(p) for name, p in machine.definition.input.items()}
    actor = {"id": "cust-3391", "tenant": "shop", "roles": [], "scopes": ["orders:read"], "established": "test"}
    task = Task(1, "t", "t", machine.name, 1, machine.hash, actor, inputs, "", environment.now())
    evidence = tuple(
        Evidence(
            f"ev-{n}", name, "step", "", "r", 1, "s", environment.now(), "system",
            {k: example(p) for k, p in manifest.returns.items()}, str(n), {},
        )
        for n, (name, manifest) in enumerate(machine.tools.items())
    )  # fmt: skip
    leaves = machine.chart.tree.around(state)
    choosing = machine.choosing(leaves)
    turn = choosing.index(state) if state in choosing else 0
    return context, Checkpoint(task, Head(0, Status.RUNNING, leaves, turn), evidence), store


@pytest.mark.parametrize(("machine", "state", "tool"), list(pairs()))
def test_a_proposal_of_every_pair(machine: CompiledMachine, state: str, tool: str, tmp_path: Path) -> None:
    """Illegal: the chart has no transition and the proposal is invalid. Hidden: refused with the row's text. Never more."""
    context, checkpoint, store = stand(machine, state, tmp_path)
    with store:
        definition = machine.state(state)
        named = isinstance(definition, ChooseState) and (tool in definition.choose or tool == "cannot_continue")
        leaves = checkpoint.head.configuration
        assert any(t.source == state for t in machine.chart.rows(leaves, f"call.{tool}")) == named
        if not machine.chart.accepts(leaves, f"call.{tool}"):
            with pytest.raises(IllegalTransitionError):
                machine.chart.fire(leaves, f"call.{tool}", lambda _guard: True)
        if not isinstance(definition, ChooseState):
            return
        observation = observe(context, checkpoint)
        standing = next((a.standing for a in observation.available if a.tool == tool), Standing.ILLEGAL)
        assert (standing is Standing.ILLEGAL) == (not named)
        reply = Reply(RawReply((RawCall("c1", tool, arguments(machine, definition, tool)),)), Spent(1, 1), "test")
        checked = validate(Proposal(observation, 1, reply))
        if standing is Standing.ILLEGAL:
            assert checked.finding is not None and checked.finding.kind == "invalid"
            assert "Allowed now: " in checked.finding.text
            for offered in observation.offered:
                assert offered in checked.finding.text
        elif standing is Standing.HIDDEN:
            text = next(a.text for a in observation.available if a.tool == tool)
            assert checked.finding is not None and checked.finding.kind == "refused"
            assert text in checked.finding.text


def arguments(machine: CompiledMachine, definition: ChooseState, tool: str) -> dict[str, Any]:
    if tool in CONTROLS:
        return {{"finish": "answer", "ask_user": "question"}.get(tool, "reason"): "x"}
    pinned = definition.choose[tool].pinned if tool in definition.choose else {}
    return {name: example(p) for name, p in machine.tools[tool].args.items() if name not in pinned}
