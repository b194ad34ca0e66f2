"""The words and the call that a model is forming, as they come: on a terminal letter by letter, else line by line.

Only ever forward: no cursor is moved and nothing is taken back, so it reads the same on a narrow terminal, in a pipe and in a
file. It must not know where pieces come from.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from statemachine_agent.cli.output import say, show_json_line
from statemachine_agent.text import one_line, visible

if TYPE_CHECKING:  # what only watches does not pay for what runs
    from statemachine_agent.loop.context import Event

stream_option = click.option("--stream", is_flag=True, help="Show words and calls while the model is forming them.")

_LABEL = 9  # columns before the text, as in all that a run shows
_LEAST = 20  # columns of text, however narrow the terminal
_NO_TERMINAL = 100
_SOFT = 12  # columns before the edge from which on a line is broken at a space


class Forming:
    """Shows pieces. It is told of them by a runtime, as a watcher with `pieces`, or by whoever reads them elsewhere."""

    def __init__(self) -> None:
        """Looks at standard output once."""
        self._is_terminal = sys.stdout.isatty()
        columns = shutil.get_terminal_size((_NO_TERMINAL, 24)).columns if self._is_terminal else _NO_TERMINAL
        self._room = max(_LEAST, columns - _LABEL - 1)
        #: what the line that is being written belongs to; None: no line is
        self._of: tuple[Any, ...] | None = None
        self._column = 0
        self._is_full = False
        self._held = ""
        #: the step and the attempt of which something was shown
        self._shown: tuple[Any, Any] | None = None

    def __call__(self, event: Event) -> None:
        """One event of a runtime; whatever is no piece ends the line."""
        if event.kind in ("piece", "cut_off"):
            self.show(event.kind, event.data)
        else:
            self.close()

    def show(self, event: str, data: Mapping[str, Any]) -> None:
        """One piece, or that what was shown came to nothing."""
        if event == "piece":
            self._piece(data)
        else:
            self._cut_off(data)

    def close(self) -> None:
        """End the line that is being written."""
        if self._of is not None:
            click.echo(self._held)
            self._of, self._held = None, ""

    def _piece(self, data: Mapping[str, Any]) -> None:
        label = "says" if data["kind"] == "words" else "forms"
        whose = (data["step"], data["attempt"], label, data["call"])
        if self._of != whose:
            self.close()
            self._of, self._column, self._is_full = whose, 0, False
            self._write(label.ljust(_LABEL))
        self._shown = (data["step"], data["attempt"])
        name = " " if data["kind"] == "call" else ""
        self._write(self._folded(visible(data["text"], keep="\n") + name))

    def _cut_off(self, data: Mapping[str, Any]) -> None:
        self.close()
        what = "cut off" if self._shown == (data["step"], data["attempt"]) else "no answer"
        again = ", asked again" if data["again"] else ""
        say(f"— {what}{again}: {one_line(data['why'])} —", indent=_LABEL)

    def _folded(self, text: str) -> str:
        """`text` with line breaks where the line is full, each with the room that the label takes.

        A break is written with the letter behind it, so that no line ends in nothing.
        """
        found = []
        for character in text:
            width = _width(character)
            if character == "\n" or (character == " " and self._column > self._room - _SOFT):
                self._is_full = self._column > 0
                continue
            if self._is_full or self._column + width > self._room:
                found.append("\n" + " " * _LABEL)
                self._column, self._is_full = 0, False
            found.append(character)
            self._column += width
        return "".join(found)

    def _write(self, text: str) -> None:
        """Now on a terminal, else when the line is full."""
        if not self._is_terminal:
            *whole, self._held = (self._held + text).split("\n")
            text = "".join(f"{line}\n" for line in whole)
        if text:
            click.echo(text, nl=False)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class FormingLines:
    """The same for programs: each piece and each cut is one JSON line, and so is each decision."""

    def __call__(self, event: Event) -> None:
        """One event of a runtime."""
        if event.kind == "decided":
            show_json_line({"kind": "decided", **event.data})
        elif event.kind in ("piece", "cut_off"):
            self.show(event.kind, event.data)

    def show(self, event: str, data: Mapping[str, Any]) -> None:
        """One piece or cut, without what else may be in it."""
        names = ("step", "attempt", "call", "text") if event == "piece" else ("step", "attempt", "again", "why")
        of = {"of": data["kind"]} if event == "piece" else {}
        show_json_line({"kind": event, **of, **{name: data[name] for name in names}})

    def close(self) -> None:
        """Nothing is open between lines."""
