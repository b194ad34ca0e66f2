"""Python tools that keep what they were given, change it, or do not come back when their time is over."""

from __future__ import annotations

import threading
from typing import Any

from statemachine_agent.tools.request import ToolRequest

#: lets `hang` go on
over = threading.Event()
#: `hang` did what it was called for
done = threading.Event()
happened: list[str] = []
seen: list[dict[str, Any]] = []


def clear() -> None:
    over.clear()
    done.clear()
    happened.clear()
    seen.clear()


def look(thing: str) -> dict[str, Any]:
    return {"good": True}


def hang(thing: str, amount: int, call: ToolRequest) -> dict[str, Any]:
    """What nobody waits for any more still happens."""
    seen.append({"thing": thing, "amount": amount})
    over.wait()
    happened.append(call.key or "")
    done.set()
    return {"id": "late"}


def find(key: str) -> dict[str, Any]:
    return {"items": [{"id": "late"} for k in happened if k == key]}


def spoil(thing: str, parts: dict[str, Any], call: ToolRequest) -> dict[str, Any]:
    """Its arguments are its own to change, it thinks, as is the request."""
    seen.append({"thing": thing, "parts": {**parts, "names": list(parts["names"])}})
    parts["names"].append("one more")
    call.args["parts"]["names"].append("and another")  # type: ignore[index]
    if call.key is not None and len(seen) == 2:
        raise RuntimeError("gone, the first time that something is written")
    return {"good": True, "id": "s1"}
