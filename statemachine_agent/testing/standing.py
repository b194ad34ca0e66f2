"""How a tool stands in a state: a task is put there by hand, and the loop's own phases are asked.

Nothing is run and nothing is stored. Where it matters how a task came there, lead one there with `walk`. It must not know
pytest.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from statemachine_agent.canonical import digest
from statemachine_agent.chart.chart import Standing
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.names import CONTROLS, ENDS
from statemachine_agent.definition.roster import Roster
from statemachine_agent.definition.states import ChooseState
from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import IllegalTransitionError, UsageError
from statemachine_agent.loop.context import Context, Stopwatch
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import CheckedCall, Observation, Proposal
from statemachine_agent.loop.validate import validate
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Reply, Spent
from statemachine_agent.policy.identity import actor_of
from statemachine_agent.records import Checkpoint, Evidence, Head, Status, Task
from statemachine_agent.store.port import Store
from statemachine_agent.testing import record
from statemachine_agent.testing.samples import sample, with_sample
from statemachine_agent.testing.subject import Machine, Subject, as_subject
from statemachine_agent.text import did_you_mean
from statemachine_agent.tools.request import Reach
from statemachine_agent.tools.results import trust_of
from statemachine_agent.tools.toolbox import Toolbox

#: what a model can propose besides tools; `request_approval` is another way to propose one
CHOICES = tuple(c for c in CONTROLS if c != "request_approval")


def assert_illegal(machine: Machine, state: str, tool: str) -> None:
    """`tool` is no transition of `state`: the chart has no event for it, and proposing it is invalid.

    AssertionError where the state names it; UsageError where there is no such state, tool or control choice.
    """
    __tracebackhide__ = True
    subject = as_subject(machine)
    _check_names(subject, state, tool)
    chart = subject.compiled.chart
    if names(subject.compiled, state, tool):
        raise AssertionError(f"{subject.name}: `{tool}` is a transition of {state}; it may be offered there")
    leaves = chart.tree.around(state)
    if not chart.accepts(leaves, f"call.{tool}"):  # a region beside it may name the tool
        with suppress(IllegalTransitionError):
            chart.fire(leaves, f"call.{tool}", lambda _guard: True)
            raise AssertionError(f"{subject.name}: the chart moved on `{tool}` in {state}")
    if isinstance(subject.compiled.state(state), ChooseState):
        finding = proposed(stand(subject, state), tool, arguments_of(subject.compiled, state, tool, {})).finding
        if finding is None or (finding.kind, finding.error_class) != ("invalid", "illegal_tool"):
            raise AssertionError(f"{subject.name}: proposing `{tool}` in {state} was no illegal proposal: {finding}")
    record.of(subject.compiled).illegal.add((state, tool))


def assert_refused(
    machine: Machine,
    state: str,
    tool: str,
    args: Mapping[str, Any] | None = None,
    *,
    text: str | None = None,
    evidence: Mapping[str, Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    actor: str | None = None,
) -> None:
    """A row of `state` refuses `tool` with these arguments, on this evidence; `text` is part of what the model is told.

    `evidence` holds the newest result of each tool by name, and nothing else was found. Arguments and inputs that are not
    given are made up to fit. AssertionError where it is accepted, or invalid.
    """
    __tracebackhide__ = True
    subject = as_subject(machine)
    _check_names(subject, state, tool)
    observation = stand(subject, state, evidence=evidence, inputs=inputs, actor=actor)
    checked = proposed(observation, tool, arguments_of(subject.compiled, state, tool, args or {}))
    _record(state, tool, checked)
    finding = checked.finding
    if finding is None:
        raise AssertionError(f"{subject.name}: {state} accepts `{tool}`; it was to be refused")
    if finding.kind != "refused":
        raise AssertionError(f"{subject.name}: `{tool}` in {state} is {finding.kind}, not refused: {finding.text}")
    if text is not None and text not in finding.text:
        raise AssertionError(f"{subject.name}: the model is told {finding.text!r}, which does not say {text!r}")


def assert_accepted(
    machine: Machine,
    state: str,
    tool: str,
    args: Mapping[str, Any] | None = None,
    *,
    evidence: Mapping[str, Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    actor: str | None = None,
) -> None:
    """`state` accepts `tool` with these arguments, on this evidence; arguments as for `assert_refused`."""
    __tracebackhide__ = True
    subject = as_subject(machine)
    _check_names(subject, state, tool)
    observation = stand(subject, state, evidence=evidence, inputs=inputs, actor=actor)
    checked = proposed(observation, tool, arguments_of(subject.compiled, state, tool, args or {}))
    _record(state, tool, checked)
    if checked.finding is not None:
        raise AssertionError(f"{subject.name}: `{tool}` in {state} is {checked.finding.kind}: {checked.finding.text}")


# ---------------------------------------------------------------- the loop's phases, asked


def stand(
    subject: Subject,
    state: str,
    *,
    evidence: Mapping[str, Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    actor: str | None = None,
) -> Observation:
    """Phase 1 for a task that was put into `state` by hand; GuardError where a guard cannot say what is offered."""
    machine, clock = subject.compiled, SimulatedEnvironment()
    roster = Roster(subject.people)
    no_store = cast("Store", None)  # the first phases ask for none
    context = Context(
        machine, roster, roster.now(), clock, Toolbox(Reach(), clock), no_store, Stopwatch(clock)
    )  # fmt: skip
    who = actor_of(roster.now(), subject.identity(actor))
    filled = with_sample(machine.definition.input, inputs or {})
    task = Task(1, "t", "t", machine.name, machine.definition.version, machine.hash, who, filled, "", clock.now())
    found = tuple(
        _evidence(machine, number, tool, result, clock)
        for number, (tool, result) in enumerate((evidence or {}).items(), 1)
    )
    leaves = machine.chart.tree.around(state)
    choosing = machine.choosing(leaves)
    turn = choosing.index(state) if state in choosing else 0  # those that choose take turns
    head = Head(0, Status.RUNNING, leaves, steps=turn, visits={state: 1}, evidence_count=len(found))
    return observe(context, Checkpoint(task, head, found))


def names(machine: CompiledMachine, state: str, tool: str) -> bool:
    """True where `state` (or a state that holds it) has a transition for `tool`, whatever its guards say."""
    line = machine.chart.tree.line(state)
    return any(t.event == f"call.{tool}" and t.source in line for t in machine.chart.transitions)


def _evidence(
    machine: CompiledMachine, number: int, tool: str, result: Mapping[str, Any], clock: SimulatedEnvironment
) -> Evidence:
    if tool not in machine.tools:
        raise UsageError(f"`{machine.name}` uses no tool `{tool}`", hint=did_you_mean(tool, machine.tools))
    manifest = machine.tools[tool]
    payload = with_sample(manifest.returns, result)
    return Evidence(
        f"ev-{number}", tool, "step", "", f"req-{number}", 1, manifest.source, clock.now(), trust_of(manifest),
        payload, digest(payload), sample(manifest.args),
    )  # fmt: skip


def proposed(observation: Observation, tool: str, args: Mapping[str, Any]) -> CheckedCall:
    """Phase 4 for a proposal of `tool`."""
    reply = Reply(RawReply((RawCall("call-1", tool, args),)), Spent(1, 1), "test")
    return validate(Proposal(observation, 1, reply))


def standing_of(observation: Observation, tool: str) -> tuple[Standing, str]:
    """How `tool` stands, with the row's text where it is hidden."""
    return next(((a.standing, a.text) for a in observation.available if a.tool == tool), (Standing.ILLEGAL, ""))


