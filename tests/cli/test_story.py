"""The command line, told as a story: two terminals, an approval, a new process each time, and the demo."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from statemachine_agent.sandbox import Sandbox, control
from support.cli import Here, Sma, free_ports, until
from support.refund import ROOT

RUN = ("run", "refund", "-i", "order_id=8472", "-i", "message=Order 8472 was charged twice", "--actor", "cust-3391")


@pytest.fixture
def sma(services: Sandbox, tmp_path: Path) -> Sma:
    return Here(tmp_path, services.urls)


def test_the_demo_tells_the_whole_story_and_ends_with_0(tmp_path: Path) -> None:
    """Each step and call, the exact action and its hash, the command that approves it, and where things lie."""
    sma = Sma(tmp_path, is_new=True)
    result = sma("demo", env={k: v for k, v in sma.environ.items() if not k.startswith("SMA_")})
    assert result.code == 0, result.err
    for wanted in (
        "INVESTIGATING: the model proposes lookup_order",
        "ruling   issue_refund: needs the approval of support_lead (POL-REF-004 v4 section 3.2)",
        "version 4  step: AWAITING_APPROVAL, step 4",
        'issue_refund {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}',
        "key      refund:order-8472:pay_5a2:v1",
        "covered by the approval of exactly this action",
        "version 11 outcome: SUCCEEDED (completed), step 5",
        "rf_9001",
        "the refund service holds 1 refund",
        "the customer was sent 1 message",
    ):
        assert wanted in result.out, wanted
    assert re.search(r"hash +[0-9a-f]{64}", result.out)
    assert re.search(r"\$ .+ --settings demo approve apr-\S+ --as lead@example.com --db \S+", result.out)
    assert (tmp_path / ".sma/demo/tasks.db").exists()
    assert (tmp_path / ".sma/demo/refund.svg").read_text().startswith("<?xml")
    again = Sma(tmp_path)("demo")
    assert again.code == 0, "a second demo begins anew"


def test_run_approve_resume_each_in_a_process_of_its_own(services: Sandbox, tmp_path: Path) -> None:
    """Exit 3 and the process gone; approve; resume to exit 0."""
    sma, listing = Sma(tmp_path, services.urls, is_new=True), Sma(tmp_path, services.urls)
    waiting = sma(*RUN)
    assert waiting.code == 3
    request = re.search(r" approve (apr-\S+)", waiting.out)
    task = re.search(r" resume (\S+)", waiting.out)
    assert request and task
    listed = listing("approvals")
    assert request[1] in listed.out and "support_lead" in listed.out
    assert "refund:order-8472:pay_5a2:v1" in listed.out, "two tasks may ask for the same"
    approved = sma("approve", request[1], "--as", "lead@example.com")
    assert (approved.code, f" resume {task[1]}" in approved.out) == (0, True)
    done = sma("resume", task[1])
    assert done.code == 0
    assert "SUCCEEDED (completed), version 11, step 5" in done.out
    assert "nothing waits for an answer" in listing("approvals").out
    assert "no effect is open" in listing("effects", "--open").out
    assert "refund:order-8472:pay_5a2:v1" in listing("effects").out
    assert listing("resume", task[1]).code == 0, "an ended task stays as it is"


def test_with_a_sandbox_in_another_terminal(tmp_path: Path) -> None:
    """`sma sandbox` prints its addresses, serves, and stops on a signal; nothing of it is left."""
    port = free_ports()
    sma = Sma(tmp_path)
    terminal = sma.start("sandbox", "--port", str(port), "--dir", str(tmp_path / "services"))
    lines = [terminal.stdout.readline() for _ in range(5)]
    urls = dict(line.strip().split("=", 1) for line in lines[:4])
    assert urls["REFUNDS_URL"] == f"http://127.0.0.1:{port + 1}"
    other = Sma(tmp_path, urls)
    assert other(*RUN).code == 3
    second = sma("sandbox", "--port", str(port), "--dir", str(tmp_path / "more"))
    assert second.code == 1 and "is in use" in second.err and "Traceback" not in second.err
    terminal.send_signal(signal.SIGTERM)
    terminal.communicate(timeout=20)
    assert terminal.returncode == 0
    until(lambda: not _answers(port + 1), "the services' end")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_person_plays_the_model(sma: Sma) -> None:
    """`--model ask`: brief, evidence and allowed tools are shown; a wrong choice is asked again."""
    typed = "nonsense 1 get_refund_status search_policy duplicate issue_refund 8472 pay_5a2 2000"
    waiting = sma(*RUN, "--model", "ask", input=typed.replace(" ", "\n") + "\n")
    assert waiting.code == 3, waiting.err
    assert "Establish from the systems of record" in waiting.err
    assert "there is no choice `nonsense`" in waiting.err
    assert "issue_refund: not available yet: look up the order, its refunds and the policy first" in waiting.err
    assert '"payment_id": "pay_5a2"' in waiting.err
    request = re.search(r" approve (apr-\S+)", waiting.out)
    task = re.search(r" resume (\S+)", waiting.out)
    assert request and task
    sma.approve(request[1])
    done = sma("resume", task[1], input="notify_customer\nRefunded under rf_9001.\n")
    assert done.code == 0, done.err


def test_a_person_who_leaves_can_come_back(sma: Sma) -> None:
    """End of input is no decision: one clear line, and the task goes on where it was."""
    left = sma(*RUN, "--model", "ask", input="lookup_order\n")
    assert left.code == 2
    assert left.err.strip().splitlines()[-1].startswith("sma: nobody is there to choose")
    (task,) = sma("tasks", "--json").json
    assert (task["status"], task["version"]) == ("RUNNING", 1)
    again = sma("resume", task["id"], input="cannot_continue\nI do not know.\n")
    assert again.code == 14


def test_json_everywhere(sma: Sma) -> None:
    """Every command that shows something shows it as JSON too."""
    task, request = sma.propose()
    for arguments in (
        ("tasks",), ("show", task), ("trace", task), ("approvals",), ("effects",), ("config",), ("check",),
    ):  # fmt: skip
        result = sma(*arguments, "--json")
        assert result.code == 0, result
        assert result.json is not None
    approved = sma("approve", request, "--as", "lead@example.com", "--json")
    assert approved.json["status"] == "RUNNING"
    done = sma("resume", task, "--json")
    assert (done.code, done.json["status"], done.json["version"]) == (0, "SUCCEEDED", 11)


def test_show_tells_what_a_person_needs(sma: Sma) -> None:
    """Evidence with its source, the effect with its key, the action with its hash, the next command."""
    task, request = sma.propose()
    shown = sma("show", task).out
    for wanted in ("ev-1", "payments-service", "refund:order-8472:pay_5a2:v1", request, " approve ", "cust-3391"):
        assert wanted in shown
    assert sma("show", task[-12:]).code == 0, "the end of an id is enough while it is the only one"


def test_reject(sma: Sma) -> None:
    """One no ends it, with who and why in the history."""
    task, request = sma.propose()
    no = sma("reject", request, "--as", "lead@example.com", "--why", "the bank has refunded it")
    assert (no.code, "DENIED (rejected)" in no.out) == (0, True)
    events = [line for line in sma.trace(task) if line["kind"] == "approval"]
    assert [(e["event"], e["by"], e["why"]) for e in events][-1] == (
        "rejected", "lead@example.com", "the bank has refunded it",
    )  # fmt: skip
    assert sma("resume", task).code == 11


def test_cancel(sma: Sma) -> None:
    """Called off while it waits."""
    task, request = sma.propose()
    assert sma("cancel", task).code == 2, "nobody was named"
    assert sma("cancel", task, "--as", "cust-3391").code == 0
    assert sma("resume", task).code == 15
    late = sma("approve", request, "--as", "lead@example.com")
    assert late.code == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_worker_and_not_the_task(sma: Sma, services: Sandbox, number: int, code: int) -> None:
    """Exit 130 or 143 and the lease given back; the task goes on at once in another process."""
    control.set_fault(services.urls["PAYMENTS_URL"], "slow", on="read", seconds=20)
    worker = sma.start(*RUN)
    until(lambda: control.log(services.urls["PAYMENTS_URL"]), "the first read")
    worker.send_signal(number)
    _, err = worker.communicate(timeout=10)
    assert worker.returncode == code
    assert "go on with `" in err and " resume " in err and "Traceback" not in err
    control.clear_faults(services.urls["PAYMENTS_URL"])
    (task,) = sma("tasks", "--json").json
    assert sma("resume", task["id"]).code == 3


def test_a_signal_while_a_write_is_under_way_waits_for_its_outcome(sma: Sma, services: Sandbox) -> None:
    """What was begun is finished and written down; nothing is left open."""
    task, request = sma.propose()
    sma.approve(request)
    url = services.urls["REFUNDS_URL"]
    control.set_fault(url, "slow", seconds=1)
    worker = sma.start("resume", task)
    until(lambda: [r for r in control.log(url) if r["method"] == "POST"], "the refund's request")
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=10)
    assert worker.returncode == 143
    shown = sma.show(task)
    assert (shown["open_effects"], shown["configuration"]) == ([], ["VERIFYING"])
    assert sma("resume", task).code == 0
    assert len(control.refunds(url, "8472")) == 1


def test_check_and_diagram(sma: Sma, tmp_path: Path) -> None:
    """The shipped machine has no faults; it is drawn, also with a task's way."""
    checked = sma("check")
    assert checked.code == 0 and "refund 1: 10 states, 9 tools" in checked.out and checked.out.endswith("no faults\n")
    bad = tmp_path / "bad.yaml"
    bad.write_text((ROOT / "machines/refund.yaml").read_text().replace("goto: SENDING", "goto: SENDIN"))
    broken = sma("check", str(bad))
    assert broken.code == 1
    assert "there is no state `SENDIN`" in broken.out and "did you mean `SENDING`?" in broken.out
    task, _ = sma.propose()
    for name in ("refund.svg", "refund.png", "refund.dot", "refund.mmd", "refund.md"):
        assert sma("diagram", "refund", "-o", name, "--task", task).code == 0
        assert (tmp_path / name).stat().st_size > 500
    assert sma("diagram", "refund").out.count("stateDiagram-v2") == 1
    assert "is of `refund`" in sma("diagram", "other", "--task", task).err
    # its texts are pinned: it is drawn as it was, whatever became of the files since
    empty = tmp_path / "empty.toml"
    empty.write_text('machines = ["none"]\ntools = ["none"]\n')
    (tmp_path / "none").mkdir()
    store = str(next(tmp_path.rglob("*.db")))
    assert sma("--settings", str(empty), "diagram", "refund").code == 2
    drawn = sma("--settings", str(empty), "diagram", "refund", "--task", task, "--db", store, "-o", "later.mmd")
    assert drawn.code == 0 and (tmp_path / "later.mmd").read_bytes() == (tmp_path / "refund.mmd").read_bytes()


def test_the_database_of_a_run_is_made_where_it_is_named(sma: Sma, tmp_path: Path) -> None:
    """`--db` beats the setting; a file that is not there is no store for commands that only look."""
    assert sma(*RUN, "--db", "deep/er/t.db").code == 3
    assert (tmp_path / "deep/er/t.db").exists()
    missing = sma("tasks", "--db", "nowhere.db")
    assert missing.code == 22 and not (tmp_path / "nowhere.db").exists()


def test_module_and_script_are_one(tmp_path: Path) -> None:
    """`python -m statemachine_agent` is the command line too."""
    result = Sma(tmp_path, is_new=True)("--version")
    assert result.code == 0 and result.out.startswith("sma, version ")
    assert json.dumps(subprocess.list2cmdline(["sma"]))
