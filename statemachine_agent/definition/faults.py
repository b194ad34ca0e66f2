"""Faults of a definition file: where it is, what is wrong, what to do; and the report that shows all of them at once.

It must not know what is being checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from statemachine_agent.errors import DefinitionError
from statemachine_agent.text import shorten, visible


class Level(StrEnum):
    """How much a fault weighs."""

    ERROR = "error"  #: the file does not load
    WARNING = "warning"  #: it loads, and a reviewer should look
    NOTE = "note"  #: something worth knowing


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file; both numbers count from 0."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, or worth knowing, at one place."""

    file: str
    mark: Mark
    #: one sentence
    message: str
    #: one piece of advice
    advice: str
    level: Level = Level.ERROR
    #: the line of the file, for showing; None where the file as a whole is meant
    line: str | None = None

    @property
    def where(self) -> str:
        """`file:line:col`, counting from 1; the file alone where all of it is meant."""
        if self.line is None:
            return visible(self.file)
        return f"{visible(self.file)}:{self.mark.line + 1}:{self.mark.column + 1}"

    def __str__(self) -> str:
        """The whole fault: place and sentence, the line with a caret where there is one, the advice."""
        kind = "" if self.level is Level.ERROR else f"{self.level}: "
        if self.line is None:
            return f"{self.where}: {kind}{visible(self.message)}\n  = {visible(self.advice)}"
        number = str(self.mark.line + 1)
        shown, caret = _excerpt(self.line, self.mark.column)
        pad = " " * len(number)
        return "\n".join(
            [
                f"{self.where}: {kind}{visible(self.message)}",
                f"  {number} | {shown}",
                f"  {pad} | {' ' * caret}^",
                f"  {pad} = {visible(self.advice)}",
            ]
        )


@dataclass
class Report:
    """The faults of one check, in the order of files and lines."""

    faults: list[Fault] = field(default_factory=list)

    def add(self, faults: Iterable[Fault]) -> None:
        """Take more faults, keeping each once and all in order."""
        more = list(faults)
        if more:
            self.faults = sorted({*self.faults, *more}, key=_place)

    @property
    def errors(self) -> list[Fault]:
        """Those that keep the files from loading."""
        return [f for f in self.faults if f.level is Level.ERROR]

    def __str__(self) -> str:
        """The faults as text: of each file as many as a person reads, those first that keep it from loading."""
        return "\n".join(_rendered(self.faults))


class FaultyDefinitionError(DefinitionError):
    """A definition has faults; `report` holds all of them."""

    is_report = True

    def __init__(self, report: Report) -> None:
        """The report is the message."""
        self.report = report
        count = len(report.errors)
        super().__init__(f"{count} fault{'s' if count != 1 else ''}\n{report}")


#: faults of one file that are shown
_SHOWN = 100


def _place(fault: Fault) -> tuple[str, Mark, Level, str]:
    return fault.file, fault.mark, fault.level, fault.message


def _rendered(faults: list[Fault]) -> Iterator[str]:
    by_file: dict[str, list[Fault]] = {}
    for fault in faults:
        by_file.setdefault(fault.file, []).append(fault)
    for file, found in by_file.items():
        errors_first = sorted(found, key=lambda f: f.level is not Level.ERROR)  # stable: each in the order of lines
        yield from map(str, sorted(errors_first[:_SHOWN], key=_place))
        rest = errors_first[_SHOWN:]
        if rest:
            errors = sum(f.level is Level.ERROR for f in rest)
            kinds = f", {errors:,} of them faults" if errors and errors < len(rest) else ""
            yield f"{visible(file)}: and {len(rest):,} more{kinds}\n  = mend these first"


_WIDTH = 110


def _excerpt(line: str, column: int) -> tuple[str, int]:
    """The part of `line` around `column` that fits on a screen, and where the caret stands in it."""
    start = max(0, column - _WIDTH // 2) if len(line) > _WIDTH else 0
    head = "…" if start else ""
    before = head + visible(line[start:column]).replace("\t", " ")
    return shorten(head + visible(line[start:]), _WIDTH), len(before)
