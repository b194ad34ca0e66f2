"""The libraries behind a provider: imported when first used, set to one request for each call, their errors put in our words.

Nothing else imports them. It must not know prompts or replies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from statemachine_agent.bounds import Bound
from statemachine_agent.errors import UsageError
from statemachine_agent.models.port import ModelUnavailableError
from statemachine_agent.text import one_line

#: what each provider needs, as modules; all of them come with the extra `providers`
_NEEDS = {
    "openai": ("pydantic_ai", "openai"),
    "anthropic": ("pydantic_ai", "anthropic"),
    "google": ("pydantic_ai", "google.genai"),
}
_CONNECT = 10.0  # seconds until a server must have taken a connection
#: bytes of one answer, streamed or not, and values of JSON in it. A token of a stream has some 300 bytes around it, and 15
#: values: that is room for 50,000 of them
_MOST = 16 * 1024 * 1024
_VALUES = 1_000_000
#: statuses of refusals that may be over soon, where the library knows no better
_SOON = (408, 409, 425, 429)
_NO_ENTRY = (401, 403)
_QUOTED = 4096  # characters of an error that are looked at; far fewer are told
_PIECE = 8  # characters of a key that are a part of it, and not a word


def check_installed(kind: str) -> None:
    """UsageError where the libraries of this provider are missing; nothing is imported for it."""
    for name in _NEEDS[kind]:
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:  # the package around it is missing
            found = False
        if not found:
            raise UsageError(
                f"models of {kind} need the package `{name.split('.')[0].replace('_', '-')}`, which is not installed",
                hint="pip install 'statemachine-agent[providers]'",
            )


def load(kind: str) -> None:
    """Import what a request needs: a second or more, so not on the event loop."""
    import httpx2  # noqa: F401
    import pydantic_ai.direct

    match kind:
        case "openai":
            import pydantic_ai.models.openai
        case "anthropic":
            import pydantic_ai.models.anthropic
        case _:
            import pydantic_ai.models.google  # noqa: F401


@cache
def _trusted() -> Any:
    """Whose certificates are believed: read once, for it takes longer than a connection."""
    import httpx2

    return httpx2.create_ssl_context()


@asynccontextmanager
async def client(kind: str, name: str, url: str | None, key: str, seconds: float, label: str) -> AsyncIterator[Any]:
    """The library's model of this name, on a connection of its own that is closed behind it.

    No library tries again, and none follows a redirect: it would carry the key to wherever it is sent. Of an answer without
    end no more is read than `_MOST` and `_VALUES`; that is a ModelUnavailableError, whatever the library makes of it.
    """
    import httpx2

    timeout = httpx2.Timeout(seconds, connect=min(seconds, _CONNECT))
    bound = Bound(_MOST, _VALUES)
    settings: dict[str, Any] = {"follow_redirects": False, "verify": _trusted(), "event_hooks": bound.hooks}
    async with httpx2.AsyncClient(timeout=timeout, **settings) as http:
        try:
            match kind:
                case "openai":
                    yield _openai(name, url, key, http)
                case "anthropic":
                    yield _anthropic(name, url, key, http)
                case _:
                    yield _google(name, url, key, http, seconds)
        except Exception:
            if bound.trouble is None:
                raise
    if bound.trouble is not None:
        raise ModelUnavailableError(f"{label} sent {bound.trouble}")


def _openai(name: str, url: str | None, key: str, http: Any) -> Any:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    made = AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http)
    # servers that speak this protocol know the older name of the limit, and not all of them the newer one
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False) if url else None
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=made), profile=profile)


def _anthropic(name: str, url: str | None, key: str, http: Any) -> Any:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    made = AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=http)
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=made))


def _google(name: str, url: str | None, key: str, http: Any, seconds: float) -> Any:
    from google.genai import Client
    from google.genai.types import HttpOptions, HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    # It makes two more clients, which nobody uses; each of them would read the certificates anew.
    trusted = {"verify": _trusted(), "ssl": _trusted()}
    options = HttpOptions(
        base_url=url,
        timeout=max(1, int(seconds * 1000)),
        httpx_async_client=http,
        retry_options=HttpRetryOptions(attempts=1),
        client_args=trusted,
        async_client_args=trusted,
    )
    made = Client(vertexai=False, api_key=key, http_options=options)
    return GoogleModel(name, provider=GoogleProvider(client=made))


def failure(problem: Exception, label: str, key: str) -> ModelUnavailableError:
    """What a library raised, as a failed attempt: whether asking again may help, and what is told, without the key."""
    from pydantic_ai import exceptions

    status = getattr(problem, "status_code", None)
    match problem:
        case _ if status in _NO_ENTRY:  # what the provider says of it may quote a part of the key
            return ModelUnavailableError(f"{label} does not accept the key", retryable=False)
        case exceptions.ModelTimeoutError() | exceptions.ModelRequestTimeout():
            return ModelUnavailableError(f"{label} gave no answer in time")
        case exceptions.ModelConnectionError():
            return ModelUnavailableError(_told(f"{label} cannot be reached, or broke off", problem, key))
        case exceptions.ModelAPIError():
            what = f"{label} answered {status}" if status else f"{label} failed"
            return ModelUnavailableError(
                _told(what, problem, key), retryable=_may_pass(problem, status), retry_after=problem.retry_after
            )
        case exceptions.UserError():  # the request itself cannot be made
            return ModelUnavailableError(_told(f"{label} cannot be asked this way", problem, key), retryable=False)
        case _:  # an answer that is none: another one may be
            return ModelUnavailableError(_told(f"{label} gave an answer that cannot be read", problem, key))


def _may_pass(problem: Any, status: int | None) -> bool:
    from pydantic_ai import exceptions

    if isinstance(problem, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError):
        return status in _SOON and not isinstance(problem, exceptions.ModelQuotaExceededError)
    if status is None:  # no refusal: what came could not be read
        return True
    passing = (exceptions.ModelRateLimitError, exceptions.ModelUnavailableError, exceptions.ModelServerError)
    return isinstance(problem, passing) or status in _SOON or status >= 500  # noqa: PLR2004


def _told(what: str, problem: Exception, key: str) -> str:
    body = getattr(problem, "body", None)
    said = _message(body) or (_said(problem) if body is None else "")
    text = f"{what}: {said}" if said else what
    return one_line(_without(text[:_QUOTED], key))


def _said(problem: Exception) -> str:
    """As `said_by`, before it is cut: a key is found in what is whole."""
    try:
        return f"{type(problem).__name__}: {problem}".rstrip(": ")
    except Exception:  # noqa: BLE001  its text is code of somebody else's
        return type(problem).__name__


def _without(text: str, key: str) -> str:
    """The text without the key, and without what is left of it where a library cut it."""
    text = text.replace(key, "…") if key else text
    at = 0
    while at + _PIECE <= len(key):
        end = at + _PIECE
        if key[at:end] not in text:
            at += 1
            continue
        while end < len(key) and key[at : end + 1] in text:
            end += 1
        text = text.replace(key[at:end], "…")
    return text


def _message(body: object) -> str:
    """The sentence in a provider's error; all of them put it under `message`, most of them within `error`."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        found = inner.get("message") if isinstance(inner, Mapping) else inner
        return found if isinstance(found, str) else ""
    return body if isinstance(body, str) else ""
