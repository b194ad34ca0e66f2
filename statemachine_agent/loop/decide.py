"""Phase 3: one decision, with bounded attempts at getting it; or what a state does without a model.

An attempt that fails costs time and tokens, and no step. It must not judge what was proposed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from statemachine_agent.definition import references
from statemachine_agent.definition.states import CallState, ReconcileState
from statemachine_agent.errors import ModelError, SmaError
from statemachine_agent.loop.budget import seconds_left
from statemachine_agent.loop.context import Context, Event
from statemachine_agent.loop.hearing import Hearing
from statemachine_agent.loop.phases import ModelInput, Observation, Planned, Proposal, expect
from statemachine_agent.loop.view import reference_data
from statemachine_agent.models.decision import SCHEMA_VERSION
from statemachine_agent.models.fallback import turn_of
from statemachine_agent.models.port import (
    Model,
    ModelUnavailableError,
    Prompt,
    Reply,
    Spent,
    StreamingModel,
    plain_failure,
    taken,
)
from statemachine_agent.models.prices import estimated
from statemachine_agent.records import DecisionRow
from statemachine_agent.text import one_line, said_by

ATTEMPTS = 4
#: the upper bounds of the waits between attempts, in seconds; each wait is drawn between zero and its bound
BOUNDS = (0.5, 1.0, 2.0)
_LONGEST_CALL = 120.0  # seconds that one inference may take


async def decide(model_input: ModelInput) -> Proposal:
    """The model's reply, or the failure of all attempts."""
    expect(model_input, ModelInput, "decide")
    observation, prompt = model_input.observation, model_input.prompt
    context = observation.context
    model = context.model_in(observation.state)
    if model is None:
        raise ModelError("no model was given", hint="name one with --model, or in the settings")
    failed: list[DecisionRow] = []
    while True:
        started, whose = context.environment.monotonic(), turn_of(model, prompt)
        reply = await _heard(context, model, model_input, len(failed) + 1)
        latency = int((context.environment.monotonic() - started) * 1000)
        if isinstance(reply, Reply):
            _tell(model_input, reply, latency)
            return Proposal(
                observation, prompt.step, reply, None, prompt.hash, model_input.sections, latency, tuple(failed)
            )
        failed.append(_failed_row(model_input, whose, len(failed) + 1, latency, reply))
        if not _may_ask_again(model_input, len(failed), reply):
            return Proposal(
                observation, prompt.step, None, None, prompt.hash, model_input.sections, 0, tuple(failed), reply
            )
        wait = max(context.environment.uniform(0, BOUNDS[len(failed) - 1]), reply.retry_after or 0.0)
        await context.environment.sleep(min(wait, seconds_left(context, observation.checkpoint.head)))


def _may_ask_again(model_input: ModelInput, attempts: int, failure: ModelUnavailableError) -> bool:
    left = seconds_left(model_input.observation.context, model_input.observation.checkpoint.head)
    return failure.retryable and attempts < ATTEMPTS and left > 0


async def _heard(
    context: Context, model: Model, model_input: ModelInput, attempt: int
) -> Reply | ModelUnavailableError:
    """One inference, piece by piece where somebody looks on and the model can; what comes of it is the same."""
    if not context.heard or not isinstance(model, StreamingModel):
        return _withheld(model_input, await _asked(context, model, model_input, model.decide))
    prompt = model_input.prompt
    machine, task_id = context.machine, model_input.observation.checkpoint.task.id
    hearing = Hearing(
        context.emit, task_id, prompt.state, prompt.step, attempt,
        lambda tool: machine.may_be_heard(tool, prompt.state),
    )  # fmt: skip
    reply: Reply | ModelUnavailableError | None = None
    try:
        reply = await _asked(context, model, model_input, lambda asked: model.decide_aloud(asked, hearing))
        reply = _withheld(model_input, reply)
        return reply
    finally:
        match reply:
            case Reply():
                hearing.whole()
            case None:
                hearing.cut_off("the step was called off", again=False)
            case failure:
                hearing.cut_off(failure.message, again=_may_ask_again(model_input, attempt, failure))


def _withheld(model_input: ModelInput, reply: Reply | ModelUnavailableError) -> Reply | ModelUnavailableError:
    """A failure for the record: what a library says of a call that it cannot read may quote arguments that are not written."""
    observation = model_input.observation
    if isinstance(reply, Reply) or observation.context.machine.may_be_heard("", observation.state):
        return reply
    text = f"{reply.message.partition(': ')[0]}; its text is not shown, since some arguments are masked"
    made = ModelUnavailableError(text, retryable=reply.retryable, retry_after=reply.retry_after)
    made.reason, made.spent = reply.reason, reply.spent
    return made


