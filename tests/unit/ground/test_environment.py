"""The one place through which time, chance, threads and process identity are reached."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from statemachine_agent import environment as environment_module
from statemachine_agent.environment import Environment, ProcessIdentity, SimulatedEnvironment


def simulated(main) -> SimulatedEnvironment:
    environment = SimulatedEnvironment()
    environment.run(main(environment))
    return environment


# ---------------------------------------------------------------- simulated


def test_the_simulated_clock_stands_still_until_somebody_moves_it() -> None:
    environment = SimulatedEnvironment()
    assert environment.now() == environment.now()
    before = environment.now()
    environment.advance(90)
    assert environment.now() - before == timedelta(seconds=90)
    assert environment.monotonic() == 90


def test_a_sleep_of_a_day_passes_at_once() -> None:
    async def main(environment: Environment) -> None:
        await environment.sleep(86_400)

    assert simulated(main).monotonic() == pytest.approx(86_400)


def test_two_sleepers_sleep_at_the_same_time_and_wake_in_order() -> None:
    woken: list[tuple[str, float]] = []

    async def main(environment: Environment) -> None:
        async def sleeper(name: str, *naps: float) -> None:
            for nap in naps:
                await environment.sleep(nap)
                woken.append((name, round(environment.monotonic(), 6)))

        await asyncio.gather(sleeper("a", 3, 3), sleeper("b", 2, 3))

    assert simulated(main).monotonic() == pytest.approx(6)
    assert woken == [("b", 2), ("a", 3), ("b", 5), ("a", 6)]


def test_a_timeout_runs_on_the_simulated_clock() -> None:
    async def main(environment: Environment) -> None:
        with pytest.raises(TimeoutError):
            async with environment.timeout(10):
                await environment.sleep(60)
        async with environment.timeout(None):
            await environment.sleep(60)

    assert simulated(main).monotonic() == pytest.approx(70)


def test_work_in_a_thread_does_not_move_the_clock() -> None:
    """However long it takes: here until the test lets it go, while another task sleeps an hour beside it."""
    free = threading.Event()

    async def main(environment: Environment) -> None:
        async def let_go() -> None:
            await asyncio.sleep(0)
            assert environment.monotonic() == 0
            free.set()

        async def sleeper() -> float:
            await environment.sleep(3600)
            return environment.monotonic()

        asleep = asyncio.ensure_future(sleeper())
        result, _ = await asyncio.gather(environment.in_thread(free.wait, 10), let_go())
        assert result is True
        assert environment.monotonic() == 0
        assert await asleep == pytest.approx(3600)

    simulated(main)


def test_a_seed_repeats_chance() -> None:
    one, other = SimulatedEnvironment(seed=7), SimulatedEnvironment(seed=7)
    assert [one.uniform(0, 1) for _ in range(3)] == [other.uniform(0, 1) for _ in range(3)]
    assert one.random_bytes(10) == other.random_bytes(10)
    assert one.random_bytes(10) != SimulatedEnvironment(seed=8).random_bytes(10)


# ---------------------------------------------------------------- real


def test_the_real_clock_has_a_zone() -> None:
    assert Environment().now().utcoffset() == timedelta(0)


def test_what_a_thread_raises_comes_out() -> None:
    environment = Environment()

    def fails() -> None:
        raise KeyError("tool")

    with pytest.raises(KeyError, match="tool"):
        environment.run(environment.in_thread(fails))


def test_a_thread_that_hangs_does_not_keep_anybody_waiting() -> None:
    environment = Environment()
    free = threading.Event()

    async def main() -> None:
        async with environment.timeout(0.01):
            await environment.in_thread(free.wait)

    with pytest.raises(TimeoutError):
        environment.run(main())
    free.set()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until its standard input is closed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_live_process_is_not_gone_and_an_ended_one_is(child: subprocess.Popen[bytes]) -> None:
    environment = Environment()
    here = environment.process()
    other = _identity(child.pid)
    assert not environment.is_gone(here)
    assert not environment.is_gone(other)
    child.kill()
    child.wait()
    assert environment.is_gone(other)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system cannot wait without fetching")
def test_a_process_that_ended_and_was_not_fetched_is_gone() -> None:
    """A zombie works no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        identity = _identity(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # wait for the end, and leave the body
        assert Environment().is_gone(identity)


def test_a_number_given_to_another_process_does_not_deceive() -> None:
    environment = Environment()
    here = environment.process()
    assert environment.is_gone(replace(here, started="0"))


def test_nothing_is_said_about_other_hosts_and_unknown_starts() -> None:
    environment = Environment()
    here = environment.process()
    assert not environment.is_gone(replace(here, host="elsewhere", pid=1, started="0"))
    assert not environment.is_gone(replace(here, started="unknown"))


def test_there_is_always_a_user() -> None:
    assert Environment().user()


def _identity(pid: int) -> ProcessIdentity:
    """Who a child is, in the words of the environment itself."""
    return ProcessIdentity(Environment().process().host, pid, environment_module._started(pid) or "unknown")
