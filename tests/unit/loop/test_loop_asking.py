"""One decision, on values alone: how often a model is asked, what each attempt is booked with, and what a state plans itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from unit.loop.making import act, standing

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.errors import ModelError, UsageError
from statemachine_agent.loop.context import Event, Stopwatch
from statemachine_agent.loop.decide import decide, plan
from statemachine_agent.loop.phases import ModelInput, Observation, Planned, Proposal
from statemachine_agent.models.decision import SCHEMA_VERSION, RawCall, RawReply
from statemachine_agent.models.port import Hear, ModelUnavailableError, Piece, Prompt, Reply, Spent
from statemachine_agent.records import DecisionRow, Effect, EffectStatus, Usage
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE

PATIENT = swap(MACHINE, ("active_time: 60s", "active_time: 600s"))
SECTIONS = (("brief", "Look."), ("rest", None))
LOOKED = RawReply((RawCall("c1", "look", {"thing": "box"}),), "I look.", "end")
#: four characters are a token
PROMPT = Prompt("tiny", "LOOKING", 5, "Look.", (), text="x" * 404, hash="a" * 64)


class Clock(SimulatedEnvironment):
    """Chance is at its upper bound, and what it was asked for is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds: list[tuple[float, float]] = []

    def uniform(self, low: float, high: float) -> float:
        self.bounds.append((low, high))
        return high


class Asked:
    """A model that is asked once or more; each play is raised, waited for (seconds), called or answered."""

    spec = "test:asked"

    def __init__(self, clock: Clock, *plays: Any) -> None:
        self.clock, self.plays, self.at, self.prompts = clock, list(plays), list[float](), list[Prompt]()

    async def decide(self, prompt: Prompt) -> Any:
        self.at.append(self.clock.monotonic())
        self.prompts.append(prompt)
        play = self.plays.pop(0)
        if isinstance(play, (int, float)):
            await self.clock.sleep(play)
            play = self.plays.pop(0)
        if isinstance(play, BaseException):
            raise play
        return play() if callable(play) else play


class Aloud(Asked):
    """The same, and it can be heard: a word before each play."""

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Any:
        hear(Piece("words", "well"))
        found = await self.decide(prompt)
        hear(Piece("words", "late"))
        return found


class Decided:
    """What came of it."""

    def __init__(
        self, *plays: Any, kind: type[Asked] = Asked, heard: bool = False, state: str = "LOOKING", **how: Any
    ) -> None:
        self.events: list[Event] = []
        self.clock = Clock()
        task = {name: how.pop(name) for name in ("machine", "held", "texts", "usage") if name in how}
        context, checkpoint = standing(state, heard=self.events, **{"machine": PATIENT, **task})
        self.model = kind(self.clock, *plays)
        for name, value in how.items():
            setattr(self.model, name, value)
        self.watch = Stopwatch(self.clock)
        context = replace(context, environment=self.clock, watch=self.watch, models={state: self.model}, heard=heard)
        self.given = ModelInput(Observation(context, checkpoint, state), PROMPT, SECTIONS)

    def run(self) -> Proposal:
        return self.clock.run(decide(self.given))

    def proposal(self, reply: Reply | None, *failed: DecisionRow, latency: int = 0) -> Proposal:
        return Proposal(self.given.observation, 5, reply, None, "a" * 64, SECTIONS, latency, failed)


def row(attempt: int, text: str, **more: Any) -> DecisionRow:
    """The row of an attempt that failed: booked with the size of the prompt."""
    return DecisionRow(
        **{
            "step": 5, "attempt": attempt, "state": "LOOKING", "model": "test:asked", "schema_version": SCHEMA_VERSION,
            "prompt_hash": "a" * 64, "response": None, "input_tokens": 101, "output_tokens": 0, "cost_usd": Decimal(0),
            "latency_ms": 0, "result": "failed", "error_class": "model_unavailable", "retryable": True, "feedback": text,
            "prompt": SECTIONS, **more,
        }
    )  # fmt: skip


