"""What a prompt leaves open, as plain data: each call that can be proposed, and for each argument what it may be.

Arguments are the values of their schemas and those that are recorded: nothing is made up but the words of free texts. That is
a property of this list, for models that choose from one; what is allowed, the machine says. It must not know how a choice is
made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from typing import Any

import jsonschema_rs

from statemachine_agent.models.port import OfferedTool, Prompt, Quoted

MOST_RECORDED = 4096  # single values that are looked at: the newest
MOST_VALUES = 64  # of one argument: the newest
MOST_CALLS = 512  # of one read, where those that are answered are left out
LONGEST_VALUE = 200  # characters of a recorded value, written as JSON
LONGEST_TEXT = 240  # characters of a text with words of one's own
_OWN = 80  # characters of one's own words before a value, and behind it
_NAME = 64  # a text that can be no longer is a name: a recorded one, without words around it
_DEEPEST = 8
_LARGEST = 2**53  # a number that is read elsewhere as it is written here
#: control choices whose text is for people: it needs no fact
_WORDS_ALONE = ("ask_user", "cannot_continue")
_UNSAID = "unsaid"


@dataclass(frozen=True)
class Values:
    """One of these, each as JSON text in ASCII."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """A text: one recorded value with words of one's own around it, or, where there is no value, the words alone."""

    #: the values as JSON texts without their quotation marks
    quotes: tuple[str, ...] = ()
    #: characters of one's own before the value and behind it, at most
    own: int = _OWN
    #: characters of words alone, at least
    least: int = 1


@dataclass(frozen=True)
class Several:
    """An array with one element, or with none where it may be empty."""

    item: Slot
    empty: bool


@dataclass(frozen=True)
class Fields:
    """An object; the optional ones may be left out."""

    required: tuple[tuple[str, Slot], ...] = ()
    optional: tuple[tuple[str, Slot], ...] = ()


Slot = Values | Words | Several | Fields


@dataclass(frozen=True)
class Option:
    """A tool, or a control choice, with what its arguments may be."""

    name: str
    arguments: Slot

    @property
    def count(self) -> int:
        """How many different calls of it there are, as `count_of` counts."""
        return count_of(self.arguments)


def options_of(prompt: Prompt) -> tuple[Option, ...]:
    """Every call that can be proposed, in the order of the prompt; a tool with an argument that nothing fits is left out."""
    recorded = _recorded(prompt.quoted)
    found = []
    for tool in prompt.tools:
        slot = _slot(tool.schema, recorded, 0, alone=tool.name in _WORDS_ALONE)
        slot = slot and _unanswered(slot, tool)
        if slot is not None:
            found.append(Option(tool.name, slot))
    return tuple(found)


def count_of(slot: Slot) -> int:
    """How many different values, at most 2**53; a text counts once for each value that it can quote, whatever its words."""
    return min(_LARGEST, _count(slot))


def _count(slot: Slot) -> int:
    match slot:
        case Values(texts):
            return len(texts)
        case Words(quotes):
            return max(1, len(quotes))
        case Several(item, empty):
            return _count(item) + empty
        case Fields(required, optional):
            return prod(_count(s) for _, s in required) * prod(_count(s) + 1 for _, s in optional)


def longest(slot: Slot) -> int:
    """Characters of the longest value, as JSON text."""
    match slot:
        case Values(texts):
            return max(map(len, texts))
        case Words(quotes, own, least):
            return 2 + max((len(q) for q in quotes), default=least) + 2 * own
        case Several(item):
            return 2 + longest(item)
        case Fields(required, optional):
            return 2 + sum(len(json.dumps(name)) + 4 + longest(s) for name, s in (*required, *optional))


def drawn(options: Sequence[Option], below: Callable[[int], int]) -> tuple[str, str]:
    """A tool, then each of its arguments, all by chance: its name and the arguments as JSON. `below(n)` is 0 to n - 1."""
    option = options[below(len(options))]
    return option.name, _drawn(option.arguments, below)


def _drawn(slot: Slot, below: Callable[[int], int]) -> str:
    match slot:
        case Values(texts):
            return texts[below(len(texts))]
        case Words(quotes, _, least):
            return f'"{quotes[below(len(quotes))] if quotes else _UNSAID.ljust(least, ".")}"'
        case Several(item, empty):
            return "[]" if empty and below(2) else f"[{_drawn(item, below)}]"
        case Fields(required, optional):
            given = [*required, *(one for one in optional if below(2))]
            return "{" + ", ".join(f"{json.dumps(name)}: {_drawn(s, below)}" for name, s in given) + "}"


# ---------------------------------------------------------------- what is recorded


def _recorded(quoted: Sequence[Quoted]) -> list[Any]:
    """Single values of the data, each once: the newest result first, the input last; cut results hold none."""
    found: dict[str, Any] = {}
    singles = (value for one in reversed(quoted) if one.whole for value in _singles(one.value))
    for value in islice(singles, MOST_RECORDED):
        text = _json(value)
        if len(text) <= LONGEST_VALUE:
            found.setdefault(text, value)
    return list(found.values())


def _singles(value: object) -> Iterator[Any]:
    match value:
        case Mapping():
            for inner in value.values():
                yield from _singles(inner)
        case list() | tuple():
            for inner in value:
                yield from _singles(inner)
        case str() if _is_text(value):
            yield value
        case int() | float() if not isinstance(value, bool) and abs(value) < _LARGEST:
            yield value


