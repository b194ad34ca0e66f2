"""The end of a step on values alone: what counts as the same again, what as new, and which exit is taken when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from unit.loop.making import TWO, drafted, effect, having, standing

from statemachine_agent.chart.chart import Macrostep
from statemachine_agent.definition.machine import Progress
from statemachine_agent.loop.call import Call, Finding
from statemachine_agent.loop.draft import Draft
from statemachine_agent.loop.phases import AuthorisedCall, CheckedCall, Observation, Outcome, Planned, Proposal, Record
from statemachine_agent.loop.progress import CORRECTIONS, Seen, observe
from statemachine_agent.loop.terminate import leave_if_due, terminate
from statemachine_agent.models.decision import RawReply, ToolCall, ToolCalls
from statemachine_agent.models.port import Reply, Spent
from statemachine_agent.records import Checkpoint, EffectStatus, Evidence, Status, Transaction, TransitionRow
from statemachine_agent.tools.outcome import Attempt, Failed, Ok, Unknown
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE

NOON = datetime(2026, 10, 28, 12, tzinfo=UTC)
#: nothing but what a test is about; `find` is asked again and again
CALM = swap(
    MACHINE,
    ("initial:", "progress: {repeat: 1000, stall: 1000}\ninitial:"),
    ("look: stay", "look: stay\n      find: stay"),
)
TEXTS = (LOOK, ACT, FIND + "polling: true\n")
GONE, LOST = Failed("timeout", "no answer", retryable=True), Unknown("timeout", "no answer")


class Told:
    """A task whose model decides, step by step."""

    def __init__(self, *leaves: str, machine: str = CALM, texts: tuple[str, ...] = TEXTS, **head: Any) -> None:
        self.context, self.checkpoint = standing(*leaves, machine=machine, texts=texts, **head)
        self.transaction: Transaction | None = None

    def decides(
        self,
        *calls: tuple[str, dict[str, Any], str],
        brought: tuple[Any, ...] = (),
        finding: Finding | None = None,
        event: str = "",
        known: bool | None = None,
        **how: Any,
    ) -> Told:
        """A decision of these calls (tool, arguments, id), and what they brought or why they were not made."""
        observation = Observation(self.context, self.checkpoint, "LOOKING")
        tools, wrong = self.context.machine.tools, how.get("wrong", {})
        move = Macrostep(event, ("LOOKING",), ("LOOKING",), ()) if event else None
        made = tuple(Call(t, a, i, tools.get(t), move, finding=wrong.get(i)) for t, a, i in calls)
        decision = ToolCalls(tuple(ToolCall(i, t, a) for t, a, i in calls)) if not event else None
        reply = Reply(RawReply(), Spent(0, 0), "m") if how.get("reply", True) else None
        checked = CheckedCall(Proposal(observation, 1, reply, how.get("planned")), decision, made)
        attempts = tuple((Attempt(1, "r", NOON, 0, one),) for one in brought)
        draft = Draft(self.context, self.checkpoint, "step")
        if known is not None:
            draft.add_evidence(
                **dict(self._fact(), payload_hash="known" if known else f"new-{draft.head.evidence_count}")
            )
        for change in how.get("changes", ()):
            change(draft)
        outcome = Outcome(AuthorisedCall(checked, made), self.checkpoint, attempts, finding=finding)
        verdict = terminate(Record(outcome, draft))
        self.checkpoint, self.transaction = verdict.checkpoint, verdict.transaction
        return self

    def _fact(self) -> dict[str, Any]:
        fields = Evidence("", "look", "step", "", "r", 1, "things", NOON, "system", {}, "", {})
        return {k: v for k, v in vars(fields).items() if k != "name"}

    @property
    def pairs(self) -> list[int]:
        """How often each pair of calls and results was seen."""
        return list(self.checkpoint.head.progress.get("pairs", {}).values())

    @property
    def ending(self) -> tuple[str, str | None, str | None]:
        head = self.checkpoint.head
        return str(head.status), head.reason, head.output

    @property
    def told(self) -> dict[str, Any] | None:
        return dict(self.checkpoint.head.observation or {}).get("")


def look(thing: str, call_id: str = "c1") -> tuple[str, dict[str, Any], str]:
    return "look", {"thing": thing}, call_id


GOOD, BAD = Ok({"good": True}), Ok({"good": False})


# ---------------------------------------------------------------- the same again


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([look("box"), GOOD], [look("box", "c9"), GOOD], True),
        ([look("box"), GOOD], [look("bag"), GOOD], False),
        ([look("box"), GOOD], [look("box"), BAD], False),
        ([look("box"), GONE], [look("box"), Failed("timeout", "another text")], True),
        ([look("box"), GONE], [look("box"), Failed("closed")], False),
        ([look("box"), GONE], [look("box"), GOOD], False),
        ([look("box"), look("bag", "c2"), GOOD, BAD], [look("bag"), look("box", "c2"), BAD, GOOD], True),
        ([look("box"), look("bag", "c2"), GOOD, BAD], [look("box"), look("bag", "c2"), BAD, GOOD], False),
        ([look("box"), look("bag", "c2"), GOOD, BAD], [look("box"), look("bag", "c2"), GOOD, GONE], False),
        ([look("box"), look("bag", "c2"), GOOD, BAD], [look("box"), look("hat", "c2"), GOOD, BAD], False),
    ],
)  # fmt: skip
def test_what_counts_as_the_same_call_with_the_same_result(one: list[Any], other: list[Any], same: bool) -> None:
    """Whatever its id, and of several whatever their order; the error class of a failure, not its words."""
    here = Told()
    for step in (one, other):
        calls = [c for c in step if isinstance(c, tuple)]
        here.decides(*calls, brought=tuple(c for c in step if not isinstance(c, tuple)))
    assert here.pairs == ([2] if same else [1, 1])


def test_what_was_not_made_is_the_same_by_what_was_wrong() -> None:
    """Of one call the text that was told; of several what was wrong with each."""
    none, other = Finding("invalid", "illegal_tool", "no tool"), Finding("refused", "refused", "look first")
    two = (look("box"), look("bag", "c2"))
    assert Told().decides(look("box"), finding=none).decides(look("box"), finding=none).pairs == [2]
    assert Told().decides(look("box"), finding=none).decides(look("box"), finding=other).pairs == [1, 1]
    several = Told().decides(*two, finding=none, wrong={"c1": none}).decides(*two, finding=other, wrong={"c1": none})
    assert several.pairs == [2]
    assert several.decides(*two, finding=none, wrong={"c2": none}).pairs == [2, 1]
    assert several.decides(*two, finding=none, wrong={"c1": other}).pairs == [2, 1, 1]


def test_what_is_masked_makes_no_difference() -> None:
    """A fingerprint is stored: of what is not it would let somebody try out what it was."""
    here = Told(texts=(LOOK + "redact: [args.thing]\n", ACT, TEXTS[2]))
    two = [(look("box"), look("x", "c2")), (look("bag"), look("y", "c2"))]
    assert here.decides(look("box"), brought=(GOOD,)).decides(look("bag"), brought=(GOOD,)).pairs == [2]
    for calls in two:
        here.decides(*calls, brought=(GOOD, GOOD))
    assert here.pairs == [2, 2]


@pytest.mark.parametrize(
    ("how", "judged"),
    [
        ({}, True),
        ({"event": "call.finish", "finding": Finding("refused", "refused", "not yet")}, False),
        ({"event": "call.ask_user"}, True),
        ({"reply": False}, False),
        ({"planned": Planned("look", {}, "call")}, False),
    ],
    ids=["a call", "an answer that is refused", "a question", "no reply", "a call of the machine"],
)
def test_what_is_judged(how: dict[str, Any], judged: bool) -> None:
    """Only what a model decided, and of that no answer that came too early."""
    here = Told().decides(look("box"), **how)
    assert (here.checkpoint.head.progress != {}) is judged


def test_reads_of_which_repeats_are_expected_are_no_sign() -> None:
    """As long as nothing else stands beside them."""
    find = ("find", {"key": "k"}, "c1")
    assert Told().decides(find, brought=(GOOD,)).checkpoint.head.progress == {}
    assert Told().decides(find, look("box", "c2"), brought=(GOOD, GOOD)).pairs == [1]


# ---------------------------------------------------------------- what is new


def test_what_is_new() -> None:
    """A payload that none had before, an effect that moved, another state; not one more result of the same."""
    here = Told().decides(look("box"), known=True)
    assert here.checkpoint.head.progress["stalled"] == 0
    for count in (1, 2):
        assert here.decides(look("box"), known=True).checkpoint.head.progress["stalled"] == count
    assert here.decides(look("box"), known=False).checkpoint.head.progress["stalled"] == 0
    for change in (
        lambda draft: draft.put_effect(effect(draft)),
        lambda draft: draft.move_effect("act:box:10", EffectStatus.REJECTED),
        lambda draft: draft.set_head(configuration=("ACTING",)),
    ):
        assert here.decides(look("box")).checkpoint.head.progress["stalled"] == 1
        assert here.decides(look("box"), changes=(change,)).checkpoint.head.progress["stalled"] == 0


# ---------------------------------------------------------------- the exits


def test_two_decisions_running_of_which_no_read_was_answered() -> None:
    """What cannot be answered is counted, a refusal for good is not; one answer of several is enough to begin anew."""
    two, no = (look("box"), look("bag", "c2")), Failed("closed", "never")

    def count(*brought: Any, begin: int = 1) -> tuple[int, str]:
        here = Told(progress={"failed_reads": begin}).decides(*two[: len(brought)], brought=brought)
        return here.checkpoint.head.progress["failed_reads"], here.ending[0]

    assert count(GONE, begin=0) == (1, "RUNNING")
    assert count(GONE, no, begin=0) == count(no, GONE, begin=0) == (1, "RUNNING")
    assert count(GONE) == count(GONE, GONE) == (2, "FAILED")
    assert count(no) == count(no, no) == count(GOOD) == count(GONE, GOOD) == count(LOST) == (0, "RUNNING")
    assert count() == (1, "RUNNING")
    told = {"": {"text": "`look` failed"}}
    here = Told(progress={"failed_reads": 1}, observation=told).decides(look("box"), brought=(GONE,))
    assert here.ending == ("FAILED", "dependency_failed", "`look` failed")


def test_a_circle_is_told_once_and_then_it_is_the_end() -> None:
    """Beside what was told anyway; the end says what was told last."""
    machine = swap(MACHINE, ("initial:", "progress: {repeat: 1, stall: 1000}\ninitial:"))
    again = CORRECTIONS["repeated_action"]
    here = Told(machine=machine).decides(look("box"), brought=(GOOD,))
    assert (here.told, here.checkpoint.head.progress["corrected"]) == (None, False)
    here.decides(look("box"), brought=(GOOD,))
    assert (here.told, here.checkpoint.head.progress["corrected"]) == ({"text": again, "flag": "repeated_action"}, True)
    assert here.decides(look("box"), brought=(GOOD,)).ending == ("NO_PROGRESS", "repeated_action", again)
    told = {"": {"text": "`look` failed"}}
    beside = Told(machine=machine).decides(look("box"), brought=(GONE,))
    beside.checkpoint = replace(beside.checkpoint, head=replace(beside.checkpoint.head, observation=told, progress={
        **beside.checkpoint.head.progress, "failed_reads": -5,
    }))  # fmt: skip
    beside.decides(look("box"), brought=(GONE,))
    assert beside.told == {"text": f"`look` failed And: {again}", "flag": "repeated_action"}


def test_of_two_models_the_one_that_goes_in_circles_is_told() -> None:
    """Beside what it was told itself; the other one keeps what it was told."""
    machine = swap(TWO, ("initial: BOTH", "progress: {repeat: 1, stall: 1000}\ninitial: BOTH"))
    told = {"LEFT": {"text": "`look` failed"}, "RIGHT": {"text": "refused"}}
    here = Told("LOOKING", "WONDERING", machine=machine, observation=told)
    here.decides(look("box"), brought=(BAD,)).decides(look("box"), brought=(BAD,))
    again = {"text": f"`look` failed And: {CORRECTIONS['repeated_action']}", "flag": "repeated_action"}
    assert here.checkpoint.head.observation == {"LEFT": again, "RIGHT": {"text": "refused"}}


@pytest.mark.parametrize(
    ("before", "seen", "new", "after"),
    [
        (True, 1, False, True),
        (True, 1, True, False),
        (True, 9, True, True),
        (True, 9, False, True),
        (False, 9, True, False),
    ],
)
def test_a_correction_is_forgotten_once_something_new_comes(before: bool, seen: int, new: bool, after: bool) -> None:
    """Unless it comes with one more round of the circle."""
    memory = {"corrected": before, "pairs": {"a:r": seen - 1}}
    found, flag = observe(Progress(repeat=2, stall=9), memory, Seen("a", "r", new))
    assert (found["corrected"], flag) == (after, "repeated_action" if seen > 2 else None)


def test_where_a_task_is_not_working_nothing_is_said_of_a_circle() -> None:
    """People are asked by then: what is remembered is remembered, and no exit is taken."""
    machine = swap(MACHINE, ("initial:", "progress: {repeat: 1, stall: 1000}\ninitial:"))
    here = Told(machine=machine).decides(look("box"), brought=(GOOD,))
    wait = (lambda draft: draft.set_head(status=Status.AWAITING_APPROVAL, configuration=("ASKING",)),)
    here.decides(look("box"), brought=(GOOD,), changes=wait)
    assert (here.pairs, here.told, here.ending[0]) == ([2], None, "AWAITING_APPROVAL")


OPEN, SENT = EffectStatus.UNKNOWN, {"event": "exit.budget", "reason": "max_steps", "detail": "all steps are used up"}


def due(state: str, status: EffectStatus | None, head: dict[str, Any]) -> Draft:
    """What is done at the end of a step in that state."""
    draft = drafted(state)
    effects = (effect(draft, status=status),) if status else ()
    draft = having(draft, head=replace(draft.head, **head), effects=effects)
    leave_if_due(draft)
    return draft


@pytest.mark.parametrize(
    ("state", "status", "head", "ended"),
    [
        ("FINDING", None, {}, None),
        ("FINDING", OPEN, {"pending_exit": SENT}, None),
        ("FINDING", None, {"pending_exit": SENT}, "max_steps"),
        ("LOOKING", OPEN, {"pending_exit": SENT}, "max_steps"),
        ("LOOKING", None, {"steps": 6}, "max_steps"),
        ("LOOKING", OPEN, {"steps": 6}, "max_steps"),
        ("FINDING", None, {"steps": 6}, None),
        ("LOOKING", OPEN, {"steps": 5}, None),
        ("ASKING", None, {"pending_exit": SENT, "status": Status.AWAITING_APPROVAL}, None),
    ],
    ids=str,
)
def test_an_exit_that_is_due(state: str, status: EffectStatus | None, head: dict[str, Any], ended: str | None) -> None:
    """It waits for an effect of which nobody knows, but no model decides once it is due."""
    draft = due(state, status, head)
    assert draft.head.reason == ended
    assert [r.event for r in draft.rows if isinstance(r, TransitionRow)] == (["exit.budget"] if ended else [])
    if ended:
        assert (draft.head.status, draft.head.pending_exit) == ("BUDGET_EXHAUSTED", None)
        assert draft.head.output == ("all steps are used up" if "pending_exit" in head else None)
    else:
        assert draft.head.pending_exit == head.get("pending_exit")


def test_time_that_is_used_up_waits_for_an_open_effect() -> None:
    """It is remembered, and taken at the next state without one."""
    draft = drafted("FINDING")
    usage = replace(draft.head.usage, active_ms=60_000)
    draft = having(draft, effects=(effect(draft, status=OPEN),), head=replace(draft.head, usage=usage))
    leave_if_due(draft)
    assert (draft.head.status, draft.rows) == ("RUNNING", [])
    assert draft.head.pending_exit == {"event": "exit.budget", "reason": "deadline", "detail": None}


def test_the_step_is_one_transaction_of_all_that_was_recorded() -> None:
    """From the version that it began with."""
    here = Told().decides(look("box"), known=True)
    found: Checkpoint = here.checkpoint
    assert here.transaction is not None
    assert (here.transaction.expected_version, here.transaction.cause, found.head.version) == (7, "step", 8)
    assert (here.transaction.head, [r.table for r in here.transaction.rows]) == (found.head, ["evidence"])
