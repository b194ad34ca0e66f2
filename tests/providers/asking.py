"""A provider's model that asks a server on loopback, and what it is asked with."""

from __future__ import annotations

import asyncio
from typing import Any

from providers.wire import WIRES, Provider, Says
from statemachine_agent.definition.named_models import NamedModel
from statemachine_agent.environment import Environment
from statemachine_agent.models.port import ModelUnavailableError, OfferedTool, Prompt, Reply, taken
from statemachine_agent.models.provider import ProviderModel

KINDS = sorted(WIRES)
NAMES = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}
KEY = "sk-a-secret-of-ours-4711"

SCHEMA = {
    "type": "object",
    "properties": {"thing": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$"}, "many": {"type": "integer"}},
    "required": ["thing"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = (OfferedTool("look", "Look at a thing.", SCHEMA), OfferedTool("peek", "Peek.", NOTHING))
TEXT = "# what may be proposed\nlook, peek, and nothing else: é — 日本\n"


def settings(provider: Provider, **more: Any) -> NamedModel:
    """What the settings say of the model behind this server."""
    use = f"{provider.kind}:{NAMES[provider.kind]}"
    return NamedModel.model_validate({"use": use, "url": provider.url, "timeout": "20s", **more})


class Quick(Environment):
    """The real world, in which a second between attempts, or between signs of life, is a millisecond."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds / 1000)

    def uniform(self, low: float, high: float) -> float:
        return low


def model(provider: Provider, environment: Environment | None = None, **more: Any) -> ProviderModel:
    """The model behind this server."""
    return ProviderModel("fast", settings(provider, **more), KEY, environment or Quick())


def prompt(**more: Any) -> Prompt:
    """A prompt with two tools."""
    given: dict[str, Any] = {"tools": TOOLS, "text": TEXT, "hash": "h", "remaining": {"seconds": 60, "tokens": 50_000}}
    return Prompt("tiny", "LOOKING", 1, "Look.", **{**given, **more})


def ask(
    provider: Provider, *plays: Any, how: dict[str, Any] | None = None, **more: Any
) -> Reply | ModelUnavailableError:
    """What one decision gives, as the loop would take it."""
    provider.plays = list(plays)
    asked = model(provider, **(how or {}))
    try:
        return taken(asyncio.run(asked.decide(prompt(**more))))
    except ModelUnavailableError as problem:
        return problem


def reply(provider: Provider, says: Says, **more: Any) -> Reply:
    """The reply to one decision; a failed attempt is a failure of the test."""
    found = ask(provider, says, **more)
    assert isinstance(found, Reply), found
    return found


def failed(provider: Provider, *plays: Any, **more: Any) -> ModelUnavailableError:
    """The failed attempt that one decision was."""
    found = ask(provider, *plays, **more)
    assert isinstance(found, ModelUnavailableError), found
    return found
