"""What is wrong with an expression, in an author's words: the compiler's complaints, types, and literal texts.

It must not know where an expression stands.
"""

from __future__ import annotations

import json
import re

from statemachine_agent.definition.schema import Properties
from statemachine_agent.guards import cel, types
from statemachine_agent.text import did_you_mean

_ZONED = re.compile(r".*(Z|[+-]\d\d:\d\d)")
#: for the functions that take a text of a certain form: what the text is, and how it is written
_FORMS = {
    "timestamp": ("time", "write it like 2026-10-28T11:00:00Z"),
    "duration": ("duration", "write a number and a unit: 30s, 10m, 2h"),
    "matches": ("pattern", "write a regular expression"),
}
_FUNCTIONS = (
    "size", "contains", "startsWith", "endsWith", "matches", "exists", "all", "filter", "map", "timestamp", "duration",
)  # fmt: skip


def name_offset(problem: cel.Problem, text: str) -> int:
    """Where the name stands that is complained of; the compiler names the point in front of the last part."""
    if text[problem.offset : problem.offset + 1] != ".":
        return problem.offset
    named = re.match(r"nothing is called `(.+)\.\w+`", problem.message)
    return problem.offset - len(named[1]) if named else problem.offset + 1


def form(function: str, literal: str | int) -> list[tuple[str, str]]:
    """What is wrong with a literal that a function is given: the function itself is asked."""
    what, advice = _FORMS[function]
    quoted = json.dumps(literal, ensure_ascii=False)
    call = f"'x'.matches({quoted})" if function == "matches" else f"{function}({quoted})"
    naive = function == "timestamp" and isinstance(literal, str) and not _ZONED.fullmatch(literal)
    try:
        cel.evaluator(call).value({})
    except cel.EvaluationError:
        if naive and re.fullmatch(r"\d{4}-\d\d-\d\d(T[\d:.]+)?", str(literal)):
            return [(f"the time `{literal}` names no zone", "end it with Z, or with +05:30")]
        return [(f"`{literal}` is no {what}", advice)]
    return [(f"the time `{literal}` names no zone", "end it with Z, or with +05:30")] if naive else []


_TYPES = {
    "INT": "an integer",
    "DOUBLE": "a number",
    "STRING": "a text",
    "BOOL": "true or false",
    "DYN": "anything at all",
}


def type_words(name: str, known: types.MessageTypes) -> str:
    """What a type is called in a sentence."""
    if name in known.known:
        return f"the whole of `{known.known[name][0]}`"
    if name.upper().startswith("LIST"):
        return "a list"
    return _TYPES.get(name) or f"a {known.author_words(name).lower()}"


def compiler_words(problem: cel.Problem, known: types.MessageTypes, text: str) -> tuple[str, str]:
    """A complaint of the compiler as sentence and advice."""
    message = known.author_words(problem.message)
    words = re.findall(r"`([^`]+)`", problem.message)
    if problem.syntax and "too deeply" in message:
        return message, "make two guards of it"
    if problem.syntax:
        return message, "check brackets, quotes and operators: `&&`, `||`, `!`, `==`, `in`"
    if "has no field" in message:
        properties: Properties = known.known.get(words[0], ("", {}))[1]
        return message, did_you_mean(words[1], properties)
    if "nothing is called" in message and text[problem.offset : problem.offset + 1] == "(":
        if words[0] in _FUNCTIONS:
            return f"`{words[0]}` is used in a wrong way", "it is used like this: `input.list.exists(p, p.x == 1)`"
        return f"there is no function `{words[0]}`", did_you_mean(words[0], _FUNCTIONS)
    if "nothing is called" in message:
        root = words[0].partition(".")[0]
        return f"nothing is called `{root}`", did_you_mean(root, known.roots)
    if "does not work on" in message:
        if "double" in message and "int" in message:
            return message, "a number of a `number` field is written with a point: 2.0"
        return message, "compare values of one type"
    return message, "see the language reference: guards are written in CEL"
