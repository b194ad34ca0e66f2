"""Texts with placeholders: the key of an effect, and the address of a request.

Nothing but a checked argument or a listed variable ever fills a placeholder, and a value can never change the shape of
the text around it. It must not know who sends what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from urllib.parse import quote, urlsplit

from statemachine_agent.canonical import digest
from statemachine_agent.definition.node import complaint
from statemachine_agent.definition.sentences import shown
from statemachine_agent.errors import SmaError

_HOLE = re.compile(r"\{([^{}]*)\}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_SEPARATOR = re.compile(r"[^A-Za-z0-9_.~%-]")  # what no percent-encoded value holds
_HASHED = 32  # digits: 128 bits
_WHOLE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}")


class TemplateError(SmaError):
    """A value cannot fill its placeholder."""

    reason = "invalid_argument"


@dataclass(frozen=True)
class KeyTemplate:
    """`order:{isbn}:{copies}:v1`; `{text|sha256}` stands for a hash of a long text."""

    text: str
    holes: tuple[tuple[str, bool], ...]

    @classmethod
    def parse(cls, text: str) -> KeyTemplate:
        """The template of `text`; a placeholder is the name of an argument."""
        holes = []
        for body in _HOLE.findall(text):
            name, mark, how = body.partition("|")
            if not _ARGUMENT.fullmatch(name) or (mark and how != "sha256"):
                raise complaint(f"`{{{body}}}` is not a placeholder", "write `{argument}` or `{argument|sha256}`")
            holes.append((name, bool(mark)))
        between = _HOLE.split(text)[::2]
        if any("{" in part or "}" in part for part in between):
            raise complaint("a brace is left open", "write `{argument}`")
        for ((name, _), (other, _)), part in zip(pairwise(holes), between[1:-1], strict=True):
            if not _SEPARATOR.search(part):
                message = f"`{name}` and `{other}` can run together: two actions would have one key"
                raise complaint(message, "put a `:` between the placeholders")
        return cls(text, tuple(holes))

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments it needs."""
        return tuple(name for name, _ in self.holes)

    def fill(self, arguments: Mapping[str, object]) -> str:
        """The key. Two different fillings never give one key: every value is percent-encoded, or hashed."""
        parts = iter(self.holes)

        def value(_: re.Match[str]) -> str:
            name, hashed = next(parts)
            if name not in arguments:
                raise TemplateError(f"the key `{self.text}` needs `{name}`", hint="the argument is missing")
            found = arguments[name]
            return digest(found)[:_HASHED] if hashed else quote(scalar(name, found), safe="")

        return _HOLE.sub(value, self.text)


@dataclass(frozen=True)
class UrlTemplate:
    """`${LIBRARY}/books/{isbn}?shelf={shelf}`: variables first, arguments only as whole segments or values."""

    base: str
    path: str
    query: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> UrlTemplate:
        """Part `text` into base, path and query, refusing every placeholder that could change the shape."""
        if "${" in _VARIABLE.sub("", text):
            raise complaint("a variable is written `${NAME}`, in capitals", "write its name in A-Z, 0-9 and _")
        address, mark, query_text = text.partition("?")
        base, path = _split(address)
        if not re.match(r"https?://.|\$\{", base):
            raise complaint(f"{shown(text)} is not an address", "begin with https://, or with a ${VARIABLE}")
        if "{" in _VARIABLE.sub("", base):
            later = base.rfind("${") > _first_hole(base)
            if later:
                raise complaint("a variable stands behind an argument", "put variables before all arguments")
            raise complaint("an argument stands in scheme, host or port", "arguments go into path and query only")
        if "${" in query_text:
            raise complaint("a variable stands in the query", "put variables into host or path, or into `headers`")
        if "#" in text or "@" in base or any(c.isspace() for c in text):
            message = "an address has no `#`, no blank, and no `@` before the path"
            raise complaint(message, "leave it out, or write %23 or %20")
        for segment in path.split("/"):
            if ("{" in segment or "}" in segment) and not _WHOLE.fullmatch(segment):
                raise complaint(f"`{segment}` is more than a placeholder", "a placeholder is a whole path segment")
        return cls(base, path, tuple(_pair(p) for p in query_text.split("&")) if mark else ())

    @property
    def segments(self) -> tuple[str, ...]:
        """The arguments that are path segments."""
        return tuple(_HOLE.findall(self.path))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names in `${…}`."""
        return tuple(_VARIABLE.findall(self.base))

    @property
    def parts(self) -> Iterator[tuple[str, str | None]]:
        """The base piece by piece: the text before a variable, and its name; None behind the last text."""
        pieces = _VARIABLE.split(self.base)
        return zip_longest(pieces[::2], pieces[1::2])

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that have a place in it."""
        return self.segments + tuple(n for _, v in self.query for n in _HOLE.findall(v))

    def fill(self, arguments: Mapping[str, object], variable: Callable[[str], str]) -> str:
        """The address; `variable` gives the value of a listed name. TemplateError, quoting no value, where it gives none."""
        base = _VARIABLE.sub(lambda m: variable(m.group(1)), self.base).rstrip("/")
        if not _is_base(base):
            raise TemplateError(
                "the address does not begin with scheme and host, or its port is no number",
                hint="check the variable's value",
            )
        path = _HOLE.sub(lambda m: _segment(m.group(1), arguments), self.path)
        pairs = []
        for key, value in self.query:
            names = _HOLE.findall(value)
            if names and names[0] not in arguments:
                continue  # an optional argument that was not given
            found = scalar(names[0], arguments[names[0]]) if names else value
            pairs.append(f"{quote(key, safe='')}={quote(found, safe='')}")
        return base + path + ("?" + "&".join(pairs) if pairs else "")


def _split(address: str) -> tuple[str, str]:
    """Base (scheme, host, port, and all that variables fill) and path of an address without its query."""
    last = max((m.end() for m in _VARIABLE.finditer(address)), default=0)
    scheme = address.find("://")
    slash = address.find("/", max(last, scheme + 3 if scheme >= 0 else 0))
    cut = slash if slash >= 0 else len(address)
    return address[:cut], address[cut:]


def _first_hole(text: str) -> int:
    """Where the first argument stands; variables are none."""
    return next((m.start() for m in _HOLE.finditer(text) if text[m.start() - 1 : m.start()] != "$"), len(text))


def _pair(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark or not key or "{" in key:
        raise complaint(f"`{text}` in the query is not `key=value`", "write `key=value` or `key={argument}`")
    if ("{" in value or "}" in value) and not _WHOLE.fullmatch(value):
        raise complaint(f"`{value}` is more than a placeholder", "a placeholder is a whole query value")
    return key, value


def _is_base(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # asked for, it is looked at
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment


def _segment(name: str, arguments: Mapping[str, object]) -> str:
    if name not in arguments:
        raise TemplateError(f"the address needs `{name}`", hint="the argument is missing")
    text = scalar(name, arguments[name])
    if text in ("", ".", ".."):
        raise TemplateError(f"`{name}` cannot be a path segment", hint="it is empty, `.` or `..`")
    return quote(text, safe="")


def scalar(name: str, value: object) -> str:
    """A single value as text; TemplateError for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case _:
            raise TemplateError(
                f"`{name}` is not a single value", hint="only text, numbers and booleans fill placeholders"
            )


def variables_in(text: str) -> list[str]:
    """The names in `${…}` of a header."""
    return _VARIABLE.findall(text)


def fill_variables(text: str, variable: Callable[[str], str]) -> str:
    """A header with its variables filled in."""
    return _VARIABLE.sub(lambda m: variable(m.group(1)), text)
