"""The part of GBNF that our grammars use, read strictly and turned into a regular expression."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r'"(?P<literal>(?:[^"\\\n]|\\["\\])*)"|(?P<range>\[[^\]\n]+\])(?P<times>\{\d+,\d+\})?'
    r"|(?P<rule>[a-z][a-z0-9]*)|(?P<sign>[()|?])| +"
)
_ESCAPED = re.compile(r"\\(.)")


def rules(grammar: str) -> dict[str, str]:
    """The rules by name, one a line; anything else is a fault."""
    found = {}
    for line in grammar.splitlines():
        name, sign, body = line.partition(" ::= ")
        assert sign and re.fullmatch(r"[a-z][a-z0-9]*", name) and name not in found, line
        found[name] = body
    return found


def regex(grammar: str) -> re.Pattern[str]:
    """What fits the grammar, as a pattern to be matched in full."""
    known = rules(grammar)

    def pattern(name: str) -> str:
        parts, at, body = [], 0, known[name]
        while at < len(body):
            token = _TOKEN.match(body, at)
            assert token and token.end() > at, body[at:]
            at = token.end()
            if token["literal"] is not None:
                parts.append("(?:" + re.escape(_ESCAPED.sub(r"\1", token["literal"])) + ")")
            elif token["range"]:
                parts.append(token["range"] + (token["times"] or ""))
            elif token["rule"]:
                parts.append(pattern(token["rule"]))
            elif token["sign"]:
                parts.append("(?:" if token["sign"] == "(" else token["sign"])
        return f"(?:{''.join(parts)})"

    return re.compile(pattern("root"))
