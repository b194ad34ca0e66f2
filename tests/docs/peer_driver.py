"""Takes the steps of one peer trial with `benchmarks/peer_trials/ours.py`, each in a process of its own.

Usage: peer_driver.py OURS FOLDER STEP …; a step is a function of OURS, or `switch=text` for a file that the tool looks at. Each
result is a line of JSON; the last line says what was paid. It stands in for the trials' own runner, which is not shipped here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import types
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

AMOUNT, CHANGED = 100, 999


class Box:
    """The folder of the trial, with its ledger and the switches of its one tool."""

    def __init__(self, folder: str) -> None:
        self.dir = Path(folder)
        self.db = str(self.dir / "state.db")
        self.ledger = self.dir / "ledger.txt"

    @property
    def expiry(self) -> float | None:
        switch = self.dir / "expiry"
        return float(switch.read_text()) if switch.exists() else None

    def pay(self, amount: int) -> None:
        self._die_if("kill_before")
        with self.ledger.open("a") as file:
            file.write(f"{amount}\n")
        self._die_if("kill_after")

    def _die_if(self, name: str) -> None:
        switch = self.dir / name
        if switch.exists():
            switch.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def payments(self) -> list[int]:
        return [int(line) for line in self.ledger.read_text().split()] if self.ledger.exists() else []

    def go(self) -> None:
        """No race here."""


def says(status: str, note: str = "") -> dict[str, str]:
    return {"status": status, "note": note}


def step(ours: Any, box: Box, name: str) -> None:
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(json.dumps(says("killed")))
        return
    print(json.dumps(getattr(ours, name)(box)), flush=True)
    os._exit(0)


def main(ours_file: str, folder: str, *steps: str) -> None:
    stand_in = types.ModuleType("box")
    stand_in.__dict__.update(AMOUNT=AMOUNT, CHANGED=CHANGED, Box=Box, says=says)
    sys.modules["box"] = stand_in
    spec = spec_from_file_location("ours", ours_file)
    assert spec is not None and spec.loader is not None
    ours = module_from_spec(spec)
    spec.loader.exec_module(ours)
    box = Box(folder)
    for name in steps:
        switch, is_switch, text = name.partition("=")
        if is_switch:
            (box.dir / switch).write_text(text)
        else:
            step(ours, box, name)
    print(json.dumps(box.payments()))


if __name__ == "__main__":
    main(*sys.argv[1:])
