"""The command lines that a person can type next, with the program, settings and store that this one was called with."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True)
class Again:
    """How this program was called."""

    program: str = "sma"
    settings: str | None = None
    db: str | None = None
    #: False where the settings establish who one is, and nobody has to say
    names_people: bool = True

    @classmethod
    def of(cls, context: click.Context, db: str | None, *, identity: str) -> Again:
        """From the command that runs."""
        settings = context.find_root().obj
        return cls(program(), settings, db, names_people=identity == "asserted")

    def __call__(self, command: str, *arguments: str) -> str:
        """A whole line: `command` with its arguments, on the same store and settings."""
        words = [self.program]
        if self.settings:
            words += ["--settings", shlex.quote(self.settings)]
        words += [command, *arguments]
        if self.db:
            words += ["--db", shlex.quote(self.db)]
        return " ".join(words)

    def answered(self, command: str, *arguments: str) -> str:
        """A line by which somebody answers."""
        return self(command, *arguments, *(["--as", "WHO"] if self.names_people else []))


def program() -> str:
    """How this program can be called again from here."""
    called = Path(sys.argv[0])
    if called.name in ("__main__.py", "-c", "-m"):
        return "python -m statemachine_agent"
    if shutil.which(called.name) is not None:
        return called.name
    return shlex.quote(sys.argv[0])
