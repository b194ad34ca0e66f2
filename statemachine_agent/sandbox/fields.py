"""Checks of the fields of a JSON body; must not know what the fields are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .exchange import Json, Problem

Check = Callable[[Any], bool]
"""True when the value may be taken."""

LARGEST_AMOUNT = 10_000_000
LONGEST_IDENTIFIER = 64
LONGEST_TEXT = 10_000


def take(body: object, checks: Mapping[str, tuple[str, Check]]) -> Json:
    """The fields of ``body``, checked: exactly those of ``checks``, which maps a field to what it is and its check.

    Anything else is a ``Problem`` with status 422 that names the first field at fault.
    """
    if not isinstance(body, dict):
        raise Problem(422, "invalid", f"the body must be a JSON object with the fields {', '.join(checks)}")
    for name in body:
        if name not in checks:
            raise Problem(422, "invalid", f"unknown field {name!a}; the fields are {', '.join(checks)}")
    for name, (meaning, check) in checks.items():
        if name not in body:
            raise Problem(422, "invalid", f"the field {name} is missing; it must be {meaning}")
        if not check(body[name]):
            raise Problem(422, "invalid", f"the field {name} is not valid; it must be {meaning}")
    return {name: body[name] for name in checks}


def is_identifier(value: object) -> bool:
    """1 to 64 visible ASCII characters."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_IDENTIFIER and is_visible(value)


def is_visible(text: str) -> bool:
    """Only ASCII characters that leave a mark: no space, no control character."""
    return all("!" <= character <= "~" for character in text)


def is_amount(value: object) -> bool:
    """A whole number of rupees from 1 to 10,000,000; JSON ``true`` is not a number."""
    return type(value) is int and 0 < value <= LARGEST_AMOUNT


def is_text(value: object) -> bool:
    """1 to 10,000 characters of valid Unicode that are not all white space."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
        return False
    # JSON can carry half a surrogate pair, which no UTF-8 file can hold.
    return not any("\ud800" <= character <= "\udfff" for character in value)


IDENTIFIER = ("a string of 1 to 64 visible ASCII characters", is_identifier)
OPTIONAL_IDENTIFIER = (
    "null or a string of 1 to 64 visible ASCII characters",
    lambda value: value is None or is_identifier(value),
)
AMOUNT = ("a whole number of rupees from 1 to 10000000", is_amount)
TEXT = ("a string of 1 to 10000 characters that is not blank", is_text)
ANY_STRING = ("a string", lambda value: isinstance(value, str))