def arguments_of(machine: CompiledMachine, state: str, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given`, and made-up values for what the model must send and is not given."""
    if tool in CONTROLS:
        name = {"finish": "answer", "ask_user": "question"}.get(tool, "reason")
        return {name: "because", **given}
    definition = machine.state(state)
    if tool not in machine.tools:
        return dict(given)
    choice = definition.choose.get(tool) if isinstance(definition, ChooseState) else None
    pinned = choice.pinned if choice is not None else {}
    return with_sample({n: p for n, p in machine.tools[tool].args.items() if n not in pinned}, given)


def _check_names(subject: Subject, state: str, tool: str) -> None:
    """UsageError for a name that is in no file: a claim about it would always hold."""
    states = [*subject.compiled.definition.all_states, *ENDS]
    if state not in states:
        raise UsageError(f"`{subject.name}` has no state `{state}`", hint=did_you_mean(state, states))
    tools = [*subject.catalogue.tools, *CONTROLS]
    if tool not in tools:
        raise UsageError(f"there is no tool `{tool}`", hint=did_you_mean(tool, tools))


def _record(state: str, tool: str, checked: CheckedCall) -> None:
    observation = checked.proposal.observation
    machine = observation.context.machine
    found = record.of(machine)
    found.states.add(state)
    record.offered(observation.context, observation.checkpoint)
    if checked.move is not None:
        found.rows |= {t.index for t in checked.move.taken}
        found.guards |= set(checked.move.asked.items())
    elif checked.finding is not None:
        found.rows |= set(record.refusing_rows(machine, state, tool, checked.finding.text))
