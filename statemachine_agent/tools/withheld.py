"""Values of variables, and tokens, that an answer may echo: found in it in the forms that services write, and named instead.

What cannot be found is a value that a service has changed otherwise: hashed, reversed, or written as a number; and of one that
was cut, only what is left beside the mark of a cut, or at an end. It must not know tools, tasks, or how an answer came.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from statemachine_agent.definition.template import UrlTemplate

LEAST = 6  # characters; a shorter value says too little to be looked for, and stands in too much
_SEGMENT = 12  # characters of a part of a path that is looked for alone; it holds a digit too, as words do not
_QUOTED = 1024  # characters around what a message quotes
_CUT = re.compile(r"(…|\.{3,})")  # what libraries write for what they left out, at the end or in the middle
_ESCAPE = re.compile(r"\\{1,4}(?:[uU]([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")  # escaped twice, too: JSON in JSON


class Withheld:
    """Values by the names that stand for them. They are in memory for one call, and in no `repr`."""

    def __init__(self) -> None:
        """Nothing is withheld yet."""
        self._forms: dict[str, str] = {}
        self._longest = 0

    def add(self, value: str, name: str) -> None:
        """Withhold `value`: `name` is shown for it."""
        if len(value) < LEAST:
            return
        for form in _forms(value):
            if len(form) >= LEAST:
                self._forms.setdefault(form.casefold(), name)
        self._longest = max(map(len, self._forms), default=0)

    def add_address(self, template: UrlTemplate, variable: Callable[[str], str]) -> None:
        """Withhold what variables say of an address beyond scheme, host and port: a path, and a name before the host."""
        before = ""
        for literal, name in template.parts:
            before += literal
            if name is None:
                continue
            value, shown = variable(name), f"${{{name}}}"
            for part in _parts(value, inside=re.match(r"https?://[^/]*/", before) is not None):
                self.add(part, shown)
            before += value

    def without(self, text: str) -> str:
        """`text` with names for what is withheld; where only a decoded form of it shows a value, the decoded form."""
        found = self._named(text)
        for mark, undo in _WRITTEN if self._forms else ():
            if mark in found:
                undone = undo(found)
                named = self._named(undone)
                found = named if named != undone else found
        return found

    def without_in(self, value: Any) -> Any:
        """Parsed JSON with names for what is withheld, in its texts and keys; ValueError where two keys become one."""
        match value:
            case str():
                return self.without(value)
            case list():
                return [self.without_in(one) for one in value]
            case dict():
                found = {self.without(key): self.without_in(one) for key, one in value.items()}
                if len(found) != len(value):
                    raise ValueError("two keys differ only by what is withheld")
                return found
            case _:
                return value

    def quoted(self, text: str) -> str:
        """A text that may have been cut, to be shown: what is left of a value beside the cut is not shown either."""
        found = self._ended(self.without(text))
        if not self._forms or not _CUT.search(found):
            return found
        parts = _CUT.split(found)  # texts, and marks between them
        for at in range(0, len(parts) - 2, 2):
            parts[at] = self._ended(parts[at]).removesuffix("…")
            parts[at + 2] = self._begun(parts[at + 2])
        return "".join(parts)

    def _ended(self, text: str) -> str:
        """The text, its end named where a value begins there."""
        end = text.rstrip("….\ufffd")  # the last one is what is left of a character
        for form, name in self._forms.items():
            tail = _Folded(end[-(len(form) - 1) :])
            at = tail.text.find(form[:LEAST])
            while at >= 0 and not form.startswith(tail.text[at:]):
                at = tail.text.find(form[:LEAST], at + 1)
            if at >= 0:
                return f"{end[: len(end) - len(tail.given) + tail.at(at)]}{name}…"
        return text

    def _begun(self, text: str) -> str:
        """The text, its beginning named where a value ends there."""
        for form, name in self._forms.items():
            head = _Folded(text[: len(form) - 1])
            for at in range(len(head.text), LEAST - 1, -1):
                if form[-LEAST:] == head.text[at - LEAST : at] and form.endswith(head.text[:at]):
                    return f"{name}{text[head.after(at) :]}"
        return text

    def excerpt(self, text: str, characters: int) -> str:
        """The beginning of a text, to be shown."""
        return self.quoted(text[: self._room])[:characters]

    def head(self, body: bytes, characters: int) -> str:
        """The beginning of a body, to be shown."""
        return self.excerpt(body[: self._room].decode(errors="replace"), characters)

    def tail(self, body: bytes, characters: int) -> str:
        """The end of a body, to be shown."""
        return self.without(body[-self._room :].decode(errors="replace"))[-characters:]

    @property
    def _room(self) -> int:
        return _QUOTED + 4 * self._longest

    def _named(self, text: str) -> str:
        """A pattern is only made of what is there: most texts hold nothing, and a token may have thousands of characters."""
        folded = _Folded(text)
        there = [form for form in self._forms if form in folded.text]
        if not there:
            return text
        found, done = "", 0
        for match in re.finditer("|".join(map(re.escape, sorted(there, key=len, reverse=True))), folded.text):
            found += text[done : folded.at(match.start())] + self._forms[match[0]]
            done = folded.after(match.end())
        return found + text[done:]


class _Folded:
    """A text without letter case, which knows where it was: one character may become several (`ß` becomes `ss`)."""

    def __init__(self, text: str) -> None:
        self.given = text
        self.text = text.casefold()
        self._ends: list[int] | None = None
        if len(self.text) != len(text):
            self._ends = list(accumulate(len(character.casefold()) for character in text))

    def at(self, place: int) -> int:
        """The character of which the one at `place` is, or is a part."""
        return place if self._ends is None else bisect_right(self._ends, place)

    def after(self, place: int) -> int:
        """Behind the character of which the one before `place` is, or is a part."""
        return place if self._ends is None else bisect_right(self._ends, place - 1) + 1


def _parts(value: str, *, inside: bool) -> Iterator[str]:
    """What of a variable's value is more than scheme, host and port; all of it where it stands `inside` a path."""
    path = value
    if not inside:
        address = value if "://" in value else f"//{value}"
        try:
            place, path = urlsplit(address).netloc, urlsplit(address).path
        except ValueError:
            yield value
            return
        if "@" in place:
            yield place.rpartition("@")[0]
            yield place.rpartition("@")[0].partition(":")[2]
    yield path.strip("/")
    for segment in path.split("/"):
        if len(segment) >= _SEGMENT and any(c.isdigit() for c in segment):
            yield segment


def _forms(value: str) -> Iterator[str]:
    """A value as services write it: plain, in JSON, in addresses, in HTML, in base64 and in hexadecimal digits."""
    escaped = json.dumps(value)[1:-1]
    yield from (value, escaped, escaped.replace("/", "\\/"), json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (quote(value, safe=""), quote(value), quote_plus(value), html.escape(value))
    if not value.isascii():  # an accent may be a character of its own
        yield from (unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value))
    for data in {value.encode(), quote_plus(value).encode()}:
        yield data.hex()
        for ahead in range(3):  # whatever stands before it: its digits depend on where it begins
            digits = base64.b64encode(bytes(ahead) + data).decode()[-(-ahead * 8 // 6) : (ahead + len(data)) * 8 // 6]
            yield from (digits, digits.translate(_URLSAFE))


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text)


_URLSAFE = str.maketrans("+/", "-_")
#: how whole texts are written by some, by what they hold then: each is undone to look within
_WRITTEN: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("\\", _unescaped),
    ("%", partial(unquote, errors="replace")),
    ("&", html.unescape),
)
