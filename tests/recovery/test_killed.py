"""A worker is killed with SIGKILL at each point around an effect; after `sma resume` there is exactly one of each.

Real processes, real services. The windows: before the intent (while the precondition is read), in flight before the service
commits, in flight after it committed, and after the answer but before its record (the store's write lock is held).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from statemachine_agent.sandbox import Sandbox, control
from support.cli import Here, Sma, kill, until, write_lock

REFUND = ("REFUNDS_URL", "/refunds")
MESSAGE = ("NOTIFICATIONS_URL", "/messages")


def seen(url: str, method: str, path: str) -> list[dict]:
    return [r for r in control.log(url) if r["method"] == method and r["path"].startswith(path)]


def assert_exactly_once(services: Sandbox) -> None:
    assert len(control.refunds(services.urls["REFUNDS_URL"], "8472")) == 1
    assert len(control.messages(services.urls["NOTIFICATIONS_URL"], "8472")) == 1
    keys = {r["key"] for r in seen(services.urls["REFUNDS_URL"], "POST", "/refunds")}
    assert keys == {"refund:order-8472:pay_5a2:v1"}, "never a second call under another key"


def finish(sma: Sma, task: str) -> dict:
    result = sma("resume", task, "--json")  # in this process: certainly not the one that was killed
    assert result.code == 0, result
    return result.json


@pytest.fixture
def approved(services: Sandbox, tmp_path: Path) -> tuple[Sma, str]:
    """A task whose refund was approved, and nobody works on it."""
    sma = Here(tmp_path, services.urls)
    task, request = sma.propose()
    sma.approve(request)
    return sma, task


def test_killed_before_the_intent(services: Sandbox, approved: tuple[Sma, str]) -> None:
    """Nothing was sent and nothing was written: it is done again."""
    sma, task = approved
    url = services.urls["REFUNDS_URL"]
    control.set_fault(url, "slow", on="read", seconds=20)
    worker = sma.start("resume", task)
    until(lambda: seen(url, "GET", "/refunds?payment_id="), "the precondition's read")
    kill(worker)
    control.clear_faults(url)
    assert not seen(url, "POST", "/refunds")
    assert sma.show(task)["version"] == 5
    assert finish(sma, task)["version"] == 11
    assert_exactly_once(services)


@pytest.mark.parametrize(("service", "path"), [REFUND, MESSAGE], ids=["refund", "message"])
def test_killed_in_flight_before_the_service_commits(
    services: Sandbox, approved: tuple[Sma, str], service: str, path: str
) -> None:
    """The service has not done it yet, and does it later, while the key is asked for: still one."""
    sma, task = approved
    url = services.urls[service]
    control.set_fault(url, "slow_before", seconds=60)
    worker = sma.start("resume", task)
    until(lambda: seen(url, "POST", path), "the request")
    kill(worker)
    assert sma.show(task)["open_effects"]
    assert finish(sma, task)["version"] == 14, "unknown, absent, a second intent"
    control.clear_faults(url)  # only now does the service do it
    until(lambda: all(r["status"] is not None for r in seen(url, "POST", path)), "the first request's end")
    assert_exactly_once(services)


@pytest.mark.parametrize(("service", "path"), [REFUND, MESSAGE], ids=["refund", "message"])
def test_killed_in_flight_after_the_service_committed(
    services: Sandbox, approved: tuple[Sma, str], service: str, path: str
) -> None:
    """It happened, and nobody was told: it is found by its key."""
    sma, task = approved
    url = services.urls[service]
    control.set_fault(url, "slow", seconds=20)
    worker = sma.start("resume", task)
    look = control.refunds if service == "REFUNDS_URL" else control.messages
    until(lambda: look(url, "8472"), "the service's commit")
    kill(worker)
    assert finish(sma, task)["version"] == 12, "unknown, found"
    assert len(seen(url, "POST", path)) == 1, "found, not sent again"
    assert_exactly_once(services)


@pytest.mark.parametrize(("service", "path"), [REFUND, MESSAGE], ids=["refund", "message"])
def test_killed_after_the_answer_and_before_its_record(
    services: Sandbox, approved: tuple[Sma, str], service: str, path: str
) -> None:
    """The answer came and could not be written down: it is found by its key."""
    sma, task = approved
    url = services.urls[service]
    control.set_fault(url, "slow", seconds=60)
    worker = sma.start("resume", task)
    until(lambda: seen(url, "POST", path), "the request")
    with write_lock(sma.db):
        control.clear_faults(url)
        until(lambda: [r for r in seen(url, "POST", path) if r["status"] == 201], "the answer")
        assert worker.poll() is None
        kill(worker)
    assert finish(sma, task)["version"] == 12
    assert len(seen(url, "POST", path)) == 1
    assert_exactly_once(services)


def test_killed_before_the_notification_is_intended(services: Sandbox, approved: tuple[Sma, str]) -> None:
    """Killed while the verifying read is under way: the refund is done, the message is still to be sent, once."""
    sma, task = approved
    url = services.urls["REFUNDS_URL"]
    control.set_fault(url, "slow", seconds=0.3)
    worker = sma.start("resume", task)
    until(lambda: seen(url, "POST", "/refunds"), "the refund's request")
    control.set_fault(url, "slow", on="read", seconds=20)
    until(lambda: seen(url, "GET", "/refunds/by-key/"), "the verifying read")
    kill(worker)
    control.clear_faults(url)
    assert finish(sma, task)["version"] == 11
    assert_exactly_once(services)


def test_killed_twice_in_a_row_at_the_same_point(services: Sandbox, approved: tuple[Sma, str]) -> None:
    """A resume that is killed too changes nothing of the promise."""
    sma, task = approved
    url = services.urls["REFUNDS_URL"]
    control.set_fault(url, "slow_before", seconds=60)
    worker = sma.start("resume", task)
    until(lambda: seen(url, "POST", "/refunds"), "the request")
    kill(worker)
    control.set_fault(url, "slow", on="read", seconds=60)
    worker = sma.start("resume", task)
    until(lambda: seen(url, "GET", "/refunds?key="), "the reconciliation")
    kill(worker)
    assert finish(sma, task)["status"] == "SUCCEEDED"
    control.clear_faults(url)  # only now does the service do what the first request asked
    until(lambda: all(r["status"] is not None for r in seen(url, "POST", "/refunds")), "the first request's end")
    assert_exactly_once(services)
