"""What became of a call, as data.

A read has two outcomes, `Ok` and `Failed`. A write has four: `Blocked` means that nothing was sent, `Unknown` that something
was sent and no usable answer came. It must not know how a call is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statemachine_agent.errors import SmaError


@dataclass(frozen=True)
class Ok:
    """The service answered, and the answer fits the manifest."""

    payload: Mapping[str, Any]
    size: int = 0


@dataclass(frozen=True)
class Failed:
    """For a read: no usable answer. For a write: the service answered and refused."""

    error_class: str
    detail: str = ""
    retryable: bool = False


@dataclass(frozen=True)
class Blocked:
    """Nothing was sent."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Unknown:
    """Something was sent, and no usable answer came: it may have happened."""

    error_class: str
    detail: str = ""


Outcome = Ok | Failed | Blocked | Unknown


@dataclass(frozen=True)
class Attempt:
    """One request of a call, with its own id."""

    number: int
    request_id: str
    started_at: datetime
    latency_ms: int
    outcome: Outcome


# ---------------------------------------------------------------- what a binding raises


class NotSentError(SmaError):
    """Nothing reached the service."""

    reason = "unavailable"


class RefusedByServiceError(SmaError):
    """The service answered, and its answer means no."""

    reason = "rejected"


class LostError(SmaError):
    """The request was sent, and no usable answer came."""

    reason = "unavailable"
