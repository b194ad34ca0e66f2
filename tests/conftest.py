"""Fixtures for all tests: one sandbox for each test that asks for one."""

from __future__ import annotations

import gc
import itertools
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Whatever is not kept is compiled anew, and its assertions rewritten, in each worker and each program that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

from statemachine_agent.sandbox import Sandbox  # noqa: E402
from support import forks  # noqa: E402

# A machine that does other things too is slow, and that is no fault of what is tested.
settings.register_profile("patient", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

#: where files are kept in memory, and how much of it must be free
MEMORY, ROOM = Path("/dev/shm"), 2 * 2**30  # noqa: S108  pytest makes a folder of its own inside

TESTS = Path(__file__).parent

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


def pytest_configure(config: pytest.Config) -> None:
    """Hundreds of stores wait for a disk at each commit; these need not outlive the machine."""
    _begin_elsewhere(config)
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _begin_elsewhere(config: pytest.Config) -> None:
    """Each worker reads all tests; where each begins with others, it finds compiled what another has come to before."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or [Path(config.rootpath, given) for given in config.args] != [TESTS]:
        return
    folders = sorted({str(TESTS / path.relative_to(TESTS).parts[0]) for path in TESTS.rglob("test_*.py")})
    first = int(worker.removeprefix("gw")) * len(folders) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    config.args[:] = folders[first:] + folders[:first]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order is the same in all of them."""
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0])


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
