"""One file as data, in which every value knows its place; what has a fault can be left out, and the rest goes on being checked.

It must not know how the text was parsed, nor what the data means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from statemachine_agent.canonical import digest_bytes
from statemachine_agent.definition.faults import Fault, Level, Mark

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one value stands, and the key that leads to it."""

    value: Mark
    key: Mark | None = None
    #: inside `{…}`, where a comma ends a value
    flow: bool = False


@dataclass(frozen=True)
class Source:
    """One file: a name for messages, and its text."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return self.text.splitlines()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the text."""
        return digest_bytes(self.text.encode())


@dataclass
class Document:
    """A file read: its data, and the place of each path in it.

    Paths lead through `readable`, the data without what was left out; an element of a list may stand there under another
    number than in the file.
    """

    source: Source
    data: object = None
    places: dict[Path_, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    #: what was left out, by its path in the file; also keys that are not there and should be
    gaps: set[Path_] = field(default_factory=set)
    #: for a mapping of the file: what stands in for keys that were left out
    stand_ins: dict[Path_, dict[str, object]] = field(default_factory=dict)
    _numbers: dict[Path_, list[int]] = field(default_factory=dict)

    # ------------------------------------------------------------ leaving out

    def leave_out(self, path: Path_) -> None:
        """Do without what stands at `path` (of the file): nothing is concluded from its being absent."""
        self.gaps.add(path)

    def stand_in(self, path: Path_, key: str, value: object) -> None:
        """Let `value` stand for a key that the mapping at `path` (of the file) needs and does not have."""
        self.stand_ins.setdefault(path, {})[key] = value
        self.gaps.add((*path, key))

    def readable(self) -> object:
        """The data without what was left out."""
        self._numbers.clear()
        return self._copy(self.data, ()) if self.gaps else self.data

    def _copy(self, value: object, path: Path_) -> object:
        if isinstance(value, dict):
            kept = {k: self._copy(v, (*path, k)) for k, v in value.items() if (*path, k) not in self.gaps}
            return kept | self.stand_ins.get(path, {})
        if isinstance(value, list):
            numbers = [i for i in range(len(value)) if (*path, i) not in self.gaps]
            if len(numbers) < len(value):
                self._numbers[path] = numbers
            return [self._copy(value[i], (*path, i)) for i in numbers]
        return value

    def in_file(self, path: Path_) -> Path_:
        """The path in the file of a path in `readable`."""
        found: Path_ = ()
        for step in path:
            numbers = self._numbers.get(found, ())
            found = (*found, numbers[step] if isinstance(step, int) and step < len(numbers) else step)
        return found

    def incomplete(self, path: Path_) -> bool:
        """True where something at `path`, or in it, was left out: what seems to be missing there may be in the file."""
        here = self.in_file(path)
        return any(gap[: len(here)] == here for gap in self.gaps)

    def left_out(self, path: Path_) -> set[str]:
        """The keys directly under `path` that were left out."""
        here = self.in_file(path)
        return {str(gap[-1]) for gap in self.gaps if gap[:-1] == here and gap}

    def lost(self, path: Path_) -> set[str]:
        """The keys at any depth under `path` that were left out, with all keys in what was."""
        here, found = self.in_file(path), set()
        for gap in self.gaps:
            if gap[: len(here)] == here and len(gap) > len(here):
                found |= {str(gap[-1]), *_keys(self._in_data(gap))}
        return found

    # ------------------------------------------------------------ values and places

    def at(self, path: Path_) -> object:
        """The value at `path`; None where there is none."""
        return self._in_data(self.in_file(path))

    def _in_data(self, path: Path_) -> object:
        value = self.data
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
                value = value[step]
            else:
                return None
        return value

    def place(self, path: Path_) -> Place:
        """The place of `path`, or of the nearest thing around it that is there."""
        here = self.in_file(path)
        while here and here not in self.places:
            here = here[:-1]
        return self.places.get(here) or Place(Mark())

    def fault(
        self,
        path: Path_,
        message: str,
        advice: str,
        *,
        key: bool = False,
        offset: int | None = None,
        level: Level = Level.ERROR,
    ) -> Fault:
        """A fault at the value of `path` (or at its key), `offset` characters into the value's text."""
        place = self.place(path)
        mark = place.key if key and place.key else place.value
        value = self.at(path)
        if offset is not None and isinstance(value, str):
            mark = _inside(self.source.lines, place.value, value, offset)
        return self.fault_at(mark, message, advice, level)

    def fault_at(self, mark: Mark, message: str, advice: str, level: Level = Level.ERROR) -> Fault:
        """A fault at a place."""
        lines = self.source.lines
        return Fault(self.source.name, mark, message, advice, level, lines[mark.line] if mark.line < len(lines) else "")


def _keys(value: object) -> Iterator[str]:
    """All keys of mappings in `value`."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from map(str, one)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


# ---------------------------------------------------------------- characters of a text in the file


def _inside(lines: list[str], start: Mark, value: str, offset: int) -> Mark:
    """Where character `offset` of a text that begins at `start` stands, however it was folded: the n-th that is not blank."""
    wanted, all_of_it = (len("".join(part.split())) for part in (value[:offset], value))
    passed, end = 0, start
    for mark, character in _characters(lines, start):
        if character.isspace():
            continue
        if passed == wanted < all_of_it:
            return mark
        passed, end = passed + 1, Mark(mark.line, mark.column + 1)
        if passed == all_of_it:
            break
    return end


_ESCAPED = {"x": 2, "u": 4, "U": 8}  # digits that follow
_BLANK_ESCAPES = frozenset("tnvfr N_LP")


def _characters(lines: list[str], start: Mark) -> Iterator[tuple[Mark, str]]:
    """The characters of a scalar from where it begins, an escape of two or more counting as the one that it stands for."""
    first = lines[start.line][start.column :] if start.line < len(lines) else ""
    quote = first[:1] if first[:1] in ("'", '"') else ""
    if first[:1] in ("|", ">"):  # a block: its text begins on the next line
        start = Mark(start.line + 1, 0)
    for number in range(start.line, len(lines)):
        line = lines[number]
        column = (start.column + len(quote)) if number == start.line else 0
        while column < len(line):
            character, length = line[column], 1
            if quote == '"' and character == "\\":
                kind = line[column + 1 : column + 2]
                length = 2 + _ESCAPED.get(kind, 0)
                digits = line[column + 2 : column + length]
                character = chr(int(digits, 16)) if digits else " " if kind in _BLANK_ESCAPES or not kind else "x"
            elif quote == "'" and line[column : column + 2] == "''":
                length = 2
            elif character == quote:
                return
            yield Mark(number, column), character
            column += length
