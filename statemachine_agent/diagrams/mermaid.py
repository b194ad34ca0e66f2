"""A picture → Mermaid `stateDiagram-v2`, which GitHub and many editors show without a program of their own.

It must not know machines. Every character that Mermaid gives a meaning to is written as its code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from statemachine_agent.diagrams import labels, words
from statemachine_agent.diagrams.picture import Edge, Node, Picture, Tool
from statemachine_agent.text import visible

#: ASCII that stands for itself in every place of the grammar; all other punctuation is written as `#code;`
_PLAIN = frozenset(" abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,()[]'/+=?!")
_WIDTH = 64
_NARROW = 36


def mermaid_of(picture: Picture) -> str:
    """The Mermaid text. Ids have a prefix, since a state may be called like a word of Mermaid (`NOTE`, `CLASS`)."""
    lines = ["---", f"title: {escape(picture.name)}, version {picture.version}", "---", "stateDiagram-v2"]
    for node in picture.nodes:
        lines += _state(node)
    for end in picture.ends:
        lines += [f'  state "{escape(end.name)}" as {_id(end.name)}']
        lines += [f"  {_id(end.name)} : {part}" for fact in end.facts for part in _wrapped(fact)]
    lines += [_arrow(edge) for edge in picture.edges]
    lines += _note(picture)
    return "\n".join([*lines, *_classes(picture)]) + "\n"


def escape(text: str) -> str:
    """`text` as a part of one Mermaid line."""
    return "".join(c if c in _PLAIN or not c.isascii() else f"#{ord(c)};" for c in visible(text))


def _id(name: str) -> str:
    return f"s_{name}"


def _wrapped(text: str, width: int = _WIDTH) -> list[str]:
    return [escape(line) for line in textwrap.wrap(text, width)]


def _state(node: Node) -> Iterator[str]:
    marks = [w for w in ("start" if node.initial else "", "now" if node.current else "") if w]
    head = f"{node.name} ({', '.join(marks)})" if marks else node.name
    yield f'  state "{escape(head)}" as {_id(node.name)}'
    for text in _inside(node):
        yield from (f"  {_id(node.name)} : {part}" for part in _wrapped(text))


def _inside(node: Node) -> Iterator[str]:
    yield node.word
    for tool in node.tools:
        yield _tool(tool)
        yield from (f"- {words.told(line, within=tool.name)}" for line in tool.lines)
    yield from node.facts
    yield from (words.told(line) for line in node.lines)


def _tool(tool: Tool) -> str:
    kind = "" if tool.effect == "control" else f" ({tool.effect})"
    pinned = ", ".join(f"{name} ← {value}" for name, value in tool.pinned)
    return ", ".join(part for part in (f"{tool.name}{kind}", pinned, tool.use) if part)


def _arrow(edge: Edge) -> str:
    texts = [text for line in edge.lines for text in (words.beside(line), *line.notes)]
    lines = [part for text in texts for part in _wrapped(text, _NARROW)]
    lines += [words.times(edge.visits)] if edge.visits else []
    label = "<br/>".join(lines)
    return f"  {_id(edge.source)} --> {_id(edge.target)}" + (f" : {label}" if label else "")


def _note(picture: Picture) -> Iterator[str]:
    first = next((node for node in picture.nodes if node.initial), None)
    if first is None or not picture.exits:
        return
    yield f"  note right of {_id(first.name)}"
    for group in picture.exits:
        yield f"    {escape(group.where)}"
        yield from (f"    - {escape(way)}" for way in words.ways(group))
    yield "  end note"


def _classes(picture: Picture) -> Iterator[str]:
    """Colours by kind; the words say the same."""
    looks = dict(labels.KINDS)
    looks |= {name: labels.ENDS.get(name, labels.OTHER_END) for name in (end.name for end in picture.ends)}
    members: dict[str, list[str]] = {}
    for node in picture.nodes:
        members.setdefault(node.kind, []).append(_id(node.name))
    for end in picture.ends:
        members.setdefault(end.name, []).append(_id(end.name))
    for kind, ids in members.items():
        fill, border = looks[kind]
        width = "3px" if kind in {end.name for end in picture.ends} else "1px"
        yield f"  classDef k_{kind} fill:{fill},stroke:{border},color:{labels.INK},stroke-width:{width}"
        yield from _members(f"k_{kind}", ids)
    now = [_id(node.name) for node in picture.nodes if node.current]
    now += [_id(end.name) for end in picture.ends if end.current]
    if now:
        yield "  classDef k_now stroke-width:5px"
        yield from _members("k_now", now)


def _members(name: str, ids: Iterable[str]) -> Iterator[str]:
    yield from (f"  class {one} {name}" for one in ids)
