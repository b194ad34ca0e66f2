"""Texts with placeholders: the key of an effect, and the address of a request.

Nothing but a checked argument or a listed variable ever fills a placeholder, and a value can never change the shape of
the text around it. It must not know who sends what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from statemachine_agent.canonical import digest
from statemachine_agent.definition.node import complaint
from statemachine_agent.errors import SmaError

_HOLE = re.compile(r"\{([^{}]*)\}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


class TemplateError(SmaError):
    """A value cannot fill its placeholder."""

    reason = "invalid_argument"


@dataclass(frozen=True)
class KeyTemplate:
    """`refund:order-{order_id}:{payment_id}:v1`; `{message|sha256}` stands for a hash of a long text."""

    text: str
    holes: tuple[tuple[str, bool], ...]

    @classmethod
    def parse(cls, text: str) -> KeyTemplate:
        """The template of `text`; a placeholder is the name of an argument."""
        holes = []
        for body in _HOLE.findall(text):
            name, _, how = body.partition("|")
            if not _ARGUMENT.fullmatch(name) or how not in ("", "sha256"):
                raise complaint(f"`{{{body}}}` is not a placeholder", "write `{argument}` or `{argument|sha256}`")
            holes.append((name, how == "sha256"))
        if "{" in _HOLE.sub("", text) or "}" in _HOLE.sub("", text):
            raise complaint("a brace is left open", "write `{argument}`")
        return cls(text, tuple(holes))

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments it needs."""
        return tuple(name for name, _ in self.holes)

    def fill(self, arguments: Mapping[str, object]) -> str:
        """The key. Two different fillings never give one key: every value is percent-encoded."""
        parts = iter(self.holes)

        def value(_: re.Match[str]) -> str:
            name, hashed = next(parts)
            if name not in arguments:
                raise TemplateError(f"the key `{self.text}` needs `{name}`", hint="the argument is missing")
            found = arguments[name]
            return digest(found)[:16] if hashed else quote(_scalar(name, found), safe="")

        return _HOLE.sub(value, self.text)


@dataclass(frozen=True)
class UrlTemplate:
    """`${REFUNDS_URL}/refunds/{refund_id}?key={key}`: variables first, arguments only as whole segments or values."""

    base: str
    path: str
    query: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> UrlTemplate:
        """Part `text` into base, path and query, refusing every placeholder that could change the shape."""
        rest = _VARIABLE.sub(lambda m: "v" * len(m.group()), text)
        head, mark, query_text = text.partition("?")
        base, path = _split(text, rest, len(head))
        if not re.match(r"https?://|\$\{", base):
            raise complaint(f"`{text}` is not an address", "begin with https://, or with a ${VARIABLE}")
        if "{" in _VARIABLE.sub("", base):
            raise complaint("an argument stands in scheme, host or port", "arguments go into path and query only")
        if "$" in path or "$" in query_text:
            raise complaint("a variable stands after the first argument, or in the query", "put variables first")
        for segment in path.split("/"):
            if "{" in segment and not re.fullmatch(r"\{[A-Za-z_][A-Za-z0-9_]*\}", segment):
                raise complaint(f"`{segment}` mixes text and a placeholder", "a placeholder is a whole path segment")
        return cls(base, path, tuple(_pair(p) for p in query_text.split("&")) if mark else ())

    @property
    def variables(self) -> tuple[str, ...]:
        """The names in `${…}`."""
        return tuple(_VARIABLE.findall(self.base))

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that have a place in it."""
        return tuple(_HOLE.findall(self.path)) + tuple(n for _, v in self.query for n in _HOLE.findall(v))

    def fill(self, arguments: Mapping[str, object], variable: Callable[[str], str]) -> str:
        """The address; `variable` gives the value of a listed name."""
        base = _VARIABLE.sub(lambda m: variable(m.group(1)), self.base).rstrip("/")
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise TemplateError("the address does not begin with scheme and host", hint="check the variable's value")
        path = _HOLE.sub(lambda m: _segment(m.group(1), arguments), self.path)
        pairs = []
        for key, value in self.query:
            names = _HOLE.findall(value)
            if names and names[0] not in arguments:
                continue  # an optional argument that was not given
            found = _scalar(names[0], arguments[names[0]]) if names else value
            pairs.append(f"{quote(key, safe='')}={quote(found, safe='')}")
        return base + path + ("?" + "&".join(pairs) if pairs else "")


def _split(text: str, rest: str, end: int) -> tuple[str, str]:
    """Base (scheme, host, port, and all that variables fill) and path of an address without its query."""
    last = max((m.end() for m in _VARIABLE.finditer(text)), default=0)
    scheme = rest.find("://")
    start = max(last, scheme + 3 if scheme >= 0 else 0)
    slash = rest.find("/", start, end)
    cut = slash if slash >= 0 else end
    return text[:cut], text[cut:end]


def _pair(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark or not key or "{" in key:
        raise complaint(f"`{text}` in the query is not `key=value`", "write `key=value` or `key={argument}`")
    if "{" in value and not re.fullmatch(r"\{[A-Za-z_][A-Za-z0-9_]*\}", value):
        raise complaint(f"`{value}` mixes text and a placeholder", "a placeholder is a whole query value")
    return key, value


def _segment(name: str, arguments: Mapping[str, object]) -> str:
    if name not in arguments:
        raise TemplateError(f"the address needs `{name}`", hint="the argument is missing")
    text = _scalar(name, arguments[name])
    if text in ("", ".", ".."):
        raise TemplateError(f"`{name}` cannot be a path segment", hint="it is empty, `.` or `..`")
    return quote(text, safe="")


def _scalar(name: str, value: object) -> str:
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
