"""The public surface type-checks for a user, under the strictest settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_a_users_code_type_checks(tmp_path: Path) -> None:
    """`py.typed` is there, and nothing public is Any by accident."""
    result = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", str(tmp_path), "--config-file", "",
            "--follow-imports=silent", str(HERE / "api.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
