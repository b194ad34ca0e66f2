"""One small file for each fault that a definition can have, with the exact text that its author reads.

`machine/`, `tool/` and `people/` hold pairs `NAME.yaml` and `NAME.expected`; `context/` holds good files that they refer to.
After a message was changed on purpose: `python tests/invalid/test_invalid.py` writes the expected texts anew, and the
difference is read like code.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.faults import Report
from statemachine_agent.definition.source import Source, read_text

HERE = Path(__file__).parent
KINDS = ("machine", "tool", "people")
CASES = sorted(path for kind in KINDS for path in (HERE / kind).glob("*.yaml"))


@cache
def report_of(path: Path) -> Report:
    """What loading says about a file of this folder, among the good ones of `context/`."""
    source, faults = read_text(path)
    source = Source(path.name, source.text)
    context = [read_text(p)[0] for p in sorted((HERE / "context").glob("*.yaml"))]
    people = next(s for s in context if s.name.endswith("people.yaml"))
    tools = [s for s in context if s is not people]
    held = (HERE / "context" / "machines").glob("*.yaml") if "@" in source.text else ()
    machines = [read_text(p)[0] for p in sorted(held)]
    catalogue = Catalogue.build(
        [source, *machines] if path.parent.name == "machine" else [],
        [*tools, source] if path.parent.name == "tool" else tools,
        source if path.parent.name == "people" else people,
        variables=frozenset({"LIBRARY"}),
        token_sources=frozenset({"desk"}),
        models=frozenset({"fast", "strong"}),
    )
    report = Report()
    report.add(replace(fault, file=path.name) for fault in faults)
    if not faults:
        report.add(
            replace(f, advice=f.advice.replace(f"{HERE}/", "")) for f in checked_catalogue(catalogue).report.faults
        )
    return report


def rendered(path: Path) -> str:
    """The report as its author reads it."""
    return f"{report_of(path)}\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_fault_is_told_with_place_line_and_advice(path: Path) -> None:
    """Of the file itself and no other: it leaves no trace in the report of files that refer to it, or that it refers to."""
    assert rendered(path) == path.with_suffix(".expected").read_text(encoding="utf-8")
    assert {fault.file for fault in report_of(path).faults} == {path.name}


def test_every_expected_text_has_its_file() -> None:
    texts = {path.with_suffix("") for kind in KINDS for path in (HERE / kind).glob("*.expected")}
    assert texts == {path.with_suffix("") for path in CASES}


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".expected").write_text(rendered(case), encoding="utf-8")