async def _asked(
    context: Context, model: Model, model_input: ModelInput, ask: Callable[[Prompt], Awaitable[object]]
) -> Reply | ModelUnavailableError:
    """One inference; whatever a model does instead of answering is a failed attempt, and never leaves the loop.

    A person is not hurried, and their time is not the task's.
    """
    person = bool(getattr(model, "waits_for_person", False))
    left = seconds_left(context, model_input.observation.checkpoint.head)
    try:
        async with context.environment.timeout(None if person else min(_LONGEST_CALL, left)):
            return _booked(model_input, taken(await ask(model_input.prompt)))
    except TimeoutError:
        return ModelUnavailableError("the model gave no answer in time")
    except ModelUnavailableError as problem:
        return plain_failure(problem)
    except SmaError:  # nobody is there to ask, or the caller's own fault: not an inference at all
        raise
    except asyncio.CancelledError:  # of the adapter's own making, unless this step itself is called off
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return ModelUnavailableError("the model's adapter cancelled its own call")
    except Exception as problem:  # noqa: BLE001  an adapter may raise anything
        return ModelUnavailableError(f"the model raised {said_by(problem)}", retryable=False)
    finally:
        if person:
            context.watch.lap_ms()


def _booked(model_input: ModelInput, reply: Reply) -> Reply:
    """The reply with an estimate where its adapter told no usage: nothing is free for want of a number."""
    if not reply.spent.untold:
        return reply
    read, written = len(model_input.prompt.text), len(json.dumps(reply.raw.as_json(), default=str))
    return replace(reply, spent=reply.spent.filled(estimated(read), estimated(written)))


def _failed_row(
    model_input: ModelInput, whose: str, attempt: int, latency: int, failure: ModelUnavailableError
) -> DecisionRow:
    """An attempt without an answer: what it cost is not known, so an estimate is booked, at least by the prompt's size."""
    read = estimated(len(model_input.prompt.text))
    spent = Spent(read, 0) if failure.spent is None else failure.spent.filled(read, 0)
    return DecisionRow(
        step=model_input.prompt.step,
        attempt=attempt,
        state=model_input.prompt.state,
        model=whose,
        schema_version=SCHEMA_VERSION,
        prompt_hash=model_input.prompt.hash,
        prompt=model_input.sections,
        response=None,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_usd,
        latency_ms=latency,
        result="failed",
        error_class=failure.reason,
        retryable=failure.retryable,
        feedback=one_line(failure.message),
    )


def _tell(model_input: ModelInput, reply: Reply, latency: int) -> None:
    observation = model_input.observation
    observation.context.emit(
        Event(
            "decided",
            observation.checkpoint.task.id,
            {
                "state": observation.state,
                "step": model_input.prompt.step,
                "reply": reply.raw.as_json(observation.context.machine.recording(observation.state)),
                "tokens": reply.spent.input_tokens + reply.spent.output_tokens,
                "latency_ms": latency,
                "options": reply.options,
            },
        )
    )


def plan(observation: Observation) -> Proposal:
    """What a `call` or `reconcile` state does: its tool, with arguments from the proposal or from references."""
    expect(observation, Observation, "plan")
    context, checkpoint = observation.context, observation.checkpoint
    step = checkpoint.head.steps
    match context.machine.state(observation.state):
        case ReconcileState() as definition:
            effect = checkpoint.open_effect(definition.reconcile) or checkpoint.newest_effect(definition.reconcile)
            args: Mapping[str, Any] = effect.args if effect else {}
            planned = Planned(definition.reconcile, args, "reconcile", effect)
        case CallState(given="proposal") as definition:
            planned = _from_proposal(observation, definition)
        case CallState() as definition:
            planned = _from_references(observation, definition)
        case other:
            raise TypeError(other)
    return Proposal(observation, step, planned=planned)


def _from_proposal(observation: Observation, definition: CallState) -> Planned:
    proposal = observation.checkpoint.head.proposal
    if proposal is None or proposal["tool"] != definition.call:
        return Planned(definition.call, {}, "call", fault="there is no pending proposal of this tool")
    return Planned(definition.call, proposal["args"], "call")


def _from_references(observation: Observation, definition: CallState) -> Planned:
    data = reference_data(observation.context, observation.checkpoint)
    given = definition.given
    assert not isinstance(given, str)  # noqa: S101  the other case is `proposal`
    try:
        return Planned(definition.call, references.fill(given, references.MACHINE_ROOTS, data), "call")
    except references.UnresolvedError as problem:
        return Planned(definition.call, {}, "call", fault=str(problem))