def test_an_answer_is_the_proposal() -> None:
    """With the time that it took; who looks on is told state, step, reply, tokens and of how many it was one."""
    reply = Reply(LOOKED, Spent(30, 12, Decimal("0.5")), "test:asked", 7)
    here = Decided(1.5, reply)
    assert here.run() == here.proposal(reply, latency=1500)
    assert here.model.prompts == [PROMPT]
    about = {"state": "LOOKING", "step": 5, "reply": LOOKED.as_json(), "tokens": 42, "latency_ms": 1500, "options": 7}
    assert here.events == [Event("decided", "task-1", about)]


def test_what_fails_is_tried_again_after_a_while() -> None:
    """Three waits, each longer than the one before; a row for each attempt, and who was asked last gave the reason."""
    problems = [ModelUnavailableError(f"not now {n}") for n in range(4)]
    here = Decided(2.0, *problems)
    proposal = here.run()
    assert here.clock.bounds == [(0, 0.5), (0, 1.0), (0, 2.0)]
    assert here.model.at == [0, 2.5, 3.5, 5.5]
    rows = [row(1, "not now 0", latency_ms=2000), *(row(n, f"not now {n - 1}") for n in (2, 3, 4))]
    assert replace(proposal, failure=None) == here.proposal(None, *rows)
    assert proposal.failure is not None and proposal.failure.message == "not now 3"
    assert here.events == []


def test_an_answer_after_a_failure_keeps_the_row_of_it() -> None:
    """What a failure says that it used is booked, and estimated where it does not say all."""
    told, part = ModelUnavailableError("a\nline " + "x" * 300, retry_after=30.0), ModelUnavailableError("b")
    told.spent, told.reason, part.spent = Spent(3, 4, Decimal("0.25")), "overloaded", Spent(-1, 4)
    rest = ModelUnavailableError("c")
    rest.spent = Spent(5, -1)
    reply = Reply(LOOKED, Spent(1, 2), "other")
    here = Decided(told, part, rest, reply)
    first = row(
        1, f"a line {'x' * 192}…", input_tokens=3, output_tokens=4, cost_usd=Decimal("0.25"), error_class="overloaded"
    )
    assert here.run() == here.proposal(reply, first, row(2, "b", output_tokens=4), row(3, "c", input_tokens=5))
    assert here.model.at == [0, 30, 31, 33]


def test_what_helps_nobody_is_not_tried_again() -> None:
    here = Decided(ModelUnavailableError("the key is wrong", retryable=False))
    proposal = here.run()
    assert (proposal.failed_attempts, here.clock.bounds) == ((row(1, "the key is wrong", retryable=False),), [])


@pytest.mark.parametrize(("used_ms", "waits"), [(0, 120_000), (590_000, 10_000)], ids=["two minutes", "what is left"])
def test_an_inference_is_given_up(used_ms: int, waits: int) -> None:
    """After two minutes, or when the task's time is over: then there is no other attempt."""
    again = [] if used_ms else [Reply(LOOKED, Spent(1, 1), "m")]
    here = Decided(1000, *again, usage=Usage(active_ms=used_ms))
    first = row(1, "the model gave no answer in time", latency_ms=waits)
    proposal = here.run()
    assert proposal.failed_attempts == (first,)
    assert (proposal.reply is None) == bool(used_ms)


def test_a_wait_ends_with_the_tasks_time() -> None:
    """A day is not waited for; the attempt behind it fails at once, and is the last one."""
    here = Decided(ModelUnavailableError("tomorrow", retry_after=86_400.0), 1.0, None, usage=Usage(active_ms=590_000))
    assert [r.feedback for r in here.run().failed_attempts] == ["tomorrow", "the model gave no answer in time"]
    assert here.model.at == [0, 10]


