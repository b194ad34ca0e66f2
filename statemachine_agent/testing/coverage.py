"""How much of a machine the tests exercised: states, rows, guards both ways, illegal pairs; and what they left out.

A row is what an author wrote; exits that every state has by itself are not counted. It must not know pytest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.chart.transitions import Transition
from statemachine_agent.testing.record import Exercised
from statemachine_agent.testing.standing import CHOICES, names


@dataclass(frozen=True)
class Measure:
    """Something that tests can exercise, in parts that can be named."""

    name: str
    covered: int
    #: the parts that no test exercised
    missing: tuple[str, ...]

    @property
    def total(self) -> int:
        """All parts."""
        return self.covered + len(self.missing)

    @property
    def percent(self) -> float:
        """Of all parts; 100 where there are none."""
        return 100.0 * self.covered / self.total if self.total else 100.0


@dataclass(frozen=True)
class MachineCoverage:
    """The coverage of one machine."""

    machine: str
    measures: tuple[Measure, ...]

    @property
    def percent(self) -> float:
        """That of the measure of which least was exercised: many illegal pairs do not outweigh one row."""
        return min((m.percent for m in self.measures), default=100.0)


def measure(machine: CompiledMachine, exercised: Exercised) -> MachineCoverage:
    """What `exercised` covers of `machine`."""
    states = list(machine.definition.all_states)
    rows = {row.index: describe(row) for row in machine.chart.transitions if counts(row)}
    guards = {part: f"{part[0]} {'holds' if part[1] else 'does not hold'}" for part in guard_answers(machine)}
    pairs = {(state, tool): f"{tool} in {state}" for state, tool in illegal_pairs(machine)}
    return MachineCoverage(
        machine.name,
        (
            _measure("states", {s: s for s in states}, exercised.states),
            _measure("rows", rows, exercised.rows),
            _measure("guards", guards, exercised.guards),
            _measure("illegal", pairs, exercised.illegal),
        ),
    )


def _measure(name: str, parts: Mapping[Any, str], covered: Iterable[object]) -> Measure:
    hit = set(covered)
    return Measure(name, sum(1 for p in parts if p in hit), tuple(text for p, text in parts.items() if p not in hit))


def counts(row: Transition) -> bool:
    """True for a row that an author wrote; the universal exits, and rows that only complete a list, do not count."""
    return not row.implied and not row.event.startswith("exit.")


def describe(row: Transition) -> str:
    """A row in a few words, as its author would find it again."""
    when = f" when {', '.join(row.when)}" if row.when else f" unless {', '.join(row.unless)}" if row.unless else ""
    what = f"→ {row.target}" if row.target else f"refuse {row.refuse!r}" if row.refuse is not None else "stay"
    return f"{row.source} {row.event}{when} {what}"


def guard_answers(machine: CompiledMachine) -> list[tuple[str, bool]]:
    """The guards that rows name, each both ways; those of `success` only as they must be."""
    rows = [row for row in machine.chart.transitions if counts(row)]
    both = dict.fromkeys(g for row in rows for g in (*row.when, *row.unless))
    only = dict.fromkeys(g for row in rows for g in row.success if g not in both)
    named = [(g, answer) for g in both for answer in (True, False)] + [(g, True) for g in only]
    return [(g, answer) for g, answer in named if g in machine.definition.guards]


def illegal_pairs(machine: CompiledMachine) -> Iterator[tuple[str, str]]:
    """Every state with every tool (and control choice) that is no transition of it."""
    for state in machine.definition.all_states:
        for tool in (*machine.tools, *CHOICES):
            if not names(machine, state, tool):
                yield state, tool


def table(found: Sequence[MachineCoverage]) -> list[str]:
    """The coverage as lines of text: a machine a line."""
    if not found:
        return ["no machine"]
    heads = ["machine", *(m.name for m in found[0].measures), "lowest"]
    rows = [[c.machine, *(f"{m.covered}/{m.total}" for m in c.measures), f"{c.percent:.0f} %"] for c in found]
    widths = [max(len(row[n]) for row in (heads, *rows)) for n in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(w) if n == 0 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (heads, *rows)
    ]


def missing_lines(found: Sequence[MachineCoverage], most: int = 20) -> list[str]:
    """What no test exercised, by machine and measure; at most so many of each."""
    lines = []
    for one in found:
        for part in one.measures:
            lines += [f"{one.machine}: no test for {part.name}: {text}" for text in part.missing[:most]]
            if len(part.missing) > most:
                lines.append(f"{one.machine}: … and {len(part.missing) - most} more {part.name}")
    return lines
