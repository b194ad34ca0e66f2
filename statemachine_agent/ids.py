"""Ids that leave the store: UUIDs of version 7 (RFC 9562), ordered by the environment's clock.

It must not know what is named. Row keys inside the store are integers of the store's own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from statemachine_agent.environment import Environment

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_id(environment: Environment) -> str:
    """A new id: 48 bits of milliseconds since 1970, then 74 random bits, in the usual text form."""
    milliseconds = (environment.now() - _EPOCH) // timedelta(milliseconds=1) & (2**48 - 1)
    bits = int.from_bytes(environment.random_bytes(10))
    high = bits >> 68 & 0xFFF
    low = bits & (2**62 - 1)
    digits = f"{milliseconds << 80 | 7 << 76 | high << 64 | 2 << 62 | low:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
