"""The README's table of peers: our column says what our trial yields, row for row."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support import forks
from support.refund import ROOT

OURS = ROOT / "benchmarks" / "peer_trials" / "ours.py"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE = README.partition("## Beside others")[2].partition("\n## ")[0]
COLUMN = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", TABLE, re.MULTILINE))


def run(folder: Path, *steps: str) -> tuple[list[str], str, list[int]]:
    """What each step reported, the last one's note, and what was paid."""
    command = [sys.executable, str(Path(__file__).parent / "peer_driver.py"), str(OURS), str(folder), *steps]
    done = forks.run(command, timeout=60, check=True)
    *said, paid = [json.loads(line) for line in done.stdout.splitlines()]
    said = [s for s in said if s is not None]
    return [s["status"] for s in said], said[-1]["note"], paid


@pytest.mark.parametrize(
    ("row", "steps", "said", "because", "paid"),
    [
        ("Killed in the tool, after it paid; resumed", "start kill_after= approve resume",
         "waiting killed done", "SUCCEEDED", [100]),
        ("Killed in the tool, before it paid; resumed", "start kill_before= approve resume",
         "waiting killed done", "SUCCEEDED", [100]),
        ("One approval applied twice", "start approve approve", "waiting done error", "was answered before", [100]),
        ("Amount changed in the store after the yes", "start kill_before= approve tamper resume",
         "waiting killed error", "action_changed", []),
        ("Yes after the request expired", "expiry=0.001 start approve", "waiting error", "expired", []),
        ("Transition to a state that does not exist", "unknown_target", "error", "no state `PAYYING`", []),
        ("Waiting state renamed; resumed", "start approve_renamed", "waiting done", "SUCCEEDED", [100]),
        ("Guard compares text with a number, or misspells a name", "guard_raises",
         "error", "`>` does not work on (int, string)", []),
        ("Guard compares text with a number, or misspells a name", "guard_unknown", "error", "no field `amuont`", []),
        ("One key twice in the file", "duplicate_key", "error", "the key `initial` twice", []),
        ("A misspelt key in the file", "misspelled_key", "error", "unknown key `sucess`", []),
        ("Model calls a tool that is not offered", "tool_not_allowed", "told", "`pay` is not allowed here", []),
        ("Arguments cut off in the middle", "truncated_json", "told", "malformed_arguments", []),
    ],
)  # fmt: skip
def test_our_column_is_what_our_trial_yields(
    tmp_path: Path, row: str, steps: str, said: str, because: str, paid: list[int]
) -> None:
    """The races and the size are left to the trials' own runner."""
    assert COLUMN[row] == "ok"
    found, note, payments = run(tmp_path, *steps.split())
    assert (found, payments) == (said.split(), paid), note
    assert because in note


def test_the_columns_are_named_with_their_versions() -> None:
    """Ours first; every other one with the version that was run."""
    head = next(line for line in TABLE.splitlines() if line.startswith("| | "))
    first, *others = [cell.strip() for cell in head.strip("|").split("|")[1:]]
    assert first == "statemachine-agent"
    assert all(re.search(r" \d+\.\d+\.\d+$", other) for other in others)
    assert {line.count("|") for line in TABLE.splitlines() if line.startswith("|")} == {len(others) + 3}
