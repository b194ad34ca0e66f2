"""Text from outside made safe to show to a person: control, bidirectional and invisible characters become visible escapes.

It must not know where a text is shown; what a place needs beyond that (HTML, DOT) is that place's own matter.
"""

from __future__ import annotations

import difflib
import string
import unicodedata
from collections.abc import Iterable, Iterator

#: categories of characters that are not seen, or that change how others are seen: control, format, surrogate,
#: private use, unassigned, line and paragraph separators
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

#: and those that are drawn as nothing although their category says otherwise: joiners, fillers, variation selectors
#: (all but the one that makes a sign an emoji)
_UNSEEN = frozenset(
    chr(code)
    for code in (
        0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0,
        *range(0x180B, 0x1810), *range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0),
    )
)  # fmt: skip

_SHOWN = 12  # known words that an advice lists
_MANY = 300  # known words that are compared with another one by one


def visible(text: str, *, keep: str = "") -> str:
    r"""`text` with every unseen character written as an escape (`\x1b`, `\u202e`); those in `keep` stay."""
    if text.isprintable() and (text.isascii() or _UNSEEN.isdisjoint(text)):
        return text
    return "".join(_escape(c) if _is_hidden(c) and c not in keep else c for c in text)


def said_by(problem: BaseException) -> str:
    """The exception's name and what it says, as one line; the name alone where it says nothing, or raises when it is asked."""
    name = type(problem).__name__
    try:
        return one_line(f"{name}: {problem}".rstrip(": "))
    except BaseException:  # noqa: BLE001  its text is code of somebody else's
        return one_line(name)


def one_line(text: str, limit: int = 200) -> str:
    """`text` as one visible line of at most `limit` characters."""
    return shorten(visible(" ".join(text.split())), limit)


def shorten(text: str, limit: int) -> str:
    """The head of `text`, with `…` where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def squeezed(text: str, limit: int) -> str:
    """Head and tail of `text`, with `…` where something was cut: what a sentence quotes stands in its middle."""
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-(limit // 2) :]}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be, or None."""
    choices = list(known)
    folded = {c.casefold(): c for c in choices}
    if len(folded) > _MANY:  # comparing would take as long as all else together
        return next((folded[slip] for slip in _slips(word.casefold()) if slip in folded), None)
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def _slips(word: str) -> Iterator[str]:
    """The word, and those from which it differs by one slip, the likely ones first."""
    letters = string.ascii_lowercase + string.digits + "_"
    word = word[:64]
    yield word
    yield from (word[:i] + word[i : i + 2][::-1] + word[i + 2 :] for i in range(len(word)))
    yield from (word[:i] + letter + word[i:] for i in range(len(word) + 1) for letter in letters)
    yield from (word[:i] + word[i + 1 :] for i in range(len(word)))
    yield from (word[:i] + letter + word[i + 1 :] for i in range(len(word)) for letter in letters)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """One piece of advice for an unknown word: the nearest known one, or the list of them."""
    choices = sorted(known)
    near = nearest(word, choices)
    if near:
        return f"did you mean `{near}`?"
    if not choices:
        return "none is defined"
    shown = ", ".join(f"`{c}`" for c in choices[:_SHOWN])
    return f"known: {shown}" + (" …" if len(choices) > _SHOWN else "")


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN or character in _UNSEEN


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
