"""YAML text → a `Document`: plain data in which every key and value knows its line and column.

Scalars follow YAML 1.2 (`on`, `NO`, `12:30` stay text). Duplicate keys, aliases, tags, files that are too large or too
deep are faults; all faults of a file are found in one run. It must not know what the data means.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from statemachine_agent import files
from statemachine_agent.definition.document import Document, Path_, Place, Source
from statemachine_agent.definition.faults import Fault, Mark

__all__ = ["Document", "Source", "read", "read_text"]

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 24
_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels"

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, ten times as fast where libyaml is there

_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = {"", "~", "null", "Null", "NULL"}
_INT = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_text(path: Path) -> tuple[Source, list[Fault]]:
    """The file at `path` as a Source; what keeps it from being read is a fault, never an exception."""
    name = str(path)
    try:
        raw = files.read_bytes(path, MAX_BYTES)
    except files.UnreadableError as problem:
        return Source(name, ""), [Fault(name, Mark(), problem.reason, problem.advice)]
    try:
        return Source(name, raw.decode("utf-8-sig")), []
    except UnicodeDecodeError as problem:
        before = raw[: problem.start]
        mark = Mark(before.count(b"\n"), len(before.rpartition(b"\n")[2].decode(errors="replace")))
        shown = raw.decode(errors="replace").split("\n")[mark.line].rstrip("\r")
        advice = "save the file as UTF-8"
        return Source(name, ""), [Fault(name, mark, "is not UTF-8 text", advice, line=shown)]


def read(source: Source) -> Document:
    """Parse one source; faults are collected in the document."""
    document = Document(source)
    if len(source.text) > MAX_BYTES:
        document.faults.append(document.fault_at(Mark(), "is too large", f"at most {MAX_BYTES:,} characters"))
        return document
    try:
        _Reader(document).read()
    except yaml.reader.ReaderError:
        mark = _first_unprintable(source.text)
        document.faults.append(document.fault_at(mark, "has a character that YAML does not allow", "remove it"))
    except yaml.MarkedYAMLError as problem:
        document.faults.append(document.fault_at(*_in_words(source, problem)))
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
                self._fault(
                    _mark(event.start_mark), "holds a second document", "keep one document in a file; remove `---`"
                )
        finally:
            self._loader.dispose()

    def _next(self, kind: type[yaml.Event]) -> yaml.Event:
        event = self._loader.get_event()
        assert isinstance(event, kind), event  # noqa: S101  the parser's own grammar
        return event

    def _fault(self, mark: Mark, message: str, advice: str) -> None:
        self._document.faults.append(self._document.fault_at(mark, message, advice))

    def _count(self, mark: Mark, depth: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooMuchError(mark, f"has more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise _TooMuchError(mark, _TOO_DEEP)

    def _value(self, path: Path_, key: Mark | None, *, flow: bool, depth: int) -> object:
        event = self._loader.get_event()
        mark = _mark(event.start_mark)
        self._count(mark, depth)
        self._extras(event, mark)
        self._document.places[path] = Place(mark, key, flow)
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(path, flow=bool(event.flow_style), depth=depth)
            case yaml.SequenceStartEvent():
                return self._sequence(path, flow=bool(event.flow_style), depth=depth)
            case yaml.ScalarEvent():
                return _scalar(event.value, plain=event.implicit[0])
            case _:  # an alias
                self._document.leave_out(path)
                return None

    def _extras(self, event: Any, mark: Mark) -> None:
        """What YAML can hang on a value, and nobody needs here."""
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent):
            self._fault(mark, f"refers to the alias `*{anchor}`", "write the value out; aliases are not allowed")
        elif anchor:
            self._fault(mark, f"has the anchor `&{anchor}`", "remove it; anchors are not allowed")
        if tag:
            tag = str(tag).replace("tag:yaml.org,2002:", "!!")
            self._fault(mark, f"has the tag `{tag}`", "remove it; a text that begins with `!` is quoted")

    def _mapping(self, path: Path_, *, flow: bool, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        first: dict[str, Mark] = {}
        while not isinstance(self._loader.peek_event(), yaml.MappingEndEvent):
            event = self._loader.peek_event()
            mark = _mark(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent):
                self._fault(mark, "has a key that is not plain text", "write the key as one word")
                self._skip(path, depth)  # the key
                self._skip(path, depth)  # its value
                self._document.leave_out((*path, -1))
                continue
            self._loader.get_event()
            self._count(mark, depth)
            self._extras(event, mark)
            key = event.value
            if key in first:
                advice = f"remove one; the first is in line {first[key].line + 1}"
                self._fault(mark, f"has the key `{key}` twice", advice)
                self._skip(path, depth)
                self._document.leave_out((*path, -1))
                continue
            first[key] = mark
            found[key] = self._value((*path, key), mark, flow=flow, depth=depth + 1)
        self._loader.get_event()
        return found

    def _skip(self, path: Path_, depth: int) -> None:
        """Read a value for its faults only."""
        self._value((*path, -1), None, flow=False, depth=depth + 1)  # no path of a file has such a step

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
    number = float(text) if _FLOAT.fullmatch(text) else math.inf
    return number if math.isfinite(number) else text


def _mark(mark: Any) -> Mark:  # each of the two parsers has a class of its own
    return Mark(mark.line, mark.column) if mark else Mark()


def _first_unprintable(text: str) -> Mark:
    """The parsers count differently up to it; this counts as all other marks do."""
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    before = (text[: found.start()] if found else "").splitlines(keepends=True) or [""]
    whole = before[-1].endswith(("\n", "\r"))
    return Mark(len(before), 0) if whole else Mark(len(before) - 1, len(before[-1]))


# ---------------------------------------------------------------- what the parser complains of, in an author's words


def _in_words(source: Source, problem: yaml.MarkedYAMLError) -> tuple[Mark, str, str]:
    """Place, sentence and advice; the same whichever parser found it."""
    at, begun = _mark(problem.problem_mark or problem.context_mark), _mark(problem.context_mark)
    line = source.lines[at.line] if at.line < len(source.lines) else ""
    character = line[at.column : at.column + 1]
    context, what = str(problem.context or ""), str(problem.problem or "")
    if "nesting depth" in what:
        return at, _TOO_DEEP, "make the file flatter"
    if "cannot start any token" in what:
        if character == "\t":
            return at, "a tab stands where YAML wants spaces", "indent with spaces"
        return at, f"a text that begins with {character} needs quotes", "quote the text"
    if "quoted scalar" in context and "end of stream" in what:
        return begun, "the quote that opens here is not closed", "close it"
    if "flow mapping" in context or "flow sequence" in context:
        return _in_brackets(source, begun, at)
    if at.line >= len(source.lines):
        last = Mark(len(source.lines) - 1, len(source.lines[-1]))
        return last, "the file ends in the middle", "close every `{`, `[` and quote"
    if "mapping values are not allowed" in what:
        return at, "a `:` cannot stand here", "quote the text if it holds `: `, else check the indentation"
    if "sequence entries are not allowed" in what:
        return at, "a list cannot begin here", "begin it on a line of its own, or quote the text"
    if "escape character" in what:
        backslash = max(0, line.rfind("\\", 0, at.column + 1))
        mark = Mark(at.line, backslash)
        return mark, "this `\\` begins no escape that YAML knows", "double it, or use single quotes"
    if "block mapping" in context or "block collection" in context:
        return (
            at,
            "this does not belong to what stands above it",
            "check the indentation, and that each key ends with `:`",
        )
    return (
        at,
        f"is not valid YAML: {what or 'it cannot be read'}",
        "check indentation, quotes and brackets here and above",
    )


def _in_brackets(source: Source, begun: Mark, at: Mark) -> tuple[Mark, str, str]:
    """The same for what stands between `{}` or `[]`."""
    if at.line != begun.line:
        opened = source.lines[begun.line][begun.column : begun.column + 1]
        return begun, f"the `{opened}` that opens here is not closed", "close it"
    line, advice = source.lines[at.line], "close the bracket, or separate the values by commas"
    if line[at.column : at.column + 1] == ":" and not line[: at.column].rstrip().endswith(("'", '"', "}", "]")):
        advice = f"put quotes around the text if this `:` belongs to it, else {advice}"
    return at, "a comma or a closing bracket is missing before this", advice
