"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine_agent.times import time_of, time_text

MOMENTS = st.datetimes(
    datetime(1, 1, 3),  # noqa: DTZ001  given one
    datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-11))]),
)


@given(MOMENTS)
def test_a_text_gives_its_moment_back(moment: datetime) -> None:
    assert time_of(time_text(moment)) == moment


@given(MOMENTS, MOMENTS)
def test_texts_order_as_the_times_do(one: datetime, other: datetime) -> None:
    assert (time_text(one) < time_text(other)) == (one < other)


def test_the_text_is_utc_to_the_microsecond() -> None:
    india = timezone(timedelta(hours=5, minutes=30))
    assert time_text(datetime(2026, 10, 28, 16, 47, 43, tzinfo=india)) == "2026-10-28T11:17:43.000000Z"


def test_a_time_without_zone_is_refused_both_ways() -> None:
    """It would be another moment on another host."""
    with pytest.raises(ValueError, match="names no zone"):
        time_text(datetime(2026, 10, 28))  # noqa: DTZ001  that is the point
    for text in ("2026-10-28T11:17:43", "2026-10-28"):
        with pytest.raises(ValueError, match="names no zone"):
            time_of(text)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        time_of("soon")
