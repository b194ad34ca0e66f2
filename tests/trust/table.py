"""The table of the page on trust; `PYTHONPATH=tests python -m trust.table` plays everything and prints it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from trust.poisons import CASES, POISONS
from trust.shop import harm
from trust.stage import in_plain_loop, on_machine


def table(harms: Mapping[tuple[str, str], list[str]]) -> str:
    """What the plain loop did, a line for each poison."""
    lines = ["| text | comes as | harm in the plain loop | what was done |", "| --- | --- | --- | --- |"]
    for poison in POISONS:
        done = {place: harms[poison.name, place] for place in poison.places}
        worst = dict.fromkeys(what for found in done.values() for what in found)
        count = sum(map(bool, done.values()))
        lines.append(f"| {poison.name} | {', '.join(done)} | {count} of {len(done)} | {'; '.join(worst)} |")
    lines.append(f"| all {len(POISONS)} | {len(harms)} runs | {sum(map(bool, harms.values()))} of {len(harms)} | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Both sides of every case."""
    print(table({(p.name, place): harm(in_plain_loop(place, p.text).shop) for p, place in CASES}))
    ends: dict[str, int] = {}
    hurt = tried = 0
    for poison, place in CASES:
        with tempfile.TemporaryDirectory() as folder:
            played = on_machine(Path(folder), place, poison.text)
        hurt += bool(harm(played.shop))
        tried += bool(played.tried)
        end = "not begun" if played.end is None else f"{played.end.head.status} ({played.end.head.reason})"
        ends[end] = ends.get(end, 0) + 1
    print(f"on the machines: harm in {hurt} of {len(CASES)}; what was ordered was tried in {tried}, and refused")
    for end, count in sorted(ends.items(), key=lambda pair: -pair[1]):
        print(f"  {count:>3} {end}")


if __name__ == "__main__":
    main()
