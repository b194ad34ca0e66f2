"""Prompts that offer a few tools over some recorded values, and all calls of a list of options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statemachine_agent.models.options import Option, drawn
from statemachine_agent.models.port import OfferedTool, Prompt, Quoted

ID = {"type": "string", "pattern": "^b_[0-9]+$"}
DAYS = {"type": "integer", "minimum": 1, "maximum": 30}
TEXT = {"type": "string", "maxLength": 200}
WORDS = {"type": "string", "minLength": 1}


def tool(name: str, *answered: Mapping[str, Any], optional: tuple[str, ...] = (), **args: Any) -> OfferedTool:
    schema = {"type": "object", "properties": args, "required": [a for a in args if a not in optional]}
    return OfferedTool(name, f"{name}.", schema, answered)


def prompt(*tools: OfferedTool, **values: Any) -> Prompt:
    return Prompt("m", "S", 1, "Do it.", tools, quoted=tuple(Quoted(k, k, v, "untrusted") for k, v in values.items()))


def calls(found: tuple[Option, ...]) -> set[tuple[str, str]]:
    """All calls, drawn one by one: each draw takes the next way through the choices."""
    seen: set[tuple[str, str]] = set()
    ways: list[list[int]] = [[]]
    while ways:
        way = ways.pop()
        taken: list[int] = []

        def below(end: int, way: list[int] = way, taken: list[int] = taken) -> int:
            taken.append(way[len(taken)] if len(taken) < len(way) else 0)
            if len(taken) > len(way):
                ways.extend([*taken[:-1], other] for other in range(1, end))
            return taken[-1]

        seen.add(drawn(found, below))
    return seen
