"""The demo with another model than its script, and runs by chance beside it."""

from __future__ import annotations

import re
from pathlib import Path

from statemachine_agent.cli.output import EXIT_CODES
from statemachine_agent.records import Status
from support.cli import Sma


def test_a_model_may_end_otherwise_and_chance_is_counted_beside_it(tmp_path: Path) -> None:
    """Each decision with the number of calls that were possible; how it ended, in words and by its exit code."""
    sma = Sma(tmp_path)
    environ = {k: v for k, v in sma.environ.items() if not k.startswith("SMA_")}
    result = sma("demo", "--model", "chance:3", "--chance", "2", env=environ)
    assert result.err == ""
    assert "(here chance:3)" in result.out
    assert re.search(
        r"^step 1 +INVESTIGATING: the model proposes \w+ .+  \(1 of 6 possible, 0 tokens, \d\.\d s\)$",
        result.out,
        re.MULTILINE,
    )
    ended = re.search(r"^chance:3: (\w+) \(\w+\) after \d decisions$", result.out, re.MULTILINE)
    assert ended and result.code == EXIT_CODES[Status(ended[1])]
    assert re.search(r"^random chooser: [0-2] of 2 reach SUCCEEDED$", result.out, re.MULTILINE)
    again = sma("demo", "--model", "chance:3", env=environ)
    steps = [re.findall(r"the model proposes (.*)  \(", r.out) for r in (result, again)]
    assert steps[0] == steps[1] and "random chooser" not in again.out


def test_a_model_that_is_not_there_is_told_of_before_anything_starts(tmp_path: Path) -> None:
    result = Sma(tmp_path)("demo", "--model", "local:none")
    assert (result.code, result.out) == (2, "") and "there is no model `local:none`" in result.err
