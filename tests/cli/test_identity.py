"""Who one is at the command line: by the operating system, by a token, or merely asserted."""

from __future__ import annotations

from pathlib import Path

from statemachine_agent.sandbox import Sandbox
from support.cli import Here

KEY = "0123456789abcdef0123456789abcdef"


def test_a_token_establishes_who_one_is(services: Sandbox, tmp_path: Path) -> None:
    """Signed, for a time, for one person; the approval records how."""
    boss = Here(tmp_path, services.urls, {"SMA_IDENTITY": "token", "SMA_IDENTITY_KEY": KEY})
    token = boss("token", "lead@example.com", "--lasts", "1h").out.strip()
    customer = boss("token", "cust-3391").out.strip()
    shopper = Here(tmp_path, services.urls, {**boss.more, "SMA_TOKEN": customer})
    run = ("run", "refund", "-i", "order_id=8472", "-i", "message=twice", "--json")
    waiting = shopper(*run)
    assert waiting.code == 3
    request = waiting.json["approvals"][0]["id"]
    forged = Here(tmp_path, services.urls, {**boss.more, "SMA_TOKEN": token[:-1] + ("0" if token[-1] != "0" else "1")})
    assert (forged("approve", request).code, "not valid" in forged("approve", request).err) == (1, True)
    other = shopper("approve", request, "--as", "lead@example.com")
    assert other.code == 1 and "you are `cust-3391` here" in other.err
    lead = Here(tmp_path, services.urls, {**boss.more, "SMA_TOKEN": token})
    assert lead("approve", request).code == 0
    events = [line for line in lead.trace(waiting.json["task"]) if line["kind"] == "approval"]
    assert ("approved", "lead@example.com", "token") in [(e["event"], e["by"], e["established"]) for e in events]
    assert boss("token", "lead@example.com", "--lasts", "soon").code == 2
    assert Here(tmp_path, more={"SMA_IDENTITY_KEY": "short"})("token", "x").code == 2
