"""Values of variables, and tokens, that an answer may echo: found in it in the forms that services write, and named instead.

What cannot be found is a value that a service has changed otherwise: cut, hashed, reversed, or written as a number. It must
not know tools, tasks, or how an answer came.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from statemachine_agent.definition.template import UrlTemplate

LEAST = 6  # characters; a shorter value says too little to be looked for, and stands in too much
_SEGMENT = 12  # characters of a part of a path that is looked for alone; it holds a digit too, as words do not
_QUOTED = 1024  # characters around what a message quotes
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
        self._longest = max(map(len, self._forms))

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
        """A text that may have been cut at its end, to be shown: what is left of a value there is not shown either."""
        found = self.without(text)
        end = found.rstrip("….")
        for form, name in self._forms.items():
            tail = end[-(len(form) - 1) :].casefold()
            at = tail.find(form[:LEAST])
            while at >= 0 and not form.startswith(tail[at:]):
                at = tail.find(form[:LEAST], at + 1)
            if at >= 0:
                return f"{end[: len(end) - len(tail) + at]}{name}…"
        return found

    def head(self, body: bytes, characters: int) -> str:
        """The beginning of a body, to be shown."""
        return self.quoted(body[: self._room].decode(errors="replace"))[:characters]

    def tail(self, body: bytes, characters: int) -> str:
        """The end of a body, to be shown."""
        return self.without(body[-self._room :].decode(errors="replace"))[-characters:]

    @property
    def _room(self) -> int:
        return _QUOTED + 4 * self._longest

    def _named(self, text: str) -> str:
        """A pattern is only made of what is there: most texts hold nothing, and a token may have thousands of characters."""
        folded = text.casefold()
        there = [form for form in self._forms if form in folded]
        if not there:
            return text
        pattern = "|".join(map(re.escape, sorted(there, key=len, reverse=True)))
        return re.sub(pattern, self._name, text, flags=re.IGNORECASE)

    def _name(self, found: re.Match[str]) -> str:
        return self._forms.get(found[0].casefold(), "${…}")


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
