"""Times as text: ISO 8601 in UTC with microseconds, so that texts order as the times do. It must not know whose they are."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(moment: datetime) -> str:
    """The text of a moment with zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_of(text: str) -> datetime:
    """The moment of such a text; ValueError for anything else."""
    return datetime.fromisoformat(text)
