"""Texts that a regular expression matches, for the plain ones that manifests use: literals, sets, groups, repetition.

What it cannot read it gives no text for; whoever asks checks each text against the pattern itself. It must not know what a
text is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SETS = {"d": "7", "w": "w", "s": " "}
_FIRST_OF_SET = {"a-z": "a", "A-Z": "A", "0-9": "8", "a-f": "a", "1-9": "1"}
_LONGEST = 200


class _BeyondError(Exception):
    """The pattern uses what is not read here."""


def texts_like(pattern: str) -> Iterator[str]:
    """Texts that `pattern` should match: the shortest, and one a little longer; none where it cannot be read."""
    for more in (0, 1):
        try:
            yield _Reader(pattern, more).text()
        except (_BeyondError, IndexError, ValueError, StopIteration):
            return


@dataclass
class _Reader:
    """One walk over a pattern; `more` is how often what may repeat is repeated beyond what it must."""

    pattern: str
    more: int
    at: int = 0

    def text(self) -> str:
        found = self._alternatives()
        if self.at != len(self.pattern) or len(found) > _LONGEST:
            raise _BeyondError
        return found

    def _alternatives(self) -> str:
        first = self._sequence()
        while self._peek() == "|":
            self.at += 1
            self._sequence()
        return first

    def _sequence(self) -> str:
        found = ""
        while self._peek() not in ("", "|", ")"):
            piece = self._piece()
            found += piece * self._times(1 if piece else 0)
        return found

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _next(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]

    def _piece(self) -> str:
        match self._next():
            case "^" | "$":
                return ""
            case ".":
                return "x"
            case "[":
                return self._set()
            case "(":
                if self.pattern.startswith("?", self.at):
                    if not self.pattern.startswith("?:", self.at):
                        raise _BeyondError
                    self.at += 2
                found = self._alternatives()
                if self._next() != ")":
                    raise _BeyondError
                return found
            case "\\":
                letter = self._next()
                if letter.isalnum() and letter not in _SETS:
                    raise _BeyondError
                return _SETS.get(letter, letter)
            case "*" | "+" | "?" | "{":
                raise _BeyondError
            case letter:
                return letter

    def _set(self) -> str:
        end = self.pattern.index("]", self.at + 1)
        inside, self.at = self.pattern[self.at : end], end + 1
        if inside.startswith("^"):
            return next(c for c in "_7A x-" if re.fullmatch(f"[{inside}]", c))
        if inside.startswith("\\"):
            return _SETS.get(inside[1], inside[1])
        return _FIRST_OF_SET.get(inside[:3], inside[0])

    def _times(self, once: int) -> int:
        match self._peek():
            case "*":
                self.at += 1
                return self.more
            case "+":
                self.at += 1
                return 1 + self.more
            case "?":
                self.at += 1
                return self.more
            case "{":
                end = self.pattern.index("}", self.at)
                least, comma, most = self.pattern[self.at + 1 : end].partition(",")
                self.at = end + 1
                low = int(least or 0)
                return low + (self.more if comma and (not most or int(most) > low) else 0)
        return once