def _is_text(value: str) -> bool:
    """Half of a character, as broken services send it, is none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(value: object) -> str:
    """ASCII, so that no character of the data is anything but a part of a text."""
    return json.dumps(value).replace("\x7f", "\\u007f")


# ---------------------------------------------------------------- what an argument may be


def _slot(schema: Mapping[str, Any], recorded: Sequence[Any], depth: int, *, alone: bool = False) -> Slot | None:
    """What a value of this schema may be; None where nothing is."""
    if depth > _DEEPEST:
        return None
    if "enum" in schema:
        return Values(tuple(_json(value) for value in schema["enum"]))
    match schema.get("type"):
        case "boolean":
            return Values(("true", "false"))
        case "object":
            return _fields(schema, recorded, depth, alone=alone)
        case "array":
            return _several(schema, recorded, depth)
        case "string" if _is_free(schema):
            return _words(schema, () if alone else recorded)
        case _:
            return _values(schema, recorded)


def _values(schema: Mapping[str, Any], recorded: Sequence[Any]) -> Values | None:
    try:
        fits = jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=True).is_valid
    except ValueError:  # a pattern that only another engine knows: the machine's own check says so
        return None
    texts = tuple(_json(value) for value in islice(filter(fits, recorded), MOST_VALUES))
    return Values(texts) if texts else None


def _fields(schema: Mapping[str, Any], recorded: Sequence[Any], depth: int, *, alone: bool) -> Fields | None:
    required, optional = [], []
    for name, inner in schema.get("properties", {}).items():
        slot = _slot(inner, recorded, depth + 1, alone=alone)
        if name in schema.get("required", ()):
            if slot is None:
                return None
            required.append((name, slot))
        elif slot is not None:
            optional.append((name, slot))
    return Fields(tuple(required), tuple(optional))


def _several(schema: Mapping[str, Any], recorded: Sequence[Any], depth: int) -> Slot | None:
    least, most = schema.get("minItems", 0), schema.get("maxItems", 1)
    item = _slot(schema.get("items", {"type": "string"}), recorded, depth + 1)
    if item is None or most < 1:
        return Values(("[]",)) if least < 1 else None
    return Several(item, empty=least < 1) if least <= 1 else None


def _is_free(schema: Mapping[str, Any]) -> bool:
    """A text that people or a search read, and not the name of something."""
    return not ({"pattern", "format"} & schema.keys()) and schema.get("maxLength", LONGEST_TEXT) > _NAME


def _words(schema: Mapping[str, Any], recorded: Sequence[Any]) -> Words | None:
    least, room = max(1, schema.get("minLength", 1)), min(schema.get("maxLength", LONGEST_TEXT), LONGEST_TEXT)
    if least > room:
        return None
    texts = (_json(str(value))[1:-1] for value in recorded)
    quotes = tuple(islice(dict.fromkeys(t for t in texts if least <= len(t) <= room), MOST_VALUES))
    widest = max(map(len, quotes), default=least)
    return Words(quotes, min(_OWN, (room - widest) // 2), least)


# ---------------------------------------------------------------- what is finished


def _unanswered(slot: Slot, tool: OfferedTool) -> Slot | None:
    """Without the calls that were answered already: a read that is asked the same again brings nothing new."""
    if not tool.answered:
        return slot
    if isinstance(slot, Fields) and any(isinstance(s, Words) for _, s in (*slot.required, *slot.optional)):
        said = [_json(text) for given in tool.answered for text in given.values()]
        return _with_new_words(slot, said)
    most = MOST_CALLS + len(tool.answered)
    calls = (text for text in _first(slot, most) if json.loads(text) not in tool.answered)
    texts = tuple(islice(calls, MOST_CALLS))
    return Values(texts) if texts else None


def _with_new_words(slot: Fields, said: Sequence[str]) -> Fields | None:
    """Texts that quote what no earlier one holds are surely other texts."""
    required: list[tuple[str, Slot]] = []
    for name, inner in slot.required:
        if not isinstance(inner, Words):
            required.append((name, inner))
            continue
        left = tuple(quote for quote in inner.quotes if not any(quote in text for text in said))
        if not left:
            return None
        required.append((name, replace(inner, quotes=left)))
    return replace(slot, required=tuple(required))


def _first(slot: Slot, most: int) -> Sequence[str]:
    """At most `most` values as JSON text, where no words are in it.

    The last field changes fastest, so those of an object need no more than so many of each field's own, and combinations are
    never built beyond them: there can be more than any memory holds.
    """
    match slot:
        case Values(texts):
            return texts[:most]
        case Words(quotes):
            return [f'"{quote}"' for quote in quotes[:most]]
        case Several(item, empty):
            return [*["[]"] * empty, *(f"[{text}]" for text in _first(item, most))][:most]
        case Fields(required, optional):
            parts = [[f"{json.dumps(name)}: {text}" for text in _first(s, most)] for name, s in required]
            parts += [["", *(f"{json.dumps(name)}: {text}" for text in _first(s, most))] for name, s in optional]
            chosen = islice(product(*parts), most)
            return ["{" + ", ".join(filter(None, one)) + "}" for one in chosen]
