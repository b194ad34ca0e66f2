"""The data that a new sandbox starts with, read from ``seeds.json``; must not know the services."""

from __future__ import annotations

import json
from pathlib import Path

from .exchange import Json

FILE = Path(__file__).with_name("seeds.json")


def seeds(section: str) -> list[Json]:
    """One section of the file: "orders", "refunds" or "passages". The file says what each entry is for."""
    entries: list[Json] = json.loads(FILE.read_text(encoding="utf-8"))[section]
    return entries
