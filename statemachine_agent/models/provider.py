"""A provider's model behind the port: one call is one request, with exactly the tools that are offered.

What comes back is brought into the raw form of a reply and judged elsewhere; what does not come back is a failed attempt. The
loop asks again, nobody else does. It must not know machines, or whether a proposal will be accepted.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from statemachine_agent.definition.named_models import NamedModel
from statemachine_agent.environment import Environment
from statemachine_agent.models import clients, pieces
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Hear, ModelUnavailableError, OfferedTool, Prompt, Reply, Spent
from statemachine_agent.models.prices import Tariff, estimated
from statemachine_agent.text import one_line

#: providers that look into their cache only where a request is marked
_MARKED = frozenset({"anthropic"})
_LEAST = 1.0  # seconds that one inference has in any case
_LEAST_TOKENS = 256  # below that no call fits, and a reply that is cut off costs all the same


class ProviderModel:
    """`provider:NAME`, asked with these settings."""

    def __init__(self, spec: str, settings: NamedModel, key: str, environment: Environment) -> None:
        """`spec` is what a task stores; UsageError where the provider's libraries are missing."""
        self.spec = spec
        self._kind, _, self._name = settings.use.partition(":")
        clients.check_installed(self._kind)
        self._settings = settings
        self._key = key
        self._environment = environment
        self._tariff = Tariff(self._kind, self._name, settings.url, settings.price)

    def __repr__(self) -> str:
        """The name and no more: whatever prints a model must not print its key."""
        return f"ProviderModel({self.spec!r})"

    async def decide(self, prompt: Prompt) -> Reply:
        """One request; ModelUnavailableError for whatever comes of it but a reply."""
        return await self._decided(prompt, None)

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
        """The same request, whose answer is sent as it is made: `hear` is given each piece, and the whole is read as ever."""
        return await self._decided(prompt, hear)

    async def _decided(self, prompt: Prompt, hear: Hear | None) -> Reply:
        await self._environment.in_thread(clients.load, self._kind)
        seconds, refused = self._share(prompt), False
        try:
            async with (
                self._environment.timeout(seconds),
                clients.client(self._kind, self._name, self._settings.url, self._key, seconds, self.spec) as model,
            ):
                response = await self._asked(model, prompt, seconds, hear)
            return self._reply(prompt, response)
        except TimeoutError:
            failed = ModelUnavailableError(f"{self.spec} gave no answer within {seconds:g} s")
        except ModelUnavailableError as problem:
            failed = problem
        except Exception as problem:  # noqa: BLE001  three libraries, and whatever a server made them stumble over
            failed = clients.failure(problem, self.spec, self._key)
            refused = getattr(problem, "status_code", None) is not None
        failed.spent = self._lost(prompt, refused=refused)
        raise failed from None  # the library's own error holds the request with its headers

    def _share(self, prompt: Prompt) -> float:
        """Its own time, and at most half of what the task has left: a server that hangs leaves time to ask again."""
        left = prompt.remaining.get("seconds")
        share = max(_LEAST, left / 2) if isinstance(left, (int, float)) else float("inf")
        return min(self._settings.timeout.total_seconds(), share)

    async def _asked(self, model: Any, prompt: Prompt, seconds: float, hear: Hear | None) -> Any:
        from pydantic_ai.direct import model_request, model_request_stream  # imported already, in a thread
        from pydantic_ai.models import ModelRequestParameters

        parameters = ModelRequestParameters(
            function_tools=[_definition(tool) for tool in prompt.tools],
            allow_text_output=self._settings.tool_choice == "auto",
        )
        asked: dict[str, Any] = {
            "messages": [self._message(prompt)],
            "model_settings": self._parameters(prompt, seconds),
            "model_request_parameters": parameters,
            "instrument": False,
        }
        if hear is None:
            return await model_request(model, **asked)
        async with model_request_stream(model, **asked) as stream:
            return await pieces.told(stream, hear, self.spec)

    def _message(self, prompt: Prompt) -> Any:
        """The prompt, and nothing beside it; where a provider wants it, with a mark behind what the next one has too."""
        from pydantic_ai.messages import CachePoint, ModelRequest, UserPromptPart

        begins, goes_on = prompt.text[: prompt.stable], prompt.text[prompt.stable :]
        if not (self._settings.cache and self._kind in _MARKED and begins and goes_on):
            return ModelRequest.user_text_prompt(prompt.text)
        return ModelRequest([UserPromptPart([begins, CachePoint(), goes_on])])

    def _parameters(self, prompt: Prompt, seconds: float) -> Any:
        given = self._settings
        found: dict[str, Any] = {
            "max_tokens": _room(prompt, given.max_tokens),
            # Google has no such switch; whoever sends several where one is allowed is told so
            "parallel_tool_calls": None if self._kind == "google" else prompt.at_once > 1,
            "tool_choice": given.tool_choice,
            "timeout": seconds,
            "temperature": given.temperature,
            "top_p": given.top_p,
            "seed": given.seed,
            "thinking": False if given.thinking == "off" else given.thinking,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _reply(self, prompt: Prompt, response: Any) -> Reply:
        from pydantic_ai.messages import TextPart, ToolCallPart

        details = response.provider_details or {}
        if response.finish_reason == "error" and not response.parts:  # the provider gave up on it itself
            why = one_line(str(details.get("finish_reason", "no reason")), 80)
            raise ModelUnavailableError(f"{self.spec} broke off: {why}")
        calls = tuple(
            # arguments as they came: the library's own reading of broken ones gives a mapping that looks whole
            RawCall(part.tool_call_id, part.tool_name, "" if part.args is None else part.args)
            for part in response.parts
            if isinstance(part, ToolCallPart)
        )
        text = "\n".join(part.content for part in response.parts if isinstance(part, TextPart))
        raw = RawReply(calls, text or str(details.get("refusal") or ""), response.finish_reason)
        served = one_line(response.model_name, 100) if isinstance(response.model_name, str) else None
        spent = self._tariff.spent(response.usage, served, _size(prompt), _length(raw))
        return Reply(raw, spent, f"{self._kind}:{served or self._name}")

    def _lost(self, prompt: Prompt, *, refused: bool) -> Spent:
        """What a failed attempt is booked with: the provider may have read all of it, and charge for it unless it refused."""
        read = estimated(_size(prompt))
        return Spent(read, 0, Decimal(0) if refused else self._tariff.cost(None, read, 0))


def _definition(tool: OfferedTool) -> Any:
    from pydantic_ai.tools import ToolDefinition

    # not strict: a provider's strict mode changes the schema, and what it lets through is checked here all the same
    return ToolDefinition(
        name=tool.name, description=tool.summary, parameters_json_schema=dict(tool.schema), strict=False
    )


def _room(prompt: Prompt, most: int) -> int:
    """The most tokens of the reply: no more than the task's budget has left behind the prompt."""
    left = prompt.remaining.get("tokens")
    if not isinstance(left, int):
        return most
    return min(most, max(_LEAST_TOKENS, left - estimated(_size(prompt))))


def _size(prompt: Prompt) -> int:
    """Characters that are sent: the text, and the tools beside it."""
    return len(prompt.text) + sum(len(t.name) + len(t.summary) + len(json.dumps(t.schema)) for t in prompt.tools)


def _length(raw: RawReply) -> int:
    return len(json.dumps(raw.as_json(), default=str))
