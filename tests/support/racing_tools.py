"""Tools whose effects lie in a file that processes share: every call is a line, so that a second one shows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from statemachine_agent.tools.request import ToolRequest

#: a pipe that the tool waits at, while the other one comes by
held: int | None = None


def ledger() -> Path:
    return Path(os.environ["RACE_LEDGER"])


def entries() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger().read_text().splitlines()] if ledger().exists() else []


def look(thing: str) -> dict[str, Any]:
    return {"good": True, "note": thing}


def act(thing: str, amount: int, call: ToolRequest) -> dict[str, Any]:
    line = json.dumps({"thing": thing, "amount": amount, "key": call.key, "pid": os.getpid()}) + "\n"
    file = os.open(ledger(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)
    if held is not None:
        os.read(held, 1)
    return {"id": f"{thing}-{amount}"}


def find(key: str) -> dict[str, Any]:
    return {"items": [{"id": f"{e['thing']}-{e['amount']}"} for e in entries() if e["key"] == key][:1]}
