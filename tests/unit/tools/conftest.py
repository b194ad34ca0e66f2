"""What the tests of the tools share: running services that behave at the beginning of each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statemachine_agent.sandbox import Sandbox, control


# One for each pytest-xdist worker; every test keeps to orders and keys of its own.
@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture
def urls(sandbox: Sandbox) -> Iterator[dict[str, str]]:
    yield sandbox.urls
    for url in sandbox.urls.values():
        control.clear_faults(url)
