"""Text from outside made safe to show to a person: control, bidirectional and invisible characters become visible escapes.

It must not know where a text is shown; what a place needs beyond that (HTML, DOT) is that place's own matter.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

#: categories of characters that are not seen, or that change how others are seen: control, format, surrogate,
#: private use, unassigned, line and paragraph separators
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_SHOWN = 12  # known words that an advice lists


def visible(text: str, *, keep: str = "") -> str:
    r"""`text` with every unseen character written as an escape (`\x1b`, `\u202e`); those in `keep` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _HIDDEN else _escape(c) for c in text)


def one_line(text: str, limit: int = 200) -> str:
    """`text` as one visible line of at most `limit` characters."""
    return shorten(visible(" ".join(text.split())), limit)


def shorten(text: str, limit: int) -> str:
    """The head of `text`, with `…` where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be, or None."""
    choices = list(known)
    folded = {c.casefold(): c for c in choices}
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """One piece of advice for an unknown word: the nearest known one, or the list of them."""
    choices = sorted(known)
    near = nearest(word, choices)
    if near:
        return f"did you mean `{near}`?"
    if not choices:
        return "there is none"
    shown = ", ".join(f"`{c}`" for c in choices[:_SHOWN])
    return f"known: {shown}" + (" …" if len(choices) > _SHOWN else "")


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
