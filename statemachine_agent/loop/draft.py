"""A transaction in the making: the chart's moves, what they open and close, and the rows that will say so.

It has the lifetime of one commit: begin with a checkpoint, move, end with a Transaction and the checkpoint that it makes.
Guards see evidence and effects as they will be after the commit. It must not call tools, models or the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from statemachine_agent.chart.chart import Macrostep
from statemachine_agent.chart.transitions import WORKING
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.names import ENDS
from statemachine_agent.definition.nesting import done_of
from statemachine_agent.definition.states import ApprovalState, RouteState, Wait, WaitState, named_in
from statemachine_agent.errors import GuardError, IllegalTransitionError
from statemachine_agent.guards.evaluate import scoped, value
from statemachine_agent.ids import new_id
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.view import answers, data_of, ruling_on_proposal
from statemachine_agent.policy import approvals
from statemachine_agent.policy.action import Action
from statemachine_agent.policy.ruling import Deny, RequireApproval, united
from statemachine_agent.records import (
    Approval,
    ApprovalRow,
    ApprovalStatus,
    Checkpoint,
    Effect,
    EffectRow,
    EffectStatus,
    Evidence,
    EvidenceRow,
    Head,
    Row,
    Status,
    Timer,
    Transaction,
    TransitionRow,
)
from statemachine_agent.text import one_line, shorten

#: an event that follows by itself from entering a state, and its reason
_Followup = tuple[str, str | None]


class Draft:
    """What one commit will write."""

    def __init__(self, context: Context, checkpoint: Checkpoint, cause: str) -> None:
        """Begin from `checkpoint`; `cause` says what led to the commit."""
        self.context = context
        self.checkpoint = checkpoint
        self.rows: list[Row] = []
        self._cause = cause
        #: what a person should read if the task ends here
        self.detail: str | None = None
        self._base = checkpoint
        self._now: datetime = context.environment.now()

    # ------------------------------------------------------------ head and records

    @property
    def head(self) -> Head:
        """The head as it stands in this draft."""
        return self.checkpoint.head

    def set_head(self, **changes: Any) -> None:
        """Change fields of the head."""
        self.checkpoint = replace(self.checkpoint, head=replace(self.head, **changes))

    def tell(self, state: str, text: str | None, **more: Any) -> None:
        """What the model that decides in `state` is told next; models of other regions keep what they were told."""
        nesting = self.context.machine.definition.nesting
        active = {nesting.region(leaf) or "" for leaf in self.head.configuration}
        others = {region: told for region, told in (self.head.observation or {}).items() if region in active}
        others.pop(nesting.region(state) or "", None)
        own = {nesting.region(state) or "": {"text": one_line(text, 2000), **more}} if text else {}
        self.set_head(observation={**others, **own} or None)

    def spend(self, *, input_tokens: int = 0, output_tokens: int = 0, cost: Any = 0, tool_calls: int = 0) -> None:
        """Add to the usage; what is negative or no number adds nothing."""
        usage = self.head.usage
        cost = Decimal(cost)
        self.set_head(
            usage=replace(
                usage,
                input_tokens=usage.input_tokens + max(0, input_tokens),
                output_tokens=usage.output_tokens + max(0, output_tokens),
                cost_usd=usage.cost_usd + (cost if cost.is_finite() and cost > 0 else 0),
                tool_calls=usage.tool_calls + max(0, tool_calls),
            )
        )

    def count_call(self, tool: str) -> None:
        """One more call of `tool`."""
        self.set_head(calls={**self.head.calls, tool: self.head.calls.get(tool, 0) + 1})
        self.spend(tool_calls=1)

    def add_evidence(self, **fields: Any) -> Evidence:
        """Record a result; it gets the next name."""
        number = self.head.evidence_count + 1
        found = Evidence(name=f"ev-{number}", **fields)
        self.set_head(evidence_count=number)
        self.checkpoint = replace(self.checkpoint, evidence=(*self.checkpoint.evidence, found))
        self.rows.append(EvidenceRow(found))
        return found

    def put_effect(self, effect: Effect, *, by: str | None = None) -> None:
        """Write how an effect stands, and that it came there."""
        effect = replace(effect, at=self._now)
        others = [e for e in self.checkpoint.effects if e.key != effect.key]
        effects = sorted([*others, effect], key=lambda e: e.proposed_in)
        self.checkpoint = replace(self.checkpoint, effects=tuple(effects))
        self.rows.append(
            EffectRow(effect.key, effect.tool, effect.status, effect.attempt, effect.action_hash, effect.reason, by)
        )

    def move_effect(self, key: str, status: EffectStatus, reason: str | None = None, by: str | None = None) -> None:
        """An effect comes to `status`; nothing happens where there is none, and what happened stays so, whatever follows."""
        effect = self.checkpoint.effect(key)
        if effect is not None and not effect.status.is_done:
            self.put_effect(replace(effect, status=status, reason=reason), by=by)

    def put_approval(self, approval: Approval, event: str, **who: Any) -> None:
        """Write how a request stands, and what happened to it."""
        others = tuple(a for a in self.checkpoint.approvals if a.state != approval.state)
        self.checkpoint = replace(self.checkpoint, approvals=(*others, approval))
        self.rows.append(ApprovalRow(approval.id, event, **who))

    # ------------------------------------------------------------ moves

    def ask(self, event: str) -> Macrostep:
        """What the chart would do on `event`; nothing changes."""
        return self.context.machine.chart.fire(self.head.configuration, event, answers(self.context, self.checkpoint))

    def fire(self, event: str, *, reason: str | None = None) -> Macrostep:
        """Send `event` and do what follows from it."""
        step = self.ask(event)
        self.apply(step, reason)
        return step

    def fire_outcome(self, event: str, *, reason: str | None = None) -> None:
        """Send an outcome that has been recorded."""
        self.surely(lambda: self.fire(event, reason=reason))

    def surely(self, move: Callable[[], object]) -> None:
        """Do `move`; where it errs the task ends at once, and what was recorded before stays.

        At once also while an effect is open: the same guard would err again at every state that could settle it.
        """
        before = self.checkpoint, list(self.rows)
        try:
            move()
        except (GuardError, IllegalTransitionError) as problem:
            self.checkpoint, self.rows = before
            self.leave("exit.guard_error", "guard_error", detail=problem.message, at_once=True)

    def leave(self, event: str, reason: str, *, detail: str | None = None, at_once: bool = False) -> None:
        """Take a universal exit; while an effect is open it is remembered, and taken at the next state without one."""
        if self.checkpoint.open_effects and not at_once:
            if self.head.pending_exit is None:
                self.set_head(pending_exit={"event": event, "reason": reason, "detail": detail})
            return
        after_effect = any(e.status.is_done for e in self.checkpoint.effects)
        if event == "exit.cancel" and after_effect:
            reason = "cancelled_after_effect"
        self.detail = detail
        self.set_head(pending_exit=None)
        self.fire(event, reason=reason)

    def apply(self, step: Macrostep, reason: str | None = None) -> None:
        """Take a move over, and the moves that follow by themselves from the states that it enters."""
        self._settle(self._taken(step, reason))

    def _settle(self, followups: Iterable[_Followup]) -> None:
        waiting = deque(followups)
        while waiting:
            event, reason = waiting.popleft()
            waiting.extend(self._taken(self.ask(event), reason))
        self._set_status()

    def _taken(self, step: Macrostep, reason: str | None) -> list[_Followup]:
        """One move's rows and configuration, what leaving and entering states does, and what is to follow."""
        for taken in step.taken:
            self.rows.append(
                TransitionRow(step.event, taken.source, taken.target, taken.index, step.asked, taken.reason or reason)
            )
            if taken.confirms:
                effect = self.checkpoint.newest_effect(taken.confirms)
                if effect is not None and effect.status is EffectStatus.EXECUTED:
                    self.put_effect(replace(effect, status=EffectStatus.VERIFIED))
        self.set_head(configuration=step.after)
        for state in step.before:
            if state not in step.after or state in step.entered:
                self._left(state, step.event)
        if any(t.reason == "not_verified" and t.implied for t in step.taken):
            self.detail = _unverified(self.context.machine.definition, step.asked)
        written = next((t.reason for t in step.taken if t.reason), None)
        why = written or reason or self._outcome_name(step.event)
        return [
            one
            for state in step.entered
            for one in self._entered(state, (written or "completed") if state == "SUCCEEDED" else why)
        ]

    @staticmethod
    def _outcome_name(event: str) -> str:
        """The reason that an event gives by itself: the outcome's name, or that of a control choice."""
        first, _, second = event.partition(".")
        return second if first == "call" else first

    def begin(self) -> None:
        """Enter the machine's first state."""
        chart = self.context.machine.chart
        self.set_head(configuration=chart.initial)
        first = [s for s in chart.tree.full(chart.initial) if s != WORKING]
        self.surely(lambda: self._settle(one for state in first for one in self._entered(state, "start")))

    def stand(self) -> None:
        """Ask people and wait anew in the states in which it stands, as when they were entered."""
        self.surely(lambda: self._settle(one for s in self.head.configuration for one in self._opened(s, "fork")))

    def _left(self, state: str, event: str) -> None:
        timers = tuple(t for t in self.checkpoint.timers if t.state != state)
        self.checkpoint = replace(self.checkpoint, timers=timers)
        for approval in self.checkpoint.approvals:
            if approval.state == state and approval.status is ApprovalStatus.OPEN:
                expired = event.startswith("expired.")
                status = ApprovalStatus.EXPIRED if expired else ApprovalStatus.VOID
                self.put_approval(replace(approval, status=status), str(status))
        if not isinstance(self.context.machine.state(state), ApprovalState):
            return
        if event.startswith("rejected."):
            self.drop_proposal(EffectStatus.REJECTED, "rejected")
        elif event.startswith(("expired.", "exhausted.")):
            self.drop_proposal(EffectStatus.ABANDONED, event.partition(".")[0])

    def _entered(self, state: str, reason: str) -> list[_Followup]:
        if state in ENDS:
            self._ended(state, reason)
            return []
        if self.context.machine.state(state) is None:
            return self._done(state)
        self.set_head(visits={**self.head.visits, state: self.head.visits.get(state, 0) + 1})
        return self._opened(state, reason)

    def _opened(self, state: str, reason: str) -> list[_Followup]:
        """What a state of its kind begins with, and what is to follow."""
        match definition := self.context.machine.state(state):
            case RouteState():
                denied = self._denied()
                self._left_machine(state, denied or reason)
                return [(f"routed.{state}", denied or reason)]
            case ApprovalState():
                denied, most = self._denied(), definition.approval.at_most
                if denied is not None:
                    return [("exit.denied", denied)]
                if most is not None and self.head.visits[state] > most:
                    return [(f"exhausted.{definition.approval.of}", None)]
                self._request(state, definition)
            case WaitState():
                return self._wait(state, definition)
            case _:
                pass
        return []

    def _left_machine(self, branch: str, reason: str) -> None:
        """Where `branch` is an end of a machine within this one, what was proposed in it waits no more."""
        definition = self.context.machine.definition
        scope, proposal = definition.scope(branch), self.head.proposal
        if scope is None or proposal is None or branch not in definition.inlined[scope].ends.values():
            return
        if scope in definition.nesting.above(proposal["state"]):
            self.drop_proposal(EffectStatus.ABANDONED, reason)

    def _done(self, state: str) -> list[_Followup]:
        """A holder of states came to its end; of regions, the last one that did lets the others' holder be done too."""
        nesting = self.context.machine.definition.nesting
        (holder,) = (name for name in nesting.states if done_of(name) == state)
        if nesting.is_region(holder):
            regions = (holder, *nesting.siblings(holder))
            if not all(done_of(region) in self.head.configuration for region in regions):
                return []
            holder = nesting.parents[holder]
        return [(f"done.{holder}", "done")]

    def _ended(self, end: str, reason: str) -> None:
        self.drop_proposal(EffectStatus.ABANDONED, reason)
        for effect in self.checkpoint.effects:
            if effect.status.is_pending:
                self.move_effect(effect.key, EffectStatus.ABANDONED, reason)
        for approval in self.checkpoint.approvals:
            if approval.status in (ApprovalStatus.OPEN, ApprovalStatus.APPROVED):
                self.put_approval(replace(approval, status=ApprovalStatus.VOID), "void", reason=reason)
        self.checkpoint = replace(self.checkpoint, timers=())
        self.set_head(reason=reason)
        if self.detail and end != "SUCCEEDED":
            self.set_head(output=one_line(self.detail, 1000))

    def _denied(self) -> str | None:
        """The reason of a denial of the pending proposal; a person should read what is missing if the task ends by it."""
        ruling = ruling_on_proposal(self.context, self.checkpoint)
        if not isinstance(ruling, Deny):
            return None
        self.detail = ruling.detail
        return ruling.reason

    def _request(self, state: str, definition: ApprovalState) -> None:
        """Ask people about the pending proposal: the roles of the rules and of the state are united."""
        proposal = self.head.proposal
        if proposal is None or proposal["tool"] != definition.approval.of:
            raise GuardError(state, f"there is no proposal of `{definition.approval.of}` to approve")
        ruling = ruling_on_proposal(self.context, self.checkpoint)
        rules = ruling if isinstance(ruling, RequireApproval) else RequireApproval((), ())
        roles = united([rules.by, definition.approval.by or ()])
        action = action_of_proposal(proposal)
        shown = {
            "tool": action.tool,
            "version": action.version,
            "args": action.args,
            "key": action.key,
            "because": list(rules.because),
            "evidence": [
                {"id": e.name, "tool": e.tool, "source": e.source, "at": e.at.isoformat(), "trust": e.trust}
                for e in self.checkpoint.known
            ],
        }
        lasts: timedelta = definition.approval.expires
        approval_id = f"apr-{new_id(self.context.environment)}"
        approval = approvals.request(approval_id, state, action, roles, shown, self._now, lasts)
        self.put_approval(approval, "requested")
        self._set_timer(Timer(state, f"expired.{definition.approval.of}", self._now + lasts))

    def _wait(self, state: str, definition: WaitState) -> list[_Followup]:
        wait = definition.wait
        if wait.at_most is not None and self.head.visits[state] > wait.at_most:
            return [(f"exhausted.{state}", None)]
        until = self._until(state, wait)
        if until <= self._now:
            return [(f"elapsed.{state}", None)]
        event = "elapsed" if wait.signal is None else "expired"
        self._set_timer(Timer(state, f"{event}.{state}", until))
        return []

    def _until(self, state: str, wait: Wait) -> datetime:
        """When the wait is over, whatever comes."""
        if wait.until is None:
            lasts = wait.duration or wait.expires
            assert lasts is not None  # noqa: S101  a wait has one of the three
            return self._now + lasts
        machine = self.context.machine.definition
        seen = scoped(machine, machine.scope(state), data_of(self.context, self.checkpoint))
        found = value(f"{state}.wait.until", wait.until, seen)
        if not isinstance(found, datetime):
            raise GuardError(f"{state}.wait.until", f"gave {type(found).__name__}, not a time")
        return found.astimezone(UTC)

    def _set_timer(self, timer: Timer) -> None:
        others = tuple(t for t in self.checkpoint.timers if t.state != timer.state)
        self.checkpoint = replace(self.checkpoint, timers=(*others, timer))

    def _set_status(self) -> None:
        """The status follows from the configuration."""
        leaves = self.head.configuration
        states = (self.context.machine.state(s) for s in leaves)
        kinds = {type(state) for state in states if state is not None}
        if len(leaves) == 1 and leaves[0] in ENDS:
            self.set_head(status=Status(leaves[0]))
        elif kinds <= {ApprovalState, WaitState}:
            self.set_head(status=Status.AWAITING_APPROVAL if ApprovalState in kinds else Status.WAITING)
        else:
            self.set_head(status=Status.RUNNING)

    # ------------------------------------------------------------ the proposal

    def accept_proposal(self, action: Action, *, state: str, row: int, raised: bool, step: int, call_id: str) -> None:
        """An accepted write becomes the task's proposal; one that waited before is given up."""
        self.drop_proposal(EffectStatus.ABANDONED, "replaced")
        self.set_head(
            proposal={
                "tool": action.tool,
                "version": action.version,
                "args": action.args,
                "key": action.key,
                "policy_version": action.policy_version,
                "action_hash": action.hash,
                "state": state,
                "row": row,
                "raised": raised,
                "step": step,
                "call_id": call_id,
            }
        )
        known = self.checkpoint.effect(action.key)
        if known is None or not (known.status.is_open or known.status.is_done):
            proposed = effect_of(action, self._base.head.version + 1)
            self.put_effect(replace(proposed, attempt=known.attempt if known else 0))

    def drop_proposal(self, status: EffectStatus, reason: str) -> None:
        """The proposal waits no more; its effect, if it was not sent, ends as `status`."""
        proposal = self.head.proposal
        if proposal is None:
            return
        effect = self.checkpoint.effect(proposal["key"])
        if effect is not None and effect.status.is_pending:
            self.move_effect(effect.key, status, reason)
        self.set_head(proposal=None)

    def no_longer_waits(self, key: str) -> None:
        """What was proposed under `key` is done or refused; a proposal of another region waits on."""
        if self.head.proposal is not None and self.head.proposal["key"] == key:
            self.set_head(proposal=None)

    # ------------------------------------------------------------ the end

    def finish(self) -> tuple[Transaction, Checkpoint]:
        """The transaction, and the checkpoint that it makes."""
        usage = replace(self.head.usage, active_ms=self.head.usage.active_ms + self.context.watch.lap_ms())
        version = self._base.head.version + 1
        self.set_head(version=version, usage=usage)
        before = {t.state: t for t in self._base.timers}
        after = {t.state: t for t in self.checkpoint.timers}
        timers: dict[str, Timer | None] = {s: t for s, t in after.items() if before.get(s) != t}
        timers |= dict.fromkeys(s for s in before if s not in after)
        transaction = Transaction(
            task_no=self._base.task.no,
            expected_version=self._base.head.version,
            cause=self._cause,
            head=self.head,
            rows=tuple(self.rows),
            effects=tuple(e for e in self.checkpoint.effects if e not in self._base.effects),
            approvals=tuple(a for a in self.checkpoint.approvals if a not in self._base.approvals),
            timers=timers,
            at=self._now,
        )
        return transaction, self.checkpoint


def _unverified(machine: MachineDefinition, asked: Mapping[str, bool]) -> str:
    """Which guard of `success` did not hold, of the machine or of one that stands in it; else an effect is open."""
    names = [*machine.success]
    for held, state in machine.inlined.items():
        names += [named_in(held.lower(), name) for name in state.of.success]
    for name in names:
        if asked.get(name) is False:
            guard = machine.guards[name]
            parts = ", ".join(f"`{part}`" for part in written_out(machine, [name]))
            text = guard if isinstance(guard, str) else f"one of {parts} is"
            return f"`success` does not hold: `{name}` is false: {shorten(text, 300)}"
    return "`success` holds, and an effect is still open"


def action_of_proposal(proposal: Mapping[str, Any]) -> Action:
    """The action that a stored proposal stands for; its hash is computed anew, never read."""
    return Action(proposal["tool"], proposal["version"], proposal["args"], proposal["key"], proposal["policy_version"])


def effect_of(action: Action, version: int) -> Effect:
    """The effect of an action, proposed in that version."""
    return Effect(action.key, action.tool, EffectStatus.PROPOSED, action.hash, action.args, version)
