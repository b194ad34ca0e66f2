"""A task of a small machine that stands where a test wants it, for tests of one phase: there is no store and no tool."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.chart.compile import CompiledMachine, compile_machine
from statemachine_agent.definition.roster import Roster
from statemachine_agent.loop.context import Context, Event, Stopwatch
from statemachine_agent.loop.draft import Draft
from statemachine_agent.policy.action import Action, action_of
from statemachine_agent.records import (
    Approval,
    ApprovalStatus,
    Checkpoint,
    Effect,
    EffectStatus,
    Head,
    Status,
    Task,
)
from support.world import MACHINE, PEOPLE, catalogue

#: two models side by side: one looks and rests, the other one acts when people say yes
TWO = """
machine: tiny
version: 1
summary: Look from one side, act from the other.
input: {thing: {type: string}}
limits: {steps: 12}
success: []
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT:
        initial: LOOKING
        states:
          LOOKING: {choose: {look: [{goto: RESTING}]}}
          RESTING: {wait: {for: 1h}, then: {elapsed: done}}
      RIGHT:
        initial: WONDERING
        states:
          WONDERING: {choose: {act: ASKING}}
          ASKING:
            approval: {of: act, by: boss, expires: 2h}
            then: {approved: ACTING, rejected: done, expired: done}
          ACTING: {call: act, with: proposal, then: {ok: done, failed: done, blocked: done, unknown: FINDING}}
          FINDING: {reconcile: act, then: {found: done, absent: done, failed: done}}
    then: {done: SUCCEEDED}
"""
ACTOR = {"id": "ann", "tenant": "default", "roles": [], "scopes": ["things:read", "things:write"], "established": "os"}


@lru_cache(maxsize=32)
def compiled(machine: str = MACHINE, *texts: str, held: tuple[str, ...] = ()) -> CompiledMachine:
    found = catalogue(machine, *texts, held=held)
    assert not found.report.errors, str(found.report)
    return compile_machine(found, "tiny")


def standing(
    *leaves: str,
    machine: str = MACHINE,
    texts: tuple[str, ...] = (),
    held: tuple[str, ...] = (),
    heard: list[Event] | None = None,
    **head: Any,
) -> tuple[Context, Checkpoint]:
    """A task in these states; its clock stands, and it is its seventh version."""
    clock, known = SimulatedEnvironment(), compiled(machine, *texts, held=held)
    roster = Roster(PEOPLE)
    nothing = cast("Any", None)
    context = Context(
        known, roster, roster.now(), clock, nothing, nothing, Stopwatch(clock),
        emit=heard.append if heard is not None else lambda _event: None,
    )  # fmt: skip
    task = Task(3, "task-1", "trace-1", "tiny", 1, known.hash, ACTOR, {"thing": "box"}, "", clock.now())
    return context, Checkpoint(task, Head(7, Status.RUNNING, leaves or ("LOOKING",), **head))


def drafted(*leaves: str, **how: Any) -> Draft:
    """The beginning of a commit of such a task."""
    return Draft(*standing(*leaves, **how), "step")


def act(machine: CompiledMachine, amount: int = 10, thing: str = "box") -> Action:
    return action_of(machine, machine.tools["act"], {"thing": thing, "amount": amount})


def effect(draft: Draft, amount: int = 10, status: EffectStatus = EffectStatus.PROPOSED, **more: Any) -> Effect:
    action = act(draft.context.machine, amount)
    return Effect(action.key, "act", status, action.hash, action.args, **more)


def request(draft: Draft, status: ApprovalStatus = ApprovalStatus.OPEN, state: str = "ASKING", **more: Any) -> Approval:
    action = act(draft.context.machine)
    return Approval(
        f"apr-{state}", state, "act", action.hash, action.key, action.policy_version, ("boss",),
        "2026-10-28T12:17:43Z", status, **more,
    )  # fmt: skip


def propose(draft: Draft, amount: int = 10, *, raised: bool = False, state: str = "LOOKING") -> None:
    draft.accept_proposal(act(draft.context.machine, amount), state=state, row=2, raised=raised, step=4, call_id="c1")


def having(draft: Draft, **parts: Any) -> Draft:
    """A draft from a task that has these effects, approvals, timers or evidence."""
    return Draft(draft.context, replace(draft.checkpoint, **parts), "step")
