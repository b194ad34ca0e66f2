"""How much of a task's data one prompt holds: what is shown whole, what is cut, and what is only named.

The budget is in tokens, by the estimate that books an inference whose provider tells nothing. What it bounds is everything that
grows with a task: its input, its results, refusals. The author's own texts (brief, tools) are as long as the file, at each step
the same. It must not know who is asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from statemachine_agent.canonical import canonical
from statemachine_agent.models.port import Quoted
from statemachine_agent.models.prices import CHARACTERS_PER_TOKEN
from statemachine_agent.records import Evidence
from statemachine_agent.text import shorten, visible
from statemachine_agent.times import time_text

#: tokens of results: five or six documents of a few pages, so that a step costs what a person would read for it
EVIDENCE = 6_000
#: tokens of what the task was started with: a long letter
INPUT = 3_000
#: tokens of why tools are not offered now
REFUSALS = 1_500

#: the same in characters, which is how what is shown is measured
EVIDENCE_ROOM = EVIDENCE * CHARACTERS_PER_TOKEN
INPUT_ROOM = INPUT * CHARACTERS_PER_TOKEN
REFUSALS_ROOM = REFUSALS * CHARACTERS_PER_TOKEN

_CUT = 600  # characters that an older result keeps when there is no room for all of it
_CUTS = 10  # older results that are shown cut
_NAMED = 20  # still older ones that are named
_ONE_REFUSAL = 1_000  # characters of one text
_NOT_NOW = "not now"


def shown(value: object) -> str:
    """`value` as it stands in a prompt: one line of JSON in which everything is seen."""
    return visible(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _cut(text: str, most: int) -> dict[str, Any]:
    """The head of a JSON text; what is shown of it has about `most` characters at most, whatever has to be escaped."""
    head = min(most, len(text))
    while True:
        kept = shorten(text, max(head, 1))
        size = len(shown(kept))
        if size <= most + 2 or head <= 1:
            return {"cut": kept, "characters": len(text)}
        head = head * most // size  # less than before, since the size is more than `most`


def input_of(values: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """What a task was started with, and whether it is whole: the longest values are cut until all have room."""
    texts = {name: canonical(value).decode() for name, value in values.items()}
    sizes = {name: len(text) if len(text) > INPUT_ROOM else len(shown(values[name])) for name, text in texts.items()}
    if sum(sizes.values()) <= INPUT_ROOM:
        return values, True
    room, found = INPUT_ROOM, {}
    for place, name in enumerate(sorted(sizes, key=lambda n: sizes[n])):
        share = room // (len(sizes) - place)
        found[name] = values[name] if sizes[name] <= share else _cut(texts[name], share)
        room -= min(sizes[name], share)
    return {name: found[name] for name in values}, False


def evidence_of(found: list[Evidence], most_of: Mapping[str, int]) -> list[Quoted]:
    """Recorded results, oldest first. From the newest back: whole while there is room, then cut, then only named or counted.

    So the newest one is always there, with all the room that there is. `most_of` a tool are the characters that its manifest lets
    one result have.
    """
    room, cuts = EVIDENCE_ROOM, _CUTS
    made: list[Quoted] = []
    for index, one in enumerate(reversed(found)):
        text = canonical(one.payload).decode()
        most = most_of.get(one.tool, EVIDENCE_ROOM)
        if len(text) > most and most <= room:  # as long as its manifest lets it be
            room -= most
            made.append(_quoted(one, _cut(text, most), whole=False))
        elif len(text) <= room and (size := len(shown(one.payload))) <= room:
            room -= size
            made.append(_quoted(one, one.payload, whole=True))
        elif cuts:  # the first of them has what room is left, so that a step costs as much as the next
            made.append(_quoted(one, _cut(text, max(room, _CUT)), whole=False))
            room, cuts = 0, cuts - 1
        else:
            made.append(_named(found[: len(found) - index]))
            break
    return made[::-1]


def _quoted(found: Evidence, value: object, *, whole: bool) -> Quoted:
    trust = "untrusted" if found.trust == "mixed" else "system"
    return Quoted(found.name, f"{found.tool} from {found.source} at {time_text(found.at)}", value, trust, whole)


def _named(older: list[Evidence]) -> Quoted:
    about = {"newest of them": [f"{e.name} {e.tool}" for e in older[-_NAMED:]], "number": len(older)}
    return Quoted("earlier", "results that are not shown any more", about, "system", whole=False)


def refusals_of(refused: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Tools that are not offered now, each with its reason while there is room for reasons."""
    room, found = REFUSALS_ROOM, {}
    for tool, text in refused:
        told = shorten(text, _ONE_REFUSAL)
        found[tool] = told if len(told) <= room else _NOT_NOW
        room -= len(told) if len(told) <= room else 0
    return found
