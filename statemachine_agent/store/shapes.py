"""What a stored JSON text looks like: each is compared with the shape in which it was written, whenever it is read.

Whoever reads a record takes its parts for granted; a file that was altered is told of here, and nowhere else. It must not
know tables.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

#: a type; a tuple: one of several shapes; a list of one shape: of as many as there are; a mapping of names to shapes:
#: those names at least, `?name` where there is one, `*` for whatever name
Shape = Any

_NAMES = {"*": str}
_COUNTS = {"*": int}

CONFIGURATION: Shape = [str]
ASKED: Shape = {"*": bool}
ROLES: Shape = [str]
ANSWERS: Shape = [{"by": str, "role": str, "established": str, "at": str}]
OWNER: Shape = {"host": str, "pid": int, "started": str}
WHO: Shape = {"by": str, "established": str}
ACTOR: Shape = {"id": str, "tenant": str, "roles": [str], "scopes": [str], "established": str}
HEAD: Shape = {
    "usage": {"input_tokens": int, "output_tokens": int, "cost_usd": str, "tool_calls": int, "active_ms": int},
    "visits": _COUNTS,
    "calls": _COUNTS,
    "progress": {
        "?pairs": _COUNTS, "?recent": [(str, None)], "?stalled": int, "?corrected": bool, "?failed_reads": int,
    },
    "observation": (None, dict),
    "pending_exit": (None, {"event": str, "reason": str, "detail": (None, str)}),
    "evidence_count": int,
    "output": (None, str),
    "old": _COUNTS,
}  # fmt: skip
HEAD_DOCUMENT: Shape = {
    **HEAD, "version": int, "status": str, "reason": (str, None), "steps": int, "configuration": CONFIGURATION,
    "proposal": (None, dict),
}  # fmt: skip

#: payloads, by what they are to a record
TEXTS: Shape = {"machine": _NAMES, "tools": {"*": {"name": str, "text": str}}, "?limits": _NAMES}
OBJECT: Shape = dict
PROPOSAL: Shape = {
    "tool": str, "version": int, "args": dict, "key": str, "policy_version": str, "action_hash": str, "state": str,
    "row": int, "raised": bool, "step": int, "call_id": str,
}  # fmt: skip
SHOWN: Shape = {"args": dict, "because": [str]}
SECTION: Shape = [(None, str)]
RESPONSE: Shape = {"text": str, "calls": [{"name": str, "arguments": object}]}


def parsed(text: str, shape: Shape) -> Any:
    """The value of a JSON text of that shape; ValueError for any other, and for what is no JSON."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return shaped(found, shape)


def shaped(value: Any, shape: Shape) -> Any:
    """`value`, which has that shape; ValueError where it has not."""
    if not fits(value, shape):
        msg = f"`{json.dumps(value)[:80]}` was never written"
        raise ValueError(msg)
    return value


def fits(value: object, shape: Shape) -> bool:
    """Whether a JSON value has that shape."""
    match shape:
        case None:
            return value is None
        case tuple():
            return any(fits(value, one) for one in shape)
        case list():
            return isinstance(value, list) and all(fits(one, shape[0]) for one in value)
        case dict():
            return isinstance(value, dict) and _names_fit(value, shape)
    if isinstance(value, float) and not math.isfinite(value):  # a number too large for any
        return False
    return isinstance(value, shape) and (shape in (bool, object) or not isinstance(value, bool))


def _names_fit(value: dict[str, Any], shape: dict[str, Shape]) -> bool:
    if "*" in shape:
        return all(fits(one, shape["*"]) for one in value.values())
    for name, wanted in shape.items():
        key = name.removeprefix("?")
        if key not in value:
            if key == name:
                return False
        elif not fits(value[key], wanted):
            return False
    return True


def _refuse(constant: str) -> NoReturn:
    msg = f"`{constant}` is no JSON"
    raise ValueError(msg)
