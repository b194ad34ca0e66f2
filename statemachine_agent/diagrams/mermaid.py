"""A picture → Mermaid `stateDiagram-v2`, which GitHub and many editors show without a program of their own.

It must not know machines. Every character that Mermaid gives a meaning to is written as its code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from statemachine_agent.definition.nesting import done_of
from statemachine_agent.diagrams import labels, words
from statemachine_agent.diagrams.picture import Edge, Holder, Node, Picture, Tool, is_done
from statemachine_agent.text import visible

#: ASCII that stands for itself in every place of the grammar; all other punctuation is written as `#code;`
_PLAIN = frozenset(" abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,()[]'/+=?!")
_WIDTH = 64
_NARROW = 36


def mermaid_of(picture: Picture) -> str:
    """The Mermaid text. Ids have a prefix, since a state may be called like a word of Mermaid (`NOTE`, `CLASS`)."""
    lines = ["---", f"title: {escape(picture.name)}, version {picture.version}", "---", "stateDiagram-v2"]
    lines += _within(picture)
    for end in picture.ends:
        lines += [f'  state "{escape(end.name)}" as {_id(end.name)}']
        lines += [f"  {_id(end.name)} : {part}" for fact in end.facts for part in _wrapped(fact)]
    # a state belongs to what an arrow that names it stands in: those between holders stand outside of all
    lines += [_arrow(edge) for edge in picture.edges if not is_done(edge.target)]
    lines += _note(picture)
    return "\n".join([*lines, *_classes(picture)]) + "\n"


def escape(text: str) -> str:
    """`text` as a part of one Mermaid line."""
    return "".join(c if c in _PLAIN or not c.isascii() else f"#{ord(c)};" for c in visible(text))


def _id(name: str) -> str:
    return f"s_{name}"


def _wrapped(text: str, width: int = _WIDTH) -> list[str]:
    return [escape(line) for line in textwrap.wrap(text, width)]


def _within(picture: Picture, holder: str = "", indent: str = "  ") -> Iterator[str]:
    """The states that lie in `holder`, where it begins, and what ends it."""
    apart = _apart(picture, holder)
    for number, state in enumerate(picture.within(holder)):
        if isinstance(state, Node):
            yield from (indent + line for line in _state(state))
        else:
            if apart and number:
                yield f"{indent}--"
            yield f'{indent}state "{escape(_head(state.name, state.word, state.current))}" as {_id(state.name)} {{'
            yield from _within(picture, state.name, f"{indent}  ")
            yield f"{indent}}}"
        if state.mark:
            yield f"{indent}[*] --> {_id(state.name)}"
    ending = [edge for edge in picture.edges if holder and edge.target == done_of(holder)]
    yield from (_arrow(edge, indent) for edge in ending)


def _apart(picture: Picture, holder: str) -> bool:
    """True where a line parts what `holder` holds: between regions.

    Mermaid does not draw holders below such lines that hold others again (11.17: "Cannot set properties of undefined"):
    such regions stand beside each other, each in its frame.
    """
    held = list(picture.within(holder))
    if not any(isinstance(state, Holder) and state.kind == "region" for state in held):
        return False
    return not any(picture.is_holder(name) for region in held for name in picture.holds[region.name])


def _head(name: str, word: str, current: bool) -> str:  # noqa: FBT001  a part of the text
    marks = [mark for mark in (word, "now" if current else "") if mark]
    return f"{name} ({', '.join(marks)})" if marks else name


def _state(node: Node) -> Iterator[str]:
    yield f'state "{escape(_head(node.name, "", node.current))}" as {_id(node.name)}'
    for text in _inside(node):
        yield from (f"{_id(node.name)} : {part}" for part in _wrapped(text))


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


def _arrow(edge: Edge, indent: str = "  ") -> str:
    source = edge.source.removesuffix(done_of(""))  # left when it was done: Mermaid has no name for that place
    target = "[*]" if is_done(edge.target) else _id(edge.target)
    texts = [text for line in edge.lines for text in (words.beside(line), *line.notes)]
    lines = [part for text in texts for part in _wrapped(text, _NARROW)]
    lines += [words.times(edge.visits)] if edge.visits else []
    label = "<br/>".join(lines)
    return f"{indent}{_id(source)} --> {target}" + (f" : {label}" if label else "")


def _note(picture: Picture) -> Iterator[str]:
    first = next((state for state in picture.within("") if state.mark), None)
    if first is None or not picture.exits:
        return
    yield f"  note right of {_id(first.name)}"
    for group in picture.exits:
        yield f"    {escape(group.where)}"
        yield from (f"    - {escape(way)}" for way in words.ways(group))
    yield "  end note"


def _classes(picture: Picture) -> Iterator[str]:
    """Colours by kind; the words say the same."""
    looks = dict(labels.KINDS) | {kind: look[:2] for kind, look in labels.HOLDERS.items()}
    looks |= {name: labels.ENDS.get(name, labels.OTHER_END) for name in (end.name for end in picture.ends)}
    members: dict[str, list[str]] = {}
    states: list[Node | Holder] = [*picture.nodes, *picture.holders]
    for state in states:
        members.setdefault(state.kind, []).append(_id(state.name))
    for end in picture.ends:
        members.setdefault(end.name, []).append(_id(end.name))
    for kind, ids in members.items():
        fill, border = looks[kind]
        dashes = ",stroke-dasharray:5" if kind == "region" else ""
        width = "3px" if kind in {end.name for end in picture.ends} else "1px"
        yield f"  classDef k_{kind} fill:{fill},stroke:{border},color:{labels.INK},stroke-width:{width}{dashes}"
        yield from _members(f"k_{kind}", ids)
    now = [_id(one.name) for one in (*states, *picture.ends) if one.current]
    if now:
        yield "  classDef k_now stroke-width:5px"
        yield from _members("k_now", now)


def _members(name: str, ids: Iterable[str]) -> Iterator[str]:
    yield from (f"  class {one} {name}" for one in ids)
