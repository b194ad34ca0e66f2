"""Ids of version 7."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from hypothesis import example, given
from hypothesis import strategies as st

from statemachine_agent.environment import SimulatedEnvironment
from statemachine_agent.ids import new_id

MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2400, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  given one


@example(datetime(2243, 1, 1, 0, 0, 0, 1000, UTC), 0)  # a float holds a little less than its millisecond
@given(MOMENTS, st.integers(0, 2**32))
def test_every_id_is_a_uuid_of_version_7_that_holds_its_time(moment: datetime, seed: int) -> None:
    uuid = UUID(new_id(SimulatedEnvironment(moment, seed)))
    assert (uuid.version, uuid.variant) == (7, RFC_4122)
    assert uuid.int >> 80 == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(MOMENTS, st.floats(0.001, 1e6))
def test_ids_order_as_the_clock_does(moment: datetime, later: float) -> None:
    environment = SimulatedEnvironment(moment)
    first = new_id(environment)
    environment.advance(later)
    assert first < new_id(environment)


def test_ids_of_one_moment_differ_in_all_their_random_bits() -> None:
    environment = SimulatedEnvironment()
    ids = [UUID(new_id(environment)).int for _ in range(2000)]
    varying = 0
    for value in ids:
        varying |= value ^ ids[0]
    assert len(set(ids)) == 2000
    assert varying.bit_count() == 74


def test_a_seed_gives_the_same_ids_again() -> None:
    assert new_id(SimulatedEnvironment(seed=1)) == new_id(SimulatedEnvironment(seed=1))
    assert new_id(SimulatedEnvironment(seed=1)) != new_id(SimulatedEnvironment(seed=2))
