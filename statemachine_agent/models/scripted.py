"""A model that reads its decisions from a list: for tests, for the demo, and to play a run again without a provider.

The number of the step picks the decision, so a new process goes on where the last one stopped. It must not know machines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, model_validator

from statemachine_agent.definition import node
from statemachine_agent.definition.faults import FaultyDefinitionError, Report
from statemachine_agent.definition.node import Node, complaint
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.errors import UsageError
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import ModelUnavailableError, Prompt, Reply, Spent


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
    def load(cls, path: Path) -> ScriptedModel:
        """The script in a file; FaultyDefinitionError where it has faults."""
        source, faults = read_text(path)
        report = Report()
        report.add(faults)
        if not faults:
            document = read(source)
            script = node.validate(document, Script)
            report.add(document.faults)
            if script is not None and not report.errors:
                return cls(script.steps, f"scripted:{path}")
        raise FaultyDefinitionError(report)

    async def decide(self, prompt: Prompt) -> Reply:
        """The decision of this step."""
        number = prompt.step - 1
        if number >= len(self.steps):
            return Reply(RawReply(stop_reason="end of script"), Spent(0, 0), self.spec)
        step = self.steps[number]
        failed = self._failures.get(number, 0)
        if failed < step.fail:
            self._failures[number] = failed + 1
            raise ModelUnavailableError("the script says that the provider fails here")
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
