"""`sma check` where nothing is wrong but something is doubtful: it says so in its last line, and for CI it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemachine_agent.cli.main import run as sma


@pytest.mark.parametrize(
    ("packages", "last", "strict"), [('["agent_tools"]', "no faults", 0), ("[]", "no faults, 2 warnings", 1)]
)
def test_warnings_are_counted_and_strictly_they_are_faults(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    packages: str,
    last: str,
    strict: int,
) -> None:
    """Two tools whose package the settings do not list; without warnings, `--strict` changes nothing."""
    monkeypatch.chdir(tmp_path)
    assert sma(["new", "parcel"]) == 0
    settings = tmp_path / "statemachine-agent.toml"
    settings.write_text(settings.read_text().replace('["agent_tools"]', packages))
    for arguments, code in ((["check"], 0), (["check", "--strict"], strict)):
        capsys.readouterr()
        assert sma(arguments) == code
        assert capsys.readouterr().out.splitlines()[-1] == last
    assert sma(["check", "--strict", "--json"]) == strict
