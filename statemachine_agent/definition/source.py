"""YAML text → plain data in which every key and value knows its line and column.

Scalars follow YAML 1.2 (`on`, `NO`, `12:30` stay text). Duplicate keys, aliases, tags, files that are too large or too
deep are faults; all faults of a file are found in one run. It must not know what the data means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from statemachine_agent.canonical import digest_bytes
from statemachine_agent.definition.faults import Fault, Level, Mark

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 24

Path_ = tuple[str | int, ...]

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, ten times as fast where libyaml is there

_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = {"", "~", "null", "Null", "NULL"}
_INT = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one value stands, and the key that leads to it."""

    value: Mark
    key: Mark | None = None
    #: inside `{…}`, where a comma ends a value
    flow: bool = False
    #: written without quotes on its line
    plain: bool = False


@dataclass(frozen=True)
class Source:
    """One file: a name for messages, and its text."""

    name: str
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return self.text.splitlines()

    @property
    def hash(self) -> str:
        """SHA-256 of the text."""
        return digest_bytes(self.text.encode())


@dataclass
class Document:
    """A file read: its data, and the place of each path in it."""

    source: Source
    data: object = None
    places: dict[Path_, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def place(self, path: Path_) -> Place:
        """The place of `path`, or of the nearest thing around it that is there."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path) or Place(Mark())

    def at(self, path: Path_) -> object:
        """The value at `path`; None where there is none."""
        value = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
                value = value[step]
            else:
                return None
        return value

    def fault(
        self, path: Path_, message: str, advice: str, *, key: bool = False, offset: int = 0, level: Level = Level.ERROR
    ) -> Fault:
        """A fault at the value of `path` (or at its key), `offset` characters into the value's text."""
        place = self.place(path)
        mark = place.key if key and place.key else place.value
        if offset and not key:
            mark = self._inside(path, mark, offset)
        return self.fault_at(mark, message, advice, level)

    def _inside(self, path: Path_, start: Mark, offset: int) -> Mark:
        """Where character `offset` of the text at `path` stands, however it was folded: the n-th that is not blank."""
        value = self.at(path)
        if not isinstance(value, str):
            return start
        skip = len("".join(value[:offset].split()))
        for mark, character in self._characters(start):
            if character.isspace():
                continue
            if skip == 0:
                return mark
            skip -= 1
        return start

    def _characters(self, start: Mark) -> Iterator[tuple[Mark, str]]:
        lines = self.source.lines
        line, column = start.line, start.column
        first = lines[line][column:] if line < len(lines) else ""
        if first[:1] in ("|", ">"):  # a block: its text begins on the next line
            line, column = line + 1, 0
        elif first[:1] in ("'", '"'):
            column += 1
        for number in range(line, len(lines)):
            begin = column if number == line else 0
            yield from ((Mark(number, i), c) for i, c in enumerate(lines[number][begin:], begin))

    def fault_at(self, mark: Mark, message: str, advice: str, level: Level = Level.ERROR) -> Fault:
        """A fault at a place."""
        lines = self.source.lines
        return Fault(self.source.name, mark, message, advice, level, lines[mark.line] if mark.line < len(lines) else "")


def read_text(path: Path) -> tuple[Source, list[Fault]]:
    """The file at `path` as a Source; what keeps it from being read is a fault, never an exception."""
    name = str(path)
    try:
        size = path.stat().st_size
        raw = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        return Source(name, ""), [Fault(name, Mark(), f"cannot be read: {reason}", "name a file that can be read")]
    if size > MAX_BYTES:
        advice = f"a definition has at most {MAX_BYTES:,} bytes; split it"
        return Source(name, ""), [Fault(name, Mark(), f"is too large ({size:,} bytes)", advice)]
    try:
        return Source(name, raw.decode("utf-8-sig")), []
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n")
        return Source(name, ""), [
            Fault(name, Mark(line), "is not UTF-8 text", f"save it as UTF-8 (byte {problem.start})")
        ]


def read(source: Source) -> Document:
    """Parse one source; faults are collected in the document."""
    document = Document(source)
    if len(source.text) > MAX_BYTES:
        document.faults.append(document.fault_at(Mark(), "is too large", f"at most {MAX_BYTES:,} characters"))
        return document
    try:
        _Reader(document).read()
    except yaml.reader.ReaderError as problem:
        mark = _mark_of(source.text, int(problem.position))
        document.faults.append(document.fault_at(mark, "has a character that YAML does not allow", "remove it"))
    except yaml.MarkedYAMLError as problem:
        found = problem.problem_mark or problem.context_mark
        mark = Mark(found.line, found.column) if found else Mark()
        what = f"is not valid YAML: {problem.problem or 'it cannot be read'}"
        document.faults.append(document.fault_at(mark, what, _syntax_advice(source, mark)))
    except _TooMuchError as problem:
        document.faults.append(document.fault_at(problem.mark, problem.args[0], "make the file smaller or flatter"))
    return document


class _TooMuchError(Exception):
    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark


class _Reader:
    """Builds data from the parser's events; it has the lifetime of one file."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._loader = _Loader(document.source.text)
        self._nodes = 0

    def read(self) -> None:
        try:
            self._next(yaml.StreamStartEvent)
            if isinstance(self._loader.peek_event(), yaml.StreamEndEvent):
                return
            self._next(yaml.DocumentStartEvent)
            self._document.data = self._value((), None, flow=False, depth=0)
            self._next(yaml.DocumentEndEvent)
            event = self._loader.get_event()
            if not isinstance(event, yaml.StreamEndEvent):
                self._fault(_mark(event), "holds a second document", "keep one document in a file; remove `---`")
        finally:
            self._loader.dispose()

    def _next(self, kind: type[yaml.Event]) -> yaml.Event:
        event = self._loader.get_event()
        assert isinstance(event, kind), event  # noqa: S101  the parser's own grammar
        return event

    def _fault(self, mark: Mark, message: str, advice: str) -> None:
        self._document.faults.append(self._document.fault_at(mark, message, advice))

    def _value(self, path: Path_, key: Mark | None, *, flow: bool, depth: int) -> object:
        event = self._loader.get_event()
        mark = _mark(event)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooMuchError(mark, f"has more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise _TooMuchError(mark, f"is nested deeper than {MAX_DEPTH} levels")
        if getattr(event, "tag", None) and not (isinstance(event, yaml.ScalarEvent) and event.tag == "!"):
            self._fault(mark, f"has the tag `{event.tag}`", "remove it; tags are not allowed here")
        elif isinstance(event, yaml.AliasEvent):
            self._fault(mark, f"refers to the alias `*{event.anchor}`", "write the value out; aliases are not allowed")
        elif getattr(event, "anchor", None):
            self._fault(mark, f"has the anchor `&{event.anchor}`", "remove it; anchors are not allowed here")
        plain = isinstance(event, yaml.ScalarEvent) and bool(event.implicit[0])
        self._document.places[path] = Place(mark, key, flow, plain)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, flow=bool(event.flow_style), depth=depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, flow=bool(event.flow_style), depth=depth)
        return _scalar(event.value, plain=plain) if isinstance(event, yaml.ScalarEvent) else None

    def _mapping(self, path: Path_, *, flow: bool, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        first: dict[str, Mark] = {}
        while not isinstance(self._loader.peek_event(), yaml.MappingEndEvent):
            event = self._loader.peek_event()
            mark = _mark(event)
            if isinstance(event, yaml.ScalarEvent):
                self._loader.get_event()
                key = event.value
                self._nodes += 1
            else:
                self._fault(mark, "has a key that is not plain text", "write the key as one word")
                self._value((*path, "?"), None, flow=flow, depth=depth + 1)
                key = f"?{mark.line}:{mark.column}"
            if key in first:
                advice = f"remove one; the first is in line {first[key].line + 1}"
                self._fault(mark, f"has the key `{key}` twice", advice)
                self._value((*path, f"{key} again"), mark, flow=flow, depth=depth + 1)
                continue
            first[key] = mark
            found[key] = self._value((*path, key), mark, flow=flow, depth=depth + 1)
        self._loader.get_event()
        return found

    def _sequence(self, path: Path_, *, flow: bool, depth: int) -> list[object]:
        found: list[object] = []
        while not isinstance(self._loader.peek_event(), yaml.SequenceEndEvent):
            found.append(self._value((*path, len(found)), None, flow=flow, depth=depth + 1))
        self._loader.get_event()
        return found


def _scalar(text: str, *, plain: bool) -> object:
    """A plain scalar by the rules of YAML 1.2; anything quoted is text."""
    if not plain:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        digits = text.lstrip("+-")
        return int(text) if digits == "0" or not digits.startswith("0") else text  # 007 is no number that one means
    return float(text) if _FLOAT.fullmatch(text) else text


def _mark(event: yaml.Event) -> Mark:
    start = event.start_mark
    return Mark(start.line, start.column) if start else Mark()


def _mark_of(text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(before.count("\n"), position - (before.rfind("\n") + 1))


def _syntax_advice(source: Source, mark: Mark) -> str:
    lines = source.lines
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: mark.column + 1]:
        return "indent with spaces; YAML does not allow tabs there"
    if ": " in line:
        return "quote the text if it holds `: `, and check indentation and brackets"
    return "check indentation, quotes and brackets here and just above"
