"""Random walks: Hypothesis plays the model, the tools, people, the clock and accidents, and every invariant is held.

It needs the extra `testing` (Hypothesis). A walk that breaks an invariant is printed step by step. It must not
know any one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from statemachine_agent.chart.chart import Standing
from statemachine_agent.definition.states import ReconcileState
from statemachine_agent.environment import Environment, SimulatedEnvironment
from statemachine_agent.errors import RefusedError
from statemachine_agent.loop.context import Event
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.records import Checkpoint, Effect, Transaction
from statemachine_agent.testing import invariants
from statemachine_agent.testing.outside import Outside
from statemachine_agent.testing.stage import Question
from statemachine_agent.testing.standing import CHOICES, arguments_of
from statemachine_agent.testing.strategies import malformed, objects, pool_of
from statemachine_agent.testing.subject import Machine, Subject, as_subject
from statemachine_agent.testing.walking import Walk

#: how often something goes wrong between two steps
_ACCIDENTS = [False] * 24 + [True]
#: control choices that end a task wherever they are accepted
ENDING = ("ask_user", "cannot_continue")
_NO_RESULTS: list[Any] = [None, [], "yes", {}, {"surely": "unknown"}, 7]

_Likely = Mapping[str, Sequence[Mapping[str, Any]]]


class RandomWalk(RuleBasedStateMachine):
    """A task of one machine, led at random; `walks_of` makes one for a machine."""

    subject: Subject
    inputs: Mapping[str, Any]
    actor: str | None
    results: _Likely
    arguments: _Likely

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[tuple[Transaction, Checkpoint]] = []
        #: the end was reached and looked at once more: nothing will ever happen again
        self.over = False
        self.looked_at = -1
        self.outside = Outside(self.subject)
        # What is met by chance is not claimed by a test, and would make coverage another one with every run.
        self.walk = Walk(self.subject, self.inputs, self.actor, {}, SimulatedEnvironment(), self._saw, counts=False)

    def _saw(self, event: Event) -> None:
        if event.kind == "committed":
            self.commits.append((event.data["transaction"], event.data["checkpoint"]))

    def teardown(self) -> None:
        """Give the walk's files back."""
        self.walk.close()

    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        """Whoever is asked does something; now and then the worker is lost, or the task is called off."""
        walk = self.walk
        if walk.has_ended:
            if not self.over:
                walk.crash()  # another worker looks at it once, and leaves it as it is
            self.over = True
        elif data.draw(st.sampled_from(_ACCIDENTS), label="accident"):
            self._accident(data)
        elif walk.is_asked_to_decide:
            self._decides(data)
        elif walk.is_asked_to_answer:
            self._answers(data)
        elif walk.is_awaiting_people:
            self._people(data)
        else:
            self._rests(data)

    def _rests(self, data: st.DataObject) -> None:
        """Time passes, or what it waits for is told."""
        name = self.walk.awaited_signal
        if name is None or (self.walk.checkpoint.timers and data.draw(st.integers(0, 4), label="nobody tells it") == 0):
            self.walk.passes()
            return
        machine = self.subject.compiled
        pool = pool_of(machine, self.walk.checkpoint)
        likely = self.arguments.get(name, ())
        payload = data.draw(objects(machine.definition.signals[name], pool, likely), label=name)
        self.walk.signal(name, **payload)

    def _accident(self, data: st.DataObject) -> None:
        if self.walk.is_asked_to_answer:
            question = self._sent()
            if data.draw(st.booleans(), label="happened"):
                self.outside.happens(question)
        if data.draw(st.sampled_from([True, True, False]), label="crash"):
            self.walk.crash()
        else:
            self.walk.cancel()

    # ------------------------------------------------------------ the model

    def _decides(self, data: st.DataObject) -> None:
        """It proposes what is offered, mostly; else what is hidden or illegal, or something malformed."""
        kind = data.draw(st.sampled_from(["offered"] * 14 + ["other"] * 2 + ["malformed"]), label="proposal")
        offered = [a.tool for a in self.walk.available if a.standing is Standing.OFFERED]
        tools = list(self.subject.compiled.tools)
        if kind == "malformed":
            self.walk.reply(data.draw(malformed(tools), label="reply"))
        elif kind == "other":
            self._propose(data, [t for t in (*tools, *CHOICES, "no_such_tool") if t not in offered])
        else:
            known = {e.tool for e in self.walk.checkpoint.evidence}
            self._propose(data, [t for t in offered for _ in range(1 if t in ENDING else 2 if t in known else 12)])

    def _propose(self, data: st.DataObject, tools: Sequence[str]) -> None:
        if not tools:
            return
        tool = data.draw(st.sampled_from(tools), label="tool")
        machine, checkpoint = self.subject.compiled, self.walk.checkpoint
        args: Mapping[str, Any] = {}
        if tool in machine.tools:
            left_to_model = arguments_of(machine, self.walk.deciding, tool, {})
            declared = {name: p for name, p in machine.tools[tool].args.items() if name in left_to_model}
            likely = [{n: v for n, v in a.items() if n in declared} for a in self.arguments.get(tool, ())]
            args = data.draw(objects(declared, pool_of(machine, checkpoint), likely), label="arguments")
        elif tool in CHOICES:
            args = arguments_of(machine, "", tool, {})
        raised = tool in machine.tools and data.draw(st.integers(0, 9), label="raised") == 0
        wrapped = {"tool": tool, "args": args, "reason": "to be sure"}
        call = RawCall("call-1", "request_approval", wrapped) if raised else RawCall("call-1", tool, args)
        self.walk.reply(RawReply((call,)))

    # ------------------------------------------------------------ tools

    def _answers(self, data: st.DataObject) -> None:
        """The tool does what it is called for, mostly; else it fails in one of the ways there are."""
        bad = ["failed", "not_sent", "lost", "malformed"]
        how = data.draw(st.sampled_from(["ok"] * 20 + bad), label="answer")
        question = self._sent()
        if how == "ok":
            answer = self._truthful(data, question) or self._result(data, question)
            self.outside.happens(question)
            self.walk.answers(answer)
            return
        if how in ("lost", "malformed") and data.draw(st.booleans(), label="happened"):
            self.outside.happens(question)
        match how:
            case "failed":
                self.walk.failed()
            case "not_sent":
                self.walk.not_sent()
            case "lost":
                self.walk.lost()
            case _:
                self.walk.answers(data.draw(st.sampled_from(_NO_RESULTS), label="raw"))

    def _sent(self) -> Question:
        """The call that waits for its answer; it was allowed, and its intent is stored."""
        question = next(q for q in self.walk.questions if q.manifest is not None)
        self._hold(invariants.of_sending(self.walk.context, self.walk.checkpoint, question))
        return question

    def _result(self, data: st.DataObject, question: Question) -> Any:
        manifest = question.manifest
        assert manifest is not None  # noqa: S101  a call has one
        pool = pool_of(self.subject.compiled, self.walk.checkpoint)
        if question.request is not None:
            pool = [*pool, *(v for v in question.request.args.values() if isinstance(v, str | int))]
        return data.draw(objects(manifest.returns, pool, self.results.get(manifest.tool, ())), label="result")

    def _truthful(self, data: st.DataObject, question: Question) -> Any:
        """For a look-up of an effect: an answer that says what is true of it; None for any other call."""
        found = self._looked_up(question)
        if found is None:
            return None
        write, effect = found
        more = self.results.get(question.manifest.tool if question.manifest else "", ())
        answers = self.outside.truthful(self.subject.compiled.tools[write], effect, self.walk.environment.now(), more)
        return data.draw(st.sampled_from(answers), label="truth") if answers else None

    def _looked_up(self, question: Question) -> tuple[str, Effect] | None:
        checkpoint = self.walk.checkpoint
        for name in checkpoint.head.configuration:
            state = self.subject.compiled.state(name)
            if isinstance(state, ReconcileState) and question.manifest is not None:
                write = self.subject.compiled.tools[state.reconcile]
                effect = checkpoint.open_effect(state.reconcile)
                if effect and write.reconciler and write.reconciler.tool == question.manifest.tool:
                    return state.reconcile, effect
        return None

    # ------------------------------------------------------------ people

    def _people(self, data: st.DataObject) -> None:
        """Somebody entitled says yes, mostly; else anybody says anything, or nobody does until it is too late."""
        how = data.draw(st.sampled_from(["entitled"] * 4 + ["yes", "no", "late"]), label="people")
        if how == "entitled":
            self.walk.approve()
        elif how == "late":
            self.walk.passes()
        else:
            who = data.draw(st.sampled_from(sorted(self.subject.people.people)), label="who")
            with suppress(RefusedError):  # whoever may not is refused, and nothing changes
                _ = self.walk.approve(by=who) if how == "yes" else self.walk.reject(by=who)

    # ------------------------------------------------------------ what always holds

    @invariant()
    def all_invariants_hold(self) -> None:
        """Those of `invariants`, over what is stored now."""
        if self.over and self.looked_at == len(self.commits):
            return
        self.looked_at = len(self.commits) if self.over else -1
        context, checkpoint = self.walk.context, self.walk.checkpoint
        prompt = next((q.prompt for q in self.walk.questions if q.prompt is not None), None)
        self._hold(invariants.of_commits(self.commits))
        self._hold(invariants.of_checkpoint(self.subject.compiled, checkpoint))
        self._hold(invariants.of_end(context, checkpoint))
        self._hold(invariants.of_restoring(context, checkpoint, self.commits[-1][1], prompt))
        self._hold(invariants.of_effects(self.outside.happened))

    def _hold(self, broken: Iterator[str]) -> None:
        for text in broken:
            self.walk.fail(text)


