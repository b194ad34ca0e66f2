"""A model that reads its decisions from a list: for tests, for the demo, and to play a run again without a provider.

The number of the step picks the decision, so a new process goes on where the last one stopped. It must not know machines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, model_validator

from statemachine_agent.definition import node
from statemachine_agent.definition.faults import FaultyDefinitionError, Report
from statemachine_agent.definition.node import Node, complaint
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Hear, ModelUnavailableError, Piece, Prompt, Reply, Spent

_PACE = 0.02  # seconds between two pieces, where there is a clock: about as fast as a provider
_LONGEST = 2.0  # seconds that a decision is drawn out at the most,
_SHARE = 0.05  # and of what the task has left: that somebody looks on changes nothing that happens
_PIECE = re.compile(r"\s*\S{1,12}\s*")  # a word, or a part of a long one


class Tokens(Node):
    """Token usage of one decision."""

    #: read
    input: Annotated[StrictInt, Field(ge=0)] = 0
    #: written
    output: Annotated[StrictInt, Field(ge=0)] = 0


class ScriptedCall(Node):
    """One call of a proposal that holds several."""

    #: the tool, or the control choice
    call: str
    #: its arguments, whatever the model is to send; pinned ones are left out
    given: Any = Field(default_factory=dict, alias="with")
    #: the id of the call; left out: made of step and place
    id: str | None = None


class ScriptedStep(Node):
    """One decision: `call` with its arguments, `calls` for several, or `say` for a text without a call."""

    #: the tool, or the control choice, that is proposed
    call: str | None = None
    #: its arguments, whatever the model is to send; pinned ones are left out
    given: Any = Field(default_factory=dict, alias="with")
    #: instead of `call`: several calls in one proposal
    calls: tuple[ScriptedCall, ...] = ()
    #: what the model says besides; alone it is a text without a call
    say: str = ""
    #: the provider fails instead of answering, this many times
    fail: Annotated[StrictInt, Field(ge=0)] = 0
    #: why the provider stopped; `length` cuts the answer off
    stop_reason: str | None = None
    #: what the decision used
    tokens: Tokens = Tokens()
    #: what the decision cost
    cost_usd: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _one(self) -> ScriptedStep:
        if self.call is not None and self.calls:
            raise complaint("a step has `call` or `calls`, not both", "keep one of them")
        return self


class Script(Node):
    """A script file."""

    #: its name
    script: str
    #: the decisions, first to last
    steps: tuple[ScriptedStep, ...]


@dataclass
class ScriptedModel:
    """Gives the n-th decision at the n-th step; past the end it gives an empty reply."""

    steps: Sequence[ScriptedStep]
    spec: str = "scripted"
    #: paces what is heard; None: it comes at once
    environment: Environment | None = None

    def __post_init__(self) -> None:
        if isinstance(self.steps, (str, Path)) or not all(isinstance(s, ScriptedStep) for s in self.steps):
            raise UsageError(
                "a script is a list of steps", hint="ScriptedModel.load(path) reads a file, .of(…) mappings"
            )
        self._failures: dict[int, int] = {}

    @classmethod
    def of(cls, *steps: Mapping[str, Any]) -> ScriptedModel:
        """A script from mappings, in the form of a script file's steps."""
        return cls([ScriptedStep.model_validate(dict(s)) for s in steps])

    @classmethod
    def load(cls, path: Path, environment: Environment | None = None) -> ScriptedModel:
        """The script in a file; FaultyDefinitionError where it has faults."""
        source, faults = read_text(path)
        report = Report()
        report.add(faults)
        if not faults:
            document = read(source)
            script = node.validate(document, Script)
            report.add(document.faults)
            if script is not None and not report.errors:
                return cls(script.steps, f"scripted:{path}", environment)
        raise FaultyDefinitionError(report)

    async def decide(self, prompt: Prompt) -> Reply:
        """The decision of this step."""
        reply = self._reply(prompt)
        self._fail_if_due(prompt)
        return reply

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
        """The same, in pieces; where the script says that the provider fails, it breaks off half-way."""
        reply = self._reply(prompt)
        pieces = list(_pieces(reply.raw))
        is_due = self._failures.get(prompt.step, 0) < self._failures_of(prompt)
        left, owed = prompt.remaining.get("seconds"), 0.0
        most = min(_LONGEST, _SHARE * left) if isinstance(left, (int, float)) else _LONGEST
        for piece in pieces[: len(pieces) // 2] if is_due else pieces:
            hear(piece)
            owed += min(_PACE, most / len(pieces))
            if self.environment is not None and owed >= _PACE:
                await self.environment.sleep(owed)
                owed = 0.0
        self._fail_if_due(prompt)
        return reply

    def _failures_of(self, prompt: Prompt) -> int:
        return self.steps[prompt.step - 1].fail if prompt.step <= len(self.steps) else 0

    def _fail_if_due(self, prompt: Prompt) -> None:
        failed = self._failures.get(prompt.step, 0)
        if failed < self._failures_of(prompt):
            self._failures[prompt.step] = failed + 1
            raise ModelUnavailableError("the script says that the provider fails here")

    def _reply(self, prompt: Prompt) -> Reply:
        if prompt.step > len(self.steps):
            return Reply(RawReply(stop_reason="end of script"), Spent(0, 0), self.spec)
        step = self.steps[prompt.step - 1]
        calls = [ScriptedCall.model_validate({"call": step.call, "with": step.given})] if step.call is not None else []
        raw = RawReply(
            tuple(
                RawCall(c.id or f"call-{prompt.step}-{i}", c.call, c.given)
                for i, c in enumerate([*calls, *step.calls], 1)
            ),
            step.say,
            step.stop_reason,
        )
        spent = Spent(step.tokens.input, step.tokens.output, Decimal(str(step.cost_usd)))
        return Reply(raw, spent, self.spec)


def _pieces(raw: RawReply) -> Iterator[Piece]:
    """A whole reply as it might have come."""
    yield from (Piece("words", word) for word in _PIECE.findall(raw.text))
    for number, call in enumerate(raw.calls):
        yield Piece("call", call.name, number)
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, default=str)
        yield from (Piece("arguments", part, number) for part in _PIECE.findall(text))