def test_while_any_time_is_left_it_is_asked_again() -> None:
    """Eight tenths of a second are left at the first failure, three at the answer."""
    reply = Reply(LOOKED, Spent(1, 1), "m")
    here = Decided(ModelUnavailableError("not now"), reply, usage=Usage(active_ms=599_200))
    assert here.run() == here.proposal(reply, row(1, "not now"))
    assert here.model.at == [0, 0.5]


@pytest.mark.parametrize("kind", [Asked, Aloud])
def test_a_person_is_not_hurried_and_their_time_is_their_own(kind: type[Asked]) -> None:
    reply = Reply(LOOKED, Spent(0, 0), "ask")
    here = Decided(7200.0, reply, kind=kind, heard=True, waits_for_person=True)
    assert here.run() == here.proposal(reply, latency=7_200_000)
    assert here.watch.running_ms() == 0
    other = Decided(60.0, reply)
    other.run()
    assert other.watch.running_ms() == 60_000


@pytest.mark.parametrize(
    ("play", "text"),
    [
        (ZeroDivisionError("by nothing"), "the model raised ZeroDivisionError: by nothing"),
        ("words", "the model gave a str: that is no reply"),
    ],
    ids=["raises", "no reply"],
)
def test_whatever_a_model_does_instead_is_a_failed_attempt(play: Any, text: str) -> None:
    """It is the last one: the second time it would do the same."""
    assert Decided(play).run().failed_attempts == (row(1, text, retryable=False),)


def test_an_adapter_that_cancels_itself_is_asked_again() -> None:
    reply = Reply(LOOKED, Spent(1, 1), "m")
    here = Decided(asyncio.CancelledError(), reply)
    assert here.run() == here.proposal(reply, row(1, "the model's adapter cancelled its own call"))


@pytest.mark.parametrize("kind", [Asked, Aloud])
def test_a_step_that_is_called_off_is_no_attempt(kind: type[Asked]) -> None:
    """Nor is a mistake of the caller: both are passed on. Who listens is told that it came to nothing."""
    here = Decided(10.0, None, kind=kind, heard=True)

    async def called_off() -> None:
        step = asyncio.ensure_future(decide(here.given))
        await here.clock.sleep(1)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step

    here.clock.run(called_off())
    other = Decided(UsageError("nobody is there"), kind=kind, heard=True)
    with pytest.raises(UsageError, match="nobody is there"):
        other.run()
    cut = [piece("well"), cut_off("the step was called off", again=False)] if kind is Aloud else []
    assert here.events == other.events == cut


def about(attempt: int, **more: Any) -> dict[str, Any]:
    return {"state": "LOOKING", "step": 5, "attempt": attempt, **more}


def piece(text: str, attempt: int = 1) -> Event:
    return Event("piece", "task-1", about(attempt, kind="words", call=0, text=text))


def cut_off(why: str, attempt: int = 1, *, again: bool) -> Event:
    return Event("cut_off", "task-1", about(attempt, why=why, again=again))


def test_an_attempt_is_heard_as_it_comes() -> None:
    """Each by its number, whether it came to nothing, and whether the model is asked again."""
    last = ModelUnavailableError("gone", retryable=False)
    here = Decided(ModelUnavailableError("not now"), last, kind=Aloud, heard=True)
    proposal = here.run()
    assert here.events == [
        piece("well"),
        cut_off("not now", again=True),
        piece("well", 2),
        cut_off("gone", 2, again=False),
    ]
    assert [r.feedback for r in proposal.failed_attempts] == ["not now", "gone"]
    reply = Reply(LOOKED, Spent(1, 1), "m")
    here = Decided(reply, kind=Aloud, heard=True)
    assert here.run() == here.proposal(reply)
    assert [e.kind for e in here.events] == ["piece", "piece", "decided"]
    assert here.model.prompts == [PROMPT]


