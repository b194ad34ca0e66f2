"""Times as text: ISO 8601 in UTC with microseconds, so that texts order as the times do; durations as authors write them.

It must not know whose they are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


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


def duration(time: timedelta) -> str:
    """A duration as an author writes it: `2h`, `1h 30m`."""
    rest = round(time / timedelta(milliseconds=1))
    parts = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts) or "0s"
