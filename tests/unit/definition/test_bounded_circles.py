"""Circles that spend something at every turn are allowed; `tests/invalid` holds those that have a turn for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from invalid.test_invalid import HERE, report_of


@pytest.mark.parametrize(
    ("name", "free", "spent"),
    [
        ("circle_of_a_wait_that_is_exhausted", "exhausted: B", "exhausted: FAILED"),
        ("circle_of_a_read_that_fails", "ok: SUCCEEDED, failed: B", "ok: B, failed: SUCCEEDED"),
        ("circle_of_a_write_that_is_blocked", "failed: FAILED, blocked: B", "failed: B, blocked: FAILED"),
        ("circle_of_a_write_that_was_done_before", "ok: B, failed: FAILED", "ok: SUCCEEDED, failed: B"),
        ("circle_of_a_write_that_is_blocked", "blocked: B, unknown: R", "blocked: FAILED, unknown: R"),
    ],
)
def test_the_same_circle_loads_where_each_turn_spends_something(
    tmp_path: Path, name: str, free: str, spent: str
) -> None:
    """An entry of the wait, or a call that was made; only one row differs from the file with the fault."""
    text = (HERE / "machine" / f"{name}.yaml").read_text(encoding="utf-8")
    assert free in text
    changed = tmp_path / "machine" / "good.yaml"
    changed.parent.mkdir()
    changed.write_text(text.replace(free, spent), encoding="utf-8")
    faults = [f.message for f in report_of(changed).errors if "nothing leads to" not in f.message]
    assert faults == []


def test_a_write_that_is_sent_anew_after_it_was_found_absent_is_bounded(tmp_path: Path) -> None:
    """`unknown` spends a call: there and back through the reconciliation is no turn for nothing."""
    text = (HERE / "machine" / "circle_of_a_write_that_is_blocked.yaml").read_text(encoding="utf-8")
    changed = tmp_path / "machine" / "good.yaml"
    changed.parent.mkdir()
    lines = [line for line in text.splitlines() if not line.startswith("  B:")]
    changed.write_text(
        "\n".join(lines).replace("blocked: B", "blocked: FAILED").replace("absent: FAILED", "absent: A"),
        encoding="utf-8",
    )
    assert report_of(changed).errors == []
