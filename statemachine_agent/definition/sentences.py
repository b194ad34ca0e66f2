"""Pydantic's complaints about one value in an author's words: a sentence, and a piece of advice.

It must not know where the value stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from statemachine_agent.definition.names import AT_VERSION_PATTERN, LOWER_PATTERN, TARGET_PATTERN, UPPER_PATTERN
from statemachine_agent.text import nearest, shorten

#: what a pattern is called, and how such a text is written
PATTERNS = {
    LOWER_PATTERN: ("a name", "a name begins with a-z and goes on with a-z, 0-9 and _, at most 63 characters"),
    AT_VERSION_PATTERN: ("a machine and its version", "write `name@version`, as in `identity_check@1`"),
    TARGET_PATTERN: ("the name of a state", "a state begins with A-Z and goes on with A-Z, 0-9 and _"),
    UPPER_PATTERN: ("the name of a state", "a state begins with A-Z and goes on with A-Z, 0-9 and _"),
}

Sentence = tuple[str, str]


def explain(error: ErrorDetails) -> Sentence:
    """What is wrong with the value of this complaint, and what to do."""
    context = error.get("ctx", {})
    if error["type"] == "complaint":
        return str(context["message"]), str(context["advice"])
    return _SENTENCES.get(error["type"], _other)(error["input"], context, error["msg"])


def shown(value: object) -> str:
    """A value as a message quotes it."""
    match value:
        case dict():
            return "this mapping"
        case list() | tuple():
            return "this list"
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{shorten(str(value), 60)}`"


def _other(value: object, _context: Mapping[str, Any], message: str) -> Sentence:
    return f"{shown(value)}: {message[:1].lower()}{message[1:]}", "see the language reference for this key"


def _kind(name: str, advice: str) -> Callable[[object, Mapping[str, Any], str], Sentence]:
    def sentence(value: object, _context: Mapping[str, Any], _message: str) -> Sentence:
        if value is None:
            return "nothing stands here", advice
        return f"{shown(value)} is not {name}", advice

    return sentence


def _text(value: object, _context: Mapping[str, Any], _message: str) -> Sentence:
    if value is None:
        return "nothing stands here", "write a text"
    quote = isinstance(value, (bool, int, float))
    return f"{shown(value)} is not a text", f'put it in quotes: "{value}"' if quote else "write a text"


def _pattern(value: object, context: Mapping[str, Any], _message: str) -> Sentence:
    what, advice = PATTERNS.get(
        str(context.get("pattern")), ("of the right form", f"it matches {context.get('pattern')}")
    )
    return f"{shown(value)} is not {what}", advice


def _literal(value: object, context: Mapping[str, Any], _message: str) -> Sentence:
    words = [
        w.strip("'").replace("True", "true") for w in str(context.get("expected", "")).replace(" or ", ", ").split(", ")
    ]
    listed = ", ".join(f"`{w}`" for w in words)
    if len(words) == 1:
        return f"{shown(value)} is not {listed}", f"write {listed}"
    near = nearest(str(value), words)
    return f"{shown(value)} is not one of {listed}", f"did you mean `{near}`?" if near else "write one of them"


def _limit(words: str, key: str) -> Callable[[object, Mapping[str, Any], str], Sentence]:
    def sentence(value: object, context: Mapping[str, Any], _message: str) -> Sentence:
        return f"{shown(value)} is not {words} {context.get(key)}", f"write a number that is {words} {context.get(key)}"

    return sentence


def _too_long(value: object, context: Mapping[str, Any], _message: str) -> Sentence:
    return f"this text has {len(str(value))} characters, and may have {context.get('max_length')}", "shorten it"


def _empty(_value: object, _context: Mapping[str, Any], _message: str) -> Sentence:
    return "this is empty", "write at least one"


_A_LIST = _kind("a list", "write a list: `[…]`, or lines that begin with `- `")
_A_MAPPING = _kind("a mapping", "write keys with values: `key: value`")
_A_NUMBER = _kind("a whole number", "write a whole number, without quotes")

_SENTENCES: dict[str, Callable[[object, Mapping[str, Any], str], Sentence]] = {
    "string_type": _text,
    "int_type": _A_NUMBER,
    "bool_type": _kind("true or false", "write true or false"),
    "tuple_type": _A_LIST,
    "list_type": _A_LIST,
    "dict_type": _A_MAPPING,
    "mapping_type": _A_MAPPING,
    "model_type": _A_MAPPING,
    "model_attributes_type": _A_MAPPING,
    "string_pattern_mismatch": _pattern,
    "literal_error": _literal,
    "greater_than_equal": _limit("at least", "ge"),
    "greater_than": _limit("more than", "gt"),
    "less_than_equal": _limit("at most", "le"),
    "string_too_long": _too_long,
    "string_too_short": lambda _value, _context, _message: ("this is empty", "write a text"),
    "too_short": _empty,
}
