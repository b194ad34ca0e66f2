"""Processes: they start, they end with whoever started them, and what they acknowledged is still there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from statemachine_agent.sandbox import DEFAULT_PORTS, PortInUse, Sandbox, ServiceNotStarted, control
from support import forks

ROOT = Path(__file__).resolve().parents[3]
REFUND = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}

PARENT = """
import json, sys
from pathlib import Path
from statemachine_agent.sandbox import Sandbox
with Sandbox(Path(sys.argv[1])) as sandbox:
    print(json.dumps(sandbox.urls), flush=True)
    sys.stdin.read()
"""


def is_listening(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def serve(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "statemachine_agent.sandbox.serve", *arguments]
    return forks.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_services_run_in_processes_of_their_own_and_end_with_the_block(tmp_path: Path) -> None:
    with Sandbox(tmp_path / "new" / "folder") as sandbox:
        assert set(sandbox.urls) == {"PAYMENTS_URL", "REFUNDS_URL", "POLICY_URL", "NOTIFICATIONS_URL"}
        assert set(sandbox.pids) == set(DEFAULT_PORTS)
        assert len({*sandbox.pids.values(), os.getpid()}) == 5
        assert all(is_listening(url) for url in sandbox.urls.values())
        urls = sandbox.urls
    assert sandbox.pids == {}
    assert not any(is_listening(url) for url in urls.values())
    assert {file.stem for file in (tmp_path / "new" / "folder").glob("*.sqlite")} == set(DEFAULT_PORTS)


def test_a_killed_service_comes_back_with_its_refunds_keys_and_log(tmp_path: Path, call: Any) -> None:
    with Sandbox(tmp_path) as sandbox:
        url = sandbox.urls["REFUNDS_URL"]
        control.set_fault(url, "commit_then_drop")
        with pytest.raises(RemoteDisconnected):
            call("POST", f"{url}/refunds", REFUND, key="case:8472")
        made = control.refunds(url, "8472")
        sandbox.kill("refunds")
        assert not is_listening(url)
        sandbox.start("refunds")
        assert sandbox.urls["REFUNDS_URL"] == url
        assert control.refunds(url, "8472") == made
        again = call("POST", f"{url}/refunds", REFUND, key="case:8472")
        assert (again.status, [again.json()]) == (200, made)
        assert [(entry["method"], entry["status"]) for entry in control.log(url)] == [
            ("POST", "dropped"),
            ("POST", 200),
        ]


def test_a_service_killed_during_a_request_keeps_what_it_committed(
    tmp_path: Path, post_without_waiting: Any, eventually: Any
) -> None:
    with Sandbox(tmp_path) as sandbox:
        url = sandbox.urls["REFUNDS_URL"]
        control.set_fault(url, "slow", seconds=600)
        with post_without_waiting(url, "/refunds", REFUND, "k:1"):
            eventually(lambda: len(control.refunds(url, "8472")) == 1)
            sandbox.kill("refunds")
        sandbox.start("refunds")
        assert len(control.refunds(url, "8472")) == 1
        assert [(entry["key"], entry["status"]) for entry in control.log(url)] == [("k:1", None)]


def test_a_new_sandbox_on_the_same_folder_continues(tmp_path: Path, call: Any) -> None:
    with Sandbox(tmp_path) as first:
        made = call("POST", f"{first.urls['REFUNDS_URL']}/refunds", REFUND, key="k:1").json()
    with Sandbox(tmp_path) as second:
        assert control.refunds(second.urls["REFUNDS_URL"], "8472") == [made]
        assert len(control.refunds(second.urls["REFUNDS_URL"], "8476")) == 1, "seeded twice"
        assert len(call("GET", f"{second.urls['PAYMENTS_URL']}/orders/8472").json()["payments"]) == 2


def test_services_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    parent = forks.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    urls = json.loads(parent.stdout.readline())
    assert all(is_listening(url) for url in urls.values())
    parent.kill()
    # The services have the standard error of their parent: it ends when the last of them has ended.
    parent.communicate(timeout=10)
    assert not any(is_listening(url) for url in urls.values())


def test_a_taken_port_is_one_clear_error_and_nothing_stays_behind(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sandbox = Sandbox(tmp_path, {"refunds": port})
        with pytest.raises(PortInUse, match=f"refunds cannot listen on port {port}") as caught, sandbox:
            pytest.fail("the sandbox started")
    assert (caught.value.service, caught.value.port) == ("refunds", port)
    assert sandbox.pids == {}


def test_a_chosen_port_is_used(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Sandbox(tmp_path, {"policy": port}) as sandbox:
        assert sandbox.urls["POLICY_URL"] == f"http://127.0.0.1:{port}"
        assert control.health(sandbox.urls["POLICY_URL"]) == "policy"


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "policy.sqlite").write_text("this is not a database, " * 100)
    with pytest.raises(ServiceNotStarted, match=r"policy did not start: .*not a database"), Sandbox(tmp_path):
        pytest.fail("the sandbox started")


def test_an_unknown_service_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such service: shipping"):
        Sandbox(tmp_path, {"shipping": 1})


def test_sigterm_ends_a_service_at_once_and_well(tmp_path: Path, post_without_waiting: Any, eventually: Any) -> None:
    service = serve("refunds", "--file", str(tmp_path / "refunds.sqlite"), "--port", "0")
    assert service.stdout is not None
    url = f"http://127.0.0.1:{json.loads(service.stdout.readline())['port']}"
    control.set_fault(url, "slow", seconds=600)
    with post_without_waiting(url, "/refunds", REFUND, "k:1"):
        eventually(lambda: len(control.refunds(url, "8472")) == 1)
        service.send_signal(signal.SIGTERM)
        _, errors = service.communicate(timeout=10)
    assert (service.returncode, errors) == (0, "")


def test_serve_says_in_json_that_the_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        service = serve("policy", "--file", str(tmp_path / "policy.sqlite"), "--port", str(port))
        output, errors = service.communicate(timeout=10)
    assert json.loads(output) == {"service": "policy", "port": port, "error": "port_in_use"}
    assert (service.returncode, errors) == (3, "")
