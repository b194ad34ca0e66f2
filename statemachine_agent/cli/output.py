"""Showing things: tables, JSON, and text from outside made safe for a terminal. It must not know what is shown."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import click

from statemachine_agent.errors import SmaError
from statemachine_agent.records import Status
from statemachine_agent.text import shorten, squeezed, visible
from statemachine_agent.times import time_text

#: what a command ends with when it leaves a task in this status
EXIT_CODES = {
    Status.RUNNING: 0, Status.SUCCEEDED: 0, Status.AWAITING_APPROVAL: 3, Status.WAITING: 4, Status.NEEDS_INPUT: 10,
    Status.DENIED: 11, Status.BUDGET_EXHAUSTED: 12, Status.NO_PROGRESS: 13, Status.FAILED: 14, Status.CANCELLED: 15,
}  # fmt: skip


def plain(value: object) -> Any:
    """Records as plain JSON data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    match value:
        case Enum():
            return value.value
        case datetime():
            return time_text(value)
        case Decimal():
            return str(value)
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case str():
            return value
        case Sequence():
            return [plain(v) for v in value]
        case _:
            return value


def show_json(value: object) -> None:
    """`value` as JSON on standard output."""
    click.echo(_json(value, 2))


def show_json_line(value: object) -> None:
    """`value` as one line of JSON on standard output."""
    click.echo(_json(value))


def _json(value: object, indent: int | None = None) -> str:
    """JSON in which nothing is unseen: a program reads the same, and a terminal that shows it does nothing."""
    text = json.dumps(plain(value), ensure_ascii=not _is_utf8(), indent=indent)
    if visible(text, keep="\n") == text:
        return text
    return "".join(c if visible(c, keep="\n") == c else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 0xFFFF else f"\\u{ord(character):04x}"  # noqa: PLR2004


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def compact(value: object, limit: int = 120) -> str:
    """`value` as one short line of JSON."""
    return shorten(visible(json.dumps(plain(value), ensure_ascii=False, separators=(", ", ": "))), limit)


def say(text: str = "", *, indent: int = 0) -> None:
    """One line (or several) on standard output, unseen characters made visible."""
    click.echo(" " * indent + visible(text, keep="\n"))


def complain(problem: SmaError) -> None:
    """One line on standard error about what went wrong, where the command goes on."""
    click.echo(f"sma: {visible(squeezed(str(problem), 2000))}", err=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Rows under headings where the terminal is wide enough, else a block for each row; `empty` where there are none."""
    if not rows:
        say(empty)
        return
    cells = [[visible(str(plain(cell))) if cell is not None else "" for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[n]) for row in cells)) for n, name in enumerate(columns)]
    room = shutil.get_terminal_size((200, 24)).columns if sys.stdout.isatty() else 200
    if sum(widths) + 2 * len(widths) <= room:
        for row in [list(columns), *cells]:
            say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    indent = max(map(len, columns)) + 2
    for number, row in enumerate(cells):
        if number:
            say()
        for name, cell in zip(columns, row, strict=True):
            if cell:
                for part, text in enumerate(_folded(cell, max(20, room - indent))):
                    say(("" if part else name).ljust(indent) + text)


def _folded(text: str, width: int) -> list[str]:
    return [text[i : i + width] for i in range(0, len(text), width)]