def walks_of(
    machine: Machine,
    *,
    inputs: Mapping[str, Any] | None = None,
    actor: str | None = None,
    results: _Likely | None = None,
    arguments: _Likely | None = None,
) -> type[RandomWalk]:
    """The Hypothesis state machine that walks `machine`; its `TestCase` is a test.

    What is drawn fits the manifests. `results` and `arguments`, by tool, are drawn six times as often as all others: give some
    that lead far into the machine. UsageError and FaultyDefinitionError as for `walk`.
    """
    subject = as_subject(machine)
    given = {
        "subject": subject,
        "inputs": inputs or {},
        "actor": actor,
        "results": results or {},
        "arguments": arguments or {},
    }
    return type(f"RandomWalkOf_{subject.name}", (RandomWalk,), given)


def random_walks(
    machine: Machine,
    *,
    examples: int = 25,
    steps: int = 30,
    seed_of_walks: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    actor: str | None = None,
    results: _Likely | None = None,
    arguments: _Likely | None = None,
    shrink: bool = False,
) -> None:
    """Walk `machine` at random: so many walks of so many steps; arguments as for `walks_of`.

    AssertionError names the invariant that was broken, with the way there; `shrink` looks for the shortest walk that breaks
    it, which can take minutes. The seed is printed, and repeats the walks.
    """
    walks = walks_of(machine, inputs=inputs, actor=actor, results=results, arguments=arguments)
    number = int.from_bytes(Environment().random_bytes(4)) if seed_of_walks is None else seed_of_walks
    print(f"random walks of {walks.subject.name}: repeat with seed_of_walks={number}")  # noqa: T201  shown where it fails
    run_state_machine_as_test(
        seed(number)(walks),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
            suppress_health_check=list(HealthCheck),
        ),
    )
