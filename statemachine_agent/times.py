"""Times as text: ISO 8601 in UTC with microseconds, so that texts order as the times do. It must not know whose they are."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(moment: datetime) -> str:
    """The text of a moment; ValueError for one without zone, which would be a different moment on each host."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} names no zone")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time_of(text: str) -> datetime:
    """The moment of a text of ISO 8601 with zone; ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"`{text}` names no zone")
    return moment
