"""Fixtures for all tests: one sandbox for each test that asks for one."""

from __future__ import annotations

import gc
import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from statemachine_agent.sandbox import Sandbox
from support import forks

# A machine that does other things too is slow, and that is no fault of what is tested.
settings.register_profile("patient", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

#: where files are kept in memory, and how much of it must be free
MEMORY, ROOM = Path("/dev/shm"), 2 * 2**30  # noqa: S108  pytest makes a folder of its own inside


#: tests between two looks at what stays
SOME = 1_000
_done = itertools.count(1)


def keep_what_is_there() -> None:
    """Six thousand tests, and what they share, stay till the end; whoever collects garbage need not look at them each time."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    gc.set_threshold(20_000, 20, 20)
    keep_what_is_there()


def pytest_runtest_logfinish() -> None:
    if next(_done) % SOME == 0:
        keep_what_is_there()


def pytest_configure() -> None:
    """Hundreds of stores wait for a disk at each commit; these need not outlive the machine."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session", autouse=True)
def _forked_services() -> Iterator[None]:
    """Services start without importing everything anew."""
    with forks.for_services():
        yield


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Sandbox]:
    """The demo's services, fresh, in processes of their own."""
    with Sandbox(tmp_path / "sandbox", None) as sandbox:
        yield sandbox


@pytest.fixture
def seed(record_property) -> int:
    """A seed that a failing run prints, and that SEED repeats."""
    value = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
    record_property("seed", value)
    print(f"seed {value}: repeat with SEED={value}")
    return value
