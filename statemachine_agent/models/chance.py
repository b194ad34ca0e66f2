"""A model that draws: a tool among those that are possible, then each argument. What another one is worth, it is worth beside it.

It must not know what it chooses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from statemachine_agent.environment import Environment, SimulatedEnvironment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.options import count_of, drawn, options_of
from statemachine_agent.models.port import ModelUnavailableError, Prompt, Reply, Spent
from statemachine_agent.text import one_line

_SPEC = re.compile(r"chance:([0-9]{1,6})")


@dataclass
class ChanceModel:
    """`chance:SEED`: the same draw for the same step and the same options."""

    spec: str
    environment: Environment

    def __post_init__(self) -> None:
        """UsageError where there is no seed."""
        if not _SPEC.fullmatch(self.spec):
            raise UsageError(f"there is no model `{one_line(self.spec, 80)}`", hint="write `chance:` and a number")

    async def decide(self, prompt: Prompt) -> Reply:
        """One draw; ModelUnavailableError where nothing is possible."""
        options = await self.environment.in_thread(options_of, prompt)  # their number is up to whoever wrote the data
        if not options:
            raise ModelUnavailableError("there is no call whose arguments are known", retryable=False)
        seed = int(self.spec.partition(":")[2])
        chance = SimulatedEnvironment(seed=1_000 * seed + prompt.step)
        name, arguments = drawn(options, lambda end: min(end - 1, int(chance.uniform(0, end))))
        reply = RawReply((RawCall(f"call-{prompt.step}", name, arguments),))
        return Reply(reply, Spent(0, 0), self.spec, sum(count_of(option.arguments) for option in options))
