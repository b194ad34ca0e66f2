"""Models that the settings name: which provider's, at which address, with which key and parameters.

A key stands in the environment, and only the variable's name stands here: what a message quotes can be no secret. It must not
know how a provider is called.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from statemachine_agent.definition.node import Count, Duration, Lower, Node, complaint, in_schema

#: providers, and the variables in which their users keep the key
KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
SPEC = re.compile(rf"({'|'.join(KEYS)}):(\S{{1,200}})")


def _spec(value: object) -> object:
    if not isinstance(value, str) or not SPEC.fullmatch(value):
        raise complaint("this names no model of a provider", "write `openai:NAME`, `anthropic:NAME` or `google:NAME`")
    return value


def _key(value: object) -> object:
    """Never quoted: somebody may have written the key itself."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]*", value):
        raise complaint(
            "this is not the name of a variable", "keep the key in the environment, and name its variable here"
        )
    return value


def _url(value: object) -> object:
    """Never quoted either, since people write passwords into addresses."""
    advice = "write http:// or https://, a host, and the path up to /v1, without user, query or fragment"
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]{1,500}", value):
        raise complaint("this is no address", advice)
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable or "@" in value or "?" in value or "#" in value:
        raise complaint("this is no address of a provider", advice)
    return value.rstrip("/")


Dollars = Annotated[float, Field(strict=True, ge=0, le=1_000_000, allow_inf_nan=False)]


class Price(Node):
    """What a model costs, in dollars for a million tokens."""

    #: read
    input: Dollars
    #: written
    output: Dollars


class NamedModel(Node):
    """A provider's model under a name of the project's own."""

    #: provider and model: `openai:NAME`, `anthropic:NAME`, `google:NAME`
    use: Annotated[str, BeforeValidator(_spec), in_schema(pattern=f"^{SPEC.pattern}$")]
    #: another address than the provider's: a gateway, or a server that speaks its protocol
    url: Annotated[str, BeforeValidator(_url), in_schema(pattern="^https?://[^?#@]+$")] | None = None
    #: the variable that holds the key; with `url` no other key is ever sent
    key: Annotated[str, BeforeValidator(_key), in_schema(pattern="^[A-Z][A-Z0-9_]*$")] | None = None
    #: the model that is asked where this one has failed twice in a step
    fallback: Lower | None = None
    #: how long one inference may take
    timeout: Duration = timedelta(seconds=60)
    #: the most tokens of one reply
    max_tokens: Count = 4096
    #: `auto` for models that cannot be made to call a tool
    tool_choice: Literal["required", "auto"] = "required"
    #: how much it thinks before it answers, where it can
    thinking: Literal["off", "low", "medium", "high"] | None = None
    #: the randomness of its choice
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] | None = None
    #: the share of likely words that it chooses from
    top_p: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    #: repeats a choice, where the provider can
    seed: StrictInt | None = None
    #: marks what the prompts of a state begin with for the provider's cache, where it wants marks; others find it unasked
    cache: StrictBool = False
    #: where the price is not known, or is another one
    price: Price | None = None


def key_names(named: NamedModel) -> tuple[str, ...]:
    """The variables that may hold its key; none where it is at an address of its own, and no variable is named for it."""
    if named.key is not None:
        return (named.key,)
    return () if named.url is not None else KEYS[named.use.partition(":")[0]]
