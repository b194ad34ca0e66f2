"""What one inference used and cost, from what a provider says of it: whatever that is, it is a number that only ever grows.

It must not know how the provider was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from statemachine_agent.definition.named_models import Price
from statemachine_agent.models.port import MOST, Spent

#: about as many as in English prose; of a script with a sign for each word it is too many
CHARACTERS_PER_TOKEN = 4
_MILLION = 1_000_000


@dataclass(frozen=True)
class Tariff:
    """By what a model's tokens are paid for."""

    provider: str
    name: str
    url: str | None = None
    #: the settings' own price, before any table
    price: Price | None = None

    def spent(self, usage: Any, served: str | None, sent: int, received: int) -> Spent:
        """What was used; where the provider says nothing usable, by the characters that were sent and received."""
        read = _number(usage, "input_tokens") or estimated(sent)
        written = _number(usage, "output_tokens") or estimated(received)
        # a share of what was read, whatever the provider says
        cached = min(_number(usage, "cache_read_tokens"), read)
        stored = min(_number(usage, "cache_write_tokens"), read - cached)
        return Spent(read, written, self.cost(served, read, written, cached, stored))

    def cost(self, served: str | None, read: int, written: int, cached: int = 0, stored: int = 0) -> Decimal:
        """Dollars; none where nobody knows the price."""
        if self.price is not None:
            per_token = (Decimal(repr(self.price.input)), Decimal(repr(self.price.output)))
            return (per_token[0] * read + per_token[1] * written) / _MILLION
        import genai_prices  # a table of some megabytes

        usage = genai_prices.Usage(
            input_tokens=read, output_tokens=written, cache_read_tokens=cached, cache_write_tokens=stored
        )
        whose = {"provider_api_url": self.url} if self.url else {"provider_id": self.provider}
        for name in filter(None, (served, self.name)):
            try:
                found = genai_prices.calc_price(usage, name, **whose).total_price
            except (LookupError, ValueError):
                continue
            return Decimal(found)
        return Decimal(0)


def estimated(characters: int) -> int:
    """Tokens of so many characters; never none."""
    return max(1, characters // CHARACTERS_PER_TOKEN)


def _number(usage: Any, name: str) -> int:
    """A count of a provider's; none where it is missing, negative or no number."""
    found = getattr(usage, name, None)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < MOST:
        return MOST if isinstance(found, int) and found >= MOST else 0
    return int(found)