class Spells(Aloud):
    """One that names a call and its arguments, each by itself."""

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Any:
        for kind, text, call in (
            ("call", "look", 0),
            ("arguments", "{}", 0),
            ("call", "act", 1),
            ("arguments", "[]", 1),
        ):
            hear(Piece(kind, text, call))
        return await self.decide(prompt)


@pytest.mark.parametrize("masked", [False, True])
def test_arguments_are_heard_unless_they_are_masked(masked: bool) -> None:
    """Of each tool by itself."""
    look = swap(LOOK, ("returns:\n", "redact: [args.thing]\nreturns:\n")) if masked else LOOK
    here = Decided(Reply(LOOKED, Spent(1, 1), "m"), kind=Spells, heard=True, texts=(look, ACT, FIND))
    here.run()
    assert [e.data["text"] for e in here.events[:-1]] == (
        ["look", "act", "[]"] if masked else ["look", "{}", "act", "[]"]
    )


@pytest.mark.parametrize(
    ("kind", "heard"), [(Aloud, False), (Asked, True)], ids=["nobody listens", "it cannot be heard"]
)
def test_it_is_heard_only_where_somebody_listens_and_it_can(kind: type[Asked], heard: bool) -> None:
    reply = Reply(LOOKED, Spent(1, 1), "m")
    here = Decided(reply, kind=kind, heard=heard)
    assert here.run() == here.proposal(reply)
    assert [e.kind for e in here.events] == ["decided"]


@pytest.mark.parametrize("kind", [Asked, Aloud])
def test_what_a_failure_quotes_is_not_written_where_arguments_are_masked(kind: type[Asked]) -> None:
    """What it is, what it used and how long it asks to wait stand; of its text only what stands before the quote."""
    problem = ModelUnavailableError("cannot read: {'thing': 'secret'}: no", retryable=True, retry_after=20.0)
    problem.spent, problem.reason = Spent(3, 4), "unreadable"
    reply = Reply(LOOKED, Spent(1, 1), "m")
    text = "cannot read; its text is not shown, since some arguments are masked"
    look = swap(LOOK, ("returns:\n", "redact: [args.thing]\nreturns:\n"))
    here = Decided(problem, reply, kind=kind, heard=True, texts=(look, ACT, FIND))
    proposal = here.run()
    assert proposal.failed_attempts == (row(1, text, input_tokens=3, output_tokens=4, error_class="unreadable"),)
    assert here.model.at == [0, 20]
    assert here.events[-1].data["reply"]["calls"][0]["arguments"] != {"thing": "box"}
    if kind is Aloud:
        assert here.events[1] == cut_off(text, again=True)
    last = ModelUnavailableError("cannot read: 'secret'", retryable=False)
    proposal = Decided(last, kind=kind, heard=True, texts=(look, ACT, FIND)).run()
    assert proposal.failed_attempts == (row(1, text, retryable=False),)


#: a machine that masks what another one in it answers
INNER = """
machine: asker
version: 1
summary: Give an answer.
limits: {steps: 4}
output: {card: {type: string}}
success: []
initial: ONE
states: {ONE: {choose: {finish: SUCCEEDED}}}
"""
OUTER = """
machine: tiny
version: 1
summary: Ask another one.
input: {thing: {type: string}}
limits: {steps: 6}
redact: [evidence.asker.card]
success: []
initial: ONE
states:
  ONE: {machine: asker@1, then: {SUCCEEDED: TWO, FAILED: FAILED}}
  TWO: {choose: {finish: SUCCEEDED}}
"""


@pytest.mark.parametrize(
    ("state", "text", "kept"),
    [
        ("ONE__ONE", "cannot read; its text is not shown, since some arguments are masked", "[redacted]"),
        ("TWO", "cannot read: '7351'", "7351"),
    ],
)
def test_an_answer_is_masked_in_the_machine_that_gives_it(state: str, text: str, kept: str) -> None:
    """And in no other: of a failure, and for who looks on."""
    reply = Reply(RawReply((RawCall("c", "finish", {"answer": {"card": "7351"}}),)), Spent(1, 1), "m")
    here = Decided(ModelUnavailableError("cannot read: '7351'"), reply, state=state, machine=OUTER, held=(INNER,))
    assert here.run().failed_attempts[0].feedback == text
    assert [e.data["reply"]["calls"][0]["arguments"] for e in here.events] == [{"answer": {"card": kept}}]


