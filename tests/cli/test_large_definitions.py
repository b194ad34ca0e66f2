"""Large definitions: a machine of a thousand states is checked at once, and a report stays one that a person can read."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from support.cli import Sma

HEAD = "machine: big\nversion: 1\nsummary: x\ninput: {n: {type: integer}}\nlimits: {steps: 9}\n"
START = "success: []\ninitial: S0\nstates:\n"
LOOK = """tool: look
version: 1
summary: One thing.
effect: read
source: things
binding: {python: "things:look"}
args: {}
returns: {good: {type: boolean}}
"""


def states(count: int, form: str) -> str:
    return START + "".join(
        form.format(i=i, next=f"S{i + 1}" if i < count - 1 else "SUCCEEDED", back=f"S{i // 2}") for i in range(count)
    )


def guards(count: int, form: str) -> str:
    return "guards:\n" + "".join(form.format(i=i) for i in range(count))


ROUTES = "  S{i}: {{route: {next}}}\n"
SHAPES = {
    "routes": HEAD + states(1000, ROUTES),
    "waits": HEAD + states(1000, "  S{i}: {{wait: {{for: 1s}}, then: {{elapsed: {next}}}}}\n"),
    "calls": HEAD + states(1000, "  S{i}: {{call: look, then: {{ok: {next}, failed: FAILED}}}}\n"),
    "guards": HEAD
    + guards(1000, '  g{i}: "input.n == {i} && has(evidence.look)"\n')
    + states(1000, "  S{i}: {{choose: {{look: [{{when: g{i}, goto: {next}}}, {{goto: {back}}}]}}}}\n"),
    "nested": HEAD
    + states(500, "  S{i}: {{initial: A{i}, states: {{A{i}: {{route: done}}}}, then: {{done: {next}}}}}\n"),
    "bad targets": HEAD + states(1000, "  S{i}: {{route: X{i}}}\n"),
    "bad guards": HEAD + guards(1000, '  g{i}: "input.m == {i}"\n') + states(1, ROUTES),
}


@pytest.fixture
def sma(tmp_path: Path) -> Sma:
    for folder in ("machines", "tool_manifests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tool_manifests" / "look.yaml").write_text(LOOK)
    (tmp_path / "statemachine-agent.toml").write_text('python_packages = ["things"]\n')
    return Sma(tmp_path, more={"SMA_SETTINGS": str(tmp_path / "statemachine-agent.toml")})


def seconds(sma: Sma, text: str) -> tuple[float, str]:
    """User time of one `sma check`, and what it printed."""
    (sma.folder / "machines" / "big.yaml").write_text(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = sma("check")
    assert not result.err, result
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, result.out


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thousand_states_are_checked_in_two_seconds(sma: Sma, shape: str) -> None:
    """The better of three, since others may use the machine too."""
    took = 9.0
    for _ in range(3):
        if took > 2:
            now, out = seconds(sma, SHAPES[shape])
            took = min(took, now)
    assert took < 2, took
    assert len(out) < 40_000
    assert ("no faults" in out) is not shape.startswith("bad")


def test_ten_thousand_guards_that_nobody_uses_are_told_of_in_a_screen_or_two(sma: Sma) -> None:
    took, out = seconds(sma, HEAD + guards(10_000, '  g{i}: "{i} == {i}"\n') + states(1, ROUTES))
    assert "and 9,900 more\n" in out and out.count("no row uses the guard") == 100
    assert len(out) < 40_000
    assert took < 6, took
