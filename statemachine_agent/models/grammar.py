"""Options as a grammar (GBNF, as llama.cpp reads it): a text fits it exactly if it is one of them.

What comes from outside stands within literals, escaped. It must not know what an option means.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from statemachine_agent.models.options import Fields, Option, Several, Slot, Values, Words

#: one's own words: no digit, no quotation mark, no backslash. Numbers and names of things come from the record
_WORDS = "[A-Za-z ,.:'-]"


def grammar_of(options: Sequence[Option]) -> str:
    """One line `NAME ARGUMENTS`, of one of the options; ValueError where there is none."""
    if not options:
        raise ValueError("a grammar of no options fits no text")
    rules = _Rules()
    names = [rules.add(f"{_literal(o.name + ' ')} {rules.slot(o.arguments)}") for o in options]
    return "\n".join([f"root ::= {' | '.join(names)}", *rules.lines, ""])


def _literal(text: str) -> str:
    """A literal of printable ASCII; whatever else is a fault of whoever gives it."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{text!r} is not printable ASCII")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Rules:
    """Rules under names of their own making."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, body: str) -> str:
        """The name under which `body` stands."""
        name = f"r{len(self.lines)}"
        self.lines.append(f"{name} ::= {body}")
        return name

    def slot(self, slot: Slot) -> str:
        """The rule of a value, as JSON text."""
        match slot:
            case Values(texts):
                return self.add(" | ".join(map(_literal, texts)))
            case Words():
                return self.add(self._words(slot))
            case Several(item, empty):
                inner = f'"[" {self.slot(item)} "]"'
                return self.add(f'{inner} | "[]"' if empty else inner)
            case Fields():
                return self.add(f'"{{" {self._members(slot)} "}}"')

    def _words(self, slot: Words) -> str:
        mark = _literal('"')
        if not slot.quotes:
            rest = f"{_WORDS}{{{slot.least - 1},{slot.least - 1 + 2 * slot.own}}}"
            return f"{mark} [A-Za-z] {rest} {mark}"
        values = self.add(" | ".join(map(_literal, slot.quotes)))
        before = self.add(f'[A-Za-z] {_WORDS}{{0,{slot.own - 2}}} " "') if slot.own > 1 else None
        behind = self.add(f"[ ,.] {_WORDS}{{0,{slot.own - 1}}}") if slot.own else None
        return " ".join([mark, f"{before}?" if before else "", values, f"{behind}?" if behind else "", mark])

    def _members(self, slot: Fields) -> str:
        """Those that must be there, then any of the others, with commas between whatever is there."""
        if slot.required:
            given = ' ", " '.join(self._member(name, s) for name, s in slot.required)
            more = " ".join(f'(", " {self._member(name, s)})?' for name, s in slot.optional)
            return f"{given} {more}".strip()
        return self._optional([self._member(name, s) for name, s in slot.optional])

    def _optional(self, members: Sequence[str]) -> str:
        """Any of them, in their order; each begins once, with the rule of what may follow it, so that they grow in a line."""
        first: list[str] = []
        behind = ""
        for member in reversed(members):
            first.append(f"{member} {behind}".strip())
            behind = self.add(f'(", " {member})? {behind}'.strip())
        return f"({' | '.join(reversed(first))})?" if first else ""

    def _member(self, name: str, slot: Slot) -> str:
        return self.add(f"{_literal(json.dumps(name) + ': ')} {self.slot(slot)}")