@pytest.mark.parametrize(
    ("spent", "booked"),
    [
        (Spent(-1, -1, Decimal("0.5")), Spent(101, 47, Decimal("0.5"))),
        (Spent(-1, 7), Spent(101, 7)),
        (Spent(7, -1), Spent(7, 47)),
        (Spent(0, 0), Spent(0, 0)),
    ],
)
def test_nothing_is_free_for_want_of_a_number(spent: Spent, booked: Spent) -> None:
    """By the text that was read, and by the reply as it is written down."""
    reply = RawReply((RawCall("c", "look", {"thing": "b" * 89}),))
    found = Decided(Reply(reply, spent, "m")).run().reply
    assert found == Reply(reply, booked, "m")


# ---------------------------------------------------------------- what a state does by itself

PINNED = swap(MACHINE, ("with: proposal", "with: {thing: input.thing, amount: 7}"))


def planned(state: str, machine: str = MACHINE, **parts: Any) -> Planned:
    context, checkpoint = standing(state, machine=machine, steps=3, proposal=parts.pop("proposal", None))
    observation = Observation(context, replace(checkpoint, **parts), state)
    found = plan(observation)
    assert found == Proposal(observation, 3, planned=found.planned)
    assert found.planned is not None
    return found.planned


def test_a_call_of_the_proposal_has_its_arguments() -> None:
    """Where there is one, of this tool."""
    args = {"thing": "box", "amount": 10}
    assert planned("ACTING", proposal={"tool": "act", "args": args}) == Planned("act", args, "call")
    missing = Planned("act", {}, "call", None, "there is no pending proposal of this tool")
    assert planned("ACTING") == planned("ACTING", proposal={"tool": "look", "args": args}) == missing


def test_a_call_of_its_own_fills_its_arguments_in() -> None:
    """Or says which of them is not there."""
    assert planned("ACTING", PINNED) == Planned("act", {"thing": "box", "amount": 7}, "call")
    machine = swap(PINNED, ("thing: input.thing, amount", "thing: evidence.look.note, amount"))
    found = planned("ACTING", machine)
    assert found == Planned("act", {}, "call", None, found.fault)
    assert "`evidence.look.note` is not there" in (found.fault or "")


def test_it_looks_for_the_open_effect_or_else_for_the_newest() -> None:
    """With the arguments that it was sent with."""
    context, _ = standing()
    one, other = (
        Effect(f"k{n}", "act", EffectStatus.REJECTED, "h", act(context.machine, n).args, n) for n in (1, 2)
    )  # fmt: skip
    opened = replace(one, status=EffectStatus.UNKNOWN)
    assert planned("FINDING", effects=(opened, other)) == Planned("act", one.args, "reconcile", opened)
    assert planned("FINDING", effects=(one, other)) == Planned("act", other.args, "reconcile", other)
    assert planned("FINDING") == Planned("act", {}, "reconcile", None)


def test_a_state_of_another_kind_plans_nothing() -> None:
    context, checkpoint = standing()
    with pytest.raises(TypeError):
        plan(Observation(context, checkpoint, "LOOKING"))


def test_without_a_model_it_is_said_how_to_name_one() -> None:
    context, checkpoint = standing()
    given = ModelInput(Observation(context, checkpoint, "LOOKING"), PROMPT)
    run: Callable[[], Any] = lambda: context.environment.run(decide(given))  # noqa: E731
    with pytest.raises(ModelError) as problem:
        run()
    assert (problem.value.message, problem.value.hint) == (
        "no model was given",
        "name one with --model, or in the settings",
    )
