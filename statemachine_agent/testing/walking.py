"""A walk: one task of a machine, led step by step by a test, which plays the model, the tools, people and the clock.

It is a task like any other, run by the runtime on a store in a temporary folder; it only stands still wherever somebody else
would be asked. Each method does one thing, or asserts one, and gives the walk back. It must not decide what follows.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from statemachine_agent.chart.chart import Availability
from statemachine_agent.definition.states import WaitState
from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.errors import UsageError
from statemachine_agent.loop.context import Event
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Reply, Spent
from statemachine_agent.records import Approval, ApprovalStatus, Checkpoint, Status
from statemachine_agent.testing.claims import Claims
from statemachine_agent.testing.played import failed, lost, not_sent, played
from statemachine_agent.testing.samples import with_sample
from statemachine_agent.testing.stage import Question, Stage
from statemachine_agent.testing.stores import new_store, temporary_folder
from statemachine_agent.testing.subject import Machine, Subject, as_subject
from statemachine_agent.testing.worlds import WatchedRuntime, context_of

#: walks that nobody closed; the pytest plugin closes them after each test, and otherwise the end of the process does
OPEN: set[Walk] = set()


class Walk(Claims):
    """One task, led by a test; begin one with `walk`. Closing it (or leaving its `with`) gives its files back."""

    def __init__(
        self,
        subject: Subject,
        inputs: Mapping[str, Any],
        actor: str | None,
        tools: Mapping[str, object],
        environment: SimulatedEnvironment,
        watcher: Callable[[Event], None] | None = None,
        *,
        counts: bool = True,
    ) -> None:
        """Started, and led to where somebody is asked first; `watcher` sees every event; `counts`: as exercised by tests."""
        self.subject = subject
        self.environment = environment
        self.tools = played(tools)
        self._stage = Stage(environment, self.tools)
        self._folder = temporary_folder("walk")
        self._store = new_store(Path(self._folder.name), environment)
        OPEN.add(self)
        bindings = dict.fromkeys(subject.compiled.tools, self._stage)
        self._runtime = WatchedRuntime(subject, self._store, self._stage, environment, bindings, counts=counts)
        self._runtime.watch(self._stage.watch)
        if watcher is not None:
            self._runtime.watch(watcher)
        #: what the loop's functions may use, for whoever asks them the same again
        self.context = context_of(self._runtime, subject)
        filled = with_sample(subject.compiled.definition.input, inputs)
        self._closed = False
        try:
            self._task = self._stage.do(self._runtime.start(subject.name, filled, subject.identity(actor))).task.id
            self._go()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------ where it stands

    @property
    def checkpoint(self) -> Checkpoint:
        """The task as it is stored now."""
        return self._stage.do(self._store.load(self._task))

    @property
    def history(self) -> list[Mapping[str, Any]]:
        """All rows of the task so far."""
        return list(self._stage.do(self._store.history(self._task)))

    @property
    def questions(self) -> list[Question]:
        """Who waits for the test now: the model, or tools that were called."""
        return self._stage.questions

    @property
    def available(self) -> tuple[Availability, ...]:
        """How each tool of the state stands, where the model is to decide."""
        return self._available(self._decision("see what is offered").prompt)

    @property
    def is_asked_to_decide(self) -> bool:
        """True where the model is to decide."""
        return any(q.prompt is not None for q in self.questions)

    @property
    def deciding(self) -> str:
        """The state in which the model is to decide; no state where it is not."""
        return next((q.prompt.state for q in self.questions if q.prompt is not None), "")

    @property
    def is_asked_to_answer(self) -> bool:
        """True where a tool was called."""
        return any(q.manifest is not None for q in self.questions)

    @property
    def is_awaiting_people(self) -> bool:
        """True where people are asked for approval."""
        return self.checkpoint.head.status is Status.AWAITING_APPROVAL

    @property
    def is_resting(self) -> bool:
        """True where only time (or a person) leads on."""
        return not self.questions and bool(self.checkpoint.timers)

    @property
    def awaited_signal(self) -> str | None:
        """The signal that the task waits for, if it waits for one."""
        for name in self.checkpoint.head.configuration:
            state = self.subject.compiled.state(name)
            if isinstance(state, WaitState) and state.wait.signal is not None:
                return state.wait.signal
        return None

    @property
    def has_ended(self) -> bool:
        """True where nothing will ever happen again."""
        return self.checkpoint.head.status.is_end

    # ------------------------------------------------------------ the model

    def choose(self, tool: str, /, **args: Any) -> Walk:
        """The model proposes `tool` (or a control choice) with these arguments."""
        return self.propose(RawCall(f"call-{self.checkpoint.head.steps + 1}", tool, args))

    def say(self, text: str) -> Walk:
        """The model writes a text and proposes nothing."""
        return self.reply(RawReply(text=text))

    def propose(self, *calls: RawCall, stop_reason: str | None = None) -> Walk:
        """The model's calls as they come from a provider, however malformed."""
        return self.reply(RawReply(calls, stop_reason=stop_reason))

    def reply(self, raw: RawReply) -> Walk:
        """The model's reply as it comes from a provider."""
        question = self._decision("decide")
        self._stage.answer(question, Reply(raw, Spent(1, 1), self._stage.spec))
        return self._on()

    # ------------------------------------------------------------ tools

    def ok(self, result: Mapping[str, Any] | None = None, /, **fields: Any) -> Walk:
        """The tool that was called answers: with `result`, or with these fields; what is not given is made up to fit."""
        question = self._call("answer")
        assert question.manifest is not None  # noqa: S101  a call has one
        given = {**(result or {}), **fields}
        return self._answer(question, with_sample(question.manifest.returns, given))

    def failed(self, reason: str = "rejected") -> Walk:
        """The service answers no."""
        return self._answer(self._call("fail"), failed(reason))

    def not_sent(self, reason: str = "unavailable") -> Walk:
        """Nothing reached the service, however often it was tried."""
        return self._answer(self._call("fail"), not_sent(reason))

    def lost(self, reason: str = "timeout") -> Walk:
        """It was sent and no answer came, however often a read was tried."""
        return self._answer(self._call("fail"), lost(reason))

    def answers(self, raw: object) -> Walk:
        """The tool answers just this, which may be no result at all."""
        return self._answer(self._call("answer"), raw)

    def _answer(self, question: Question, what: object) -> Walk:
        self._stage.answer(question, what)
        return self._on()

    # ------------------------------------------------------------ people, time, accidents

    def approve(self, by: str | None = None, why: str | None = None) -> Walk:
        """Somebody says yes: `by`, or whoever of those there are is entitled. RefusedError where that cannot be."""
        request = self._request()
        who = self.subject.identity(by or self._entitled(request))
        self._stage.do(self._runtime.approve(request.id, who, why=why))
        return self._go()

    def reject(self, by: str | None = None, why: str = "no") -> Walk:
        """Somebody says no. RefusedError where that cannot be."""
        request = self._request()
        who = self.subject.identity(by or self._entitled(request))
        self._stage.do(self._runtime.reject(request.id, who, why=why))
        return self._go()

    def passes(self, seconds: float | None = None) -> Walk:
        """Time passes, by default until the next timer of the task is due: an approval expires, a wait is over."""
        timers = self.checkpoint.timers
        if seconds is None and not timers:
            self.fail("no timer runs: say how many seconds pass")
        now = self.environment.now()
        due = min((t.due_at for t in timers), default=now)
        self.environment.advance(max(0.0, (due - now).total_seconds()) if seconds is None else seconds)
        return self if self.questions else self._go()

    def signal(self, name: str, /, **payload: Any) -> Walk:
        """Somebody outside (the task's actor) tells it what it waits for; RefusedError where it does not wait for that."""
        actor = self.subject.identity(str(self.checkpoint.task.actor["id"]))
        self._stage.do(self._runtime.signal(self._task, name, payload, actor))
        return self._go()

    def crash(self) -> Walk:
        """The worker is lost just here, and another one takes the task over."""
        self._stage.drop()
        return self._go()

    def cancel(self, by: str | None = None) -> Walk:
        """Somebody (its own actor) calls the task off; RefusedError where that cannot be."""
        self._stage.drop()
        actor = str(self.checkpoint.task.actor["id"])
        self._stage.do(self._runtime.cancel(self._task, self.subject.identity(by or actor)))
        return self._go()

    def _request(self) -> Approval:
        for request in self.checkpoint.approvals:
            if request.status is ApprovalStatus.OPEN:
                return request
        return self.fail("nobody is asked for approval")

    def _entitled(self, request: Approval) -> str:
        actor = self.checkpoint.task.actor
        people = self.subject.people.of(str(actor["tenant"])).people
        starter = str(actor["id"])
        done = {starter, *(str(answer["by"]) for answer in request.answers)}
        filled = [str(answer.get("role", "")) for answer in request.answers]
        left = list(request.roles)
        for role in filled:
            if role in left:
                left.remove(role)
        for name, person in people.items():
            if name not in done and set(person.roles) & set(left):
                return name
        return self.fail(f"nobody else has one of the roles {', '.join(left)}")

    # ------------------------------------------------------------ turning

    def _on(self) -> Walk:
        self._stage.go_on()
        return self

    def _go(self) -> Walk:
        """Have the runtime take the task up, unless it has ended."""
        if not self.checkpoint.head.status.is_end:
            self._stage.begin(self._runtime.resume(self._task))
        return self

    def close(self) -> None:
        """Drop the task and its files; more is not needed, and twice does no harm."""
        if self._closed:
            return
        self._closed = True
        OPEN.discard(self)
        self._stage.drop()
        self._stage.do(self._runtime.close())
        self._stage.do(self._store.close())
        self._stage.close()
        self._folder.cleanup()

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def walk(
    machine: Machine,
    inputs: Mapping[str, Any] | None = None,
    *,
    actor: str | None = None,
    tools: Mapping[str, object] | None = None,
    environment: SimulatedEnvironment | None = None,
) -> Walk:
    """Start a task of `machine` and lead it to where somebody is asked first.

    `inputs` that are not given are made up to fit; `actor` is `tester`, who may do everything, where nobody is named. A tool
    of `tools` answers by itself, each call with the next of its plays (see `Played`); any other asks the test. UsageError
    where the inputs do not fit or there is no such machine, FaultyDefinitionError where it does not load.
    """
    subject = as_subject(machine)
    unknown = [name for name in tools or {} if name not in subject.compiled.tools]
    if unknown:
        known = ", ".join(subject.compiled.tools)
        raise UsageError(f"`{subject.name}` uses no tool `{unknown[0]}`", hint=f"it uses: {known}")
    return Walk(subject, inputs or {}, actor, tools or {}, environment or SimulatedEnvironment())


def close_all() -> None:
    """Close every walk that is open."""
    for one in list(OPEN):
        one.close()


atexit.register(close_all)
