"""Python tools of the small machines. What they do and what they return lies in a file that a test names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from statemachine_agent.tools.outcome import LostError, NotSentError
from statemachine_agent.tools.request import ToolRequest


def _box() -> Path:
    return Path(os.environ["GADGETS"])


def _note(name: str, **what: Any) -> int:
    """Write down that it was called; how often that was before."""
    log = _box() / f"{name}.log"
    before = log.read_text().splitlines() if log.exists() else []
    with log.open("a") as file:
        file.write(json.dumps(what) + "\n")
    return len(before)


def _plan(name: str, count: int, default: Any) -> Any:
    plan = _box() / f"{name}.plan"
    plays = json.loads(plan.read_text()) if plan.exists() else [default]
    return plays[min(count, len(plays) - 1)]


def measure_soil(bed: str) -> dict[str, Any]:
    return {"moisture": _plan("measure_soil", _note("measure_soil", bed=bed), 0.5)}


async def read_forecast() -> dict[str, Any]:
    return {"lowest": _plan("read_forecast", _note("read_forecast"), 8)}


def open_valve(bed: str, litres: int, call: ToolRequest) -> dict[str, Any]:
    play = _plan("open_valve", _note("open_valve", bed=bed, litres=litres, key=call.key), "ok")
    if play == "lost":
        raise LostError("the valve did not answer", reason="timeout")
    return {"opened": True}


def read_telemetry(rocket: str) -> dict[str, Any]:
    return {"ready": _plan("read_telemetry", _note("read_telemetry", rocket=rocket), True)}


def ignite(rocket: str) -> dict[str, Any]:
    play = _plan("ignite", _note("ignite", rocket=rocket), "ok")
    if play == "explodes":
        raise RuntimeError("smoke everywhere")
    if play == "cold":
        raise NotSentError("no cable", reason="unavailable")
    return {"lit": True}


def calls(box: Path, name: str) -> list[dict[str, Any]]:
    log = box / f"{name}.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def plan(box: Path, name: str, *plays: Any) -> None:
    (box / f"{name}.plan").write_text(json.dumps(plays))
