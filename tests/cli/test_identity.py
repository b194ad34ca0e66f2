"""Who one is at the command line: by the operating system, by a token, or merely asserted."""

from __future__ import annotations

import subprocess
import sys
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


def test_without_a_key_it_is_said_which_variable_is_missing_and_how_one_is_made(tmp_path: Path) -> None:
    """For whoever makes a token, and for whoever shows one; another name may stand in the settings."""
    for more, told in (
        ({}, "`SMA_IDENTITY_KEY` is not set"),
        ({"SMA_IDENTITY_KEY": "short"}, "`SMA_IDENTITY_KEY` has fewer than 32 characters"),
    ):
        sma = Here(tmp_path, more={"SMA_IDENTITY": "token", "SMA_TOKEN": "sma1.x.1.y", **more})
        run = ("run", "refund", "-i", "order_id=8472", "-i", "message=x")
        for words in (("token", "cust-3391"), run):
            found = sma(*words)
            assert (found.code, told in found.err, "secrets.token_hex(32)" in found.err) == (2, True, True), found
    made = subprocess.run(
        [sys.executable, "-c", "import secrets; print(secrets.token_hex(32))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Here(tmp_path, more={"SMA_IDENTITY_KEY": made.stdout.strip()})("token", "cust-3391").err == ""


def test_a_token_for_somebody_unknown_is_made_with_a_word_of_warning(tmp_path: Path) -> None:
    """They may be listed later; more likely it is a slip."""
    found = Here(tmp_path, more={"SMA_IDENTITY_KEY": KEY})("token", "cust-3319")
    assert found.code == 0 and found.out.startswith("sma1.")
    assert found.err.count("\n") == 1 and "nobody is called `cust-3319`" in found.err
    assert "did you mean `cust-3391`?" in found.err
